//! Compares streams with reading the whole file: the schema and the rows are equal, and batches observe their limits.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{Int32Builder, ListBuilder, StringDictionaryBuilder};
use arrow_array::types::Int32Type;
use arrow_array::*;
use arrow_ipc::CompressionType;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use arrow_select::concat::concat_batches;
use koel_arrow::external::row_bytes;

use super::super::tests::{all_types, names, write};
use super::*;

fn spooling() -> TableReading {
    TableReading { spool: true, ..TableReading::default() }
}

/// Checks that a stream of a file has the rows that reading the whole file returns, also when it is read again.
pub(super) fn check(path: &Path, columns: Option<&[String]>, options: &TableReading) {
    let shown = path.display();
    let source = Source::open(path, options).unwrap_or_else(|failure| panic!("{shown}: {failure}"));
    let table = source.read(columns).unwrap_or_else(|failure| panic!("{shown}: {failure}"));
    for _ in 0..2 {
        let stream = source.stream(columns).unwrap_or_else(|failure| panic!("{shown}: {failure}"));
        assert_eq!(*stream.schema(), table.schema, "{shown}");
        let batches: Vec<_> =
            stream.map(|batch| batch.unwrap_or_else(|failure| panic!("{shown}: {failure}"))).collect();
        assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), table.rows, "{shown}");
        for batch in &batches {
            let (rows, bytes) = (batch.num_rows(), row_bytes(batch));
            assert_eq!(batch.schema(), table.schema, "{shown}");
            assert!((1..=stream::ROWS).contains(&rows), "{shown}: {rows} rows");
            assert!(rows == 1 || bytes <= stream::BYTES, "{shown}: {bytes} bytes of {rows} rows");
        }
        if !table.schema.fields().is_empty() {
            let whole = |batches| concat_batches(&table.schema, batches).expect("one schema");
            assert!(whole(&batches) == whole(&table.batches), "{shown}");
        }
    }
}

/// `rows` rows of all types, including structs, lists and a dictionary.
fn nested(rows: usize) -> RecordBatch {
    let plain = all_types(true);
    let copies = vec![plain.clone(); rows.div_ceil(10)];
    let plain = concat_batches(&plain.schema(), &copies).expect("one schema").slice(0, rows);
    let mut lists = ListBuilder::new(Int32Builder::new());
    let mut names = StringDictionaryBuilder::<Int32Type>::new();
    for row in 0..rows {
        match row % 5 {
            0 => lists.append_null(),
            length => lists.append_value((0..length as i32).map(|i| (i % 3 != 0).then_some(i))),
        }
        names.append_option((row % 7 != 0).then(|| format!("name {}", row % 100)));
    }
    let inner: Vec<(&str, ArrayRef)> = vec![
        ("number", plain.column(0).clone()),
        ("text", plain.column(7).clone()),
        ("list", Arc::new(lists.finish())),
    ];
    let both: Vec<(&str, ArrayRef)> = vec![
        ("struct", Arc::new(StructArray::try_from(inner).expect("columns of one length"))),
        ("dictionary", Arc::new(names.finish())),
        ("id", Arc::new(UInt32Array::from_iter_values(0..rows as u32))),
    ];
    let both = RecordBatch::try_from_iter(both).expect("columns of one length");
    let fields = plain.schema().fields().iter().chain(both.schema().fields()).cloned().collect::<Vec<_>>();
    let metadata = [("made".to_owned(), "here".to_owned())].into();
    let schema = arrow_schema::Schema::new_with_metadata(fields, metadata);
    RecordBatch::try_new(schema.into(), [plain.columns(), both.columns()].concat()).expect("columns of one length")
}

#[test]
fn every_format_is_streamed_as_it_is_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let small = all_types(true);
    let some = ["text".to_owned(), "int64".to_owned()];
    for batches in [vec![small.slice(0, 0)], vec![small.clone(), small.slice(0, 0), small.slice(2, 5)]] {
        for name in names() {
            let path = folder.path().join(name);
            write(&path, &batches).unwrap_or_else(|error| panic!("{name}: {error}"));
            for options in [TableReading::default(), spooling()] {
                check(&path, None, &options);
                check(&path, Some(&some), &options);
                check(&path, Some(&[]), &options);
            }
        }
    }
    check_large("t.csv");
}

#[test]
#[ignore = "slow: several batches of each format; CI runs it"]
fn large_files_of_every_format_are_streamed_as_they_are_read() {
    names().for_each(check_large);
}

/// Checks a file with several batches.
fn check_large(name: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(name);
    let few = all_types(true);
    let large = concat_batches(&few.schema(), &vec![few.clone(); 7000]).expect("one schema");
    write(&path, &[large]).unwrap_or_else(|error| panic!("{name}: {error}"));
    check(&path, None, &spooling());
    check(&path, Some(&["text".to_owned(), "int64".to_owned()]), &TableReading::default());
}

#[test]
fn arrays_are_streamed_as_they_are_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.npy");
    for rows in [0, 1, stream::ROWS as u64, 3 * stream::ROWS as u64 + 7] {
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("a", Arc::new(UInt64Array::from_iter_values((0..rows).map(|row| row * row)))),
            ("b", Arc::new(Float32Array::from_iter_values((0..rows).map(|row| row as f32)))),
        ];
        write(&path, &[RecordBatch::try_from_iter(columns).expect("columns of one length")]).expect("numbers");
        check(&path, None, &spooling());
        check(&path, Some(&["b".to_owned()]), &spooling());
    }
    // Records with long texts: 400 rows of 50,000 bytes.
    let header = "{'descr': [('t', '|S50000')], 'fortran_order': False, 'shape': (400,), }\n";
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.bytes());
    bytes.resize(bytes.len() + 20_000_000, b'x');
    std::fs::write(&path, bytes).expect("memory");
    check(&path, None, &spooling());
}

#[test]
#[ignore = "slow: compressed Arrow files of several batches; CI runs it"]
fn arrow_files_are_streamed_as_they_are_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let all = nested(100_000);
    let parts = [all.slice(0, 10), all.slice(10, 0), all.slice(10, 80_000), all.slice(80_010, 19_990)];
    for codec in [None, Some(CompressionType::LZ4_FRAME), Some(CompressionType::ZSTD)] {
        let options = || IpcWriteOptions::default().try_with_compression(codec).expect("a codec");
        let path = folder.path().join("t.arrows");
        let file = File::create(&path).expect("memory");
        let mut writer = StreamWriter::try_new_with_options(file, &all.schema(), options()).expect("memory");
        parts.iter().try_for_each(|part| writer.write(part)).and_then(|()| writer.finish()).expect("memory");
        check(&path, None, &spooling());
        check(&path, Some(&["dictionary".to_owned(), "id".to_owned(), "struct".to_owned()]), &spooling());
        let path = folder.path().join("t.arrow");
        let file = File::create(&path).expect("memory");
        // A file has one dictionary per column.
        let mut writer = FileWriter::try_new_with_options(file, &all.schema(), options()).expect("memory");
        parts.iter().try_for_each(|part| writer.write(part)).and_then(|()| writer.finish()).expect("memory");
        check(&path, None, &spooling());
        check(&path, Some(&["dictionary".to_owned(), "id".to_owned(), "struct".to_owned()]), &spooling());
    }
}

#[cfg(feature = "parquet")]
#[test]
fn row_groups_of_any_size_are_streamed_as_they_are_read() {
    use ::parquet::arrow::ArrowWriter;
    use ::parquet::file::properties::WriterProperties;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.parquet");
    let write = |batch: &RecordBatch, rows: usize| {
        let properties = WriterProperties::builder()
            .set_max_row_group_row_count(Some(rows))
            .set_data_page_row_count_limit(5_000)
            .build();
        let file = File::create(&path).expect("memory");
        let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).expect("memory");
        writer.write(batch).expect("memory");
        writer.close().expect("memory");
    };
    let some = ["id".to_owned(), "struct".to_owned()];
    for (rows, group) in [(0, 10), (1, 10), (3000, 100), (3000, 128), (100_000, 1 << 20), (100_000, 30_001)] {
        write(&nested(rows), group);
        check(&path, None, &TableReading::default());
        check(&path, Some(&some), &TableReading::default());
        check(&path, Some(&[]), &TableReading::default());
    }
    // One long text in the dictionary is used in a few rows; the metadata does not show that.
    let long = "x".repeat(300_000);
    let texts = (0..20_000).map(|row| if (9_000..9_100).contains(&row) || row > 19_990 { &*long } else { "short" });
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("text", Arc::new(StringArray::from_iter_values(texts))),
        ("id", Arc::new(Int32Array::from_iter_values(0..20_000))),
    ];
    let batch = RecordBatch::try_from_iter(columns).expect("columns of one length");
    for group in [1 << 20, 3000] {
        write(&batch, group);
        check(&path, None, &TableReading::default());
    }
}

#[cfg(feature = "parquet")]
#[test]
fn ranges_are_those_of_row_groups() {
    use crate::tables::kinds::Kind;
    use crate::tables::options::Types;
    use ::parquet::arrow::ArrowWriter;
    use ::parquet::file::properties::WriterProperties;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.parquet");
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("i64", Arc::new(Int64Array::from(vec![Some(3), None, Some(-7), None, None, None, Some(i64::MAX)]))),
        ("u32", Arc::new(UInt32Array::from(vec![1, u32::MAX, 5, 0, 0, 0, 1 << 31]))),
        ("u64", Arc::new(UInt64Array::from(vec![1, u64::MAX, 5, 0, 0, 0, 1 << 63]))),
        ("date", Arc::new(Date32Array::from(vec![-1, 20_000, 0, 7, 8, 9, 5]))),
        ("f64", Arc::new(Float64Array::from(vec![1.0; 7]))),
        ("seconds", Arc::new(TimestampSecondArray::from(vec![1; 7]))),
    ];
    let batch = RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, of)| (name, of, true)));
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(3)).build();
    let batch = batch.expect("columns of one length");
    let file = File::create(&path).expect("memory");
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).expect("memory");
    writer.write(&batch).and_then(|()| writer.close()).expect("memory");
    let open = |options: TableReading| Source::open(&path, &options).unwrap_or_else(|failure| panic!("{failure}"));
    let mut options = TableReading::default();
    let source = open(options.clone());
    let of = |column| source.ranges(column);
    let greatest = i128::from(i64::MAX);
    assert_eq!(of("i64"), Some(vec![Some((-7, 3)), None, Some((greatest, greatest))]));
    assert_eq!(of("u32"), Some(vec![Some((1, u32::MAX.into())), Some((0, 0)), Some((1 << 31, 1 << 31))]));
    assert_eq!(of("u64"), Some(vec![Some((1, u64::MAX.into())), Some((0, 0)), Some((1 << 63, 1 << 63))]));
    assert_eq!(of("date"), Some(vec![Some((-1, 20_000)), Some((7, 9)), Some((5, 5))]));
    assert_eq!((of("f64"), of("seconds"), of("none")), (None, None, None));
    // A column that is converted has other values.
    options.text.types = Some(Types(vec![("date".into(), Kind::Utf8)]));
    let source = open(options);
    assert_eq!(source.ranges("date"), None);
    assert!(source.ranges("u32").is_some());
}

/// Row groups state their number of rows. pyarrow and DuckDB read files with a wrong total, too.
#[cfg(feature = "parquet")]
#[test]
fn the_number_of_rows_of_a_whole_parquet_file_does_not_matter() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.parquet");
    let column: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3, 4]));
    write(&path, &[RecordBatch::try_from_iter([("a", column)]).expect("a column")]).expect("memory");
    let bytes = std::fs::read(&path).expect("a file");
    // Field 3 of the footer, after the schema: 4 in zigzag encoding.
    let footer =
        bytes.len() - 8 - u32::from_le_bytes(*bytes[bytes.len() - 8..].first_chunk().expect("4 bytes")) as usize;
    let at = footer + bytes[footer..].windows(2).position(|two| two == [0x16, 8]).expect("4 rows");
    for rows in [0, 3, 5, 63] {
        let mut miscounted = bytes.clone();
        miscounted[at + 1] = 2 * rows;
        std::fs::write(&path, miscounted).expect("memory");
        check(&path, None, &TableReading::default());
        let rows =
            Source::open(&path, &TableReading::default()).and_then(|source| source.read(None)).map(|table| table.rows);
        assert_eq!(rows.ok(), Some(4));
    }
}

/// Rows after the last row that a row group states are detected in a stream as well.
#[cfg(feature = "parquet")]
#[test]
fn row_groups_that_miscount_rows_are_refused_at_once_and_in_streams() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.parquet");
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..60));
    write(&path, &[RecordBatch::try_from_iter([("a", column)]).expect("a column")]).expect("memory");
    let bytes = std::fs::read(&path).expect("a file");
    // The number of rows of the row group is the last field of the footer with this value, 60 in zigzag encoding.
    let at = 1 + bytes.windows(2).rposition(|two| two == [0x16, 120]).expect("60 rows");
    for rows in [0, 1, 59, 61, 63] {
        let mut miscounted = bytes.clone();
        miscounted[at] = 2 * rows;
        std::fs::write(&path, miscounted).expect("memory");
        let source = Source::open(&path, &TableReading::default()).unwrap_or_else(|failure| panic!("{failure}"));
        let whole = source.read(None).err().map(|failure| failure.to_string());
        let streamed = source.stream(None).and_then(|stream| stream.collect::<Result<Vec<_>>>());
        assert_eq!(streamed.err().map(|failure| failure.to_string()), whole, "{rows}");
        assert!(whole.is_some_and(|error| error.contains(&format!("60 rows, and the row group {rows}"))), "{rows}");
    }
}

#[test]
fn what_is_packed_is_unpacked_into_a_file_as_into_memory() {
    use std::io::Write;
    let folder = tempfile::tempdir().expect("a folder");
    let gzip = |text: &str| {
        let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        writer.write_all(text.as_bytes()).and_then(|()| writer.finish()).expect("memory")
    };
    let zstd = |text: &str| zstd::encode_all(text.as_bytes(), 1).expect("memory");
    let (first, second) = ("a,b\n".to_owned() + &"1,x\n".repeat(100_000), "2.5,\"y\n\"\n".repeat(1000));
    for (name, bytes) in [
        ("a.csv.gz", [gzip(&first), gzip(""), gzip(&second)].concat()),
        ("a.csv.zst", [zstd(&first), zstd(""), zstd(&second)].concat()),
        // pzstd begins with a skippable frame.
        ("b.csv.zst", [&b"\x50\x2a\x4d\x18\x04\0\0\0abcd"[..], &zstd(&first), &zstd(&second)].concat()),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, &bytes).expect("memory");
        check(&path, None, &spooling());
        // Zeros after the last member of gzip, and between two members.
        if name.ends_with("gz") {
            std::fs::write(&path, [&gzip(&first)[..], &[0; 1000], &gzip(&second), &[0; 3000]].concat())
                .expect("memory");
            check(&path, None, &spooling());
            check(&path, None, &TableReading::default());
            std::fs::write(&path, [&bytes[..], &[0; 1000], b"x"].concat()).expect("memory");
            assert!(Source::open(&path, &TableReading::default()).is_err());
            std::fs::write(&path, &bytes).expect("memory");
        }
        let rows = |options: &TableReading| {
            Source::open(&path, options).and_then(|source| source.read(None)).map(|table| table.rows)
        };
        assert_eq!(rows(&spooling()).ok(), Some(101_000));
        for damaged in [&bytes[..bytes.len() - 3], &[&bytes[..bytes.len() / 2], b"nothing"].concat()] {
            std::fs::write(&path, damaged).expect("memory");
            let said = |options: &TableReading| rows(options).err().map(|failure| failure.to_string());
            assert!(said(&spooling()).is_some_and(|said| said.contains("damaged or cut short")));
            assert_eq!(said(&spooling()), said(&TableReading::default()));
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn pipes_are_streamed_as_files_are() {
    use std::io::Write;
    use std::os::fd::AsRawFd;
    for options in [TableReading::default(), spooling()] {
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        let path = format!("/proc/self/fd/{}", reader.as_raw_fd());
        let text = "a,b\n".to_owned() + &"1,x\n".repeat(1_000_000) + "2.5,y\n";
        let writing = std::thread::spawn(move || writer.write_all(text.as_bytes()));
        check(path.as_ref(), None, &options);
        assert!(writing.join().is_ok_and(|written| written.is_ok()));
    }
}
