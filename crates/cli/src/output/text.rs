//! Rows as lines of text.

use std::io::Write;

use super::{Column, Number, Places, Result, Shown, letters};

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
                number(line, offset.into());
            }
            (Column::Place, ..) => line.push(delimiter),
            (Column::Of(_, Shown::Letters(k)) | Column::Maybe(_, _, Shown::Letters(k)), Some(kmer), _) => {
                line.extend(letters(kmer, k)?);
            }
            (_, Some(cell), _) => number(line, cell),
            (_, None, _) => {}
        }
    }
    line.push(b'\n');
    Ok(())
}

/// A number in digits.
fn number(line: &mut Vec<u8>, number: Number) {
    // Numbers of 128 bits are written slowly. Writing to memory does not fail.
    let _ = match u64::try_from(number) {
        Ok(number) => write!(line, "{number}"),
        Err(_) => write!(line, "{number}"),
    };
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
