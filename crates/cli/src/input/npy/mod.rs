//! NumPy's `.npy`: arrays of whole numbers, of shape (n,) or (n, 2).
//!
//! Integers of every width and either byte order are read, and the array's type is the column's. What a header claims is believed of nothing but the meaning of the bytes: elements are read in pieces, as far as they are
//! there.

mod header;

use std::io::{self, BufRead, Read};

use header::{Element, Header};

use super::{Batch, Name, Named, ReadOptions, Want};
use crate::failure::{Failure, Result};
use crate::number::{Number, Numbers, Type};

/// Bytes that are read at a time: a whole number of elements of any width.
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
    let integer = Integer::of(&header.element).map_err(|reason| name.fail(reason))?;
    let Header { shape, fortran_order, .. } = header;
    let (rows, columns) = match shape[..] {
        [rows] => (rows, 1),
        [rows, columns @ 1..=2] => (rows, columns),
        _ => return Err(name.fail(format!("the array has shape {shape:?}: give (n,) for keys or (n, 2) for pairs"))),
    };
    let left = rows.checked_mul(columns).filter(|count| count.checked_mul(integer.width as u64).is_some());
    let Some(left) = left else {
        return Err(name.fail(format!("the .npy header is damaged: no file holds an array of shape {shape:?}")));
    };
    let kind = Some(integer.kind());
    // The numbers of rows are nobody's type, and so are values that nobody wants.
    let values = if columns == 1 || want == Want::Keys { Some(Type::U32) } else { kind };
    sink.begin(name, Named::of(options, Named { keys: kind, values }))?;
    let bad = |place: String, reason: String| name.fail(format!("{place}: {reason}"));
    let mut elements = Elements { reader, name, integer, left, piece: Vec::new(), at: 0 };
    let key = |number: Admission, row| number.map_err(|reason| bad(format!("row {row}, the key"), reason));
    let value = |number: Admission, row| number.map_err(|reason| bad(format!("row {row}, the value"), reason));
    match (columns, want) {
        (1, _) => {
            for row in 0..rows {
                let key = sink.admit_key(elements.next()?).map_err(|reason| bad(format!("row {row}"), reason))?;
                let value = if want == Want::Pairs { sink.row_number() } else { sink.admit_value(0) };
                let value = value.map_err(|reason| bad(format!("row {row}, its number"), reason))?;
                sink.push(key, value)?;
            }
        }
        _ if !fortran_order => {
            for row in 0..rows {
                let key = key(sink.admit_key(elements.next()?), row)?;
                // A value that nobody wants may be any number.
                let value = match (elements.next()?, want) {
                    (number, Want::Pairs) => value(sink.admit_value(number), row)?,
                    (_, Want::Keys) => 0,
                };
                sink.push(key, value)?;
            }
        }
        // All keys come first, then all values; those that nobody wants must be there all the same.
        (_, Want::Keys) => {
            for row in 0..rows {
                let key = key(sink.admit_key(elements.next()?), row)?;
                sink.push(key, 0)?;
            }
            for _ in 0..rows {
                elements.next()?;
            }
        }
        (_, Want::Pairs) => {
            let mut keys = Numbers::default();
            keys.begin(kind);
            for row in 0..rows {
                keys.append(&[key(sink.admit_key(elements.next()?), row)?])?;
            }
            for (row, key) in (0..rows).zip(keys.iter()) {
                let value = value(sink.admit_value(elements.next()?), row)?;
                sink.push(key, value)?;
            }
        }
    }
    Ok(())
}

/// A number that may stand in its column, or why not.
type Admission = std::result::Result<Number, String>;

/// A type of whole numbers.
#[derive(Clone, Copy)]
struct Integer {
    /// Bytes: 1, 2, 4 or 8.
    width: usize,
    signed: bool,
    big_endian: bool,
}

impl Integer {
    /// The type of an element, if it is one.
    fn of(element: &Element) -> std::result::Result<Integer, String> {
        let code = match element {
            Element::Record(field) if field.is_empty() => {
                return Err("the array holds records and no whole numbers: save an array of keys".into());
            }
            Element::Record(field) => {
                return Err(format!(
                    "the array holds records and no whole numbers: save one field, like `array['{field}']`"
                ));
            }
            Element::Plain(code) => code,
        };
        let (signed, big_endian) = match code.as_bytes() {
            [order @ (b'<' | b'>' | b'|' | b'='), sign @ (b'i' | b'u'), b'1' | b'2' | b'4' | b'8'] => {
                let big_endian = if *order == b'=' { cfg!(target_endian = "big") } else { *order == b'>' };
                (*sign == b'i', big_endian)
            }
            _ => {
                let advice = "check that all are whole, then save `array.astype(numpy.int64)`";
                return Err(format!("the array holds '{code}' and no whole numbers: {advice}"));
            }
        };
        Ok(Integer { width: usize::from(code.as_bytes()[2] - b'0'), signed, big_endian })
    }

    /// The narrowest type of a column that holds all numbers of this one.
    fn kind(self) -> Type {
        Type::new(8 * self.width as u32, self.signed)
    }

    /// A number of this type.
    fn decode(self, bytes: &[u8]) -> Number {
        let mut wide = [0; 8];
        wide[..self.width].copy_from_slice(bytes);
        if self.big_endian {
            wide[..self.width].reverse();
        }
        let number = u64::from_le_bytes(wide);
        let unused = 64 - 8 * self.width as u32;
        // Shifted to the top and back, a negative number gets its sign.
        if self.signed { ((number << unused) as i64 >> unused).into() } else { number.into() }
    }
}

/// The elements of an array.
struct Elements<'a, R> {
    reader: R,
    name: &'a Name,
    integer: Integer,
    /// How many have not been read.
    left: u64,
    /// Bytes of whole elements, of which those before `at` have been read.
    piece: Vec<u8>,
    at: usize,
}

impl<R: BufRead> Elements<'_, R> {
    /// The next one.
    fn next(&mut self) -> Result<Number> {
        if self.at == self.piece.len() {
            self.refill().map_err(|error| self.failed(&error))?;
        }
        let end = self.at + self.integer.width;
        let number = self.integer.decode(&self.piece[self.at..end]);
        self.at = end;
        self.left -= 1;
        Ok(number)
    }

    /// Reads some more elements, at least one.
    fn refill(&mut self) -> io::Result<()> {
        let width = self.integer.width as u64;
        let bytes = (self.left.saturating_mul(width)).min(PIECE as u64);
        self.piece.clear();
        self.at = 0;
        (&mut self.reader).take(bytes).read_to_end(&mut self.piece)?;
        self.piece.truncate(self.piece.len() - self.piece.len() % self.integer.width);
        if self.piece.is_empty() { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }

    fn failed(&self, error: &io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                let elements = if self.left == 1 { "element is" } else { "elements are" };
                self.name.fail(format!("the file ends too early: {} {elements} missing", self.left))
            }
            _ => self.name.io(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{pairs, read_with};
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
            ("<i8", "(2,)", &[5, 1 << 32][..], "row 1: 4294967296 is no u32"),
            ("<i1", "(1,)", &[-1], "row 0: -1 is no u32"),
            (">i8", "(1,)", &[i64::MIN.into()], "row 0: -9223372036854775808 is no u32"),
            ("<u8", "(1, 2)", &[1, u64::MAX.into()], "row 0, the value: 18446744073709551615 is no i32"),
            ("<i4", "(2, 2)", &[1, 2, -3, 4], "row 1, the key: -3 is no u32"),
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
            assert!(keys(&whole).is_err_and(|error| error.contains("1 element is missing")), "{fortran}");
        }
    }

    #[test]
    fn other_arrays_are_refused() {
        for (bytes, part) in [
            (file("<f4", "False", "(1,)", &[1]), "'<f4' and no whole numbers"),
            (file("|b1", "False", "(1,)", &[1]), "'|b1' and no whole numbers"),
            (file("<u4", "False", "(1, 3)", &[1, 2, 3]), "shape"),
            (file("<u4", "False", "()", &[1]), "shape"),
            (file("<u4", "False", "(5,)", &[1, 2]), "3 elements are missing"),
            (file("<u8", "False", "(9223372036854775808, 2)", &[]), "no file holds"),
            (file("<u4", "False", "(9223372036854775807,)", &[]), "no file holds"),
            (file("<u4", "False", "(1152921504606846976,)", &[1]), "1152921504606846975 elements are missing"),
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
        assert!(error.contains("1 element is missing") && read.keys.iter().eq([1]), "{error}");
        let header = b"{'descr': [('key', '<u4'), ('value', '<u4')], 'fortran_order': False, 'shape': (1,), }";
        let mut whole = b"\x93NUMPY\x01\x00".to_vec();
        whole.extend((header.len() as u16).to_le_bytes());
        whole.extend(header);
        assert!(pairs("x.npy", &whole, None).is_err_and(|error| error.contains("array['key']")));
    }
}
