//! The ordered driver returns the same results for any number of threads, and ends with the first error.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use koel::{Any, Cpu, JoinKind};
use rayon::ThreadPoolBuilder;
use rayon::prelude::*;

use super::devices::{Emit, Stop};
use super::ordered::{Ahead, BatchWork, in_order};
use super::tests::{batches, expected, table, whole};
use super::*;
use crate::encode::NullEquality;

const MORSELS: i64 = 40;
const ROWS: i64 = 100;

fn batch(values: impl IntoIterator<Item = i64>) -> RecordBatch {
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(values));
    RecordBatch::try_from_iter([("k", column)]).expect("a column")
}

fn values(of: &RecordBatch) -> &[i64] {
    of.column(0).as_primitive::<Int64Type>().values()
}

fn error(what: &str) -> Error {
    ArrowError::ComputeError(what.into()).into()
}

/// Morsels of two batches each. `planted` is called before a morsel's second batch.
fn morsels<'a>(
    planted: &'a (impl Fn(i64) -> Result<()> + Sync),
) -> impl Iterator<Item = Result<Morsel<'a, Error>>> + 'a {
    (0..MORSELS).map(move |number| {
        Ok(Box::new(move |take: &mut dyn FnMut(RecordBatch) -> Result<()>| {
            let first = number * ROWS;
            take(batch(first..first + ROWS / 2))?;
            planted(number)?;
            take(batch(first + ROWS / 2..first + ROWS))
        }) as Morsel<'a, Error>)
    })
}

/// Emits each row three times, in several results. Its parallel loop allows a waiting thread to start other morsels.
fn thrice(batch_of: &RecordBatch, emit: Emit<'_, RecordBatch>) -> std::result::Result<(), Stop> {
    values(batch_of).chunks(7).try_for_each(|values| {
        let tripled: Vec<i64> = values.par_iter().flat_map_iter(|&value| [value; 3]).collect();
        emit(batch(tripled))
    })
}

/// Calls the test outside of pools, and on a thread of pools with 1, 2 and 8 threads.
fn everywhere(test: impl Fn() + Sync) {
    test();
    for threads in [1, 2, 8] {
        let pool = ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
        pool.install(&test);
    }
}

fn all(ahead: Ahead, planted: &(impl Fn(i64) -> Result<()> + Sync), work: &BatchWork<'_>) -> (Vec<i64>, Result<u64>) {
    let mut found = Vec::new();
    let rows = in_order(&mut morsels(planted), ahead, work, &mut |batch, _| {
        found.extend_from_slice(values(&batch));
        Ok(())
    });
    (found, rows)
}

fn tripled(rows: i64) -> Vec<i64> {
    (0..rows).flat_map(|row| [row; 3]).collect()
}

/// Bounds that cut results short in every morsel, in some of them, and in none.
const AHEAD: [Ahead; 4] = [
    Ahead { morsels: 1, bytes: 0 },
    Ahead { morsels: 5, bytes: 300 },
    Ahead { morsels: 16, bytes: 5000 },
    Ahead { morsels: 16, bytes: u64::MAX },
];

#[test]
fn results_are_in_the_order_of_morsels() {
    everywhere(|| {
        for ahead in AHEAD {
            let (found, rows) = all(ahead, &|_| Ok(()), &thrice);
            assert_eq!(rows.expect("no error"), (MORSELS * ROWS) as u64);
            assert!(found == tripled(MORSELS * ROWS), "{ahead:?}");
        }
    });
}

#[test]
fn the_first_error_is_reported_after_all_results_before_it() {
    everywhere(|| {
        for ahead in AHEAD {
            let planted = |number: i64| if number >= 20 { Err(error(&format!("morsel {number}"))) } else { Ok(()) };
            let (found, rows) = all(ahead, &planted, &thrice);
            assert!(rows.expect_err("an error").to_string().contains("morsel 20"));
            assert!(found == tripled(20 * ROWS + ROWS / 2), "{ahead:?}");

            let fails = |batch: &RecordBatch, emit: Emit<'_, RecordBatch>| match values(batch)[0] / ROWS {
                number @ 7.. => Err(Stop::Failed(error(&format!("work {number}")))),
                _ => thrice(batch, emit),
            };
            let (found, rows) = all(ahead, &|_| Ok(()), &fails);
            assert!(rows.expect_err("an error").to_string().contains("work 7"));
            assert!(found == tripled(7 * ROWS), "{ahead:?}");

            // Reading the next morsel fails.
            let good = |_| Ok(());
            let mut read = morsels(&good).take(11).chain([Err(error("reading"))]);
            let mut rows = 0;
            let end = in_order(&mut read, ahead, &thrice, &mut |batch, _| {
                rows += batch.num_rows() as i64;
                Ok(())
            });
            assert!(end.expect_err("an error").to_string().contains("reading"));
            assert_eq!(rows, 3 * 11 * ROWS);
        }
    });
}

/// A task without memory leaves its batch to the caller, which fails only if it does not have enough memory either.
#[test]
fn short_memory_of_a_task_is_not_an_error() {
    everywhere(|| {
        let caller = thread::current().id();
        let is_short = || Stop::Failed(koel::Error::OutOfMemory { device: "test".into(), bytes: 1 }.into());
        for ahead in AHEAD {
            let work = |batch: &RecordBatch, emit: Emit<'_, RecordBatch>| match thread::current().id() == caller {
                true => thrice(batch, emit),
                false => {
                    emit(self::batch(values(batch)[..7].iter().flat_map(|&value| [value; 3])))?;
                    Err(is_short())
                }
            };
            let (found, rows) = all(ahead, &|_| Ok(()), &work);
            assert_eq!(rows.expect("no error"), (MORSELS * ROWS) as u64);
            assert!(found == tripled(MORSELS * ROWS), "{ahead:?}");
            let (found, rows) = all(ahead, &|_| Ok(()), &|_, _| Err(is_short()));
            assert!(matches!(rows, Err(Error::Koel(koel::Error::OutOfMemory { .. }))) && found.is_empty());
        }
    });
}

/// A source that continues until a result arrives, but for at most 20 seconds.
#[test]
fn results_are_passed_on_before_all_morsels_are_read() {
    let start = Instant::now();
    let taken = Cell::new(0);
    let mut source = std::iter::from_fn(|| {
        thread::sleep(Duration::from_millis(1));
        let goes_on = taken.get() == 0 && start.elapsed() < Duration::from_secs(20);
        goes_on.then(|| {
            Ok(Box::new(|take: &mut dyn FnMut(RecordBatch) -> Result<()>| take(batch(0..1))) as Morsel<'_, Error>)
        })
    });
    let ahead = Ahead { morsels: usize::MAX, bytes: u64::MAX };
    let rows = in_order(&mut source, ahead, &thrice, &mut |_, _| {
        taken.set(taken.get() + 1);
        Ok(())
    });
    assert_eq!(rows.expect("no error"), taken.get());
    assert!(start.elapsed() < Duration::from_secs(20));
}

#[test]
fn pieces_for_devices_are_gathered() {
    let table = || {
        Batches::new(
            batch([]).schema(),
            (0..10).map(|i| Ok(batch(i * 100..i * 100 + 100))).chain([Err(error("reading"))]),
        )
    };
    let side = Side::new(table().schema(), vec![0], &Limit::new(u64::MAX)).expect("a key");
    let lengths = |at_once: u64| -> Vec<usize> {
        let (mut rows, mut lengths) = (0, Vec::new());
        let mut pieces = side.gathered(table(), 800, at_once);
        while let Some(Ok(piece)) = pieces.next() {
            let column = piece.column(0).as_primitive::<Int64Type>().values();
            assert!(column.iter().copied().eq(rows..rows + column.len() as i64));
            rows += column.len() as i64;
            lengths.push(column.len());
        }
        assert_eq!(rows, 1000);
        assert!(pieces.next().is_none(), "the error is the last one");
        lengths
    };
    assert_eq!(lengths(0), [100; 10]);
    assert_eq!(lengths(8 * 350), [300, 300, 300, 100]);
    assert_eq!(lengths(1 << 20), [1000]);
}

#[test]
fn a_consumer_that_stops_ends_the_work() {
    everywhere(|| {
        for ahead in AHEAD {
            let (started, mut taken) = (AtomicUsize::new(0), 0);
            let planted = |_| {
                started.fetch_add(1, Relaxed);
                Ok(())
            };
            let end = in_order(&mut morsels(&planted), ahead, &thrice, &mut |_, _| {
                taken += 1;
                if taken == 3 { Err(error("enough")) } else { Ok(()) }
            });
            assert!(end.expect_err("an error").to_string().contains("enough"));
            assert_eq!(taken, 3);
            assert!(started.into_inner() <= ahead.morsels);
        }
    });
}

#[test]
fn panics_propagate_to_the_caller() {
    everywhere(|| {
        for ahead in AHEAD {
            let planted = |number: i64| match number {
                13 => panic!("planted"),
                _ => Ok(()),
            };
            let mut rows = 0;
            let run = || {
                in_order(&mut morsels(&planted), ahead, &thrice, &mut |batch, _| {
                    rows += batch.num_rows() as i64;
                    Ok(())
                })
            };
            let panic = catch_unwind(AssertUnwindSafe(run)).expect_err("a panic");
            assert_eq!(panic.downcast_ref::<&str>(), Some(&"planted"));
            assert_eq!(rows, 3 * (13 * ROWS + ROWS / 2));
        }
    });
}

#[test]
fn large_batches_are_several_morsels() {
    let rows = 2 * MORSEL_ROWS as i64 + 5;
    let batches = [Ok(batch(0..rows)), Ok(batch(rows..rows + 3)), Err(error("reading"))];
    let mut table = Batches::new(batch([]).schema(), batches);
    let (mut found, mut lengths) = (Vec::new(), Vec::new());
    let emit = |batch: &RecordBatch, emit: Emit<'_, RecordBatch>| emit(batch.clone());
    let end = in_order(&mut table.morsels, AHEAD[3], &emit, &mut |batch, _| {
        found.extend_from_slice(values(&batch));
        lengths.push(batch.num_rows());
        Ok(())
    });
    assert!(end.expect_err("an error").to_string().contains("reading"));
    assert_eq!(lengths, [MORSEL_ROWS, MORSEL_ROWS, 5, 3]);
    assert!(found.into_iter().eq(0..rows + 3));
}

#[test]
fn long_rows_are_several_morsels() {
    let long: ArrayRef = Arc::new(StringArray::from_iter_values((0..3).map(|_| "x".repeat(MORSEL_BYTES / 4 * 3))));
    let batch = RecordBatch::try_from_iter([("t", long)]).expect("a column");
    assert!(slices(batch.slice(0, 0)).next().is_none());
    assert!(slices(batch).map(|slice| slice.num_rows()).eq([1, 1, 1]));
}

/// Joins of tables in morsels, with several numbers of threads, with a limit that spills and one that does not.
#[test]
fn joins_of_morsels_equal_joins_in_memory() {
    let (left, right) = (table(31, 3000, 2000, 0), table(32, 6000, 2000, 0));
    let in_morsels = |of: &RecordBatch, rows: usize| -> Batches<'static, Error> {
        let pieces: Vec<Morsel<'static, Error>> = (0..of.num_rows())
            .step_by(rows)
            .map(|start| {
                let piece = of.slice(start, rows.min(of.num_rows() - start));
                let half = piece.num_rows() / 2;
                Box::new(move |take: &mut dyn FnMut(RecordBatch) -> Result<()>| {
                    take(piece.slice(0, half))?;
                    take(piece.slice(half, piece.num_rows() - half))
                }) as Morsel<'static, Error>
            })
            .collect();
        Batches::of_morsels(of.schema(), pieces.into_iter().map(Ok))
    };
    let device = Any::Cpu(Cpu::of_caller());
    let columns = [Output::Left(5), Output::Left(2), Output::Left(3)];
    for (how, bytes) in [JoinKind::Inner, JoinKind::Full, JoinKind::Right, JoinKind::Anti]
        .into_iter()
        .flat_map(|how| [(how, 100_000), (how, 1 << 40)])
    {
        let limit = Limit::new(bytes);
        let join = Join {
            devices: std::slice::from_ref(&device),
            on: &[(0, 0)],
            how,
            nulls: NullEquality::NothingEquals,
            columns: &columns,
            limit: &limit,
            watch: &|_| (),
        };
        let schema = join.schema(&left.schema(), &right.schema()).expect("columns");
        let in_memory = expected(&left, &right, &join).expect("a join");
        // Threads cannot share `watch`, so each thread has a separate join.
        for (threads, rows) in [(1, 300), (2, 77), (8, 1000)] {
            let pool = ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
            let (left, right, columns, limit, device) = (&left, &right, &columns, &limit, &device);
            let found = pool.install(|| {
                let devices = std::slice::from_ref(device);
                let nulls = NullEquality::NothingEquals;
                let join = Join { devices, on: &[(0, 0)], how, nulls, columns, limit, watch: &|_| () };
                let mut found = Vec::new();
                let sizes = join.run(in_morsels(left, rows), batches(right, 700), |batch| {
                    found.push(batch);
                    Ok::<_, Error>(())
                });
                let sizes = sizes.expect("a join");
                assert_eq!((sizes.left, sizes.right), (3000, 6000));
                assert_eq!(sizes.spilled == 0, bytes == 1 << 40);
                found
            });
            assert!(whole(&schema, &found).columns() == in_memory, "{how}, {bytes} bytes, {threads} threads");
        }
    }
}
