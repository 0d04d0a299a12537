//! Memory that runs out during an operation: a typed error is returned, and the table is unchanged.
//!
//! The program's allocator refuses the n-th allocation of at least [`LARGE`] bytes, for each n in turn, until the
//! operation makes fewer than n such allocations. Smaller allocations always succeed: rayon and crossbeam allocate
//! blocks of up to 2 KiB for themselves, with functions that cannot fail. Buffers of the CPU from 2 MiB on are mapped
//! rather than allocated; `src/cpu/memory.rs` tests that a failure to map them is an error.
//!
//! Another test covers threads that cannot be started.

use std::alloc::{GlobalAlloc, Layout, System};
use std::fmt::Debug;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use koel::backend::Runs;
use koel::group::FirstRows;
use koel::join::Matched;
use koel::workload::Workload;
use koel::{
    Aggregate, ColumnIndex, CompactingTable, Cpu, Cuckoo, Duplicates, Error, HashSet, HashTable, Horton, IdOrder,
    JoinIndex, JoinKind, Kind, MultiTable, Result, Scheme, Sharded, group,
};

/// The minimum size of the allocations that are refused.
const LARGE: usize = 4 << 10;
/// The number of pairs: enough for several threads and several chunks.
const PAIRS: u32 = 20_000;
/// More large allocations than any operation here makes.
const MOST: i64 = 2000;

/// The number of large allocations that still succeed. The next one is refused, and later ones succeed again.
static LEFT: AtomicI64 = AtomicI64::new(i64::MAX);

struct Refusing;

#[global_allocator]
static ALLOCATOR: Refusing = Refusing;

fn refused(bytes: usize) -> bool {
    bytes >= LARGE && LEFT.fetch_sub(1, Relaxed) == 0
}

#[expect(unsafe_code, reason = "GlobalAlloc is an unsafe trait")]
// SAFETY: all work is done by the system's allocator; a null pointer means that there is no memory.
unsafe impl GlobalAlloc for Refusing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        if refused(layout.size()) { std::ptr::null_mut() } else { unsafe { System.alloc(layout) } }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        if refused(layout.size()) { std::ptr::null_mut() } else { unsafe { System.alloc_zeroed(layout) } }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        if refused(size) { std::ptr::null_mut() } else { unsafe { System.realloc(pointer, layout, size) } }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Locks the allocator, which only one test may use at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `work` on the result of `make`, with each of its large allocations refused in turn. `check` checks the state
/// after an error. Returns the number of refused allocations.
fn sweep<T, R: Debug>(
    what: &str,
    make: impl FnMut() -> T,
    work: impl FnMut(&mut T) -> Result<R>,
    check: impl Fn(&T),
) -> i64 {
    sweep_of(what, make, work, |result| format!("{result:?}"), check)
}

/// [`sweep`] for results without `Debug`.
fn sweep_of<T, R>(
    what: &str,
    mut make: impl FnMut() -> T,
    mut work: impl FnMut(&mut T) -> Result<R>,
    shown: impl Fn(&R) -> String,
    check: impl Fn(&T),
) -> i64 {
    let expected = shown(&work(&mut make()).expect("memory"));
    let mut errors = 0;
    for n in 0..MOST {
        let mut it = make();
        LEFT.store(n, Relaxed);
        let done = work(&mut it);
        let was_refused = LEFT.swap(i64::MAX, Relaxed) < 0;
        match done {
            Err(Error::OutOfMemory { bytes, .. }) => {
                assert!(was_refused && bytes > 0, "{what}, allocation {n}: {bytes} bytes");
                errors += 1;
                check(&it);
            }
            Err(error) => panic!("{what}, allocation {n}: {error}"),
            // A thread may fall back to another strategy instead of failing, if the result is complete.
            Ok(result) => {
                assert!(shown(&result) == expected, "{what}, allocation {n}: a wrong result");
                if !was_refused {
                    return errors;
                }
            }
        }
    }
    panic!("{what} makes more than {MOST} large allocations");
}

fn all_operations<S: Scheme<Key = u32, Value = u32>>(scheme: &S)
where
    Cpu: Runs<S>,
{
    let _alone = alone();
    let cpu = Cpu::with_threads(2).expect("threads");
    let load = Workload::new(PAIRS, 3);
    let (keys, values, queries) = (load.keys(), load.values(), load.queries(30_000, 50));
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.koel");
    let what = |operation: &str| format!("{scheme:?}: {operation}");
    let builder = HashTable::builder(scheme.clone()).slots(PAIRS as usize * 3 / 2);
    let keep = builder.clone().duplicates(Duplicates::KeepLast);
    let build = || keep.build(&cpu, &keys, &values).expect("memory");
    let table = build();
    table.save(&path).expect("a file");
    // The slots of the pairs of a classic table depend on the schedule of its build.
    let state = |table: &HashTable<Cpu, S>| {
        let mut pairs = table.to_pairs().expect("memory");
        pairs.sort_unstable();
        ((scheme.kind() == Kind::Canonical).then(|| table.digest().expect("memory")), pairs)
    };
    let before = state(&table);
    let as_before = |table: &HashTable<Cpu, S>| assert!(state(table) == before, "{scheme:?} was changed");
    let twice = [&keys[..], &keys[..100]].concat();
    let (more, many) = (Workload::new(500, 9).keys(), vec![7; PAIRS as usize + 100]);

    // New devices too, because their first operation allocates workspaces.
    let fresh = || Cpu::with_threads(2).expect("threads");
    let shown = |table: &HashTable<Cpu, S>| format!("{:?}", state(table));
    let built = sweep_of(&what("build"), fresh, |cpu| builder.build(cpu, &keys, &values), shown, |_| ());
    assert!(built > 1, "{built} allocations of a build were refused");
    sweep_of(&what("build with copies"), || (), |()| keep.build(&cpu, &twice, &many), shown, |()| ());
    sweep_of(&what("open"), fresh, |cpu| HashTable::<Cpu, S>::open(cpu, &path), shown, |_| ());
    let answered = sweep(&what("get"), || (), |()| table.get(&queries), |()| as_before(&table));
    assert!(answered > 0, "no allocation of get was refused");
    sweep(&what("contains"), || (), |()| table.contains(&queries), |()| as_before(&table));
    sweep(&what("to_pairs"), || (), |()| table.to_pairs(), |()| as_before(&table));
    sweep(&what("digest"), || (), |()| table.digest(), |()| as_before(&table));
    sweep(&what("audit"), || (), |()| table.audit(), |()| as_before(&table));
    sweep(&what("stats"), || (), |()| table.stats(), |()| as_before(&table));
    sweep(
        &what("save"),
        || (),
        |()| table.save(&path),
        |()| as_before(&HashTable::open(&cpu, &path).expect("the saved file")),
    );
    sweep(&what("insert"), build, |table| Ok(table.insert(&more, &many[..500])?.added), as_before);
    sweep(&what("upsert"), build, |table| Ok(table.upsert(&keys, &many[..keys.len()])?.overwritten), as_before);
    sweep(&what("remove"), build, |table| table.remove(&queries), as_before);
    sweep(&what("rebuild"), build, |table| table.rebuild(), as_before);
    let with_tombstones = || {
        let mut table = build();
        table.remove(&keys[..5000]).expect("memory");
        table
    };
    let had_tombstones = state(&with_tombstones());
    sweep(&what("compact"), with_tombstones, |table| table.compact(), |table| assert!(state(table) == had_tombstones));
}

#[test]
fn cuckoo_tables_survive_every_refusal() {
    all_operations(&Cuckoo::canonical(4));
    all_operations(&Cuckoo::classic(4));
}

#[test]
fn horton_tables_survive_every_refusal() {
    all_operations(&Horton::canonical(8));
    all_operations(&Horton::classic(8));
}

#[test]
fn structures_survive_every_refusal() {
    let _alone = alone();
    let cpu = Cpu::with_threads(2).expect("threads");
    let keys: Vec<u32> = Workload::new(PAIRS, 3).keys().into_iter().map(|key| key % 5000).collect();
    let values: Vec<u32> = (0..PAIRS).collect();
    let wanted = [Aggregate::Count, Aggregate::Sum, Aggregate::Min, Aggregate::Max];
    for order in [IdOrder::FirstSeen, IdOrder::Ascending] {
        sweep("group_by", || (), |()| group::group_by(&cpu, &keys, &values, &wanted, order), |()| ());
        sweep("unique", || (), |()| group::unique(&cpu, &keys, order), |()| ());
        sweep("factorize", || (), |()| group::factorize(&cpu, &keys, order), |()| ());
    }
    // Keys from a short range, and scattered keys.
    for keys in [keys.clone(), Workload::new(PAIRS, 3).keys()] {
        sweep("first rows", || (), |()| FirstRows::build(&cpu, &keys)?.rows(), |()| ());
        sweep("found first rows", || (), |()| FirstRows::build(&cpu, &keys[..2000])?.find(&keys), |()| ());
        let three = Cpu::with_threads(3).expect("threads");
        // Short columns are numbered in one pass, and longer ones in several.
        let longer: Vec<u32> = keys.iter().copied().cycle().take(70_000).collect();
        for keys in [&keys, &longer] {
            // With two threads, one thread numbers some of the columns alone.
            for cpu in [&cpu, &three] {
                sweep("ids", || (), |()| group::factorize(cpu, keys, IdOrder::FirstSeen), |()| ());
                sweep("unique", || (), |()| group::unique(cpu, keys, IdOrder::FirstSeen), |()| ());
                sweep("distinct rows", || (), |()| group::wide::distinct_rows(cpu, keys), |()| ());
            }
        }
        for right in [&keys[..2000], &keys[..]] {
            for kind in JoinKind::ALL {
                let index = || ColumnIndex::build(&cpu, right);
                sweep("a join", || (), |()| index()?.join(&keys, kind)?.collect(), |()| ());
                let index = index().expect("memory");
                // A failed batch has no effect.
                let alone =
                    |matched: &Matched| assert_eq!(index.unmatched(matched).expect("memory").len(), right.len());
                let none = || index.matched().expect("memory");
                let refused = sweep("a batch", none, |matched| index.probe(&keys, kind, matched), alone);
                assert!(refused > 0, "no allocation of a batch was refused");
            }
        }
    }
    let index = || JoinIndex::builder(Cuckoo::default()).build(&cpu, &keys[..2000]);
    sweep("a join's index", || (), |()| index()?.join(&keys, JoinKind::Inner)?.collect(), |()| ());
    let index = index().expect("memory");
    for kind in JoinKind::ALL {
        sweep("join", || (), |()| index.join(&keys, kind)?.collect(), |()| ());
    }
    let multi = || MultiTable::builder(Cuckoo::default()).build(&cpu, &keys, &values);
    sweep_of("a multivalue table", || (), |()| multi(), |table| format!("{:?}", table.to_pairs()), |()| ());
    let multi = multi().expect("memory");
    sweep("its ranges", || (), |()| multi.get(&keys), |()| ());
    sweep("its counts", || (), |()| multi.count(&keys), |()| ());
    sweep("its pairs", || (), |()| multi.to_pairs(), |()| ());
    sweep("its audit", || (), |()| multi.audit(), |()| ());
    sweep("its digest", || (), |()| multi.digest(), |()| ());
    let compact = || CompactingTable::builder(Cuckoo::default()).build(&cpu, &keys);
    sweep_of("a compacting table", || (), |()| compact(), |table| format!("{:?}", table.unique()), |()| ());
    let compact = compact().expect("memory");
    sweep("its ids", || (), |()| compact.ids(&keys), |()| ());
    sweep("its keys", || (), |()| compact.keys(&keys), |()| ());
    sweep("its inverse", || (), |()| compact.inverse(&keys), |()| ());
    let set = |keys: &[u32]| HashSet::builder(Cuckoo::default()).build(&cpu, keys);
    let members = |set: &HashSet<Cpu, Cuckoo>| format!("{:?}", set.to_keys());
    sweep_of("a set", || (), |()| set(&keys), members, |()| ());
    let (one, other) = (set(&keys).expect("memory"), set(&values).expect("memory"));
    sweep_of("a union", || (), |()| one.union(&other), members, |()| ());
    sweep_of("an intersection", || (), |()| one.intersection(&other), members, |()| ());
}

/// With few groups, each thread has its own cells, whose columns are large allocations.
#[test]
fn groups_of_few_keys_survive_every_refusal() {
    let _alone = alone();
    let fresh = || Cpu::with_threads(2).expect("threads");
    // A short column, and one that is numbered from its first rows.
    for rows in [PAIRS as usize, 270_000] {
        let keys: Vec<u64> = (0..rows as u64).map(|i| (i * 7919 % 3000) << 40).collect();
        let ids: Vec<u32> = keys.iter().map(|key| (key >> 40) as u32).collect();
        let (signed, doubles): (Vec<i64>, Vec<f64>) = (0..rows).map(|i| (-(i as i64), i as f64)).unzip();
        let (all, order) = (&Aggregate::ALL, IdOrder::FirstSeen);
        let groups = sweep("few groups", fresh, |cpu| group::wide::group_by(cpu, &keys, &signed, all, order), |_| ());
        assert!(groups > 8, "{groups} allocations of groups were refused");
        sweep("few groups of doubles", fresh, |cpu| group::wide::group_by(cpu, &keys, &doubles, all, order), |_| ());
        sweep("numbered groups", fresh, |cpu| group::wide::aggregate(cpu, &ids, 3000, &signed, all), |_| ());
        sweep(
            "numbered groups of doubles",
            fresh,
            |cpu| group::wide::aggregate(cpu, &ids, 3000, &doubles, all),
            |_| (),
        );
    }
}

#[test]
fn columns_over_devices_survive_every_refusal() {
    let _alone = alone();
    let cpu = |threads| Cpu::with_threads(threads).expect("threads");
    let keys: Vec<u32> = Workload::new(PAIRS, 3).keys().into_iter().map(|key| key % 5000).collect();
    let values: Vec<u32> = (0..PAIRS).collect();
    for devices in [vec![cpu(2)], vec![cpu(1), cpu(2)]] {
        let builder = Sharded::builder(Cuckoo::default(), 3);
        let table = builder.build(&devices, &values, &keys).expect("memory");
        let digest = |table: &Sharded<Cpu>| table.digest().expect("memory").to_string();
        sweep_of("build", || (), |()| builder.build(&devices, &values, &keys), digest, |()| ());
        sweep("get", || (), |()| table.get(&keys), |()| ());
        sweep("contains", || (), |()| table.contains(&keys), |()| ());
    }
}

/// Marks the child process of the test below.
const CHILD: &str = "KOEL_TEST_NO_THREADS";

/// In a process whose threads request a stack as large as the address space, no thread starts, but other memory is
/// available.
#[test]
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
fn threads_that_do_not_start_are_an_error() {
    if std::env::var_os(CHILD).is_some() {
        let starting = |error: &Error| matches!(error, Error::Device { doing, .. } if doing == "starting threads");
        assert!(Cpu::with_threads(2).is_err_and(|error| starting(&error)));
        // The calling thread answers a few queries alone.
        let table = HashTable::builder(Cuckoo::default()).build(&Cpu::of_caller(), &[1, 2, 3], &[4, 5, 6]);
        let found = table.and_then(|table| table.contains(&[3, 9]));
        assert_eq!(found.expect("no other thread is needed"), [true, false]);
        // With the global pool, the device can be created, but each operation returns an error.
        for _ in 0..2 {
            let table = HashTable::builder(Cuckoo::default()).build(&Cpu::new(), &[1, 2, 3], &[4, 5, 6]);
            assert!(table.is_err_and(|error| starting(&error)));
            assert!(koel::join(&Cpu::new(), &[1], &[1], JoinKind::Inner).is_err_and(|error| starting(&error)));
        }
        return;
    }
    // The output of a child may be larger than `LARGE`.
    let _alone = alone();
    let mut child = std::process::Command::new(std::env::current_exe().expect("this program"));
    // With --test-threads=1, the test runs on the main thread.
    child.args(["threads_that_do_not_start", "--test-threads=1", "--nocapture"]);
    let output = child.env(CHILD, "1").env("RUST_MIN_STACK", (1u64 << 47).to_string()).output().expect("a child");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}{}", String::from_utf8_lossy(&output.stderr));
}
