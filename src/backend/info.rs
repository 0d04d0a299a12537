//! The name and the properties of a device.

use std::fmt;

/// The kind of processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum DeviceKind {
    /// A CPU.
    Cpu,
    /// Any other processor that is not a GPU.
    Accelerator,
    /// A GPU.
    Gpu,
}

impl DeviceKind {
    /// The name in tables and JSON.
    pub fn name(self) -> &'static str {
        match self {
            DeviceKind::Cpu => "cpu",
            DeviceKind::Accelerator => "accelerator",
            DeviceKind::Gpu => "gpu",
        }
    }
}

/// The passes that run on a device. Results, and the bytes of tables, are the same in both tiers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Tier {
    /// All passes.
    #[default]
    Full,
    /// Lookups, sorts, scans, gathers, 32-bit sums, and builds of canonical cuckoo, bucketized and signpost tables. The
    /// CPU builds other tables, changes all of them, and adds up 64-bit values.
    Partial {
        /// What the device lacks.
        reason: String,
    },
}

impl Tier {
    /// The name in tables and JSON.
    pub fn name(&self) -> &'static str {
        match self {
            Tier::Full => "full",
            Tier::Partial { .. } => "partial",
        }
    }

    /// What the device lacks; `None` in the full tier.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Tier::Full => None,
            Tier::Partial { reason } => Some(reason),
        }
    }
}

/// The name and the properties of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeviceInfo {
    /// The name that [`choose`](crate::device::choose) takes: `cpu`, or `opencl:0`, `opencl:1`, ..
    pub id: String,
    /// The kind of processor.
    pub kind: DeviceKind,
    /// The device's own name.
    pub name: String,
    /// The platform and the driver's version.
    pub driver: String,
    /// Memory in bytes, if known.
    pub memory: Option<u64>,
    /// The largest single buffer in bytes, if limited.
    pub largest_buffer: Option<u64>,
    /// Threads (CPU) or compute units (OpenCL).
    pub units: usize,
    /// The extensions that an OpenCL device lists; empty for the CPU, whose `driver` names its instruction set
    /// extensions.
    pub extensions: Vec<String>,
    /// Which passes run on the device.
    pub tier: Tier,
}

impl DeviceInfo {
    pub(crate) fn new(id: impl Into<String>, kind: DeviceKind, name: &str, driver: String, units: usize) -> Self {
        let (id, name) = (id.into(), name.into());
        let (extensions, tier) = (Vec::new(), Tier::Full);
        DeviceInfo { id, kind, name, driver, memory: None, largest_buffer: None, units, extensions, tier }
    }
}

impl fmt::Display for DeviceInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.id, self.name)
    }
}

/// A device that was found, usable or not.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Listed {
    /// Name and limits; `info.id` is the name for [`choose`](crate::device::choose).
    pub info: DeviceInfo,
    /// The reason why it cannot be used; `None` if it can.
    pub refused: Option<String>,
}
