//! The verified devices: those that were named; in tests of `verify`, with the fault that `KOEL_FAULT` names.

use std::path::Path;

use koel::device::Any;

use crate::failure::Result;
use crate::options::several_devices;

#[cfg(not(feature = "fault-injection"))]
pub(super) type Device = Any;
#[cfg(feature = "fault-injection")]
pub(super) type Device = koel::fault::Faulty<Any>;

/// The devices that `--device` names.
pub(super) fn chosen(named: &[String]) -> Result<Vec<Device>> {
    let devices = several_devices(named, &[Path::new("-")])?;
    #[cfg(feature = "fault-injection")]
    let devices = devices.into_iter().map(Device::of_environment).collect::<koel::Result<_>>()?;
    Ok(devices)
}
