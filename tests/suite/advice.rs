//! Errors that give advice, and the call that follows it.

use std::process::Command;

use koel::layout::Layout;
use koel::scheme::{Kind, Scheme};
use koel::{
    AnyScheme, Bucketized, ColumnIndex, CompactingTable, Cpu, Cuckoo, CuckooSet, Duplicates, HashTable, KeyType, Load,
    MultiTable, Result, RobinHood, Sharded,
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

const CASES: &[Case] = &[
    (|| Load::new(0.0).map(drop), "above 0 and up to 1", || Load::new(1.0).map(drop)),
    (|| Cpu::with_threads(0).map(drop), "use 1 to 1024", || Cpu::with_threads(1).map(drop)),
    (|| Cpu::with_threads(100_000).map(drop), "use 1 to 1024", || Cpu::with_threads(2).map(drop)),
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
    if std::env::var_os(CHILD).is_some() {
        let built = HashTable::builder(Cuckoo::default()).build(&Cpu::new(), KEYS, KEYS);
        println!("built: {:?}", built.map(drop).map_err(|error| error.to_string()));
        return;
    }
    let cases = [
        ("RAYON_NUM_THREADS", "100000", "set it to 1 to 1024", "2"),
        ("RAYON_NUM_THREADS", "-1", "or unset it for one per CPU", ""),
        ("RAYON_NUM_THREADS", "many", "set it to 1 to 1024", "0"),
    ];
    let built = |variable, value| {
        let mut child = Command::new(std::env::current_exe().expect("this program"));
        child.args(["--exact", "advice::advice_on_variables_works", "--nocapture"]).env(CHILD, "1");
        let said = child.env(variable, value).output().expect("a child").stdout;
        String::from_utf8_lossy(&said).lines().find(|line| line.contains("built: ")).map(String::from)
    };
    for (variable, wrong, says, right) in cases {
        let said = built(variable, wrong).expect("a line");
        assert!(said.contains(&format!("{variable} {wrong} is not valid: ")) && said.contains(says), "{said}");
        let said = built(variable, right).expect("a line");
        assert!(said.contains("built: Ok"), "{variable}={right}: {said}");
    }
}
