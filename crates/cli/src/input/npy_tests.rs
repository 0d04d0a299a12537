//! Arrays as keys and values.

use super::tests::{pairs, read_with, zipped};
use super::{Input, Pairs, ReadOptions, Want};
use crate::number::{Number, Type};

/// Returns an array file with the elements `data`, each of as many bytes as the type has.
fn file(descr: &str, fortran: &str, shape: &str, data: &[i128]) -> Vec<u8> {
    versioned(1, descr, fortran, shape, data)
}

/// As `file`, with a header of this version.
fn versioned(version: u8, descr: &str, fortran: &str, shape: &str, data: &[i128]) -> Vec<u8> {
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}");
    while (header.len() + 11) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let length = (header.len() as u32).to_le_bytes();
    let mut file = [&b"\x93NUMPY"[..], &[version, 0], &length[..if version == 1 { 2 } else { 4 }]].concat();
    file.extend(header.as_bytes());
    let width = usize::from(descr.as_bytes()[2] - b'0');
    for number in data {
        let mut bytes = number.to_le_bytes()[..width].to_vec();
        if descr.starts_with('>') {
            bytes.reverse();
        }
        file.extend(bytes);
    }
    file
}

#[test]
fn arrays_are_read_in_every_layout() {
    assert_eq!(pairs("x.npy", &file("<u4", "False", "(2,)", &[7, 9]), None), Ok(vec![(7, 0), (9, 1)]));
    assert_eq!(pairs("x.npy", &file("<u4", "False", "(2, 1)", &[7, 9]), None), Ok(vec![(7, 0), (9, 1)]));
    assert_eq!(pairs("x.npy", &file("<u4", "False", "(0,)", &[]), None), Ok(vec![]));
    let expected = Ok(vec![(1, 2), (3, 4), (5, 6)]);
    for code in ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8"] {
        for order in ["<", ">"] {
            let descr = &format!("{order}{code}");
            let rows = file(descr, "False", "(3, 2)", &[1, 2, 3, 4, 5, 6]);
            assert_eq!(pairs("x.npy", &rows, None), expected, "{descr}");
            let columns = file(descr, "True", "(3, 2)", &[1, 3, 5, 2, 4, 6]);
            assert_eq!(pairs("x.npy", &columns, None), expected, "{descr}, column by column");
            for version in [2, 3] {
                let rows = versioned(version, descr, "False", "(3, 2)", &[1, 2, 3, 4, 5, 6]);
                assert_eq!(pairs("x.npy", &rows, None), expected, "{descr}, version {version}.0");
            }
        }
    }
    assert_eq!(pairs("x.npy", &file("|u1", "False", "(2,)", &[0, 255]), None), Ok(vec![(0, 0), (255, 1)]));
    for (descr, numbers, kind) in [
        ("<u4", &[0, 4_294_967_295][..], Type::U32),
        (">u2", &[0, 65_535], Type::U32),
        ("|i1", &[-128, 127], Type::I32),
        (">i4", &[-2_147_483_648, 5], Type::I32),
        ("<u8", &[5, 18_446_744_073_709_551_615], Type::U64),
        (">i8", &[-9_223_372_036_854_775_808, 9_223_372_036_854_775_807], Type::I64),
        ("<i8", &[1, 2], Type::I64),
    ] {
        let mut read = Pairs::default();
        let one = file(descr, "False", "(2,)", numbers);
        assert_eq!(read_with("x.npy", &one, &ReadOptions::default(), &mut read), Ok(None));
        assert_eq!(read.types(), (kind, Type::U32), "{descr}");
        assert!(zipped(&read).into_iter().eq(numbers.iter().copied().zip(0..)), "{descr}");
        for fortran in ["False", "True"] {
            let mut read = Pairs::default();
            let two = file(descr, fortran, "(1, 2)", numbers);
            assert_eq!(read_with("x.npy", &two, &ReadOptions::default(), &mut read), Ok(None));
            assert_eq!(read.types(), (kind, kind), "{descr}");
            assert_eq!(zipped(&read), [(numbers[0], numbers[1])], "{descr}");
        }
    }
}

#[test]
fn arrays_longer_than_a_piece_are_read_whole() {
    let numbers: Vec<i128> = (0..50_001).collect();
    let expected: Vec<(Number, Number)> = (0..50_001).map(|number| (number, number)).collect();
    for descr in ["<u4", ">i8"] {
        assert_eq!(pairs("x.npy", &file(descr, "False", "(50001,)", &numbers), None).as_ref(), Ok(&expected));
    }
}

#[test]
fn numbers_that_do_not_fit_are_named() {
    let options = ReadOptions { keys: Some(Type::U32), values: Some(Type::I32), ..ReadOptions::default() };
    for (descr, shape, data, part) in [
        ("<i8", "(2,)", &[5, 1 << 32][..], "row 1, the key: 4294967296 does not fit u32"),
        ("<i1", "(1,)", &[-1], "row 0, the key: -1 does not fit u32"),
        (">i8", "(1,)", &[i64::MIN.into()], "row 0, the key: -9223372036854775808 does not fit u32"),
        ("<u8", "(1, 2)", &[1, u64::MAX.into()], "row 0, the value: 18446744073709551615 does not fit i32"),
        ("<i4", "(2, 2)", &[1, 2, -3, 4], "row 1, the key: -3 does not fit u32"),
    ] {
        for fortran in ["False", "True"] {
            let data = if fortran == "True" && data.len() == 4 { &[1, -3, 2, 4] } else { data };
            let bytes = file(descr, fortran, shape, data);
            let error = read_with("x.npy", &bytes, &options, &mut Pairs::default()).expect_err(part);
            assert!(error.contains(part), "{error}");
            assert!(pairs("x.npy", &bytes, None).is_ok(), "{descr}: no type was asked for");
        }
    }
}

#[test]
fn keys_alone_are_read_of_whole_files() {
    let keys = |bytes: &[u8]| {
        let mut keys = Pairs::new(Want::Keys, false);
        let input = Input::of(bytes, "x.npy".as_ref()).map_err(|failure| failure.to_string())?;
        input.scan(&ReadOptions::default(), Want::Keys, &mut keys).map_err(|failure| failure.to_string())?;
        Ok::<_, String>(zipped(&keys).into_iter().map(|(key, _)| key).collect::<Vec<_>>())
    };
    for (fortran, data) in [("False", [1, -1, 3, -1]), ("True", [1, 3, -1, -1])] {
        let mut whole = file("<i4", fortran, "(2, 2)", &data);
        assert_eq!(keys(&whole), Ok(vec![1, 3]), "{fortran}: values may be any numbers");
        whole.pop();
        assert!(keys(&whole).is_err_and(|error| error.contains("is the file cut short")), "{fortran}");
    }
}

#[test]
fn other_arrays_are_refused() {
    for (bytes, part) in [
        (file("<f4", "False", "(1,)", &[1]), "Float32: keys are whole numbers"),
        (file("<f8", "False", "(1, 2)", &[1, 2]), "Float64: keys are whole numbers"),
        (file("<u4", "False", "(1, 3)", &[1, 2, 3]), "there are 3 columns, column_1, column_2, column_3"),
        (file("<u4", "False", "(1, 0)", &[]), "without columns"),
        (file("<u4", "False", "(0, 65537)", &[]), "up to 65536 columns"),
        (file("<u4", "False", "(1, 1, 1)", &[1]), "shape"),
        (file("<u4", "False", "()", &[1]), "shape"),
        (file("<u4", "False", "(5,)", &[1, 2]), "5 rows of 4 bytes are announced, and 8 bytes are there"),
        (file("<u8", "False", "(9223372036854775808, 2)", &[]), "is the file cut short"),
        (file("<u4", "False", "(9223372036854775807,)", &[]), "is the file cut short"),
        (file("<u4", "False", "(1152921504606846976,)", &[1]), "is the file cut short"),
        (b"\x93NUMPY\x01\x00".to_vec(), "damaged"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\xff".to_vec(), "damaged"),
    ] {
        let error = pairs("x.npy", &bytes, None).expect_err(part);
        assert!(error.contains(part), "{error}");
    }
}

/// Returns a file with an array of records.
fn records(fields: &str, count: usize, rows: &[u8]) -> Vec<u8> {
    let header = format!("{{'descr': [{fields}], 'fortran_order': False, 'shape': ({count},), }}");
    let length = (header.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), rows].concat()
}

#[test]
fn records_are_a_key_and_a_value() {
    let rows = [&[5, 0, 0, 0, 9, 0xff, 0xff][..], &[6, 0, 0, 0, 9, 2, 0]].concat();
    let padded = records("('key', '<u4'), ('', '|V1'), ('value', '<i2')", 2, &rows);
    let mut read = Pairs::default();
    assert_eq!(read_with("x.npy", &padded, &ReadOptions::default(), &mut read), Ok(None));
    assert_eq!(read.types(), (Type::U32, Type::I32));
    assert_eq!(zipped(&read), [(5, -1), (6, 2)]);
    let three = records("('key', '<u4'), ('flag', '|b1'), ('value', '<i2')", 2, &rows);
    let error = pairs("x.npy", &three, None).expect_err("three fields");
    assert!(error.contains("there are 3 columns, key, flag, value: name two by --key"), "{error}");
    let mut keys = Pairs::new(Want::Keys, false);
    let input = Input::of(&three[..], "x.npy".as_ref()).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(input.scan(&ReadOptions::default(), Want::Keys, &mut keys).is_ok());
    assert_eq!(zipped(&keys), [(5, 0), (6, 0)]);
    assert_eq!(pairs("x.npy", &records("('key', '<u4')", 1, &rows[..4]), None), Ok(vec![(5, 0)]));
    for (fields, part) in [
        ("('key', '<f8'), ('value', '<u4')", "column key is of type Float64: keys are whole"),
        ("('key', '<u4'), ('value', '|S1')", "column value is of type Utf8: values are numbers"),
        ("('key', '<u4'), ('value', '|O')", "the column value is of type |O, which is not read"),
        ("('key', '<u4'), ('value', '<u4', (2,))", "first in the field key"),
        ("('', '|V4')", "save named fields"),
        ("('key', '<u4'), ('value', '<f8')", "values of tables are integers"),
        ("('key', '<u4'), ('key', '<u4')", "two fields are called key"),
    ] {
        let error = pairs("x.npy", &records(fields, 1, &[0; 16]), None).expect_err(part);
        assert!(error.contains(part), "{error}");
    }
    let cut = records("('key', '<u4'), ('value', '<u4')", 2, &[0; 15]);
    assert!(pairs("x.npy", &cut, None).is_err_and(|error| error.contains("is the file cut short")));
}

#[test]
fn floats_are_values_where_they_are_taken() {
    let bytes = [&7u64.to_le_bytes()[..], &0.25f32.to_le_bytes()].concat();
    let floats = records("('key', '<u8'), ('value', '<f4')", 1, &bytes);
    for (values, expected) in
        [(None, Ok(())), (Some(Type::F64), Ok(())), (Some(Type::I64), Err("--values is an integer type"))]
    {
        let mut read = Pairs::default();
        let outcome = read_with("x.npy", &floats, &ReadOptions::default().with_any_values(values), &mut read);
        match expected {
            Ok(()) => {
                assert_eq!((outcome, read.types().1), (Ok(None), Type::F64));
                assert_eq!(zipped(&read), [(7, 0.25f64.to_bits().into())]);
            }
            Err(part) => assert!(outcome.is_err_and(|error| error.contains(part))),
        }
    }
    // Integers are converted to doubles if the type of a column is f64, row numbers too.
    let doubles = ReadOptions::default().with_any_values(Some(Type::F64));
    let two = file("<i8", "False", "(2, 2)", &[1, -3, 2, (1 << 53) + 1]);
    let keys = file("<i8", "False", "(2,)", &[1, 2]);
    for (file, expected) in [(two, [-3.0, 9_007_199_254_740_992.0]), (keys, [0.0, 1.0])] {
        let mut read = Pairs::default();
        assert_eq!(read_with("x.npy", &file, &doubles, &mut read), Ok(None));
        let values: Vec<f64> = zipped(&read).into_iter().map(|(_, bits)| f64::from_bits(bits as u64)).collect();
        assert_eq!((read.types().1, &values[..]), (Type::F64, &expected[..]));
    }
}
