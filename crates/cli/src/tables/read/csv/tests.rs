//! Text as columns: types, nulls, quotes, and pieces cut at any position.

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use arrow_select::concat::concat_batches;

use super::*;

fn open(text: &[u8], options: &TableReading) -> std::result::Result<Csv, String> {
    let data = Data::from(text.to_vec());
    Csv::open(&Name::of("a.csv".as_ref()), data, text, options).map_err(|failure| failure.to_string())
}

/// All rows, read in pieces of `size` bytes.
fn read(text: &[u8], options: &TableReading, size: usize) -> std::result::Result<RecordBatch, String> {
    rows(Csv { size: Some(size), ..open(text, options)? })
}

fn rows(csv: Csv) -> std::result::Result<RecordBatch, String> {
    let places: Vec<usize> = (0..csv.names.len()).collect();
    let table = csv.read(&Name::of("a.csv".as_ref()), &places);
    let table = table.map_err(|failure| failure.to_string())?;
    concat_batches(&table.schema, &table.batches).map_err(|error| error.to_string())
}

/// As `read`, as a stream.
fn streamed(text: &[u8], options: &TableReading, size: usize) -> std::result::Result<RecordBatch, String> {
    let csv = Csv { size: Some(size), ..open(text, options)? };
    let places: Vec<usize> = (0..csv.names.len()).collect();
    let name = Name::of("a.csv".as_ref());
    let stream = csv.stream(&name, &places).map_err(|failure| failure.to_string())?;
    let schema = stream.schema().clone();
    let batches = stream.collect::<Result<Vec<_>>>().map_err(|failure| failure.to_string())?;
    concat_batches(&schema, &batches).map_err(|error| error.to_string())
}

fn types(batch: &RecordBatch) -> Vec<String> {
    batch.schema().fields().iter().map(|field| field.data_type().to_string()).collect()
}

fn texts(batch: &RecordBatch, column: usize) -> Vec<Option<&str>> {
    batch.column(column).as_string::<i32>().iter().collect()
}

#[test]
fn pieces_cut_anywhere_are_one() {
    let options = TableReading::default();
    for text in [
        "a,b\n1,2\n3,4\n",
        "\u{feff}a,b\r\n1,x\r\n3,\"y\r\nz\"\r\n,\"\"\r\n",
        "a,b,c\n1,2024-01-01,true\n-5,2024-01-02T10:00:00,\n18446744073709551615,,maybe\n1.5,2024-01-03,false",
        "a\n1\n\n3\n\"\"\"\n\"\"\"\n",
        "name,\"the \"\"other\"\"\"\n5\" pipe,\"a,\n\n,b\"\n\n\"\n\"\"\",2\n",
        "a,b\n9223372036854775807,1\n9223372036854775808,2\n,\n0,-1.5e3\n",
        "a,b\n,\n,\n,\n",
        "only,names\n",
        "a,b\n0,9223372036854775807\n12345678,1234567890123456789\n123456789,99999999\n7,100000000\r\n1,0",
        "a,b\n1,2\n3,4\n5,\"6\"\n7,\"8\n9\"\n10,11\n\"12\",13\n",
    ] {
        let whole = read(text.as_bytes(), &options, 1 << 20);
        assert!(whole.is_ok(), "{text:?}: {whole:?}");
        for size in 1..=text.len() {
            assert_eq!(read(text.as_bytes(), &options, size), whole, "{text:?} in pieces of {size}");
            assert_eq!(streamed(text.as_bytes(), &options, size), whole, "{text:?} in pieces of {size}, streamed");
        }
    }
}

#[test]
fn a_file_is_read_in_pieces_as_memory_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.csv");
    let options = TableReading::default();
    for text in [
        "a,b\n1,2\n3,4\n".to_owned(),
        "a,b\n1,x\n2,\"y\n\"\n3,z".to_owned(),
        format!("a,b\n{}\"1\",\"\n\"\n", "12345,abc\n".repeat(2_000)),
        format!("a,b\n1,{}\n2,3\n", "long".repeat(5_000)),
        "a,b\n1,2\n3\n4,\"5\"\n".to_owned(),
        "a,b\n1,2\n3,\"4\n5,6\n7\n".to_owned(),
    ] {
        std::fs::write(&path, &text).expect("memory");
        for size in [1, 7, 4 << 10, 1 << 20] {
            let data = std::fs::File::open(&path).and_then(Data::of_file).expect("a file");
            let csv = Csv { data, size: Some(size), ..open(text.as_bytes(), &options).expect("names") };
            assert_eq!(rows(csv), read(text.as_bytes(), &options, size), "{size}");
        }
    }
}

#[test]
fn a_file_that_becomes_shorter_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.csv");
    let text = "a,b\n".to_owned() + &"1,2\n".repeat(10_000);
    std::fs::write(&path, &text).expect("memory");
    let data = std::fs::File::open(&path).and_then(Data::of_file).expect("a file");
    let csv = Csv { data, ..open(text.as_bytes(), &TableReading::default()).expect("names") };
    std::fs::write(&path, "a,b\n").expect("memory");
    assert!(rows(csv).is_err_and(|error| error.contains("shorter")));
}

/// Rows appended after the file was opened are ignored, but a file that is read twice must not change.
#[test]
fn a_file_that_grows_is_read_as_it_was_unless_parts_are_read_twice() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.csv");
    for (last, is_refused) in [("2", false), ("2.5", true)] {
        let text = "a\n".to_owned() + &"1\n".repeat(100) + last;
        std::fs::write(&path, &text).expect("memory");
        let data = std::fs::File::open(&path).and_then(Data::of_file).expect("a file");
        let csv = Csv { data, size: Some(50), ..open(text.as_bytes(), &TableReading::default()).expect("names") };
        std::fs::write(&path, text + "\n7\n").expect("memory");
        match rows(csv) {
            Ok(rows) => assert!(!is_refused && rows.num_rows() == 101),
            Err(error) => assert!(is_refused && error.contains("changed"), "{error}"),
        }
    }
}

#[test]
fn a_file_that_changes_between_its_two_passes_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.csv");
    let text = "a\n".to_owned() + &"1\n".repeat(1000);
    std::fs::write(&path, &text).expect("memory");
    let data = std::fs::File::open(&path).and_then(Data::of_file).expect("a file");
    let csv = Csv { data, size: Some(50), ..open(text.as_bytes(), &TableReading::default()).expect("names") };
    let name = Name::of("a.csv".as_ref());
    let mut stream = csv.stream(&name, &[0]).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(stream.next().is_some_and(|batch| batch.is_ok()));
    std::fs::write(&path, "a\n".to_owned() + &"x\n".repeat(1001)).expect("memory");
    let failure = stream.find_map(|batch| batch.err()).map(|failure| failure.to_string());
    assert!(failure.is_some_and(|said| said.contains("changed")));
    assert!(stream.next().is_none());
}

#[test]
fn types_are_what_all_rows_fit() {
    let options = TableReading::default();
    for (fields, expected) in [
        (&["1", "-2", ""][..], "Int64"),
        (&["1", "9223372036854775808"], "UInt64"),
        (&["-1", "9223372036854775808"], "Utf8"),
        (&["-1", "9223372036854775808", "0.5"], "Float64"),
        (&["9007199254740992", "nan"], "Float64"),
        (&["9007199254740993", "nan"], "Utf8"),
        (&["0.5", "-9007199254740993"], "Utf8"),
        (&["0.5", "18446744073709551615"], "Utf8"),
        (&["9007199254740993", "18446744073709551615"], "UInt64"),
        (&["0.5", "1e400"], "Utf8"),
        (&["0.5", "1e-400"], "Utf8"),
        (&["0.5", "12345678901234567890.12"], "Utf8"),
        (&["0.30000000000000004", "1.000000000000000056e-01"], "Float64"),
        (&["1", "18446744073709551616"], "Utf8"),
        (&["1", "007"], "Utf8"),
        (&["1.50", "2"], "Float64"),
        (&["true", "false", ""], "Boolean"),
        (&["2024-01-01"], "Date32"),
        (&["2024-01-01", "2024-01-01 10:00:00"], "Timestamp(\u{b5}s)"),
        (&["2024-01-01T10:00:00Z"], "Timestamp(\u{b5}s, \"UTC\")"),
        (&["1", "\"\""], "Utf8"),
        (&["", ""], "Utf8"),
    ] {
        // Only the last rows determine the type, after more rows than types are guessed from.
        for padding in [0, 1000] {
            let mut lines = vec!["id,x".to_owned()];
            lines.extend((0..padding).map(|i| format!("{i},{}", fields[0])));
            lines.extend(fields.iter().map(|field| format!("7,{field}")));
            let text = lines.join("\n");
            for size in [16, 1 << 20] {
                let batch = read(text.as_bytes(), &options, size).expect("rows");
                assert_eq!(types(&batch), ["Int64", expected], "{fields:?}, {padding} rows before, {size}");
                assert_eq!(streamed(text.as_bytes(), &options, size), Ok(batch), "{fields:?}, {padding} rows, {size}");
            }
        }
    }
    let batch = read(b"a\n0\n18446744073709551615\n", &options, 1).expect("rows");
    assert_eq!(batch.column(0).as_primitive::<UInt64Type>().values(), &[0, u64::MAX]);
    let batch = read(b"a,b\n007,1.50\n\"x\"\"y\",2\n,\"\"\n", &options, 4).expect("rows");
    assert_eq!(texts(&batch, 0), [Some("007"), Some("x\"y"), None]);
    assert_eq!(texts(&batch, 1), [Some("1.50"), Some("2"), Some("")]);
}

/// Columns that are only shown are written as they were read, whatever their types.
#[test]
fn text_is_kept_where_no_value_is_needed() {
    let text = "id,price,when\n1,1.50,2024-01-01 10:00\n2,12345678901234567890.12,\n3,007,\"\"\n";
    let options = TableReading::default();
    for size in [1, 1 << 20] {
        let mut csv = Csv { size: Some(size), ..open(text.as_bytes(), &options).expect("names") };
        csv.keep_text(&["id".into()]);
        let batch = rows(csv).expect("rows");
        assert_eq!(types(&batch), ["Int64", "Utf8", "Utf8"]);
        assert_eq!(texts(&batch, 1), [Some("1.50"), Some("12345678901234567890.12"), Some("007")]);
        assert_eq!(texts(&batch, 2), [Some("2024-01-01 10:00"), None, Some("")]);
    }
}

#[test]
fn rows_have_a_longest_length_and_a_largest_number_of_fields() {
    let options = TableReading::default();
    let long = |length: usize, before: &str| format!("a,b\n{before}x,{}\n3,4\n", "y".repeat(length - 3));
    for (text, part) in [
        (long(LONGEST + 1, "1,2\n"), "line 3: this row is longer than 16 MiB"),
        (long(LONGEST + 1, "1,\"2\n\"\n"), "line 4: this row is longer than 16 MiB"),
        (long(3 * LONGEST, &"1,2\n".repeat(1000)), "line 1002: this row is longer than 16 MiB"),
        (format!("{}\n1\n", "a".repeat(LONGEST + 1)), "line 1: this row is longer"),
        (format!("a,b\n1,2\n{}\n", ",".repeat(1 << 20)), "line 3: this row has more than 65536 fields"),
        (format!("a,b\n\"1,{}\n", "2\n".repeat(9 << 20)), "line 2: this row is longer"),
    ] {
        for read in [read, streamed] {
            let error = read(text.as_bytes(), &options, 1 << 20).map(|batch| batch.num_rows());
            assert!(error.as_ref().is_err_and(|error| error.contains(part)), "{part}: {error:?}");
        }
    }
    let text = long(LONGEST, "1,2\n");
    assert_eq!(read(text.as_bytes(), &options, 1 << 20).map(|batch| batch.num_rows()), Ok(3));
    assert_eq!(streamed(text.as_bytes(), &options, 1 << 20).map(|batch| batch.num_rows()), Ok(3));
}

#[test]
fn options_say_what_text_does_not() {
    let reading = |arguments: &[&str]| {
        use clap::Parser;
        #[derive(Parser)]
        struct Only {
            #[command(flatten)]
            reading: TableReading,
        }
        Only::try_parse_from([&["x"], arguments].concat()).map(|only| only.reading).expect("options")
    };
    let no_header = read(b"1,x\n2,y\n", &reading(&["--header", "no"]), 1).expect("rows");
    assert_eq!((no_header.num_rows(), no_header.schema().field(1).name().as_str()), (2, "column_2"));
    assert_eq!(read(b"1,x\n2,y\n", &reading(&["--header", "auto"]), 1).map(|batch| batch.num_rows()), Ok(2));
    assert_eq!(read(b"a,x\n2,y\n", &reading(&["--header", "auto"]), 1).map(|batch| batch.num_rows()), Ok(1));
    let pipes = read(b"a|b\n1|2,5\n", &reading(&["--delimiter", "|"]), 1).expect("rows");
    assert_eq!(types(&pipes), ["Int64", "Utf8"]);
    let named = reading(&["--types", "a=utf8,b=decimal(5,2),c=int32,d=bool,e=timestamp"]);
    let batch = read(b"a,b,c,d,e\n7,1.5,+03,1,2024-01-01\n,,,,\n", &named, 3).expect("rows");
    assert_eq!(types(&batch), ["Utf8", "Decimal128(5, 2)", "Int32", "Boolean", "Timestamp(\u{b5}s)"]);
    assert!(batch.columns().iter().all(|column| column.is_null(1) && column.is_valid(0)));
    let error = read(b"a,b\n1,2\n1,x\n", &reading(&["--types", "b=int64"]), 1).expect_err("no number");
    assert!(error.starts_with("a.csv, line 3: column b: `x` is not of the type int64"), "{error}");
}

#[test]
fn faults_name_their_line() {
    let options = TableReading::default();
    for (text, part) in [
        (&b""[..], "a.csv: the file is empty"),
        (b"\n\n", "a.csv: the file is empty"),
        (b"a,b\n1,2\n\n3\n4,5\n", "line 4: 1 field where there are 2"),
        (b"a,b\n1,2\n\"x\ny\",2\n3,4,5\n", "line 5: 3 fields where there are 2"),
        (b"a\n1\n2,3\n", "line 3: 2 fields where there is 1"),
        (b"a,b\n1,\"x\n2,3\n", "line 2: column b: a quote is opened here and never closed"),
        (b"a,b\n1,\"x\"y\n", "line 2: column b: text follows a closing quote"),
        (b"a,b\n1,x\n2,\xff\n", "line 3: column b: this is not UTF-8"),
        (b"a,b\n1,x\n2,\xff\n3\n4,\"\n", "line 3: column b: this is not UTF-8"),
        (b"a,b\n1,2\n3\n4,\xff\n", "line 3: 1 field"),
        (b"a\xff,b\n1,x\n", "line 1: this is not UTF-8"),
        (b"a\r1\r2\r", "end in CR alone"),
    ] {
        for size in [1, 5, 1 << 20] {
            let error = read(text, &options, size).expect_err("a fault");
            assert!(error.contains(part), "{text:?}, {size}: {error}");
            assert_eq!(streamed(text, &options, size), Err(error), "{text:?}, {size}");
        }
    }
}

#[test]
fn only_wanted_columns_are_read_in_the_order_requested() {
    let csv = open(b"a,b,c\n1,\xff,x\n2,,y\n", &TableReading::default()).expect("names");
    let name = Name::of("a.csv".as_ref());
    let table = csv.read(&name, &[2, 0]);
    let table = table.unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!((table.rows, table.schema.field(0).name().as_str()), (2, "c"));
    assert_eq!(table.batches[0].column(1).as_primitive::<Int64Type>().values(), &[1, 2]);
    let none = csv.read(&name, &[]).unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!((none.rows, none.batches[0].num_rows()), (2, 2));
    assert_eq!(*table.schema.field(0).data_type(), DataType::Utf8);
}

#[test]
fn a_name_in_quotes_may_contain_cr_lf() {
    let options = TableReading::default();
    let text = b"\"unit\r\nprice\",b\r\n1,2\r\n3,4\r\n";
    let whole = read(text, &options, 1 << 20).expect("a table");
    assert_eq!((whole.schema().field(0).name().as_str(), whole.num_rows()), ("unit\r\nprice", 2));
    for size in 1..=text.len() {
        assert_eq!(read(text, &options, size).as_ref(), Ok(&whole), "pieces of {size}");
    }
    let error = read(b"\"a\r\nb\",c\r1,2\r", &options, 1 << 20).expect_err("lines end in CR alone");
    assert!(error.contains("end in CR alone"), "{error}");
}

#[test]
fn a_long_row_of_names_is_read_whole() {
    let names: Vec<String> = (0..20_000).map(|i| format!("the column {i}")).collect();
    let text = names.join(",") + "\n" + &",".repeat(names.len() - 1) + "\n";
    let bytes = text.as_bytes();
    let csv =
        Csv::open(&Name::of("a.csv".as_ref()), Data::from(bytes.to_vec()), &bytes[..1000], &TableReading::default());
    assert!(csv.is_ok_and(|csv| csv.names == names));
}
