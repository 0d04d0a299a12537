//! Round trips of all types through all formats, and files that are damaged at any position.

use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::StringDictionaryBuilder;
use arrow_array::types::Int32Type;
use arrow_array::*;
use arrow_buffer::OffsetBuffer;
use arrow_schema::Field;
use arrow_select::concat::concat_batches;

use super::read::Source;
use super::write::{Place, Sink};
use super::*;

/// One row per case, with a column of every type that can be written as text.
pub(super) fn all_types(with_nulls: bool) -> RecordBatch {
    let rows = 10;
    let cell = |i: i64| (!with_nulls || i % 3 != 0).then_some(i);
    let all = || (0..rows).map(cell);
    let micros = all().map(|cell| cell.map(|i| i * 86_400_123_456 - 400_000));
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("int64", Arc::new(Int64Array::from_iter(all().map(|cell| cell.map(|i| i - 5))))),
        ("uint64", Arc::new(UInt64Array::from_iter(all().map(|cell| cell.map(|i| u64::MAX - i as u64))))),
        ("float64", Arc::new(Float64Array::from_iter(all().map(|cell| cell.map(|i| i as f64 * 0.1 - 0.2))))),
        ("bool", Arc::new(BooleanArray::from_iter(all().map(|cell| cell.map(|i| i % 2 == 0))))),
        ("date", Arc::new(Date32Array::from_iter(all().map(|cell| cell.map(|i| i as i32 * 1000 - 3000))))),
        ("time", Arc::new(TimestampMicrosecondArray::from_iter(micros.clone()))),
        ("utc", Arc::new(TimestampMicrosecondArray::from_iter(micros).with_timezone("UTC"))),
        (
            "text",
            Arc::new(StringArray::from_iter(all().map(|cell| {
                cell.map(|i| {
                    [
                        "",
                        "a,b",
                        "say \"x\"",
                        "two\r\nlines",
                        "007",
                        " blank ",
                        "\u{e9}\u{1f642}",
                        "tab\t",
                        "plain",
                        "NULL",
                    ][i as usize]
                })
            }))),
        ),
    ];
    RecordBatch::try_from_iter(columns).expect("columns of one length")
}

fn read(path: &Path, columns: Option<&[String]>) -> std::result::Result<Table, String> {
    let source = Source::open(path, &TableReading::default()).map_err(|failure| failure.to_string())?;
    source.read(columns).map_err(|failure| failure.to_string())
}

/// As `read`, as a stream.
fn stream(path: &Path) -> std::result::Result<Table, String> {
    let source = Source::open(path, &TableReading::default()).map_err(|failure| failure.to_string())?;
    let stream = source.stream(None).map_err(|failure| failure.to_string())?;
    let schema = stream.schema().clone();
    let batches = stream.collect::<crate::failure::Result<Vec<_>>>().map_err(|failure| failure.to_string())?;
    Ok(Table::of(schema, batches))
}

pub(super) fn write(path: &Path, batches: &[RecordBatch]) -> std::result::Result<(), String> {
    let sink = Sink::create(Place::File(path), &batches[0].schema());
    let mut sink = sink.map_err(|failure| failure.to_string())?;
    for batch in batches {
        sink.write(batch).map_err(|failure| failure.to_string())?;
    }
    sink.finish().map(|_| ()).map_err(|failure| failure.to_string())
}

const NAMES: [&str; 7] = ["t.parquet", "t.arrow", "t.arrows", "t.csv", "t.tsv", "t.csv.gz", "t.csv.zst"];

pub(super) fn names() -> impl Iterator<Item = &'static str> {
    NAMES.into_iter().filter(|name| cfg!(feature = "parquet") || !name.ends_with("parquet"))
}

#[test]
fn every_format_holds_every_type() {
    let folder = tempfile::tempdir().expect("a folder");
    for with_nulls in [false, true] {
        let batch = all_types(with_nulls);
        let batches = [batch.clone(), batch.slice(0, 0), batch.slice(2, 5)];
        let schema = batch.schema();
        let expected = concat_batches(&schema, &batches).expect("one schema");
        for name in names() {
            let path = folder.path().join(name);
            write(&path, &batches).unwrap_or_else(|error| panic!("{name}: {error}"));
            let table = read(&path, None).unwrap_or_else(|error| panic!("{name}: {error}"));
            let found = concat_batches(&table.schema, &table.batches).expect("one schema");
            assert_eq!((table.rows, found.columns()), (15, expected.columns()), "{name}, {with_nulls}");
            let some = ["text".to_owned(), "int64".to_owned()];
            let table = read(&path, Some(&some)).unwrap_or_else(|error| panic!("{name}: {error}"));
            let found = concat_batches(&table.schema, &table.batches).expect("one schema");
            assert_eq!(found.columns(), [expected.column(7).clone(), expected.column(0).clone()], "{name}");
            // The first bytes determine the format.
            let other = folder.path().join("other.csv");
            std::fs::copy(&path, &other).expect("a copy");
            assert_eq!(read(&other, None).map(|table| table.rows), Ok(15), "{name}");
        }
    }
}

#[test]
fn arrays_hold_numbers_and_booleans() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.npy");
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("a", Arc::new(Int8Array::from(vec![-1, 2]))),
        ("b", Arc::new(UInt64Array::from(vec![u64::MAX, 0]))),
        ("c", Arc::new(Float32Array::from(vec![0.5, -2.0]))),
        ("d", Arc::new(BooleanArray::from(vec![true, false]))),
    ];
    let batch = RecordBatch::try_from_iter(columns).expect("columns of one length");
    write(&path, &[batch.clone(), batch.slice(1, 1)]).expect("numbers");
    let table = read(&path, None).expect("an array");
    assert_eq!(table.batches[0].slice(0, 2).columns(), batch.columns());
    assert_eq!(table.rows, 3);
    // An existing file is kept if an output is refused.
    let before = std::fs::read(&path).expect("bytes");
    for with_nulls in [false, true] {
        let batch = all_types(with_nulls);
        let error = write(&path, &[batch]).expect_err("texts");
        assert!(error.contains("column date is of type Date32"), "{error}");
    }
    let nulls = RecordBatch::try_from_iter([("a", Arc::new(Int64Array::from(vec![None, Some(1)])) as ArrayRef)]);
    assert!(write(&path, &[nulls.expect("a column")]).is_err_and(|error| error.contains("has nulls")));
    assert_eq!(std::fs::read(&path).expect("bytes"), before);
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1, "no part is left");
}

#[test]
fn dictionaries_are_texts_in_csv() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut builder = StringDictionaryBuilder::<Int32Type>::new();
    builder.extend([Some("x"), None, Some("y"), Some("x")]);
    let batch = RecordBatch::try_from_iter([("d", Arc::new(builder.finish()) as ArrayRef)]).expect("a column");
    for name in names() {
        let path = folder.path().join(name);
        write(&path, std::slice::from_ref(&batch)).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(read(&path, None).map(|table| table.rows), Ok(4), "{name}");
    }
    assert_eq!(std::fs::read_to_string(folder.path().join("t.csv")).expect("text"), "d\nx\n\ny\nx\n");
}

/// A zero has one digit for any scale, also in lists and dictionaries: JSON does not allow 000.
#[test]
fn decimals_of_negative_scale_are_whole_numbers() {
    let folder = tempfile::tempdir().expect("a folder");
    let of = |values: Vec<Option<i128>>| -> ArrayRef {
        Arc::new(Decimal128Array::from(values).with_precision_and_scale(10, -2).expect("a scale"))
    };
    let whole = of(vec![Some(12), Some(0), None, Some(-3)]);
    let keys = Int32Array::from(vec![Some(1), Some(0), None, Some(1)]);
    let names: ArrayRef = Arc::new(DictionaryArray::<Int32Type>::new(keys, of(vec![Some(0), Some(7)])));
    let field = Arc::new(Field::new("f", whole.data_type().clone(), true));
    let lists: ArrayRef =
        Arc::new(ListArray::new(field, OffsetBuffer::from_lengths([2, 0, 1, 1]), whole.clone(), None));
    let text = |name: &str, columns: &[(&str, &ArrayRef)]| {
        let columns = columns.iter().map(|&(name, column)| (name, Arc::clone(column), true));
        let batch = RecordBatch::try_from_iter_with_nullable(columns).expect("columns of one length");
        let path = folder.path().join(name);
        write(&path, &[batch]).unwrap_or_else(|error| panic!("{name}: {error}"));
        std::fs::read_to_string(path).expect("text")
    };
    assert_eq!(text("t.csv", &[("d", &whole), ("n", &names)]), "d,n\n1200,700\n0,0\n,\n-300,700\n");
    let lines = [
        r#"{"d":1200,"n":700,"l":[1200,0]}"#,
        r#"{"d":0,"n":0,"l":[]}"#,
        r#"{"l":[null]}"#,
        r#"{"d":-300,"n":700,"l":[-300]}"#,
    ];
    let found = text("t.ndjson", &[("d", &whole), ("n", &names), ("l", &lists)]);
    assert_eq!(found.lines().collect::<Vec<_>>(), lines);
}

/// Timestamps have the same text in NDJSON as in CSV, including those with a named zone and beyond the year 9999.
#[test]
fn moments_are_texts_in_ndjson() {
    let folder = tempfile::tempdir().expect("a folder");
    let moments = TimestampSecondArray::from(vec![0, 253_402_300_800]).with_timezone("Europe/Berlin");
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("m", Arc::new(moments)),
        ("d", Arc::new(Date32Array::from(vec![-719_162, i32::MAX]))),
        ("p", Arc::new(DurationMillisecondArray::from(vec![1500, i64::MIN]))),
        ("t", Arc::new(Time32SecondArray::from(vec![1, 86_399]))),
    ];
    let path = folder.path().join("t.ndjson");
    write(&path, &[RecordBatch::try_from_iter(columns).expect("columns of one length")]).expect("every type");
    let lines = [
        r#"{"m":"1970-01-01T00:00:00Z","d":"0001-01-01","p":"PT1.500S","t":"00:00:01"}"#,
        r#"{"m":"+10000-01-01T00:00:00Z","d":"+5881580-07-11","p":"PT-9223372036854775.808S","t":"23:59:59"}"#,
    ];
    let found = std::fs::read_to_string(path).expect("text");
    assert_eq!(found.lines().collect::<Vec<_>>(), lines);
}

/// An Arrow file with compressed buffers, as other programs write it.
fn packed_by(codec: arrow_ipc::CompressionType, batch: &RecordBatch) -> Vec<u8> {
    let options = arrow_ipc::writer::IpcWriteOptions::default().try_with_compression(Some(codec)).expect("a codec");
    let mut writer = arrow_ipc::writer::FileWriter::try_new_with_options(Vec::new(), &batch.schema(), options);
    let writer = writer.as_mut().expect("memory");
    writer.write(batch).and_then(|()| writer.finish()).expect("memory");
    writer.get_ref().clone()
}

/// For any content of a file, reading returns rows or an error that names the file.
#[test]
fn damage_anywhere_is_no_panic() {
    let folder = tempfile::tempdir().expect("a folder");
    let batch = all_types(true);
    let of_names = names().map(|name| {
        let path = folder.path().join(name);
        write(&path, std::slice::from_ref(&batch)).unwrap_or_else(|error| panic!("{name}: {error}"));
        (name, std::fs::read(&path).expect("bytes"))
    });
    use arrow_ipc::CompressionType;
    let packed = [("lz4.arrow", CompressionType::LZ4_FRAME), ("zstd.arrow", CompressionType::ZSTD)];
    let packed = packed.map(|(name, codec)| (name, packed_by(codec, &batch)));
    for (name, whole) in of_names.chain(packed) {
        let damaged = folder.path().join(format!("damaged.{name}"));
        let check = |bytes: &[u8], how: &str| {
            std::fs::write(&damaged, bytes).expect("works in a folder of its own");
            let found = read(&damaged, None);
            assert!(how != "as it is" || found.is_ok(), "{name}: {found:?}");
            let streamed = stream(&damaged);
            assert_eq!(streamed.is_ok(), found.is_ok(), "{how}: {streamed:?}, and read {found:?}");
            for error in [found.err(), streamed.err()].into_iter().flatten() {
                assert!(error.contains("damaged."), "{how}: {error}");
            }
        };
        check(&whole, "as it is");
        // With KOEL_TEST_FULL, all three changes of 1,500 bytes; otherwise one change of each of 400 bytes.
        let full = std::env::var_os("KOEL_TEST_FULL").is_some();
        let step = (whole.len() / if full { 1500 } else { 400 }).max(1);
        for (turn, at) in (0..whole.len()).step_by(step).enumerate() {
            check(&whole[..at], &format!("{name} cut at {at}"));
            let changes = [0x01, 0x80, 0xff];
            for xor in if full { &changes[..] } else { &changes[turn % 3..][..1] } {
                let mut bytes = whole.clone();
                bytes[at] ^= xor;
                check(&bytes, &format!("{name}, byte {at} with {xor}"));
            }
        }
    }
}
