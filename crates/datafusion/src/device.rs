//! Devices by their names in `koel.device`: each is opened once per process, because this compiles its kernels.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use koel::backend::Transfers;
use koel::{Any, Cpu, HashBackend};
use log::warn;

static OPEN: Mutex<Option<HashMap<String, Any>>> = Mutex::new(None);

/// Whether a text can be the name of one device: `auto`, `cpu`, `opencl:NUMBER` or `opencl:NAME`.
pub(crate) fn is_name(name: &str) -> bool {
    matches!(name, "auto" | "cpu") || name.strip_prefix("opencl:").is_some_and(|which| !which.is_empty())
}

/// The device of this name, or the CPU with a warning (once) if there is none, so that queries succeed on every
/// machine.
pub(crate) fn named(name: &str) -> Any {
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let open = open.get_or_insert_with(HashMap::new);
    if let Some(device) = open.get(name) {
        return device.clone();
    }
    let device = match koel::device::choose(name, None) {
        Ok(found) => found.into_iter().next().unwrap_or_else(cpu),
        Err(error) => {
            warn!("koel.device = '{name}': {error}; the CPU is used instead");
            cpu()
        }
    };
    open.insert(name.into(), device.clone());
    device
}

/// The device of this name, if it is open. Does not wait for a device that is being opened.
pub(crate) fn known(name: &str) -> Option<Any> {
    OPEN.try_lock().ok()?.as_ref()?.get(name).cloned()
}

/// Returns the bytes that joins and aggregates of this process have transferred to and from a device, by its name in
/// `koel.device`, and the duration, since the last call. `None` if no query has opened it.
pub fn take_transfers(name: &str) -> Option<Transfers> {
    Some(known(name)?.ledger().take_transfers())
}

/// The CPU with all of its threads.
pub(crate) fn cpu() -> Any {
    Any::Cpu(Cpu::new())
}

/// The CPU with the calling thread only, if enough partitions run at once to keep all cores busy.
pub(crate) fn thread() -> Any {
    Any::Cpu(Cpu::of_caller())
}

/// The number of hardware threads of this process. It is cached, because the system reads files to compute it.
pub(crate) fn threads() -> usize {
    static THREADS: OnceLock<usize> = OnceLock::new();
    *THREADS.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// Whether a device is the CPU.
pub(crate) fn is_cpu(device: &Any) -> bool {
    matches!(device, Any::Cpu(_))
}

/// A device's name for plans.
pub(crate) fn shown(device: &Any) -> String {
    if is_cpu(device) { "cpu".into() } else { device.info().to_string() }
}

/// The devices that an operator has used, without duplicates.
#[derive(Clone, Debug, Default)]
pub(crate) struct Devices(Arc<Mutex<Vec<String>>>);

impl Devices {
    pub(crate) fn add(&self, device: String) {
        let mut devices = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !devices.contains(&device) {
            devices.push(device);
        }
    }

    /// The names; `None` before the operator has run.
    pub(crate) fn names(&self) -> Option<String> {
        let devices = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        (!devices.is_empty()).then(|| devices.join(", "))
    }
}
