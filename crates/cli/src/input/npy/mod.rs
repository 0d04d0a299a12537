//! NumPy's `.npy`: arrays of numbers, of shape (n,) or (n, 2), and of records.
//!
//! ```text
//! shape (n,)          keys
//! shape (n, 2)        keys and values, of one type
//! records, (n,)       keys, the first field; values, the second one, of another type or the same
//! ```
//!
//! Whole numbers of every width and either byte order are read, and values of records may be floats where the command takes
//! those; the array's type is the column's. What a header claims is believed of nothing but the meaning of the bytes: rows
//! are read in pieces, as far as they are there.

pub(crate) mod header;
mod scalar;

use std::io::{self, BufRead, Read};

use header::{Element, Header};
use scalar::{Scalar, width_of};

use super::{Batch, Name, Named, ReadOptions, Want};
use crate::failure::{Failure, Result};
use crate::number::{Number, Numbers, Type};

/// Bytes that are read at a time, rounded down to whole rows. No row has more.
const PIECE: usize = 1 << 16;

/// Reads an array into a sink.
pub(super) fn read(
    mut reader: impl BufRead,
    name: &Name,
    options: &ReadOptions,
    want: Want,
    sink: &mut Batch<'_>,
) -> Result<()> {
    let header =
        header::read(&mut reader).map_err(|reason| name.fail(format!("the .npy header is damaged: {reason}")))?;
    let (count, row) = Row::of(&header, want).map_err(|reason| name.fail(reason))?;
    if count.checked_mul(row.width as u64).is_none() {
        let shape = header.shape;
        return Err(name.fail(format!("the .npy header is damaged: no file holds an array of shape {shape:?}")));
    }
    // Numbers of rows, and values that nobody wants, are of no type that the file says.
    let value = row.value.filter(|_| want == Want::Pairs);
    let values = match value {
        None => Some(Type::U32),
        Some(field) => Some(type_of_values(field.scalar, options).map_err(|reason| name.fail(reason))?),
    };
    sink.begin(name, Named::of(options, Named { keys: Some(row.key.scalar.kind()), values, kmers: None }))?;
    let bad = |place: String, reason: String| name.fail(format!("{place}: {reason}"));
    let what = |of: &str| if row.value.is_some() { format!(", the {of}") } else { String::new() };
    let admitted_key = |number: Admission, at| number.map_err(|reason| bad(format!("row {at}{}", what("key")), reason));
    let admitted_value =
        |number: Admission, at| number.map_err(|reason| bad(format!("row {at}{}", what("value")), reason));
    if !(row.is_split && row.value.is_some()) {
        let mut rows = Rows::new(reader, name, count, row.width, "row");
        for at in 0..count {
            let bytes = rows.next()?;
            let key = admitted_key(sink.admit_key(row.key.number(bytes)), at)?;
            let value = match value {
                // Bits, whatever they are.
                Some(field) if !field.scalar.is_whole() => field.number(bytes),
                Some(field) => admitted_value(sink.admit_value(field.number(bytes)), at)?,
                None if want == Want::Pairs => {
                    sink.row_number().map_err(|reason| bad(format!("row {at}, its number"), reason))?
                }
                None => 0,
            };
            sink.push(key, value)?;
        }
        return Ok(());
    }
    // All keys come first, then all values; those that nobody wants must be there all the same.
    let scalar = row.key.scalar;
    let mut numbers = Rows::new(reader, name, 2 * count, scalar.width, "number");
    if want == Want::Keys {
        for at in 0..count {
            let key = admitted_key(sink.admit_key(scalar.decode(numbers.next()?)), at)?;
            sink.push(key, 0)?;
        }
        return (0..count).try_for_each(|_| numbers.next().map(|_| ()));
    }
    let mut keys = Numbers::default();
    keys.begin(Some(scalar.kind()));
    for at in 0..count {
        keys.append(&[admitted_key(sink.admit_key(scalar.decode(numbers.next()?)), at)?])?;
    }
    for (at, key) in (0..count).zip(keys.iter()) {
        let value = admitted_value(sink.admit_value(scalar.decode(numbers.next()?)), at)?;
        sink.push(key, value)?;
    }
    Ok(())
}

/// A number that may stand in its column, or why not.
type Admission = std::result::Result<Number, String>;

/// What a file says of its values.
fn type_of_values(scalar: Scalar, options: &ReadOptions) -> std::result::Result<Type, String> {
    match (scalar.kind(), options.values) {
        (Type::F64, _) if !options.doubles => {
            let advice = "check that all are whole, then save them as numpy.int64";
            Err(format!("the values are floats, not integers: {advice}"))
        }
        (Type::F64, Some(named)) if named != Type::F64 => {
            let advice = "omit it to read them as doubles";
            Err(format!("the values are floats, and --values {} is an integer type: {advice}", named.name()))
        }
        (kind, _) => Ok(kind),
    }
}

/// Where the numbers of a row stand.
struct Row {
    /// Bytes from row to row.
    width: usize,
    key: Field,
    value: Option<Field>,
    /// All keys stand before all values.
    is_split: bool,
}

/// A number of a row.
#[derive(Clone, Copy)]
struct Field {
    at: usize,
    scalar: Scalar,
}

impl Field {
    fn number(self, row: &[u8]) -> Number {
        self.scalar.decode(&row[self.at..])
    }
}

impl Row {
    /// How many rows there are, and what each is.
    fn of(header: &Header, want: Want) -> std::result::Result<(u64, Row), String> {
        let shape = &header.shape[..];
        let of_shape = |allowed: &str| format!("the array has shape {shape:?}: give {allowed}");
        match &header.element {
            Element::Nested(field) if field.is_empty() => {
                Err("the array holds records, not integers: save an array of keys".into())
            }
            Element::Nested(field) => {
                Err(format!("the array holds records, not integers: save one field, like `array['{field}']`"))
            }
            Element::Record(fields) => match *shape {
                [count] => Ok((count, Row::of_fields(fields, want)?)),
                _ => Err(of_shape("(n,) for records of a key and a value")),
            },
            Element::Plain(code) => {
                let key = Field { at: 0, scalar: key_of(code)? };
                let width = key.scalar.width;
                let row = Row { width, key, value: None, is_split: header.fortran_order };
                match *shape {
                    [count] | [count, 1] => Ok((count, row)),
                    [count, 2] => Ok((count, Row { width: 2 * width, value: Some(Field { at: width, ..key }), ..row })),
                    _ => Err(of_shape("(n,) for keys or (n, 2) for pairs")),
                }
            }
        }
    }

    /// A record of a key and perhaps a value. Fields without a name are room between others.
    fn of_fields(fields: &[(String, String)], want: Want) -> std::result::Result<Row, String> {
        let mut named = Vec::new();
        let mut width = 0;
        for (name, code) in fields {
            if !name.is_empty() {
                named.push((name, code, width));
            }
            width += width_of(code)
                .ok_or_else(|| format!("the field '{name}' holds '{code}', which has no width: remove it"))?;
            if width > PIECE {
                return Err(format!("a record has more than {PIECE} bytes: save fewer fields"));
            }
        }
        let Some(&(_, code, at)) = named.first() else {
            return Err("the array holds records without fields: save an array of keys".into());
        };
        let key = Field { at, scalar: key_of(code)? };
        let value = match named[..] {
            [_] => None,
            _ if want == Want::Keys => None,
            [_, (name, code, at)] => {
                let scalar =
                    Scalar::of(code).ok_or_else(|| format!("the field '{name}' holds '{code}' and no numbers"))?;
                Some(Field { at, scalar })
            }
            _ => {
                let (key, value) = (named[0].0, named[1].0);
                let advice = format!("save a key and a value, like `array[['{key}', '{value}']]`");
                return Err(format!("the array holds records of {} fields: {advice}", named.len()));
            }
        };
        Ok(Row { width, key, value, is_split: false })
    }
}

/// The type of keys, which are whole numbers.
fn key_of(code: &str) -> std::result::Result<Scalar, String> {
    Scalar::of(code).filter(|scalar| scalar.is_whole()).ok_or_else(|| {
        let advice = "check that all are whole, then save `array.astype(numpy.int64)`";
        format!("the array holds '{code}', not integers: {advice}")
    })
}

/// The rows of an array, or the numbers of one that is split.
struct Rows<'a, R> {
    reader: R,
    name: &'a Name,
    /// Bytes of each.
    width: usize,
    /// How many have not been read, and what they are.
    left: u64,
    unit: &'static str,
    /// Bytes of whole ones, of which those before `at` have been read.
    piece: Vec<u8>,
    at: usize,
}

impl<'a, R: BufRead> Rows<'a, R> {
    fn new(reader: R, name: &'a Name, left: u64, width: usize, unit: &'static str) -> Self {
        Rows { reader, name, width, left, unit, piece: Vec::new(), at: 0 }
    }

    /// The next one's bytes.
    fn next(&mut self) -> Result<&[u8]> {
        if self.at == self.piece.len() {
            self.refill().map_err(|error| self.failed(&error))?;
        }
        let start = self.at;
        self.at += self.width;
        self.left -= 1;
        Ok(&self.piece[start..self.at])
    }

    /// Reads some more, at least one.
    fn refill(&mut self) -> io::Result<()> {
        let whole = (PIECE / self.width).max(1) as u64;
        let bytes = self.left.min(whole) * self.width as u64;
        self.piece.clear();
        self.at = 0;
        (&mut self.reader).take(bytes).read_to_end(&mut self.piece)?;
        self.piece.truncate(self.piece.len() - self.piece.len() % self.width);
        if self.piece.is_empty() { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }

    fn failed(&self, error: &io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                let (left, unit) = (self.left, self.unit);
                let missing = if left == 1 { format!("1 {unit} is") } else { format!("{left} {unit}s are") };
                self.name.fail(format!("the file ends too early: {missing} missing"))
            }
            _ => self.name.io(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{pairs, read_with, zipped};
    use super::super::{Input, Pairs, ReadOptions, Want};
    use crate::number::{Number, Numbers, Type};

    /// An array's file: `data` are its elements, each in as many bytes as the type has.
    fn file(descr: &str, fortran: &str, shape: &str, data: &[i128]) -> Vec<u8> {
        versioned(1, descr, fortran, shape, data)
    }

    /// The same, with the header of a version.
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
            assert_eq!((read.keys.kind(), read.values.kind()), (kind, Type::U32), "{descr}");
            assert!(read.keys.iter().eq(numbers.iter().copied()) && read.values.iter().eq([0, 1]), "{descr}");
            for fortran in ["False", "True"] {
                let mut read = Pairs::default();
                let two = file(descr, fortran, "(1, 2)", numbers);
                assert_eq!(read_with("x.npy", &two, &ReadOptions::default(), &mut read), Ok(None));
                assert_eq!((read.keys.kind(), read.values.kind()), (kind, kind), "{descr}");
                assert_eq!((read.keys.number(0), read.values.number(0)), (numbers[0], numbers[1]), "{descr}");
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
            ("<i8", "(2,)", &[5, 1 << 32][..], "row 1: 4294967296 does not fit u32"),
            ("<i1", "(1,)", &[-1], "row 0: -1 does not fit u32"),
            (">i8", "(1,)", &[i64::MIN.into()], "row 0: -9223372036854775808 does not fit u32"),
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
            let mut keys = Numbers::default();
            let input = Input::of(bytes, "x.npy".as_ref()).map_err(|failure| failure.to_string())?;
            input.scan(&ReadOptions::default(), Want::Keys, &mut keys).map_err(|failure| failure.to_string())?;
            Ok::<_, String>(keys.iter().collect::<Vec<_>>())
        };
        for (fortran, data) in [("False", [1, -1, 3, -1]), ("True", [1, 3, -1, -1])] {
            let mut whole = file("<i4", fortran, "(2, 2)", &data);
            assert_eq!(keys(&whole), Ok(vec![1, 3]), "{fortran}: values may be any numbers");
            whole.pop();
            assert!(keys(&whole).is_err_and(|error| error.contains("is missing")), "{fortran}");
        }
    }

    #[test]
    fn other_arrays_are_refused() {
        for (bytes, part) in [
            (file("<f4", "False", "(1,)", &[1]), "'<f4', not integers"),
            (file("<f8", "False", "(1, 2)", &[1, 2]), "'<f8', not integers"),
            (file("|b1", "False", "(1,)", &[1]), "'|b1', not integers"),
            (file("<u4", "False", "(1, 3)", &[1, 2, 3]), "shape"),
            (file("<u4", "False", "()", &[1]), "shape"),
            (file("<u4", "False", "(5,)", &[1, 2]), "3 rows are missing"),
            (file("<u8", "False", "(9223372036854775808, 2)", &[]), "no file holds"),
            (file("<u4", "False", "(9223372036854775807,)", &[]), "no file holds"),
            (file("<u4", "False", "(1152921504606846976,)", &[1]), "1152921504606846975 rows are missing"),
            (b"\x93NUMPY\x01\x00".to_vec(), "damaged"),
            (b"\x93NUMPY\x02\x00\xff\xff\xff\xff".to_vec(), "damaged"),
        ] {
            let error = pairs("x.npy", &bytes, None).expect_err(part);
            assert!(error.contains(part), "{error}");
        }
        let mut cut = file("<u4", "False", "(2,)", &[1, 2]);
        cut.pop();
        let mut read = Pairs::default();
        let error = read_with("x.npy", &cut, &ReadOptions::default(), &mut read).expect_err("half an element");
        assert!(error.contains("is missing") && read.keys.iter().eq([1]), "{error}");
    }

    /// An array of records.
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
        assert_eq!((read.keys.kind(), read.values.kind()), (Type::U32, Type::I32));
        assert_eq!(zipped(&read), [(5, -1), (6, 2)]);
        let three = records("('key', '<u4'), ('flag', '|b1'), ('value', '<i2')", 2, &rows);
        let error = pairs("x.npy", &three, None).expect_err("three fields");
        assert!(error.contains("records of 3 fields") && error.contains("array[['key', 'flag']]"), "{error}");
        let mut keys = Numbers::default();
        let input = Input::of(&three[..], "x.npy".as_ref()).unwrap_or_else(|failure| panic!("{failure}"));
        assert!(input.scan(&ReadOptions::default(), Want::Keys, &mut keys).is_ok() && keys.iter().eq([5, 6]));
        assert_eq!(pairs("x.npy", &records("('key', '<u4')", 1, &rows[..4]), None), Ok(vec![(5, 0)]));
        for (fields, part) in [
            ("('key', '<f8'), ('value', '<u4')", "'<f8', not integers"),
            ("('key', '<u4'), ('value', '|b1')", "'value' holds '|b1' and no numbers"),
            ("('key', '<u4'), ('value', '|O')", "'value' holds '|O', which has no width"),
            ("('key', '<u4'), ('value', '<u4', (2,))", "array['key']"),
            ("('', '|V4')", "without fields"),
            ("('key', '<u4'), ('value', '<f8')", "floats, not integers"),
            ("('key', '<u4'), ('', '|V65535'), ('value', '<u4')", "more than 65536 bytes"),
        ] {
            let error = pairs("x.npy", &records(fields, 1, &[0; 16]), None).expect_err(part);
            assert!(error.contains(part), "{error}");
        }
        let cut = records("('key', '<u4'), ('value', '<u4')", 2, &[0; 15]);
        assert!(pairs("x.npy", &cut, None).is_err_and(|error| error.contains("1 row is missing")));
    }

    #[test]
    fn floats_are_values_where_they_are_taken() {
        let bytes = [&7u64.to_le_bytes()[..], &0.25f32.to_le_bytes()].concat();
        let floats = records("('key', '<u8'), ('value', '<f4')", 1, &bytes);
        for (values, expected) in
            [(None, Ok(())), (Some(Type::F64), Ok(())), (Some(Type::I64), Err("--values i64 is an integer type"))]
        {
            let mut read = Pairs::default();
            let outcome = read_with("x.npy", &floats, &ReadOptions::default().with_any_values(values), &mut read);
            match expected {
                Ok(()) => {
                    assert_eq!((outcome, read.values.kind()), (Ok(None), Type::F64));
                    assert_eq!(zipped(&read), [(7, 0.25f64.to_bits().into())]);
                }
                Err(part) => assert!(outcome.is_err_and(|error| error.contains(part))),
            }
        }
        // Whole numbers become doubles where that is asked for, also numbers of rows.
        let doubles = ReadOptions::default().with_any_values(Some(Type::F64));
        let two = file("<i8", "False", "(2, 2)", &[1, -3, 2, (1 << 53) + 1]);
        let keys = file("<i8", "False", "(2,)", &[1, 2]);
        for (file, expected) in [(two, [-3.0, 9_007_199_254_740_992.0]), (keys, [0.0, 1.0])] {
            let mut read = Pairs::default();
            assert_eq!(read_with("x.npy", &file, &doubles, &mut read), Ok(None));
            let values: Vec<f64> = read.values.iter().map(|bits| f64::from_bits(bits as u64)).collect();
            assert_eq!((read.values.kind(), &values[..]), (Type::F64, &expected[..]));
        }
    }
}
