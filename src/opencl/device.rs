//! Finding devices, refusing those that cannot be trusted, and opening one.
//!
//! Drivers are enumerated once in a process, behind a lock: PoCL 3.1 and ocl-icd are not safe to start from two threads. A
//! device is opened once too, when it is first asked for: context, queue, self-test. All `OpenCl` values of one device share
//! these, so their buffers are interchangeable.
//!
//! What it is not: a place that may fail as a whole. A platform without devices, or one that reports nonsense, is passed
//! over, and what is refused is listed with its reason.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use ocl::core::{self, DeviceInfo as Query, DeviceInfoResult as Answer, PlatformInfo};
use ocl::{Context, Device, DeviceType, Event, Queue};

use super::program::Programs;
use super::selftest;
use crate::backend::{DeviceInfo, HashBackend, Ledger};
use crate::error::{Error, Result};

/// The work-items of a group: the paper's 64 (Alcantara 2011, Section 4.3.1.2), so that one long chain keeps few waiting.
const GROUP: usize = 64;

/// The extensions that `spec.clh` switches on.
const NEEDED: [&str; 2] = ["cl_khr_int64_base_atomics", "cl_khr_int64_extended_atomics"];

/// An OpenCL device that holds tables. Cheap to clone; clones share queue, programs and memory.
#[derive(Clone)]
pub struct OpenCl {
    pub(super) shared: Arc<Shared>,
    /// Work-items of a group; a power of two.
    pub(super) group: usize,
}

/// What all values of one device have in common.
pub(super) struct Shared {
    pub(super) info: DeviceInfo,
    pub(super) context: Context,
    pub(super) queue: Queue,
    pub(super) device: Device,
    pub(super) programs: Programs,
    pub(super) ledger: Ledger,
    /// The events of all commands since `timed` began, while it runs.
    pub(super) timing: Mutex<Option<Vec<Event>>>,
    /// Whether the queue measures its commands.
    pub(super) profiled: bool,
    pub(super) largest_group: usize,
}

/// A device that was found, usable or not.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Found {
    /// Its name and limits. The number in its id counts all devices of all platforms, usable or not.
    pub info: DeviceInfo,
    /// Why it cannot be used, if so.
    pub refused: Option<String>,
}

struct Entry {
    platform: core::PlatformId,
    device: Device,
    kind: DeviceType,
    info: DeviceInfo,
    opened: OnceLock<std::result::Result<OpenCl, String>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Every device of every platform, once a process.
fn entries() -> &'static [Entry] {
    static ENTRIES: OnceLock<Vec<Entry>> = OnceLock::new();
    ENTRIES.get_or_init(|| {
        let mut entries = Vec::new();
        // No platform, no library: an empty list, never an error (the loader crate sees to it).
        for platform in core::get_platform_ids().unwrap_or_default() {
            let text = |what| core::get_platform_info(platform, what).map(|text| text.to_string()).unwrap_or_default();
            let name = format!("{} {}", text(PlatformInfo::Name), text(PlatformInfo::Version));
            // A platform without a device answers with an error.
            for device in core::get_device_ids(platform, None, None).unwrap_or_default() {
                let device = Device::from(device);
                let info = describe(device, &format!("opencl:{}", entries.len()), &name);
                let kind = match device.info(Query::Type) {
                    Ok(Answer::Type(kind)) => kind,
                    _ => DeviceType::DEFAULT,
                };
                entries.push(Entry { platform, device, kind, info, opened: OnceLock::new() });
            }
        }
        entries
    })
}

fn describe(device: Device, id: &str, platform: &str) -> DeviceInfo {
    let text = |what| device.info(what).map(|text| text.to_string()).unwrap_or_default();
    let number = |what| match device.info(what) {
        Ok(Answer::GlobalMemSize(bytes) | Answer::MaxMemAllocSize(bytes)) => Some(bytes),
        Ok(Answer::MaxComputeUnits(units)) => Some(units.into()),
        _ => None,
    };
    let driver = format!("{platform}, driver {}", text(Query::DriverVersion));
    let units = number(Query::MaxComputeUnits).unwrap_or(1) as usize;
    let mut info = DeviceInfo::new(id, text(Query::Name), driver, units);
    info.memory = number(Query::GlobalMemSize);
    info.largest_buffer = number(Query::MaxMemAllocSize);
    info
}

impl Entry {
    /// The device, opened and tested when it is first asked for.
    fn open(&self) -> Result<OpenCl> {
        // One at a time: simulators and some drivers do not stand two contexts being made at once.
        static OPENING: Mutex<()> = Mutex::new(());
        let opened = self.opened.get_or_init(|| {
            let _alone = lock(&OPENING);
            self.connect()
        });
        opened.clone().map_err(|missing| Error::Unsupported { device: self.info.to_string(), missing })
    }

    fn connect(&self) -> std::result::Result<OpenCl, String> {
        check_extensions(self.device)?;
        let words = |error: ocl::Error| error.to_string();
        let context = Context::builder().platform(self.platform.into()).devices(self.device).build().map_err(words)?;
        let queue = Queue::new(&context, self.device, Some(core::QUEUE_PROFILING_ENABLE)).map_err(words)?;
        OpenCl::new(context, queue, self.device, self.info.clone(), true)
    }
}

/// The first of the needed extensions that a device does not name.
fn check_extensions(device: Device) -> std::result::Result<(), String> {
    let extensions = device.info(Query::Extensions).map(|text| text.to_string()).unwrap_or_default();
    match NEEDED.iter().find(|needed| !extensions.split_whitespace().any(|extension| extension == **needed)) {
        Some(missing) => Err(format!("it has no 64-bit atomics (the extension {missing}), which every build needs")),
        None => Ok(()),
    }
}

/// Every device that OpenCL has, in the order of their numbers, with the reason where one is refused.
///
/// Cost: the first call starts every driver and tests every device, which compiles a kernel on each.
pub fn devices() -> Vec<Found> {
    let reason = |entry: &Entry| match entry.open() {
        Ok(_) => None,
        Err(Error::Unsupported { missing, .. }) => Some(missing),
        Err(other) => Some(other.to_string()),
    };
    entries().iter().map(|entry| Found { info: entry.info.clone(), refused: reason(entry) }).collect()
}

impl OpenCl {
    /// Device number `number` of [`devices`].
    ///
    /// # Errors
    /// [`Error::NoDevice`] if there are fewer; [`Error::Unsupported`] if it was refused, with the reason.
    pub fn nth(number: usize) -> Result<OpenCl> {
        match entries().get(number) {
            Some(entry) => entry.open(),
            None => Err(no_device(format!("opencl:{number}"))),
        }
    }

    /// The first usable device with `part` in its name or its platform's, in upper or lower case.
    ///
    /// # Errors
    /// [`Error::NoDevice`] if none has it; [`Error::Unsupported`] if all that do are refused.
    pub fn by_name(part: &str) -> Result<OpenCl> {
        let wanted = part.to_lowercase();
        let has =
            |entry: &&Entry| format!("{} {}", entry.info.name, entry.info.driver).to_lowercase().contains(&wanted);
        first_usable(entries().iter().filter(has), format!("opencl:{part}"))
    }

    /// The best usable device: GPUs first, then accelerators, then CPUs; among equals the one with the most compute units.
    ///
    /// # Errors
    /// [`Error::NoDevice`] if there is none at all; [`Error::Unsupported`] if all are refused.
    pub fn best() -> Result<OpenCl> {
        let rank = |kind: DeviceType| match kind {
            _ if kind.contains(DeviceType::GPU) => 0,
            _ if kind.contains(DeviceType::ACCELERATOR) => 1,
            _ => 2,
        };
        let mut by_rank: Vec<_> = entries().iter().collect();
        by_rank.sort_by_key(|entry| (rank(entry.kind), std::cmp::Reverse(entry.info.units)));
        first_usable(by_rank.into_iter(), "opencl".into())
    }

    /// A device that a program already uses through `ocl`: its context and its queue, which must be in order. Buffers made in
    /// that context can be handed in by [`adopt`](Self::adopt).
    ///
    /// Without profiling on the queue, [`HashBackend::timed`] measures wall time.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the device lacks 64-bit atomics, fails their test, or the queue is out of order.
    pub fn from_ocl(context: &Context, queue: &Queue) -> Result<OpenCl> {
        let device = queue.device();
        let info = describe(device, "opencl", "from the caller's context");
        let refuse = |missing| Error::Unsupported { device: info.to_string(), missing };
        check_extensions(device).map_err(refuse)?;
        let properties = match queue.info(core::CommandQueueInfo::Properties) {
            Ok(core::CommandQueueInfoResult::Properties(properties)) => properties,
            _ => core::CommandQueueProperties::empty(),
        };
        if properties.contains(core::CommandQueueProperties::OUT_OF_ORDER_EXEC_MODE_ENABLE) {
            return Err(refuse("its queue runs commands out of order; koel needs an in-order queue".into()));
        }
        let profiled = properties.contains(core::CommandQueueProperties::PROFILING_ENABLE);
        OpenCl::new(context.clone(), queue.clone(), device, info.clone(), profiled).map_err(refuse)
    }

    /// The same device with another number of work-items to a group, for tuning and for tests: a power of two from 32 to
    /// what the device allows. Results do not depend on it.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`] for another number.
    pub fn work_group(&self, items: usize) -> Result<OpenCl> {
        if !items.is_power_of_two() || !(32..=self.shared.largest_group).contains(&items) {
            let advice = "give a power of two from 32 to the device's largest work-group";
            return Err(Error::parameter("work-group size", items, advice));
        }
        Ok(OpenCl { shared: self.shared.clone(), group: items })
    }

    fn new(
        context: Context,
        queue: Queue,
        device: Device,
        info: DeviceInfo,
        profiled: bool,
    ) -> std::result::Result<OpenCl, String> {
        let largest_group = device.max_wg_size().map_err(|error| error.to_string())?;
        if largest_group < 32 {
            return Err(format!("its work-groups hold {largest_group} items, and 32 are needed"));
        }
        let shared = Shared {
            info,
            context,
            queue,
            device,
            programs: Programs::default(),
            ledger: Ledger::default(),
            timing: Mutex::new(None),
            profiled,
            largest_group,
        };
        let group = GROUP.min(1 << largest_group.ilog2());
        let opened = OpenCl { shared: Arc::new(shared), group };
        selftest::atomics(&opened)?;
        // What the test did is nobody's work.
        opened.shared.ledger.take();
        Ok(opened)
    }
}

impl Shared {
    pub(super) fn timing(&self) -> MutexGuard<'_, Option<Vec<Event>>> {
        lock(&self.timing)
    }

    /// Keeps the event of a command while `timed` runs.
    pub(super) fn record(&self, event: Event) {
        if let Some(events) = self.timing().as_mut() {
            events.push(event);
        }
    }
}

impl fmt::Debug for OpenCl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OpenCl({})", self.info())
    }
}

fn first_usable<'a>(candidates: impl Iterator<Item = &'a Entry>, wanted: String) -> Result<OpenCl> {
    let mut refusal = None;
    for entry in candidates {
        match entry.open() {
            Ok(device) => return Ok(device),
            Err(error) => refusal = refusal.or(Some(error)),
        }
    }
    Err(refusal.unwrap_or_else(|| no_device(wanted)))
}

fn no_device(wanted: String) -> Error {
    let names: Vec<_> = entries().iter().map(|entry| entry.info.to_string()).collect();
    let reason = match names.is_empty() {
        true => koel_opencl_loader::status().to_string(),
        false => format!("there are {}", names.join(", ")),
    };
    Error::NoDevice { wanted, reason }
}
