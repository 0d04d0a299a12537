//! CSV and TSV: `key,value`, or keys alone, whose values are then the numbers of their rows, from 0.

use std::io::Read;

use super::{Name, Sink, Want};
use crate::failure::{Failure, Result};

/// Reads rows into a sink. The first row is a header if no field of it looks like a number.
pub(super) fn read(reader: impl Read, name: &Name, delimiter: u8, want: Want, sink: &mut impl Sink) -> Result<()> {
    let mut rows = csv::ReaderBuilder::new()
        .delimiter(delimiter)
        .has_headers(false)
        .flexible(true)
        // A carriage return is blank space like any other, and goes with the trimming.
        .terminator(csv::Terminator::Any(b'\n'))
        .trim(csv::Trim::All)
        .from_reader(reader.chain(&b"\n"[..]));
    let mut row = csv::ByteRecord::new();
    let mut columns = None;
    let mut index = 0u64;
    while rows.read_byte_record(&mut row).map_err(|error| name.fail(error))? {
        // The reader stands behind this row's line break. (The row's own position is before the empty lines above it.)
        let line = rows.position().line() - 1;
        // Blank space alone is no row; separators are one, of which something is missing.
        if row.len() == 1 && row[0].is_empty() {
            continue;
        }
        let is_first = columns.is_none();
        let header = is_first && !row.iter().any(looks_numeric) && !row.iter().all(<[u8]>::is_empty);
        let expected = *columns.get_or_insert(row.len());
        if row.len() != expected {
            let advice = "every row must have as many columns as the first";
            return Err(name.at(line, format!("there are {} columns and not {expected}: {advice}", row.len())));
        }
        if expected > 2 && want == Want::Pairs {
            let cut =
                format!("give key and value, e.g. `cut -d{} -f1,2`", if delimiter == b',' { "," } else { "$'\\t'" });
            return Err(name.at(line, format!("there are {expected} columns: {cut}")));
        }
        if header {
            continue;
        }
        let key = number(&row[0]).map_err(|mut reason| {
            if is_first && !looks_numeric(&row[0]) {
                reason += "; if this row is a header, whose fields must not look like numbers, remove it";
            }
            field(name, line, "key", &reason)
        })?;
        let value = match want {
            Want::Keys => 0,
            Want::Pairs if expected == 2 => number(&row[1]).map_err(|reason| field(name, line, "value", &reason))?,
            Want::Pairs => u32::try_from(index).map_err(|_| name.at(line, "there are more than 4294967296 rows"))?,
        };
        sink.push(key, value)?;
        index += 1;
    }
    Ok(())
}

/// Whether a field is meant as a number, be it a legal one or not.
fn looks_numeric(field: &[u8]) -> bool {
    matches!(field.first(), Some(b'0'..=b'9' | b'-' | b'+' | b'.'))
}

fn field(name: &Name, line: u64, which: &str, reason: &str) -> Failure {
    name.at(line, format!("the {which} {reason}"))
}

/// A whole number of 32 bits.
fn number(field: &[u8]) -> std::result::Result<u32, String> {
    let digits_only = !field.is_empty() && field.iter().all(u8::is_ascii_digit);
    let parsed = std::str::from_utf8(field).ok().filter(|_| digits_only).and_then(|digits| digits.parse().ok());
    parsed.ok_or_else(|| {
        const LONGEST: usize = 40;
        let shown = String::from_utf8_lossy(&field[..field.len().min(LONGEST)]);
        match field {
            [] => "is missing".into(),
            _ if digits_only => format!("{shown} is above 4294967295: keys and values have 32 bits"),
            _ => format!("`{shown}` is no whole number from 0 to 4294967295 (columns are separated by commas or tabs)"),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::pairs;

    #[test]
    fn rows_are_read_with_and_without_header() {
        let expected = Ok(vec![(5, 1), (0, u32::MAX)]);
        for text in ["5,1\n0,4294967295\n", "key,value\n5,1\n0,4294967295", "\"5\", 1\r\n\r\n 0 ,4294967295\r\n"] {
            assert_eq!(pairs("x.csv", text.as_bytes(), None), expected, "{text:?}");
        }
        assert_eq!(pairs("x.csv", b"id\n7\n7\n9\n", None), Ok(vec![(7, 0), (7, 1), (9, 2)]));
        assert_eq!(pairs("x.csv", b"", None), Ok(vec![]));
        assert_eq!(pairs("x.csv", b"key,value\n", None), Ok(vec![]));
    }

    #[test]
    fn errors_name_the_line() {
        for (text, line, part) in [
            (&b"1,2\n4294967296,1\n"[..], 2, "above"),
            (b"1,2\n3,-1\n", 2, "`-1`"),
            (b"k,v\n1,2\n\n3,\n", 4, "missing"),
            (b"k,v\r\n\r\n1,2\r\n3,", 4, "missing"),
            (b"1,2\r3,4\r", 1, "columns"),
            (b"1,2\n3\n", 2, "columns"),
            (b"a,b,c\n", 1, "3 columns"),
            (b"1;2\n", 1, "commas"),
            (b"x,1\n", 1, "`x`"),
            (b"year,2020\n1,2\n", 1, "header"),
            (b"1,2\n,\n3,4\n", 2, "missing"),
            (b",\n3,4\n", 1, "missing"),
            (b"1,2\n\xff\xfe,1\n", 2, "no whole number"),
            (b"1.5,2\n", 1, "`1.5`"),
        ] {
            let error = pairs("x.csv", text, None).expect_err("an error");
            assert!(error.starts_with(&format!("x.csv, line {line}: ")) && error.contains(part), "{error}");
        }
    }
}
