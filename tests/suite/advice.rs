//! Errors that give advice, and calls that follow the advice.

use std::process::Command;

use koel::backend::Kernels;
use koel::device::choose;
use koel::layout::Layout;
use koel::scheme::{Kind, Request, Scheme};
use koel::threads;
use koel::workload::Picture;
use koel::{
    AnyScheme, Bucketized, ColumnIndex, CompactingTable, Cpu, Cuckoo, CuckooSet, Duplicates, Fks, FksFamily,
    HashBackend, HashTable, KeyType, Load, MultiTable, Perfect, Result, RobinHood, Runs, Sharded, Sorted,
};

/// A call that fails, a part of its message, and a call that follows the advice.
type Case = (fn() -> Result<()>, &'static str, fn() -> Result<()>);

const KEYS: &[u32] = &[1, 2, 3];

fn sharded(shards: usize, devices: usize) -> Result<()> {
    let devices = vec![Cpu::of_caller(); devices];
    Sharded::builder(Cuckoo::default(), shards).build(&devices, KEYS, KEYS).map(drop)
}

fn kmers(k: u32) -> Result<()> {
    let builder = HashTable::builder(Cuckoo::default()).key_type(KeyType::Kmers { k });
    builder.build(&Cpu::of_caller(), KEYS, KEYS).map(drop)
}

fn cells(bits: u32) -> Result<()> {
    let cells = KeyType::Cells(Layout::BitReversed2 { bits });
    HashTable::builder(Cuckoo::default()).key_type(cells).build(&Cpu::of_caller(), KEYS, KEYS).map(drop)
}

fn attempts(attempts: u32) -> Result<()> {
    HashTable::builder(Cuckoo::default()).attempts(attempts).build(&Cpu::of_caller(), KEYS, KEYS).map(drop)
}

fn in_slots(slots: usize) -> Result<()> {
    let keys: Vec<u32> = (0..100).collect();
    HashTable::builder(Cuckoo::default()).slots(slots).build(&Cpu::of_caller(), &keys, &keys).map(drop)
}

fn matched(is_of_this_index: bool) -> Result<()> {
    let indices = [&[1_u32][..], &[1, 2]].map(|keys| ColumnIndex::build(&Cpu::of_caller(), keys));
    let [first, second] = indices;
    let (first, second) = (first?, second?);
    let matched = if is_of_this_index { first.matched()? } else { second.matched()? };
    first.unmatched(&matched).map(drop)
}

fn of_set(value: u32) -> Result<()> {
    HashTable::builder(CuckooSet::canonical(4)).build(&Cpu::of_caller(), KEYS, &[value; 3]).map(drop)
}

fn duplicates(rule: Duplicates) -> Result<()> {
    HashTable::builder(Cuckoo::default()).duplicates(rule).build(&Cpu::of_caller(), &[1, 1], &[2, 3]).map(drop)
}

fn inverse(keys: &[u32]) -> Result<()> {
    CompactingTable::builder(Cuckoo::default()).build(&Cpu::of_caller(), KEYS)?.inverse(keys).map(drop)
}

fn retrieve(values: usize) -> Result<()> {
    let table = MultiTable::builder(Cuckoo::default()).build(&Cpu::of_caller(), &[1, 1], &[2, 3])?;
    table.retrieve_into(&[1], &mut [0; 2], &mut vec![0; values]).map(drop)
}

/// A load that is feasible, though not with every seed.
const FEASIBLE: usize = 62;
/// A load that is too high for most seeds.
const HIGH: usize = 50;

/// A build of 30 pairs with two hash functions.
fn two_choices(slots: usize, seed: u64, attempts: u32) -> Result<()> {
    let keys: Vec<u32> = (0..30).collect();
    let builder = HashTable::builder(Cuckoo::canonical(2)).slots(slots).seed(seed).attempts(attempts);
    builder.build(&Cpu::of_caller(), &keys, &keys).map(drop)
}

/// The first seed with which the first attempt of that build succeeds, or fails.
fn seed(slots: usize, is_lucky: bool) -> u64 {
    (0..1000).find(|&seed| two_choices(slots, seed, 1).is_ok() == is_lucky).expect("a seed")
}

/// Keys in one row, whose distances are divisors of most sides.
fn crowded<S: Scheme<Key = u32, Value = u32>>(scheme: S) -> Result<()>
where
    Cpu: Runs<S>,
{
    let line: Vec<u32> = (0..5000).map(|i| 800 * i).collect();
    HashTable::builder(scheme).build(&Cpu::of_caller(), &line, &line).map(drop)
}

fn sum<V: koel::group::Number>(values: &[V]) -> Result<()> {
    let sum = &[koel::Aggregate::Sum];
    let keys = vec![1_u32; values.len()];
    koel::group::wide::group_by(&Cpu::of_caller(), &keys, values, sum, koel::IdOrder::FirstSeen).map(drop)
}

/// Creates only the plan, because a table of this size takes gigabytes.
fn plan<S: Scheme>(scheme: S, slots: u64, pairs: u64, attempt: u32) -> Result<()> {
    scheme.plan(Request { slots, pairs, seed: 1, attempt }).map(drop)
}

/// Numbers of slots and of pairs that Sahu's functions distribute too unevenly.
const SAHU: (u64, u64) = (1 << 29, 300_000_000);

/// The functions of Sahu's poster.
fn sahu() -> Fks {
    Fks::classic().family(FksFamily::Sahu)
}

fn picture(cells: u32) -> Result<()> {
    Picture::random(2, 2, cells, 1).map(drop)
}

fn multi(scheme: impl Into<AnyScheme>) -> Result<()> {
    MultiTable::builder(scheme.into()).build(&Cpu::of_caller(), &[1, 2], &[2, 3]).map(drop)
}

/// Removes a key from a table of a scheme that is built from all pairs at once: from its image, or from the table.
fn remove(from_table: bool) -> Result<()> {
    let cpu = Cpu::of_caller();
    let mut table = HashTable::builder(Sorted).build(&cpu, KEYS, KEYS)?;
    if from_table {
        return table.remove(&[1]).map(drop);
    }
    let (mut image, keys) = (cpu.clone_buffer(table.image())?, cpu.upload(&[1])?);
    Kernels::<Sorted>::remove(&cpu, table.plan(), &mut image, &keys).map(drop)
}

const CASES: &[Case] = &[
    (
        || two_choices(FEASIBLE, seed(FEASIBLE, false), 1),
        "try another seed",
        || two_choices(FEASIBLE, seed(FEASIBLE, true), 1),
    ),
    (
        || two_choices(FEASIBLE, seed(FEASIBLE, false), 1),
        "or allow more attempts",
        || two_choices(FEASIBLE, seed(FEASIBLE, false), 32),
    ),
    (
        || two_choices(HIGH, seed(HIGH, false), 1),
        "Lower the load, use more slots, a scheme or hash functions for higher loads, or another seed",
        || two_choices(HIGH, seed(HIGH, true), 1),
    ),
    (|| remove(false), "use HashTable::remove", || remove(true)),
    (|| crowded(Perfect::volume(1 << 31, 1)), "extent or scheme", || crowded(Cuckoo::default())),
    (|| sum(&[u64::MAX, 1]), "group fewer rows at a time", || sum(&[u64::MAX])),
    (
        || crowded(Perfect::volume(1 << 31, 1)),
        "Use another capacity, sequence, extent",
        || crowded(Perfect::plane(1600)),
    ),
    (|| sum(&[u64::MAX, 1]), "or give the values as f64", || sum(&[u64::MAX as f64, 1.0])),
    (|| plan(RobinHood::default(), 99, 9, 1024), "use 0 to 1023", || plan(RobinHood::default(), 99, 9, 1023)),
    (|| plan(sahu(), SAHU.0, SAHU.1, 0), "use the family `mixer`", || plan(Fks::classic(), SAHU.0, SAHU.1, 0)),
    (|| multi(CuckooSet::canonical(4)), "use a scheme with wider values", || multi(Cuckoo::canonical(4))),
    (|| picture(5), "use at most as many as the picture has", || picture(4)),
    (|| Load::new(0.0).map(drop), "above 0 and up to 1", || Load::new(1.0).map(drop)),
    (|| Cpu::with_threads(0).map(drop), "use 1 to ", || Cpu::with_threads(1).map(drop)),
    (|| Cpu::with_threads(threads::most() + 1).map(drop), "use 1 to ", || Cpu::with_threads(2).map(drop)),
    (|| sharded(0, 1), "use 1 to 4096", || sharded(1, 1)),
    (|| sharded(2, 0), "use one or more", || sharded(2, 1)),
    (|| kmers(17), "use 1 to 16", || kmers(16)),
    (|| cells(17), "use 16 at most", || cells(16)),
    (|| Cuckoo::classic(4).chain(0).check(), "at least one swap", || Cuckoo::classic(4).chain(1).check()),
    (|| attempts(0), "use 1 to 1024", || attempts(1024)),
    (|| in_slots(64), "Use more slots", || in_slots(200)),
    (|| of_set(1), "use values of 0", || of_set(0)),
    (|| duplicates(Duplicates::Error), "or build with KeepFirst", || duplicates(Duplicates::KeepFirst)),
    (|| duplicates(Duplicates::Error), "KeepFirst or KeepLast", || duplicates(Duplicates::KeepLast)),
    (|| inverse(&[1, 9]), "query only keys that the table was built from", || inverse(&[1, 3])),
    (|| matched(false), "use those of the index that is queried", || matched(true)),
    (|| retrieve(1), "there are 2: pass one of that length", || retrieve(2)),
    (
        || {
            HashTable::builder(Cuckoo::default())
                .load_factor(0.5)
                .slots(9)
                .build(&Cpu::of_caller(), KEYS, KEYS)
                .map(drop)
        },
        "or a capacity",
        || {
            let builder = HashTable::builder(Cuckoo::default()).load_factor(0.5).capacity(9);
            builder.build(&Cpu::of_caller(), KEYS, KEYS).map(drop)
        },
    ),
    (
        || AnyScheme::by_name("chained", Kind::Canonical).map(drop),
        "use one of: cuckoo bucketized",
        || AnyScheme::by_name("bucketized", Kind::Canonical).map(drop),
    ),
    (
        || AnyScheme::by_name("signpost", Kind::Classic).map(drop),
        "have only the other one",
        || AnyScheme::by_name("signpost", Kind::Canonical).map(drop),
    ),
    (
        || RobinHood::load_for_key_density(0.99, 28, 4).map(drop),
        "use a lower one",
        || RobinHood::load_for_key_density(0.8, 28, 4).map(drop),
    ),
    (
        || RobinHood::load_for_key_density(0.99, 28, 4).map(drop),
        "or fewer bits of age",
        || RobinHood::load_for_key_density(0.99, 28, 0).map(drop),
    ),
    (
        || HashTable::<Cpu, Bucketized>::open(&Cpu::of_caller(), "/").map(drop),
        "use a plain file",
        || {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("table.koel");
            HashTable::builder(Bucketized::default()).build(&Cpu::of_caller(), KEYS, KEYS)?.save(&path)?;
            HashTable::<Cpu, Bucketized>::open(&Cpu::of_caller(), &path).map(drop)
        },
    ),
];

#[test]
fn advice_works() {
    for (i, (fails, says, follows)) in CASES.iter().enumerate() {
        let said = fails().expect_err(says).to_string();
        assert!(said.contains(says), "{i}: {said}");
        follows().expect(says);
    }
}

/// Marks a child process of the test below.
const CHILD: &str = "KOEL_TEST_VARIABLES";

/// Variables are read once per process: a child prints what a build in it returns.
#[test]
fn advice_on_variables_works() {
    if let Ok(device) = std::env::var(CHILD) {
        let answers = choose(&device, None)
            .and_then(|devices| HashTable::builder(Cuckoo::default()).build(&devices[0], KEYS, KEYS)?.get(KEYS));
        println!("answers: {:?}", answers.map_err(|error| error.to_string()));
        return;
    }
    let opencl = crate::common::opencl_devices();
    let opencl = opencl.first().map(|device| device.info().id.as_str());
    let cases = [
        (Some("cpu"), "RAYON_NUM_THREADS", "100000", "set it to 1 to ", "2"),
        (Some("cpu"), "RAYON_NUM_THREADS", "-1", "or unset it for one per CPU", ""),
        (Some("cpu"), "RAYON_NUM_THREADS", "many", "set it to 1 to ", "0"),
        (opencl, "KOEL_LOOKUP_SHAPE", "apart", "use alone, together or runs", "alone"),
        (opencl, "KOEL_STAGING", "yes", "use on or off", "on"),
        (opencl, "KOEL_OPENCL_TIER", "full", "use partial, or unset it", "partial"),
        (opencl, "KOEL_OPENCL_GROUP", "3", "use 64 or 128, or unset it", "64"),
    ];
    let answers = |device, variable, value| {
        let mut child = Command::new(std::env::current_exe().expect("this program"));
        child.args(["--exact", "advice::advice_on_variables_works", "--nocapture"]).env(CHILD, device);
        let said = child.env(variable, value).output().expect("a child").stdout;
        String::from_utf8_lossy(&said).lines().find(|line| line.contains("answers: ")).map(String::from)
    };
    for (device, variable, wrong, says, right) in cases {
        let Some(device) = device else { continue };
        let said = answers(device, variable, wrong).expect("a line");
        assert!(said.contains(&format!("{variable} {wrong} is not valid: ")) && said.contains(says), "{said}");
        let said = answers(device, variable, right).expect("a line");
        assert!(said.contains("answers: Ok"), "{variable}={right}: {said}");
    }
}
