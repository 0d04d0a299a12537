//! Writes columns of every type in every format: rows are written and read back, or an error names the column.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, FixedSizeBinaryArray, Int32Array, RecordBatch, UnionArray, new_null_array};
use arrow_schema::{DataType, Field, IntervalUnit, TimeUnit, UnionFields, UnionMode};

use super::super::read::Source;
use super::super::{TableReading, tests};

/// The types that an Arrow file may contain, and nested types of them.
fn types() -> Vec<DataType> {
    use DataType::*;
    let field = |of: &DataType| Arc::new(Field::new("f", of.clone(), true));
    let union = |mode| {
        let fields = [(0, field(&Int32)), (1, field(&Utf8))];
        Union(fields.into_iter().collect::<UnionFields>(), mode)
    };
    let mut plain = vec![
        Null,
        Boolean,
        Int8,
        Int16,
        Int32,
        Int64,
        UInt8,
        UInt16,
        UInt32,
        UInt64,
        Float16,
        Float32,
        Float64,
        Date32,
        Date64,
        Utf8,
        LargeUtf8,
        Utf8View,
        Binary,
        LargeBinary,
        BinaryView,
        FixedSizeBinary(0),
        FixedSizeBinary(3),
        Decimal32(9, 2),
        Decimal64(18, -2),
        Decimal128(38, 38),
        Decimal256(76, 3),
    ];
    for unit in [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond] {
        plain.extend([Timestamp(unit, None), Timestamp(unit, Some("+01:00".into())), Duration(unit)]);
    }
    plain.extend([Time32(TimeUnit::Second), Time32(TimeUnit::Millisecond)]);
    plain.extend([Time64(TimeUnit::Microsecond), Time64(TimeUnit::Nanosecond)]);
    plain.extend([IntervalUnit::YearMonth, IntervalUnit::DayTime, IntervalUnit::MonthDayNano].map(Interval));
    plain.extend([union(UnionMode::Sparse), union(UnionMode::Dense)]);
    let mut all = plain.clone();
    all.push(Struct(Vec::<Field>::new().into()));
    all.push(Dictionary(Box::new(Int8), Box::new(List(field(&Int32)))));
    // Nested types have only these element types: the unusual ones, and one common one.
    let is_odd = |of: &&DataType| match of {
        Int32 | Null | Boolean | Utf8View | FixedSizeBinary(0) | Decimal256(..) | Interval(_) => true,
        other => other.is_nested(),
    };
    for of in plain.iter().filter(is_odd) {
        let ends = Arc::new(Field::new("run_ends", Int32, false));
        let pair = Struct(vec![Field::new("keys", Int32, false), Field::new("values", of.clone(), true)].into());
        all.extend([
            List(field(of)),
            LargeList(field(of)),
            FixedSizeList(field(of), 2),
            FixedSizeList(field(of), 0),
            ListView(field(of)),
            LargeListView(field(of)),
            Struct(vec![field(of)].into()),
            Map(Arc::new(Field::new("entries", pair, false)), false),
            Dictionary(Box::new(Int8), Box::new(of.clone())),
            RunEndEncoded(ends, field(of)),
        ]);
    }
    all
}

/// Writes a batch and reads it again. Returns an error if that fails or if the number of rows differs.
fn round_trip(path: &Path, batch: &RecordBatch) -> Result<(), String> {
    tests::write(path, std::slice::from_ref(batch))?;
    let read = || Source::open(path, &TableReading::default())?.read(None);
    match read() {
        Ok(table) if table.rows == batch.num_rows() => Ok(()),
        Ok(table) => Err(format!("{} rows are read", table.rows)),
        Err(error) => Err(format!("written, and not read: {error}")),
    }
}

/// Formats in which a column is neither written nor refused with an error that names it.
fn faults(folder: &Path, array: ArrayRef) -> Vec<String> {
    let (of, rows) = (array.data_type().clone(), array.len());
    // Together with a column that every format supports.
    let one: ArrayRef = Arc::new(Int32Array::from(vec![1; rows]));
    let batch = RecordBatch::try_from_iter_with_nullable([("one", one, false), ("a column", array, true)]);
    let batch = batch.expect("columns of one length");
    let outcome = |name: &str| {
        let written = catch_unwind(AssertUnwindSafe(|| round_trip(&folder.join(name), &batch)));
        match written.unwrap_or_else(|_| Err("a panic".into())) {
            Err(error) if !(error.contains("a column") && error.contains("write ")) => Some(error),
            Err(error) if ["internal error", "must be", "Invalid"].iter().any(|word| error.contains(word)) => {
                Some(error)
            }
            _ => None,
        }
    };
    let names = tests::names().filter(|name| !name.contains(".csv."));
    let all = names.chain(["t.npy"]).filter_map(|name| Some((name, outcome(name)?)));
    all.map(|(name, error)| format!("{rows} rows of {of} in {name}: {error}")).collect()
}

#[test]
fn every_type_is_written_or_refused_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut all: Vec<ArrayRef> = types().iter().flat_map(|of| [0, 3].map(|rows| new_null_array(of, rows))).collect();
    let empty = FixedSizeBinaryArray::try_new_with_len(0, Vec::<u8>::new().into(), None, 3);
    all.push(Arc::new(empty.expect("three values of no bytes")));
    let fields: UnionFields = [(0, Arc::new(Field::new("f", DataType::Int32, true)))].into_iter().collect();
    let values: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
    all.push(Arc::new(UnionArray::try_new(fields, vec![0, 0].into(), None, vec![values]).expect("a union")));
    let found: Vec<String> = all.into_iter().flat_map(|array| faults(folder.path(), array)).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}
