//! The bytes of a file depend only on the rows.

use std::path::Path;
use std::sync::Arc;

use arrow_array::types::{Int16Type, Int32Type};
use arrow_array::*;
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field, Fields};

use super::*;

/// More than a block of any format has; some blocks end because of their bytes.
const ROWS: usize = 40_000;

/// The next random number.
fn next(state: &mut u64) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize
}

/// Rows `first..end` of the table. `garbage` is stored under nulls; with 0, columns without nulls have bitmaps as well.
fn rows(first: usize, end: usize, garbage: usize) -> RecordBatch {
    let (all, len) = (|| first..end, end - first);
    let is_null = |row: usize| row % 7 == 3 || (10_000..12_000).contains(&row);
    let there: NullBuffer = all().map(|row| !is_null(row)).collect::<Vec<_>>().into();
    let nulls = |there: &NullBuffer| (garbage == 0 || there.null_count() > 0).then(|| there.clone());
    let filled = (garbage == 0).then(|| NullBuffer::new_valid(len));
    let or = |row: usize, value: usize| if is_null(row) { garbage } else { value };
    let numbers = Int64Array::new(all().map(|row| or(row, row) as i64).collect(), nulls(&there));
    let text = |row: usize| match or(row, row * 7919 % 500) {
        1 => "x".repeat(100_000),
        few => format!("text {few}"),
    };
    let texts: Vec<String> = all().map(text).collect();
    let texts = StringArray::from_iter_values(&texts);
    let (offsets, bytes, _) = texts.clone().into_parts();
    let bits = BooleanBuffer::from_iter(all().map(|row| or(row, row) % 3 == 1));
    let elements: Vec<usize> = all().map(|row| or(row, row % 5)).collect();
    let items: Int32Array = elements.iter().flat_map(|&length| 0..length as i32).collect();
    let item = Arc::new(Field::new("item", DataType::Int32, true));
    let fields = Fields::from(vec![
        Field::new("n", DataType::Int64, true),
        Field::new("t", DataType::Utf8View, true),
        Field::new("pair", DataType::new_fixed_size_list(DataType::Int32, 2, true), true),
    ]);
    let pairs = Int32Array::from_iter_values(all().flat_map(|row| [or(row, row) as i32, 1]));
    let pairs = FixedSizeListArray::new(item.clone(), 2, Arc::new(pairs), None);
    let views: StringViewArray = texts.iter().collect();
    let inner: Vec<ArrayRef> = vec![Arc::new(numbers.clone()), Arc::new(views.clone()), Arc::new(pairs)];
    let keys = Int16Array::new(all().map(|row| (or(row, row) % 40) as i16).collect(), nulls(&there));
    let values = DICTIONARY.with(Arc::clone);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("row", Arc::new(Int64Array::new(all().map(|row| row as i64).collect(), filled))),
        ("text", Arc::new(StringArray::new(offsets, bytes, nulls(&there)))),
        ("bool", Arc::new(BooleanArray::new(bits, nulls(&there)))),
        ("view", Arc::new(StringViewArray::new(views.views().clone(), views.data_buffers(), nulls(&there)))),
        ("list", Arc::new(ListArray::new(item, OffsetBuffer::from_lengths(elements), Arc::new(items), nulls(&there)))),
        ("struct", Arc::new(StructArray::new(fields, inner, nulls(&there)))),
        ("name", Arc::new(DictionaryArray::<Int16Type>::new(keys, values))),
        ("number", Arc::new(numbers)),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true)))
        .expect("columns of one length")
}

thread_local! {
    static DICTIONARY: ArrayRef =
        Arc::new((0..41).map(|i| Some("y".repeat(i * i))).collect::<StringArray>());
}

/// The rows in batches that end at random positions.
fn batches(seed: u64) -> Vec<RecordBatch> {
    let (mut state, mut start, mut all) = (seed, 0, Vec::new());
    while start < ROWS {
        let most = [1, 100, 5_000, 60_000][next(&mut state) % 4];
        let end = ROWS.min(start + 1 + next(&mut state) % most);
        // Some batches are slices of larger ones.
        let before = next(&mut state) % 3 * 5;
        let before = before.min(start);
        all.push(rows(start - before, end, [0, 2, 3][next(&mut state) % 3]).slice(before, end - start));
        start = end;
    }
    all
}

fn written(path: &Path, memory: u64, batches: &[RecordBatch], columns: &[usize]) -> Vec<u8> {
    let of = |batch: &RecordBatch| batch.project(columns).expect("columns");
    let ok = |failure: Failure| -> ! { panic!("{}: {failure}", path.display()) };
    let mut sink =
        Sink::within(memory, Place::File(path), &of(&batches[0]).schema()).unwrap_or_else(|failure| ok(failure));
    batches.iter().for_each(|batch| sink.write(&of(batch)).unwrap_or_else(|failure| ok(failure)));
    sink.finish().unwrap_or_else(|failure| ok(failure));
    std::fs::read(path).expect("a file")
}

#[test]
fn files_depend_on_rows_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let runs = if std::env::var_os("KOEL_TEST_FULL").is_some() { 20 } else { 3 };
    let (all, flat) = ((0..8).collect::<Vec<_>>(), vec![0, 1, 2, 3, 6, 7]);
    let formats = [
        ("t.parquet", &all),
        ("t.arrow", &all),
        ("t.arrows", &all),
        ("t.csv", &flat),
        ("t.csv.gz", &flat),
        ("t.csv.zst", &flat),
        ("t.npy", &vec![0]),
    ];
    for (name, columns) in formats.into_iter().filter(|(name, _)| form_is_built(name)) {
        let path = folder.path().join(name);
        let whole = written(&path, u64::MAX, &[rows(0, ROWS, 2)], columns);
        for run in 0..runs {
            let threads = 1 + run % 8;
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
            let memory = [64 << 20, 300 << 20, u64::MAX][run % 3];
            let found = pool.install(|| written(&path, memory, &batches(run as u64), columns));
            assert!(found == whole, "{name}, run {run}: {} bytes and {}", found.len(), whole.len());
        }
    }
}

fn form_is_built(name: &str) -> bool {
    cfg!(feature = "parquet") || !name.ends_with(".parquet")
}

/// The size of row groups and batches is limited in bytes, however long the rows are.
#[cfg(feature = "parquet")]
#[test]
fn long_rows_are_written_in_small_groups() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.parquet");
    let long = "z".repeat(1 << 20);
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..40).map(|i| format!("{i}{long}"))));
    let values: ArrayRef = Arc::new(StringArray::from_iter_values([&long]));
    let names: ArrayRef = Arc::new(DictionaryArray::<Int32Type>::new(vec![0; 40].into(), values));
    for column in [texts, names] {
        let batch = RecordBatch::try_from_iter([("t", column)]).expect("a column");
        written(&path, 64 << 20, &[batch], &[0]);
        let file = File::open(&path).expect("a file");
        let reader = ::parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file).expect("Parquet");
        let groups: Vec<i64> = reader.metadata().row_groups().iter().map(|group| group.num_rows()).collect();
        assert_eq!((groups.iter().sum::<i64>(), groups[0]), (40, 15));
    }
}

/// Some encoders panic on these types.
#[test]
fn columns_that_a_format_does_not_hold_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let fields = [(0, Arc::new(Field::new("a", DataType::Int64, true)))].into_iter().collect();
    let values: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
    let union = UnionArray::try_new(fields, vec![0, 0].into(), None, vec![values]).expect("a union");
    let empty = FixedSizeBinaryArray::try_new_with_len(0, Buffer::default(), None, 2).expect("no bytes");
    let columns: [ArrayRef; 2] = [Arc::new(union), Arc::new(empty)];
    for column in columns {
        let batch = RecordBatch::try_from_iter([("u", column)]).expect("a column");
        for name in ["t.parquet", "t.arrow", "t.csv", "t.npy"].into_iter().filter(|name| form_is_built(name)) {
            let path = folder.path().join(name);
            let write = || {
                let mut sink = Sink::create(Place::File(&path), &batch.schema())?;
                sink.write(&batch)?;
                sink.finish()
            };
            match write() {
                Ok(rows) => assert_eq!(rows, 2),
                Err(failure) => {
                    let said = failure.to_string();
                    assert!(said.contains(name) && said.contains("write "), "{said}");
                    assert!(!path.exists());
                }
            }
        }
    }
}

/// NumPy removes zero bytes at the end of a text.
#[test]
fn bytes_that_are_not_text_are_not_written_to_npy() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.npy");
    for (bytes, is_text) in [(*b"ACGT", true), (*b"ACG\0", false), (*b"\xffCGT", false)] {
        let column = FixedSizeBinaryArray::try_from_iter([bytes].into_iter()).expect("of one width");
        let batch = RecordBatch::try_from_iter([("b", Arc::new(column) as ArrayRef)]).expect("a column");
        let write = || {
            let mut sink = Sink::create(Place::File(&path), &batch.schema())?;
            sink.write(&batch)?;
            sink.finish()
        };
        assert_eq!(write().map_err(|failure| failure.to_string()).is_ok(), is_text, "{bytes:?}");
    }
}
