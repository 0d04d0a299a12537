//! What is verified: the devices that were named; in tests of `verify` with the fault that `KOEL_FAULT` names.

use koel::Result;
use koel::device::{Any, choose};

#[cfg(not(feature = "fault-injection"))]
pub(super) type Device = Any;
#[cfg(feature = "fault-injection")]
pub(super) type Device = koel::fault::Faulty<Any>;

/// The devices that `--device` names.
pub(super) fn chosen(named: &str) -> Result<Vec<Device>> {
    let devices = choose(named, None)?;
    #[cfg(feature = "fault-injection")]
    let devices = devices.into_iter().map(Device::of_environment).collect::<Result<_>>()?;
    Ok(devices)
}
