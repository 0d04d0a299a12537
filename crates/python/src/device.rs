//! Devices by their names.

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

/// The minimum number of rows for which `auto` selects a GPU: with fewer, the CPU is done before a GPU has received
/// them.
const MANY: usize = 1 << 18;

/// Devices that were opened, because opening one compiles its kernels, and those that turned out to be the CPU.
static OPEN: Mutex<Option<HashMap<String, Option<Any>>>> = Mutex::new(None);

/// The process that began to use OpenCL; 0 before.
static OPENCL_OF: AtomicU32 = AtomicU32::new(0);

/// A device of this machine.
///
/// >>> import koel
/// >>> koel.devices()[0].id
/// 'cpu'
#[pyclass(frozen, get_all, module = "koel")]
pub(crate) struct Device {
    /// What `device=` takes: `cpu`, `opencl:0`, ..
    id: String,
    /// Its own name.
    name: String,
    /// Its platform and driver; of the CPU the instructions that are used.
    driver: String,
    /// Memory in bytes, if known.
    memory: Option<u64>,
    /// Threads of the CPU, or compute units.
    units: usize,
    /// Why it cannot be used; None if it can.
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

/// The devices of this machine: the CPU, then those of OpenCL, usable or not.
///
/// >>> import koel
/// >>> koel.devices()[0].refused is None
/// True
#[pyfunction]
pub(crate) fn devices(py: Python<'_>) -> PyResult<Vec<Device>> {
    detached(py, |_| {
        if is_lost() {
            return Ok(vec![Device::new(Cpu::new().info(), None)]);
        }
        begin_opencl();
        let listed = koel::device::devices().into_iter();
        Ok(listed.map(|listed| Device::new(&listed.info, listed.refused)).collect())
    })
}

/// A device that was chosen. The CPU is one only in the pool: elsewhere it would be that of rayon's global threads,
/// which a child of a fork has not.
pub(crate) struct Chosen(Option<Any>);

impl Chosen {
    /// The device. Must be called in the pool.
    pub(crate) fn device(self) -> Any {
        self.0.unwrap_or_else(|| Any::Cpu(Cpu::new()))
    }

    /// Whether it is the device with this id.
    #[cfg(feature = "opencl")]
    pub(crate) fn is(&self, id: &str) -> bool {
        self.0.as_ref().is_some_and(|device| shown(device) == id)
    }
}

/// The device of this name, for this many rows; chosen by the thread that calls, since others may be opening one.
pub(crate) fn device(name: &str, rows: usize) -> Result<Chosen> {
    if name == "cpu" || (name == "auto" && (rows < MANY || is_lost())) {
        return Ok(Chosen(None));
    }
    if is_lost() {
        return Err(lost(name));
    }
    begin_opencl();
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let open = open.get_or_insert_with(HashMap::new);
    if let Some(device) = open.get(name) {
        return Ok(Chosen(device.clone()));
    }
    let none =
        || koel::Error::NoDevice { wanted: name.into(), reason: "give auto, cpu, opencl:NUMBER or opencl:NAME".into() };
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

/// The device of this name for columns of keys, and memory for what is made of them.
pub(crate) fn for_columns<'a>(name: &str, columns: impl IntoIterator<Item = &'a Column> + Clone) -> Result<Chosen> {
    memory::check_columns(columns.clone())?;
    device(name, columns.into_iter().map(Column::len).max().unwrap_or(0))
}

/// The process that began to share work out among devices; 0 before. Their threads work in rayon's own pool, which a
/// child of a fork has not.
static SEVERAL_OF: AtomicU32 = AtomicU32::new(0);

/// Devices that share out rows.
pub(crate) struct Several(Vec<Chosen>);

impl Several {
    /// The devices. Must be called in the pool.
    pub(crate) fn devices(self) -> Vec<Any> {
        self.0.into_iter().map(Chosen::device).collect()
    }
}

/// The devices of these names, which commas separate, for this many rows; one or more.
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
            let why = "a process made by fork cannot share work out among devices once its parent did: start it by spawn, \
                       or take one device";
            return Err(DeviceError::new_err(format!("no devices for {names}: {why}")).into());
        }
    }
    Ok(Several(all))
}

/// All GPUs that OpenCL has, opened once each.
fn gpus(rows: usize) -> Result<Vec<Chosen>> {
    if is_lost() {
        return Err(lost("gpus"));
    }
    begin_opencl();
    let is_gpu = |listed: &koel::device::Listed| listed.info.kind == DeviceKind::Gpu && listed.refused.is_none();
    let listed = koel::device::devices();
    let found: Vec<Chosen> =
        listed.iter().filter(|listed| is_gpu(listed)).map(|gpu| device(&gpu.info.id, rows)).collect::<Result<_>>()?;
    if found.is_empty() {
        // It says why there is none.
        return Err(koel::device::choose("gpus", None).map_or_else(Into::into, |_| lost("gpus")));
    }
    Ok(found)
}

fn lost(name: &str) -> crate::error::Failure {
    let why = "a process made by fork cannot use what its parent opened: start it by spawn, or take the CPU";
    DeviceError::new_err(format!("no device for {name}: {why}")).into()
}

/// Checks that this process can use a device that a structure is on.
///
/// # Errors
/// DeviceError in a child of a fork whose parent used OpenCL, unless it is the CPU.
pub(crate) fn check_after_fork(name: &str) -> Result<()> {
    if name != "cpu" && is_lost() { Err(lost(name)) } else { Ok(()) }
}

/// Remembers which process began to use OpenCL.
fn begin_opencl() {
    let _ = OPENCL_OF.compare_exchange(0, process::id(), Ordering::Relaxed, Ordering::Relaxed);
}

/// Whether a parent of this process began to use OpenCL before it forked: drivers do not work in the child.
fn is_lost() -> bool {
    ![0, process::id()].contains(&OPENCL_OF.load(Ordering::Relaxed))
}

/// Checks that this process may use a GPU, before a call uses a driver.
///
/// # Errors
/// DeviceError in a child of a fork whose parent used one.
#[cfg(feature = "opencl")]
pub(crate) fn check_on_gpu(name: &str) -> Result<()> {
    if is_lost() { Err(lost(name)) } else { Ok(()) }
}

/// Remembers that this process uses a GPU for a call that has its arrays.
///
/// # Errors
/// As [`check_on_gpu`].
#[cfg(feature = "opencl")]
pub(crate) fn begin_on_gpu(name: &str) -> Result<()> {
    check_on_gpu(name)?;
    begin_opencl();
    Ok(())
}

/// A device's name, as callers give it.
pub(crate) fn shown(device: &Any) -> String {
    device.info().id.clone()
}
