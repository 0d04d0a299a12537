//! Opens devices by name.

use std::collections::HashMap;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use koel::backend::DeviceKind;
use koel::{Any, Cpu, DeviceInfo, HashBackend as _};
use koel_arrow::Column;
use pyo3::prelude::*;

use crate::error::{DeviceError, Result};
use crate::memory;
use crate::run::detached;

/// The minimum number of rows for which `auto` selects a GPU. With fewer rows, the CPU finishes before the transfer to
/// the GPU would.
const MIN_GPU_ROWS: usize = 1 << 18;

/// Open devices by name. They are kept because opening a device compiles its kernels. A value of `None` is the CPU.
static OPEN: Mutex<Option<HashMap<String, Option<Any>>>> = Mutex::new(None);

/// The id of the first process that used OpenCL; 0 if none has.
static OPENCL_OF: AtomicU32 = AtomicU32::new(0);

/// A device of this machine.
///
/// >>> import koel
/// >>> koel.devices()[0].id
/// 'cpu'
#[pyclass(frozen, get_all, module = "koel")]
pub(crate) struct Device {
    /// The value to pass as `device=`: `cpu`, `opencl:0`, ..
    id: String,
    /// The name of the hardware.
    name: String,
    /// The platform and driver; for the CPU, the instruction sets in use.
    driver: String,
    /// Memory in bytes, if known.
    memory: Option<u64>,
    /// The number of CPU threads or compute units.
    units: usize,
    /// Why the device cannot be used; None if it can.
    refused: Option<String>,
}

impl Device {
    fn new(info: &DeviceInfo, refused: Option<String>) -> Self {
        let DeviceInfo { id, name, driver, memory, units, .. } = info.clone();
        Device { id, name, driver, memory, units, refused }
    }
}

#[pymethods]
impl Device {
    fn __repr__(&self) -> String {
        let refused = self.refused.as_ref().map_or(String::new(), |reason| format!(", refused: {reason}"));
        format!("<koel.Device {} ({}){refused}>", self.id, self.name)
    }
}

/// Lists the devices of this machine: the CPU, then all OpenCL devices, usable or not.
///
/// >>> import koel
/// >>> koel.devices()[0].refused is None
/// True
#[pyfunction]
pub(crate) fn devices(py: Python<'_>) -> PyResult<Vec<Device>> {
    detached(py, |_| {
        if opencl_lost_in_fork() {
            return Ok(vec![Device::new(Cpu::new().info(), None)]);
        }
        begin_opencl();
        let listed = koel::device::devices().into_iter();
        Ok(listed.map(|listed| Device::new(&listed.info, listed.refused)).collect())
    })
}

/// A chosen device; `None` is the CPU. The CPU backend is created later, in the pool: outside of the pool, it would use
/// rayon's global threads, which do not exist in a forked process.
pub(crate) struct Chosen(Option<Any>);

impl Chosen {
    /// Returns the device. Must be called in the pool.
    pub(crate) fn device(self) -> Any {
        self.0.unwrap_or_else(|| Any::Cpu(Cpu::new()))
    }

    /// Returns whether this is the device with this id.
    #[cfg(feature = "opencl")]
    pub(crate) fn is(&self, id: &str) -> bool {
        self.0.as_ref().is_some_and(|device| shown(device) == id)
    }
}

/// Opens the device with this name for `rows` rows. Must be called outside of the pool, because it waits for other
/// calls that open a device.
pub(crate) fn device(name: &str, rows: usize) -> Result<Chosen> {
    if name == "cpu" || (name == "auto" && (rows < MIN_GPU_ROWS || opencl_lost_in_fork())) {
        return Ok(Chosen(None));
    }
    if opencl_lost_in_fork() {
        return Err(fork_error(name));
    }
    begin_opencl();
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let open = open.get_or_insert_with(HashMap::new);
    if let Some(device) = open.get(name) {
        return Ok(Chosen(device.clone()));
    }
    let none =
        || koel::Error::NoDevice { wanted: name.into(), reason: "pass auto, cpu, opencl:NUMBER or opencl:NAME".into() };
    let found = match name {
        "auto" => match koel::auto().backend {
            Any::Cpu(_) => None,
            found => Some(found),
        },
        _ if name.starts_with("opencl:") => {
            Some(koel::device::choose(name, None)?.into_iter().next().ok_or_else(none)?)
        }
        _ => return Err(none().into()),
    };
    open.insert(name.into(), found.clone());
    Ok(Chosen(found))
}

/// Opens the device with this name for key columns, and checks that there is enough memory to process them.
pub(crate) fn for_columns<'a>(name: &str, columns: impl IntoIterator<Item = &'a Column> + Clone) -> Result<Chosen> {
    memory::check_columns(columns.clone())?;
    device(name, columns.into_iter().map(Column::len).max().unwrap_or(0))
}

/// The id of the first process that split work among devices; 0 if none has. This uses rayon's global pool, whose
/// threads do not exist in a forked process.
static SEVERAL_OF: AtomicU32 = AtomicU32::new(0);

/// Devices among which rows are split.
pub(crate) struct Several(Vec<Chosen>);

impl Several {
    /// Returns the devices. Must be called in the pool.
    pub(crate) fn devices(self) -> Vec<Any> {
        self.0.into_iter().map(Chosen::device).collect()
    }
}

/// Opens the devices of a comma-separated list of one or more names, for `rows` rows.
pub(crate) fn several(names: &str, rows: usize) -> Result<Several> {
    let mut all = Vec::new();
    for name in names.split(',') {
        match name {
            "gpus" => all.extend(gpus(rows)?),
            name => all.push(device(name, rows)?),
        }
    }
    if all.len() > 1 {
        let _ = SEVERAL_OF.compare_exchange(0, process::id(), Ordering::Relaxed, Ordering::Relaxed);
        if SEVERAL_OF.load(Ordering::Relaxed) != process::id() {
            let why = "a forked process cannot split work among devices after its parent did: start it with spawn, or \
                       use one device";
            return Err(DeviceError::new_err(format!("no devices for {names}: {why}")).into());
        }
    }
    Ok(Several(all))
}

/// Opens all OpenCL GPUs.
fn gpus(rows: usize) -> Result<Vec<Chosen>> {
    if opencl_lost_in_fork() {
        return Err(fork_error("gpus"));
    }
    begin_opencl();
    let is_gpu = |listed: &koel::device::Listed| listed.info.kind == DeviceKind::Gpu && listed.refused.is_none();
    let listed = koel::device::devices();
    let found: Vec<Chosen> =
        listed.iter().filter(|listed| is_gpu(listed)).map(|gpu| device(&gpu.info.id, rows)).collect::<Result<_>>()?;
    if found.is_empty() {
        // This error gives the reason.
        return Err(koel::device::choose("gpus", None).map_or_else(Into::into, |_| fork_error("gpus")));
    }
    Ok(found)
}

fn fork_error(name: &str) -> crate::error::Failure {
    let why = "a forked process cannot use device drivers that its parent used: start it with spawn, or use the CPU";
    DeviceError::new_err(format!("no device for {name}: {why}")).into()
}

/// Checks that this process can use the device on which a table is stored.
///
/// # Errors
/// DeviceError in a forked process whose parent used OpenCL, unless the device is the CPU.
pub(crate) fn check_after_fork(name: &str) -> Result<()> {
    if name != "cpu" && opencl_lost_in_fork() { Err(fork_error(name)) } else { Ok(()) }
}

/// Records that this process uses OpenCL.
fn begin_opencl() {
    let _ = OPENCL_OF.compare_exchange(0, process::id(), Ordering::Relaxed, Ordering::Relaxed);
}

/// Returns whether a parent of this process used OpenCL before the fork. Drivers do not work in the child then.
fn opencl_lost_in_fork() -> bool {
    ![0, process::id()].contains(&OPENCL_OF.load(Ordering::Relaxed))
}

/// Checks that this process can use a GPU. Must be called before a driver is used.
///
/// # Errors
/// DeviceError in a forked process whose parent used a GPU.
#[cfg(feature = "opencl")]
pub(crate) fn check_on_gpu(name: &str) -> Result<()> {
    if opencl_lost_in_fork() { Err(fork_error(name)) } else { Ok(()) }
}

/// Checks that this process can use a GPU, and records that it does.
///
/// # Errors
/// As for [`check_on_gpu`].
#[cfg(feature = "opencl")]
pub(crate) fn begin_on_gpu(name: &str) -> Result<()> {
    check_on_gpu(name)?;
    begin_opencl();
    Ok(())
}

/// Returns the id of a device, as passed to `device=`.
pub(crate) fn shown(device: &Any) -> String {
    device.info().id.clone()
}
