//! The memory that operations use, and their behaviour if memory is short.

use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, Int32Array, Int64Array, LargeStringArray, RecordBatch, StringArray};
use koel::{Any, Cpu, JoinKind};

use super::lengths::Lengths;
use super::{Batches, Join, Limit, Output, parts, row_bytes};
use crate::encode::NullEquality;
use crate::error::{Error, Result};

/// An inner join by the first columns.
fn inner<'a>(devices: &'a [Any], columns: &'a [Output], limit: &'a Limit) -> Join<'a> {
    let nulls = NullEquality::NothingEquals;
    Join { devices, on: &[(0, 0)], how: JoinKind::Inner, nulls, columns, limit, watch: &|_| () }
}

#[test]
fn dictionaries_are_expanded_piece_by_piece() {
    // Most rows refer to the one long value, so the mean length of the values of the dictionary would be misleading.
    let long = "x".repeat(100_000);
    let values: ArrayRef =
        Arc::new(StringArray::from_iter_values((0..1000).map(|i| if i == 7 { &long[..] } else { "" })));
    let keys = Int32Array::from_iter((0..500).map(|i| (i % 9 != 0).then_some(if i < 400 { 7 } else { 8 })));
    let names: ArrayRef = Arc::new(DictionaryArray::<Int32Type>::new(keys, values));
    let batch = RecordBatch::try_from_iter([("name", names)]).expect("a column");
    let schema = parts::schema_within(&Limit::new(1), &batch.schema());
    let pieces = parts::pieces(schema, batch, 1 << 20);
    let sizes: Vec<(usize, usize)> = pieces
        .map(|piece| piece.map(|piece| (piece.num_rows(), row_bytes(&piece))))
        .collect::<Result<_>>()
        .expect("text");
    assert_eq!(sizes.iter().map(|&(rows, _)| rows).sum::<usize>(), 500);
    assert!(sizes.iter().all(|&(_, bytes)| bytes <= 1 << 20), "{sizes:?}");
    assert!(sizes.len() < 50 && sizes.last().is_some_and(|&(rows, _)| rows > 100), "{sizes:?}");
}

#[test]
fn lengths_are_those_of_rows() {
    let texts: [ArrayRef; 2] = [
        Arc::new(LargeStringArray::from(vec![Some("abc"), None])),
        Arc::new(LargeStringArray::from(vec!["x".repeat(70)])),
    ];
    let numbers: [ArrayRef; 1] = [Arc::new(Int64Array::from(vec![1, 2, 3]))];
    let lengths = Lengths::of([&texts[..], &numbers[..]].into_iter(), 3, false);
    assert_eq!([0, 1, 2].map(|row| lengths.of_row(row)), [19, 16, 86]);
    assert_eq!((lengths.longest(), lengths.of_row(u32::MAX)), (86, 16));
    let lengths = Lengths::of([&numbers[..]].into_iter(), 3, false);
    assert_eq!((lengths.longest(), lengths.of_row(1)), (8, 8));
}

/// One long row matches many rows: batches of the result are limited by their bytes.
#[test]
fn matches_of_a_long_row_are_gathered_in_small_batches() {
    let column = |values: Vec<i64>| Arc::new(Int64Array::from(values)) as ArrayRef;
    let left = RecordBatch::try_from_iter([("k", column(vec![5; 1000]))]).expect("a column");
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..50_000).map(|i| match i {
        5 => "y".repeat(1 << 20),
        _ => String::new(),
    })));
    let right = RecordBatch::try_from_iter([("k", column((0..50_000).collect())), ("t", texts)]).expect("columns");
    let (device, limit) = ([Any::Cpu(Cpu::new())], Limit::new(64 << 20));
    let columns = [Output::Left(0), Output::Right(1)];
    let join = inner(&device, &columns, &limit);
    let batches = |batch: &RecordBatch| Batches::new(batch.schema(), [Ok::<_, Error>(batch.clone())]);
    let mut most = 0;
    let sizes = join.run(batches(&left), batches(&right), |batch| {
        most = most.max(row_bytes(&batch));
        Ok(())
    });
    assert_eq!(sizes.expect("a join").joined, 1000);
    assert!(most <= 4 << 20, "{most} bytes at a time");
}

/// The test below runs this under a limit of the address space. It prints how the join ended.
#[test]
#[ignore = "run by another test"]
fn spills_with_little_memory() {
    let column = |values: Vec<i64>| Arc::new(Int64Array::from(values)) as ArrayRef;
    // All batches share these arrays: a failed allocation of the test itself would end the process.
    let text = |i| format!("some text of row {i}: {}", "long ".repeat(16));
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..10_000).map(text)));
    let side = |step: i64| {
        let texts = Arc::clone(&texts);
        (0..40).map(move |batch| {
            let keys = (batch * 10_000..(batch + 1) * 10_000).map(|i| i * step % 400_009).collect();
            let columns = [("k", column(keys)), ("t", Arc::clone(&texts))];
            Ok::<_, Error>(RecordBatch::try_from_iter(columns).expect("columns of one length"))
        })
    };
    let schema = side(1).next().and_then(|batch| batch.ok()).expect("batches").schema();
    let (device, limit) = ([Any::Cpu(Cpu::new())], Limit::new(32 << 20));
    let columns = [Output::Left(0), Output::Left(1), Output::Right(1)];
    let join = inner(&device, &columns, &limit);
    let tables = (Batches::new(Arc::clone(&schema), side(7919)), Batches::new(schema, side(31)));
    match join.run(tables.0, tables.1, |_| Ok(())) {
        Ok(rows) => println!("joined {}, spilled {}", rows.joined, rows.spilled),
        Err(Error::Koel(koel::Error::OutOfMemory { .. })) => println!("out of memory"),
        Err(error) => panic!("{error}"),
    }
}

/// If the address space is slightly too small, the work ends with an error, and not by a signal.
#[test]
#[cfg(target_os = "linux")]
fn short_memory_is_an_error() {
    let itself = std::env::current_exe().expect("a program");
    let run = |mib: u64| {
        let mut command = std::process::Command::new("sh");
        command.arg("-c").arg(format!("ulimit -v {} || exit 77; exec \"$0\" \"$@\"", mib << 10)).arg(&itself);
        command.args(["external::memory_tests::spills_with_little_memory", "--exact", "--ignored", "--nocapture"]);
        // Each further arena of glibc reserves 64 MiB.
        command.env("RAYON_NUM_THREADS", "2").env("MALLOC_ARENA_MAX", "1").env("RUST_BACKTRACE", "0");
        command.output().expect("a shell")
    };
    // Finds the lowest limit with which the join succeeds, to within 4 MiB. Close to it, success depends on the order
    // of threads, so the same limit may not fail twice.
    let (mut fails, mut goes, mut failed) = (16, 240, None);
    while goes - fails > 4 {
        let middle = (fails + goes) / 2;
        let output = run(middle);
        let went = String::from_utf8_lossy(&output.stdout).contains("joined ");
        if went { goes = middle } else { (fails, failed) = (middle, Some(output)) }
    }
    assert!(goes < 240, "no limit is high enough");
    let output = failed.expect("a limit that is too low");
    let (said, why) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("out of memory"), "{fails} MiB: {:?}: {said}{why}", output.status);
}
