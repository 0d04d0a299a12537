//! Rows as lines of text.

use std::io::Write;

use crate::number::digits;

use super::{Column, Number, Places, Result, Shown, Type, letters};

/// A line, empty where there is no number.
pub(super) fn fill<C: Copy + Into<Option<Number>>>(
    line: &mut Vec<u8>,
    columns: &[Column],
    delimiter: char,
    cells: &[C],
    places: Option<&Places>,
) -> Result<()> {
    // One byte: a comma or a tab.
    let delimiter = delimiter as u8;
    for (i, &column) in columns.iter().enumerate() {
        if i > 0 {
            line.push(delimiter);
        }
        let cell = cells.get(i).copied().and_then(Into::into);
        match (column, cell, places) {
            (Column::Place, Some(place), Some(places)) => {
                let (record, offset) = places.at(place)?;
                field(line, record, delimiter);
                line.push(delimiter);
                whole(line, offset.into());
            }
            (Column::Place, ..) => line.push(delimiter),
            (Column::Of(_, Shown::Letters(k)) | Column::Maybe(_, _, Shown::Letters(k)), Some(kmer), _) => {
                line.extend(letters(kmer, k)?);
            }
            (
                Column::Of(_, Shown::Number(Type::F64)) | Column::Maybe(_, _, Shown::Number(Type::F64)),
                Some(bits),
                _,
            ) => {
                double(line, f64::from_bits(bits as u64));
            }
            (_, Some(cell), _) => whole(line, cell),
            (_, None, _) => {}
        }
    }
    line.push(b'\n');
    Ok(())
}

/// A double in the fewest digits that are read as the same one. Writing to memory does not fail.
fn double(line: &mut Vec<u8>, number: f64) {
    let _ = write!(line, "{number:?}");
}

/// A whole number in digits.
fn whole(line: &mut Vec<u8>, number: Number) {
    if number < 0 {
        line.push(b'-');
    }
    match u64::try_from(number.unsigned_abs()) {
        Ok(number) => digits::write(number, line),
        // Writing to memory does not fail.
        Err(_) => drop(write!(line, "{}", number.unsigned_abs())),
    }
}

/// A field of any bytes, in quotes where it would be taken for something else without.
fn field(line: &mut Vec<u8>, text: &[u8], delimiter: u8) {
    if !text.iter().any(|&byte| byte == delimiter || byte == b'"') {
        line.extend(text);
        return;
    }
    line.push(b'"');
    for &byte in text {
        line.extend(std::iter::repeat_n(byte, if byte == b'"' { 2 } else { 1 }));
    }
    line.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_are_read_as_they_were() {
        for (number, expected) in [
            (0.1, "0.1"),
            (-3.0, "-3.0"),
            (1e300, "1e300"),
            (f64::MIN_POSITIVE, "2.2250738585072014e-308"),
            (f64::NAN, "NaN"),
        ] {
            let (mut line, columns) = (Vec::new(), [Column::of("sum", Type::F64)]);
            fill(&mut line, &columns, ',', &[Number::from(number.to_bits())], None)
                .unwrap_or_else(|failure| panic!("{failure}"));
            assert_eq!(String::from_utf8_lossy(&line), format!("{expected}\n"));
        }
    }

    #[test]
    fn fields_are_quoted_where_they_must_be() {
        for (text, delimiter, expected) in [
            ("chr1", b',', "chr1"),
            ("a,b", b',', "\"a,b\""),
            ("a,b", b'\t', "a,b"),
            ("say \"x\"", b'\t', "\"say \"\"x\"\"\""),
            ("", b',', ""),
        ] {
            let mut line = Vec::new();
            field(&mut line, text.as_bytes(), delimiter);
            assert_eq!(String::from_utf8_lossy(&line), expected);
        }
    }
}
