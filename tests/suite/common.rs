//! Shared by the tests: devices, sizes, and reference models.
#![allow(unreachable_pub, reason = "a module of a program")]

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};

use koel::backend::{self, HashBackend, Runs};
use koel::device::{self, Any};
use koel::scheme::{Plan, Request, Scheme};
use koel::workload::Workload;
use koel::{AnyScheme, Cpu, HashTable};

/// Every backend of this machine: the CPU with one thread and with three, and each usable OpenCL device.
///
/// On a machine without OpenCL it prints a message to stderr. If `KOEL_REQUIRE_OPENCL` is set (to a part of a
/// platform's or device's name, or to 1 for any), missing devices are a failure.
pub fn devices() -> Vec<Any> {
    cpus().chain(opencl_devices()).collect()
}

fn cpus() -> impl Iterator<Item = Any> {
    [1, 3].into_iter().map(|threads| Any::Cpu(Cpu::with_threads(threads).expect("a thread pool")))
}

/// Each usable OpenCL device. They stay open from the first call on, because a closed device loses its compiled
/// kernels.
pub fn opencl_devices() -> Vec<Any> {
    static OPEN: OnceLock<Vec<Any>> = OnceLock::new();
    OPEN.get_or_init(open_devices).clone()
}

fn open_devices() -> Vec<Any> {
    let found = device::choose("opencl", None).unwrap_or_default();
    let required = std::env::var("KOEL_REQUIRE_OPENCL").ok();
    if let Some(name) = &required {
        let there = found.iter().any(|device| {
            let info = device.info();
            name == "1" || info.name.contains(name) || info.driver.contains(name)
        });
        assert!(there, "KOEL_REQUIRE_OPENCL={name}, but the devices are {:#?}", device::devices());
    }
    if found.is_empty() {
        skip("no usable OpenCL device", &device::opencl_status());
    }
    found
}

/// Prints once, to stderr outside of the test runner's capture, which tests are skipped and why.
pub fn skip(what: &str, why: &str) {
    static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if SAID.lock().expect("no panic while the lock is held").insert(what.to_owned()) {
        let _ = writeln!(std::io::stderr(), "skipped: {what}: {why}");
    }
}

/// Whether values of this scheme can number a few thousand keys, which `what` needs. Otherwise prints that they cannot.
pub fn holds_numbers(what: &str, scheme: &AnyScheme) -> bool {
    let bits = scheme.limits().value_bits;
    if bits < 16 {
        skip(
            &format!("{what} of {} {} tables", scheme.name(), scheme.kind()),
            &format!("their values have {bits} bits"),
        );
    }
    bits >= 16
}

/// Bytes after the image of a table's file: four numbers and a checksum.
pub const TRAILER: usize = 48;
/// Bytes after the image of a table's file if keys are not plain numbers: their types precede the checksum.
pub const LONG_TRAILER: usize = 112;

/// Writes a valid checksum to a changed file of a table, as an attacker would.
pub fn reseal(bytes: &mut [u8]) {
    reseal_settings_at(bytes, bytes.len() - TRAILER);
}

/// Writes a valid checksum to a changed file whose settings begin at `end`.
pub fn reseal_settings_at(bytes: &mut [u8], end: usize) {
    let (digest, check) = (blake3::hash(&bytes[..end]), bytes.len() - 32);
    let mut hasher = blake3::Hasher::new();
    hasher.update(digest.as_bytes()).update(&bytes[end..check]);
    let sum = *hasher.finalize().as_bytes();
    bytes[check..].copy_from_slice(&sum);
}

/// `large`, or `small` under `KOEL_TEST_SMALL`, for simulators that take a second where a CPU takes a millisecond.
pub fn size(large: u32, small: u32) -> u32 {
    sizes(large, large, small)
}

/// A size for long tests: `full` only under `KOEL_TEST_FULL`, which nightly runs set, and otherwise as [`size`].
pub fn sizes(full: u32, large: u32, small: u32) -> u32 {
    let set = |name| std::env::var_os(name).is_some();
    match (set("KOEL_TEST_SMALL"), set("KOEL_TEST_FULL")) {
        (true, _) => small,
        (false, true) => full,
        (false, false) => large,
    }
}

/// The image that the one-key-at-a-time rule builds from these pairs under `plan`; `None` if they do not fit.
pub fn reference<S: Scheme<Key = u32, Value = u32>>(
    plan: &S::Plan,
    pairs: impl IntoIterator<Item = (u32, u32)>,
) -> Option<Vec<u64>> {
    let pairs: Vec<_> = pairs.into_iter().filter(|&(key, _)| Some(key) != plan.outside_key()).collect();
    let plan = &plan.with_stash(S::stash(plan, &pairs));
    let mut image = vec![plan.empty_word(); plan.words() as usize];
    (S::place(plan, &mut image, &pairs) != koel::scheme::Placing::Unplaced).then_some(image)
}

/// The image of a table, read from its device.
pub fn image<S: Scheme<Key = u32, Value = u32>>(table: &HashTable<Any, S>) -> Vec<u64>
where
    Any: backend::Runs<S>,
{
    table.backend().download(table.image()).expect("readable")
}

/// A check that applies to every scheme.
pub trait Check {
    fn run(&self, scheme: &AnyScheme);
}

/// Runs a check for every scheme and kind in the registry. It is compiled once, with [`AnyScheme`], whose tables equal
/// those of the schemes, as `any_scheme.rs` tests.
pub fn for_every_kind(check: &impl Check) {
    for scheme in AnyScheme::all() {
        CURRENT.set(Some(scheme.clone()));
        check.run(&scheme);
    }
}

thread_local! {
    static CURRENT: RefCell<Option<AnyScheme>> = const { RefCell::new(None) };
}

/// The current scheme of [`for_every_kind`], for quickcheck, which takes function pointers without captures.
pub fn current() -> AnyScheme {
    CURRENT.with_borrow(|scheme| scheme.clone().expect("inside a check"))
}

/// Scheme, kind and device, for messages.
pub fn label(scheme: &AnyScheme, device: &Any) -> String {
    format!("{} {} on {}", scheme.name(), scheme.kind(), device.info())
}

/// Runs every query on a table and compares the results with a map.
pub fn holds_exactly<S: Scheme<Key = u32, Value = u32>>(table: &HashTable<Any, S>, model: &BTreeMap<u32, u32>, at: &str)
where
    Any: Runs<S>,
{
    assert_eq!(table.len(), model.len(), "{at}: len");
    assert_eq!(table.is_empty(), model.is_empty(), "{at}");
    let keys: Vec<_> = model.keys().copied().collect();
    let values: Vec<_> = model.values().map(|&value| Some(value)).collect();
    assert_eq!(table.get(&keys).expect("an answer"), values, "{at}: hits");
    let absent: Vec<_> = keys.iter().flat_map(|k| [k.wrapping_add(1), !k]).filter(|k| !model.contains_key(k)).collect();
    assert!(table.get(&absent).expect("an answer").iter().all(Option::is_none), "{at}: misses");
    assert!(!table.contains(&absent).expect("an answer").contains(&true), "{at}: contains");
    let pairs: BTreeMap<_, _> = table.iter().expect("an answer").collect();
    assert_eq!(&pairs, model, "{at}: pairs");
    let audit = table.audit().unwrap_or_else(|error| panic!("{at}: {error}"));
    assert!([audit.pairs, audit.pairs + 1].contains(&(table.len() as u64)), "{at}");
    let load = table.load_factor();
    assert!((load - (model.len() as f64 / table.slots() as f64).min(1.0)).abs() < 1e-12, "{at}");
    assert!(table.len() <= table.capacity() && load <= 1.0, "{at}: {} of {}", table.len(), table.capacity());
}

/// Distinct pairs of the workload, `n` or as many as tables of this scheme can hold, including the extremes of keys and
/// values.
pub fn workload(scheme: &AnyScheme, n: u32) -> (Vec<u32>, Vec<u32>, BTreeMap<u32, u32>) {
    let n = n.min(max_pairs(scheme));
    let load = Workload::new(n, 5);
    let (mut keys, mut values) = (load.keys(), load.values());
    // All combinations of the extremes of keys and values.
    for (at, (key, value)) in [(0, u32::MAX), (u32::MAX, 0)].into_iter().enumerate() {
        if let Some(replaced) = keys.get_mut(at) {
            *replaced = key;
            values[at] = value;
        }
    }
    values.iter_mut().for_each(|value| *value = fitting(scheme, *value));
    let model: BTreeMap<_, _> = keys.iter().copied().zip(values.iter().copied()).collect();
    assert_eq!(model.len(), n as usize, "the workload's keys are distinct");
    (keys, values, model)
}

/// The number of pairs for which every test may build tables: limited by the scheme and, if its images grow faster than
/// their pairs, by the time that other schemes take.
pub fn max_pairs(scheme: &AnyScheme) -> u32 {
    // Under a simulator this is 128 pairs for the quadratic scheme, and more than any test uses for other schemes.
    let most_words = size(1 << 20, 1 << 14).into();
    let words = |pairs: u32| {
        let slots = scheme.default_load().slots_for(pairs.into());
        scheme.plan(Request { slots, pairs: pairs.into(), seed: 0, attempt: 0 }).map_or(u64::MAX, |plan| plan.words())
    };
    let most = u32::try_from(scheme.limits().pairs).unwrap_or(1 << 18);
    let mut halved = (0..32).map(|halvings| most >> halvings);
    halved.find(|&pairs| words(pairs) <= most_words).expect("some pairs are few enough")
}

/// The bits of a value that fit tables of this scheme.
pub fn fitting(scheme: &AnyScheme, value: u32) -> u32 {
    value & scheme.limits().greatest_value()
}

/// The CPU with one thread.
pub fn one_thread() -> Any {
    Any::Cpu(Cpu::with_threads(1).expect("a thread"))
}

/// Runs a function on the thread of a single-threaded device. Otherwise tens of thousands of builds would spend most of
/// their time on waking the thread.
pub fn on_one_thread<R: Send>(run: impl FnOnce(&Any) -> R + Send) -> R {
    let pool = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread"));
    let device = Any::Cpu(Cpu::from_pool(Arc::clone(&pool)));
    pool.install(|| run(&device))
}

/// No build of a tiny table fails at the default load: n = 1..64, with this many seeds each.
pub fn tiny_tables<S: Scheme<Key = u32, Value = u32>>(device: &Any, scheme: &S, seeds: u64)
where
    Any: Runs<S>,
{
    for n in 1..=64 {
        for seed in 0..seeds {
            let load = Workload::new(n, seed ^ 0xabc);
            let (keys, values) = (load.keys(), load.values());
            let built = HashTable::builder(scheme.clone()).seed(seed).build(device, &keys, &values);
            let table = built.unwrap_or_else(|error| panic!("{scheme:?}, n = {n}, seed {seed}: {error}"));
            assert_eq!(table.len(), n as usize);
            if seed % 16 == 0 {
                let answers = table.get(&keys).expect("answers");
                assert!(answers.iter().zip(&values).all(|(got, value)| *got == Some(*value)));
                table.audit().expect("sound");
            }
        }
    }
}

/// Maps a table file. Tests write to a table file only while it is not mapped.
#[expect(unsafe_code, reason = "the tested function is unsafe")]
pub fn open_mapped<S: Scheme>(path: &Path) -> koel::Result<HashTable<Cpu, S>>
where
    Cpu: Runs<S>,
{
    // SAFETY: each test writes to its own folder.
    unsafe { HashTable::open_mapped(&Cpu::new(), path) }
}

/// Maps the file of a structure other than a table, under the same rule as [`open_mapped`].
macro_rules! mapped {
    ($name:ident, $structure:ident) => {
        #[expect(unsafe_code, reason = "the tested function is unsafe")]
        pub fn $name(path: &Path) -> koel::Result<koel::$structure<Cpu, AnyScheme>> {
            // SAFETY: each test writes to its own folder.
            unsafe { koel::$structure::open_mapped(&Cpu::new(), path) }
        }
    };
}
mapped!(mapped_set, HashSet);
mapped!(mapped_compact, CompactingTable);
mapped!(mapped_multi, MultiTable);
