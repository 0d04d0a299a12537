//! Lists devices, and opens them.
//!
//! ```text
//! listed once:    platforms -> devices -> name and limits
//! when opened:    checks that need no command; context, queue with profiling, self-test of the atomics
//! ```
//!
//! A device without 64-bit atomics is of the partial tier ([`Tier`]): it answers lookups, sorts and scans, and the CPU
//! changes its tables and builds those of some schemes.
//!
//! Neither an empty list nor a reason to refuse a device is cached, because a driver that failed once may succeed
//! later.
//!
//! A device that is opened twice while in use is one [`OpenCl`]: its tables share context, queue and programs. A
//! platform without devices, a device that does not respond, and a machine without OpenCL are ordinary cases, so errors
//! do not end the search.

use std::sync::{Arc, Mutex, OnceLock, Weak};

use ocl::core::{self, CommandQueueInfo, CommandQueueInfoResult, CommandQueueProperties};
use ocl::enums::{DeviceInfo as Field, DeviceInfoResult as Answer};
use ocl::flags::DeviceType;
use ocl::{Context, Device, Platform, Queue};

use super::selftest::unsupported;
use super::sizes::{GROUP, Sizes};
use crate::backend::{DeviceInfo, DeviceKind, Listed, Tier};
use crate::error::{Error, Result};
use crate::opencl::{Inner, OpenCl, START_UP, describe, lock};
use crate::tuning::tuning;

/// A device as it was listed.
struct Listing {
    platform: Platform,
    device: Device,
    info: DeviceInfo,
    /// The full tier first, GPU before accelerator before CPU, then by compute units; the best device has the greatest
    /// rank.
    rank: (bool, DeviceKind, usize),
    opened: Mutex<Weak<Inner>>,
}

/// Every device of every platform, in a fixed order, each opened and tested unless it is already in use.
///
/// The first call takes as long as the drivers need to start (up to a second). It never fails: see [`Listed::refused`].
pub fn devices() -> Vec<Listed> {
    let candidate = |listing: &Listing| {
        let refused = listing.open().err().map(|error| match error {
            Error::Unsupported { missing, .. } => missing,
            other => other.to_string(),
        });
        Listed { info: listing.info.clone(), refused }
    };
    listed().iter().map(candidate).collect()
}

impl OpenCl {
    /// The best usable device: those of the full [`Tier`] before others, GPUs before accelerators before CPUs, and of
    /// several the one with the most compute units. Creates a context and runs a self-test of some milliseconds, unless
    /// the device is already in use.
    ///
    /// # Errors
    /// [`Error::NoDevice`] with the reason for each device that was refused, or the reason why there is no OpenCL.
    pub fn best() -> Result<OpenCl> {
        let mut by_rank: Vec<_> = listed().iter().collect();
        by_rank.sort_by_key(|listing| std::cmp::Reverse(listing.rank));
        first_usable("OpenCL", by_rank)
    }

    /// Device number `number` in the order of [`devices`].
    ///
    /// # Errors
    /// [`Error::NoDevice`] if there are fewer; [`Error::Unsupported`] if koel cannot use it; [`Error::Device`] if it
    /// fails.
    pub fn nth(number: usize) -> Result<OpenCl> {
        match listed().get(number) {
            Some(listing) => listing.open(),
            None => Err(none(&format!("opencl:{number}"))),
        }
    }

    /// The best usable device whose name, platform or driver contains `part`, in upper or lower case.
    ///
    /// # Errors
    /// [`Error::NoDevice`] if no name matches, or no matching device is usable; the message says which.
    pub fn by_name(part: &str) -> Result<OpenCl> {
        let wanted = part.to_lowercase();
        let matches =
            |info: &DeviceInfo| [&info.name, &info.driver].iter().any(|name| name.to_lowercase().contains(&wanted));
        let mut found: Vec<_> = listed().iter().filter(|listing| matches(&listing.info)).collect();
        if found.is_empty() {
            return Err(none(&format!("opencl:{part}")));
        }
        found.sort_by_key(|listing| std::cmp::Reverse(listing.rank));
        first_usable(&format!("opencl:{part}"), found)
    }

    /// The first device for which `is_it` holds, opened; `None` if there is none.
    pub(in crate::opencl) fn find(is_it: impl Fn(&Device) -> bool) -> Result<Option<OpenCl>> {
        listed().iter().find(|listing| is_it(&listing.device)).map(Listing::open).transpose()
    }

    /// The device of an imported queue, whose handle is valid and was retained for it. Shares its context and the queue
    /// itself.
    pub(in crate::opencl) fn of_queue(given: core::CommandQueue) -> Result<OpenCl> {
        let of_queries = |error: ocl::Error| Error::Device {
            device: "the device of the given queue".into(),
            doing: "reading the context and the device of the queue".into(),
            message: describe(&error),
        };
        let context = Context::from(given.context().map_err(|error| of_queries(error.into()))?);
        let device = Device::from(given.device().map_err(|error| of_queries(error.into()))?);
        // ocl cannot create a queue from a handle, but the handle in an existing queue can be replaced.
        let mut queue = Queue::new(&context, device, None).map_err(of_queries)?;
        *queue = given;
        let listing = listed().iter().find(|listing| listing.device == device);
        let info = match listing {
            Some(listing) => listing.info.clone(),
            None => info_of("opencl:given".into(), &device, "of a context that was handed in".into()),
        };
        if let Some(reason) = ruled_out(&device) {
            return Err(unsupported(&info, reason));
        }
        let unordered = CommandQueueProperties::OUT_OF_ORDER_EXEC_MODE_ENABLE;
        if let Ok(CommandQueueInfoResult::Properties(set)) = queue.info(CommandQueueInfo::Properties)
            && set.contains(unordered)
        {
            return Err(unsupported(&info, "the queue runs commands out of order: pass one that runs them in order"));
        }
        let opened = OpenCl::new(info, context, queue, device)?;
        opened.test_atomics()?;
        Ok(opened)
    }

    /// The same device in a separate context, as if it were another device.
    #[cfg(test)]
    pub(in crate::opencl) fn apart(&self) -> Result<OpenCl> {
        let listing = listed().iter().find(|listing| listing.device == self.0.device);
        listing.ok_or_else(|| none("a device that was listed"))?.opened_anew()
    }

    fn new(info: DeviceInfo, context: Context, queue: Queue, device: Device) -> Result<OpenCl> {
        let shared = matches!(device.info(Field::HostUnifiedMemory), Ok(Answer::HostUnifiedMemory(true)));
        let has_own_memory = !shared && info.kind != DeviceKind::Cpu;
        let staged = tuning().staging()?.unwrap_or(has_own_memory);
        // An invalid value is an error, which the list of devices cannot report.
        tuning().partial_tier()?;
        tuning().work_group()?;
        let sizes = Sizes::of(largest_group(&device).unwrap_or(0));
        Ok(OpenCl(Arc::new(Inner::new(info, context, queue, device, staged, sizes))))
    }
}

impl Listing {
    fn open(&self) -> Result<OpenCl> {
        let mut opened = lock(&self.opened);
        if let Some(inner) = opened.upgrade() {
            return Ok(OpenCl(inner));
        }
        let device = self.opened_anew()?;
        *opened = Arc::downgrade(&device.0);
        Ok(device)
    }

    /// The device in a new context, which no other handle shares.
    fn opened_anew(&self) -> Result<OpenCl> {
        if let Some(reason) = ruled_out(&self.device) {
            return Err(unsupported(&self.info, reason));
        }
        let (context, queue) = self.connect().map_err(|error| Error::Device {
            device: self.info.to_string(),
            doing: "making a context and a queue".into(),
            message: describe(&error),
        })?;
        let device = OpenCl::new(self.info.clone(), context, queue, self.device)?;
        device.test_atomics()?;
        Ok(device)
    }

    fn connect(&self) -> ocl::Result<(Context, Queue)> {
        let _one_at_a_time = lock(&START_UP);
        let context = Context::builder().platform(self.platform).devices(self.device).build()?;
        let queue = Queue::new(&context, self.device, Some(CommandQueueProperties::PROFILING_ENABLE))?;
        Ok((context, queue))
    }
}

/// The devices of this process, listed at the first call that finds any.
fn listed() -> &'static [Listing] {
    static LISTED: OnceLock<Vec<Listing>> = OnceLock::new();
    if LISTED.get().is_none() {
        let _one_at_a_time = lock(&START_UP);
        if LISTED.get().is_none() {
            let found = list();
            if !found.is_empty() {
                let _ = LISTED.set(found);
            }
        }
    }
    LISTED.get().map_or(&[], Vec::as_slice)
}

fn list() -> Vec<Listing> {
    let mut all = Vec::new();
    // This calls `core`, because `Platform::list` panics if there are no platforms.
    for platform in core::get_platform_ids().unwrap_or_default().into_iter().map(Platform::new) {
        let driver = [insist(|| platform.name()), insist(|| platform.version())];
        let driver = driver.into_iter().flatten().collect::<Vec<_>>().join(", ");
        // A platform without devices reports that as an error.
        for device in Device::list_all(platform).unwrap_or_default() {
            let info = info_of(format!("opencl:{}", all.len()), &device, driver.clone());
            let rank = (info.tier == Tier::Full, info.kind, info.units);
            all.push(Listing { platform, device, info, rank, opened: Mutex::default() });
        }
    }
    all
}

fn first_usable(wanted: &str, candidates: Vec<&Listing>) -> Result<OpenCl> {
    let mut reasons = Vec::new();
    for listing in candidates {
        match listing.open() {
            Ok(device) => return Ok(device),
            Err(error) => reasons.push(error.to_string()),
        }
    }
    if reasons.is_empty() {
        return Err(none(wanted));
    }
    Err(Error::NoDevice { wanted: wanted.into(), reason: reasons.join("; ") })
}

/// The error for a missing device, which lists the existing ones.
fn none(wanted: &str) -> Error {
    let names: Vec<_> = listed().iter().map(|listing| listing.info.to_string()).collect();
    let reason = match (names.is_empty(), koel_opencl_loader::status()) {
        (false, _) => format!("there are {}", names.join(", ")),
        (true, status @ koel_opencl_loader::Status::Loaded { .. }) => match core::get_platform_ids() {
            Ok(_) => format!("{status}, but lists no device"),
            Err(error) => format!("{status}, but does not list its platforms: {}", describe(&error.into())),
        },
        (true, status) => status.to_string(),
    };
    Error::NoDevice { wanted: wanted.into(), reason }
}

/// Retries once after a failure. Names are cached and devices are found by them, so a transient failure would persist.
fn insist<T, E>(ask: impl Fn() -> std::result::Result<T, E>) -> std::result::Result<T, E> {
    ask().or_else(|_| ask())
}

fn info_of(id: String, device: &Device, platform: String) -> DeviceInfo {
    let name = insist(|| device.name()).unwrap_or_else(|_| "unnamed device".into());
    let driver = match insist(|| device.info(Field::DriverVersion)) {
        Ok(Answer::DriverVersion(version)) => format!("{platform}, driver {version}"),
        _ => platform,
    };
    let units = match device.info(Field::MaxComputeUnits) {
        Ok(Answer::MaxComputeUnits(units)) => units as usize,
        _ => 0,
    };
    let mut info = DeviceInfo::new(id, kind_of(device), name.trim(), driver, units);
    if let Ok(Answer::GlobalMemSize(bytes)) = device.info(Field::GlobalMemSize) {
        info.memory = Some(bytes);
    }
    if let Ok(Answer::MaxMemAllocSize(bytes)) = device.info(Field::MaxMemAllocSize) {
        info.largest_buffer = Some(bytes);
    }
    if let Ok(Answer::Extensions(listed)) = device.info(Field::Extensions) {
        info.extensions = listed.split_whitespace().map(str::to_owned).collect();
    }
    info.tier = tier_of(&info.extensions, tuning().partial_tier().unwrap_or(false));
    info
}

/// The extensions that builds of tables need.
const ATOMICS: [&str; 2] = ["cl_khr_int64_base_atomics", "cl_khr_int64_extended_atomics"];

fn tier_of(listed: &[String], forced: bool) -> Tier {
    let missing: Vec<_> = ATOMICS.into_iter().filter(|wanted| !listed.iter().any(|one| one == wanted)).collect();
    let reason = match (missing.is_empty(), forced) {
        (false, _) => format!("it has no 64-bit atomics (it does not list {})", missing.join(" and ")),
        (true, true) => "KOEL_OPENCL_TIER is set".into(),
        (true, false) => return Tier::Full,
    };
    Tier::Partial { reason }
}

fn kind_of(device: &Device) -> DeviceKind {
    match device.info(Field::Type) {
        Ok(Answer::Type(kind)) if kind.contains(DeviceType::GPU) => DeviceKind::Gpu,
        Ok(Answer::Type(kind)) if kind.contains(DeviceType::CPU) => DeviceKind::Cpu,
        _ => DeviceKind::Accelerator,
    }
}

/// The reason why a device is unusable, according to its own properties.
fn ruled_out(device: &Device) -> Option<String> {
    if let Ok(Answer::Available(false)) = device.info(Field::Available) {
        return Some("it says that it is not available".into());
    }
    if let Ok(Answer::CompilerAvailable(false)) = device.info(Field::CompilerAvailable) {
        return Some("its driver has no compiler for OpenCL C".into());
    }
    if let Ok(Answer::EndianLittle(false)) = device.info(Field::EndianLittle) {
        return Some("it is big-endian, and images are little-endian".into());
    }
    match device.version() {
        Ok(version) if version < [1, 2].into() => return Some(format!("it has OpenCL {version}, and 1.2 is needed")),
        Ok(_) => {}
        Err(error) => return Some(format!("its version cannot be read: {}", describe(&error.into()))),
    }
    match largest_group(device) {
        Some(most) if most < GROUP => Some(format!("its work-groups end at {most}; {GROUP} are needed")),
        _ => None,
    }
}

/// The maximum number of work-items of a group, limited by the environment; `None` if the driver does not report it.
fn largest_group(device: &Device) -> Option<usize> {
    let forced = tuning().work_group().ok().flatten().unwrap_or(usize::MAX);
    device.max_wg_size().ok().map(|most| most.min(forced))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_without_64_bit_atomics_is_of_the_partial_tier() {
        let listed = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let all = listed(&["cl_khr_fp64", ATOMICS[0], ATOMICS[1]]);
        assert_eq!(tier_of(&all, false), Tier::Full);
        assert!(tier_of(&all, true).reason().is_some_and(|reason| reason.contains("KOEL_OPENCL_TIER")));
        let base = tier_of(&listed(&[ATOMICS[0]]), false);
        assert!(
            base.reason().is_some_and(|reason| reason.contains("extended") && !reason.contains("base")),
            "{base:?}"
        );
    }
}
