//! Selection of devices: a list, the best, or by name.

use super::Any;
use crate::backend::{DeviceKind, HashBackend, Listed};
use crate::cpu::Cpu;
use crate::error::{Error, Result};
#[cfg(feature = "opencl")]
use crate::opencl::{self, OpenCl};

/// A device that was chosen automatically, and the reason.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Choice {
    /// The device.
    pub backend: Any,
    /// One sentence that says which device was chosen, and why.
    pub why: String,
}

/// Lists the devices of this machine: the CPU, then OpenCL devices by number. Never fails: a device that does not work
/// is listed with the reason.
pub fn devices() -> Vec<Listed> {
    let cpu = Listed { info: Cpu::new().info().clone(), refused: None };
    #[cfg(feature = "opencl")]
    let others = opencl::devices();
    #[cfg(not(feature = "opencl"))]
    let others = [];
    std::iter::once(cpu).chain(others).collect()
}

/// Returns the best OpenCL device of the full [`Tier`](crate::backend::Tier) that is not a CPU. If there is none,
/// returns the CPU backend, which is faster than an OpenCL driver on the same cores.
///
/// ```
/// let choice = koel::auto();
/// println!("{}", choice.why);
/// ```
pub fn auto() -> Choice {
    #[cfg(feature = "opencl")]
    let why_not = match OpenCl::best() {
        Ok(device) if device.info().kind == DeviceKind::Cpu => {
            format!("OpenCL has {} alone, the same processors", device.info())
        }
        Ok(device) => match device.info().tier.reason() {
            Some(reason) => format!("{} is of the partial tier: {reason}", device.info()),
            None => {
                let why = format!("{}: the best OpenCL device", device.info());
                return Choice { backend: Any::OpenCl(device), why };
            }
        },
        Err(error) => error.to_string(),
    };
    #[cfg(not(feature = "opencl"))]
    let why_not = opencl_status();
    let cpu = Cpu::new();
    let why = format!("{}: {why_not}", cpu.info());
    Choice { backend: Any::Cpu(cpu), why }
}

/// Returns the devices with a name: `all` (the CPU and every usable OpenCL device), `auto`, `cpu`, `opencl` (every
/// usable OpenCL device), `gpus` (every usable OpenCL device that is a GPU), `opencl:N` (by number), or `opencl:NAME`
/// (by a part of its name). `threads` is the number of threads of the CPU; by default, all.
///
/// ```
/// use koel::{HashBackend, device::choose};
/// let cpu = choose("cpu", Some(2))?;
/// assert_eq!(cpu[0].info().units, 2);
/// # Ok::<(), koel::Error>(())
/// ```
///
/// # Errors
/// [`Error::NoDevice`] if there is no device with that name, or [`Error::Unsupported`] if it cannot be used. Both
/// include the reason.
pub fn choose(device: &str, threads: Option<usize>) -> Result<Vec<Any>> {
    let cpu = || threads.map_or_else(|| Ok(Cpu::new()), Cpu::with_threads).map(Any::Cpu);
    match device {
        "cpu" => Ok(vec![cpu()?]),
        "all" => {
            let mut found = vec![cpu()?];
            found.extend(usable_opencl());
            Ok(found)
        }
        "auto" => Ok(vec![match auto().backend {
            Any::Cpu(_) => cpu()?,
            #[cfg(feature = "opencl")]
            other => other,
        }]),
        "opencl" => {
            let found = usable_opencl();
            if found.is_empty() {
                return Err(Error::NoDevice { wanted: device.into(), reason: why_no_opencl() });
            }
            Ok(found)
        }
        "gpus" => {
            let mut found = usable_opencl();
            let reason =
                if found.is_empty() { why_no_opencl() } else { "OpenCL has devices, and none is a GPU".into() };
            found.retain(|device| device.info().kind == DeviceKind::Gpu);
            if found.is_empty() { Err(Error::NoDevice { wanted: device.into(), reason }) } else { Ok(found) }
        }
        _ => match device.strip_prefix("opencl:") {
            Some(which) => one_opencl(which).map(|found| vec![found]),
            None => Err(Error::NoDevice {
                wanted: device.into(),
                reason: "use all, auto, cpu, opencl, gpus, opencl:NUMBER or opencl:NAME".into(),
            }),
        },
    }
}

/// One sentence about OpenCL: which library was found, or why none was found and what to do.
pub fn opencl_status() -> String {
    #[cfg(feature = "opencl")]
    return koel_opencl_loader::status().to_string();
    #[cfg(not(feature = "opencl"))]
    return "this koel was compiled without the feature `opencl`".into();
}

fn why_no_opencl() -> String {
    let refused: Vec<_> = devices()
        .into_iter()
        .filter_map(|device| device.refused.map(|reason| format!("{}: {reason}", device.info)))
        .collect();
    if refused.is_empty() { opencl_status() } else { refused.join("; ") }
}

#[cfg(feature = "opencl")]
fn usable_opencl() -> Vec<Any> {
    (0..opencl::devices().len()).filter_map(|number| OpenCl::nth(number).ok()).map(Any::OpenCl).collect()
}

#[cfg(feature = "opencl")]
fn one_opencl(which: &str) -> Result<Any> {
    match which.parse() {
        Ok(number) => OpenCl::nth(number),
        Err(_) => OpenCl::by_name(which),
    }
    .map(Any::OpenCl)
}

#[cfg(not(feature = "opencl"))]
fn usable_opencl() -> Vec<Any> {
    Vec::new()
}

#[cfg(not(feature = "opencl"))]
fn one_opencl(which: &str) -> Result<Any> {
    Err(Error::NoDevice { wanted: format!("opencl:{which}"), reason: why_no_opencl() })
}
