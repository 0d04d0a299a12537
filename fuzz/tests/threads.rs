//! Every scheme on the CPU, by several threads: builds, lookups, batches, removals and files, compared with a map.
//!
//! For tools that watch memory: under Miri with a few keys, under ThreadSanitizer with 20,000 pairs (`.ci/nightly`;
//! `KOEL_TEST_THREADS` is the number of threads). It is here and not among the library's tests because it needs nothing
//! but the library: under such tools every dependency counts.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use koel::backend::Runs;
use koel::scheme::{Kind, Scheme};
use koel::workload::Workload;
use koel::{CompactingTable, Cpu, Duplicates, HashSet, HashTable, IdOrder, JoinKind, MultiTable, group};
use rayon::{ThreadPool, ThreadPoolBuilder};

const PAIRS: u32 = if cfg!(miri) { 24 } else { 20_000 };

/// The pool of all tests, and the device on it.
fn pool() -> &'static (Arc<ThreadPool>, Cpu) {
    static POOL: OnceLock<(Arc<ThreadPool>, Cpu)> = OnceLock::new();
    POOL.get_or_init(|| {
        let threads = std::env::var("KOEL_TEST_THREADS").map_or(4, |threads| threads.parse().expect("a number"));
        let pool = Arc::new(ThreadPoolBuilder::new().num_threads(threads).build().expect("threads"));
        (Arc::clone(&pool), Cpu::from_pool(pool))
    })
}

fn cpu() -> &'static Cpu {
    &pool().1
}

/// Runs a test on a thread of the pool: to wake it for each pass takes Miri longer than the pass.
fn inside(test: impl FnOnce() + Send) {
    pool().0.install(test);
}

/// As many pairs as the scheme has room for, within its limits.
fn pairs<S: Scheme<Key = u32, Value = u32>>(kind: Kind) -> (Vec<u32>, Vec<u32>) {
    let limits = S::of_kind(kind).limits();
    let load = Workload::new(PAIRS.min(limits.pairs.try_into().unwrap_or(PAIRS)), 3);
    let keys = load.keys().into_iter().map(|key| key & limits.greatest_key());
    let pairs: BTreeMap<u32, u32> = keys.zip(load.values().into_iter().map(|v| v & limits.greatest_value())).collect();
    pairs.into_iter().unzip()
}

fn table_of<S: Scheme<Key = u32, Value = u32>>(kind: Kind)
where
    Cpu: Runs<S>,
{
    let at = format!("{} {kind}", S::NAME);
    let (keys, values) = pairs::<S>(kind);
    let half = keys.len() / 2;
    let builder = HashTable::builder(S::of_kind(kind)).duplicates(Duplicates::KeepLast);
    let mut table = builder.build(cpu(), &keys[..half], &values[..half]).expect("a table");
    table.insert(&keys[half..], &values[half..]).expect("room");
    let expected: Vec<_> = values.iter().copied().map(Some).collect();
    assert_eq!(table.get(&keys).expect("an answer"), expected, "{at}");
    table.upsert(&keys[..half], &values[..half]).expect("room");
    let gone: Vec<u32> = keys.iter().copied().step_by(3).collect();
    assert_eq!(table.remove(&gone).expect("removed"), gone.len(), "{at}");
    assert!(!table.contains(&gone).expect("an answer").contains(&true), "{at}");
    table.compact().expect("compacted");
    table.rebuild().expect("rebuilt");
    assert_eq!(table.to_pairs().expect("pairs").len(), keys.len() - gone.len(), "{at}");
    table.audit().expect("a sound table");
    table.digest().expect("a digest");
    let path = std::env::temp_dir().join(format!("koel-threads-{}-{}-{kind}", std::process::id(), S::NAME));
    table.save(&path).expect("saved");
    let again = HashTable::<Cpu, S>::open(cpu(), &path).expect("opened");
    assert_eq!(again.digest().expect("a digest"), table.digest().expect("a digest"), "{at}");
    std::fs::remove_file(&path).expect("removed");
}

macro_rules! each_scheme {
    ($($module:ident, $scheme:ident, $name:literal;)*) => {
        $(#[test]
        fn $module() {
            let kinds = <koel::scheme::$scheme as Scheme>::KINDS;
            inside(|| kinds.iter().for_each(|&kind| table_of::<koel::scheme::$scheme>(kind)));
        })*
    };
}
koel::for_each_scheme!(each_scheme);

/// What is made of tables does not depend on the scheme but for its tables: one scheme will do.
#[test]
fn structures() {
    inside(all_structures);
}

fn all_structures() {
    let (keys, _) = pairs::<koel::Cuckoo>(Kind::Canonical);
    let column: Vec<u32> = keys.iter().chain(&keys[..keys.len() / 2]).copied().collect();
    let set = HashSet::builder(koel::CuckooSet::default()).build(cpu(), &column).expect("a set");
    assert_eq!(set.len(), keys.len());
    let ids = CompactingTable::builder(koel::Cuckoo::default()).build(cpu(), &column).expect("ids");
    assert_eq!(ids.unique().expect("keys"), keys);
    let rows: Vec<u32> = (0..column.len() as u32).collect();
    let multi = MultiTable::builder(koel::Cuckoo::default()).build(cpu(), &column, &rows).expect("a table");
    assert_eq!(multi.count(&keys[..1]).expect("an answer"), [2]);
    assert_eq!(multi.retrieve(&keys).expect("values").values.len(), rows.len());
    let (unique, inverse) = group::factorize(cpu(), &column, IdOrder::Ascending).expect("groups");
    assert!(unique.len() == keys.len() && inverse.len() == rows.len());
    let joined = koel::join(cpu(), &keys, &column, JoinKind::Inner).expect("rows");
    assert_eq!(joined.left.len(), rows.len());
}
