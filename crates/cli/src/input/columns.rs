//! CSV and TSV: `key,value`, or keys alone, whose values are then the numbers of their rows, from 0.
//!
//! Keys are whole numbers; queries of a table of k-mers may be letters as well. Values are whole numbers, or doubles where
//! that is asked for.

use std::io::BufRead;

use super::records::{Record, Records};
use super::{Batch, Header, Name, Named, ReadOptions, Want, letters};
use crate::failure::Result;
use crate::number::{Number, Span, Type};

/// Reads rows into a sink.
pub(super) fn read(
    reader: impl BufRead,
    name: &Name,
    delimiter: u8,
    options: &ReadOptions,
    want: Want,
    sink: &mut Batch<'_>,
) -> Result<()> {
    let header = options.header.unwrap_or_default();
    let k = options.k_of_text();
    sink.begin(name, Named::of(options, Named::default()))?;
    let mut rows = Records::new(reader, delimiter)?;
    let mut columns = None;
    // The line of a first row that is a header if others follow.
    let mut supposed = None;
    while let Some(row) = rows.next(name)? {
        // Blank space alone is no row; separators are one, of which something is missing.
        if row.len() == 1 && row.field(0).is_empty() {
            continue;
        }
        let is_first = columns.is_none();
        let expected = *columns.get_or_insert(row.len());
        if row.len() != expected {
            let advice = "every row must have as many columns as the first";
            return Err(name.at(row.line(0), format!("there are {} columns and not {expected}: {advice}", row.len())));
        }
        if expected > 2 && want == Want::Pairs {
            let cut =
                format!("give key and value, e.g. `cut -d{} -f1,2`", if delimiter == b',' { "," } else { "$'\\t'" });
            return Err(name.at(row.line(0), format!("there are {expected} columns: {cut}")));
        }
        if is_first && header != Header::No {
            if header == Header::Yes {
                continue;
            }
            if names_columns(&row, k) {
                supposed = Some(row.line(0));
                continue;
            }
        }
        supposed = None;
        let key = key(row.field(0), k, options.canonical_kmers).and_then(|key| sink.admit_key(key)).map_err(
            |mut reason| {
                if is_first && header == Header::Auto && !looks_numeric(row.field(0)) {
                    reason += "; if this row is a header, give --header yes";
                }
                name.at(row.line(0), format!("the key {reason}"))
            },
        )?;
        let value = match want {
            Want::Keys => 0,
            Want::Pairs if expected == 2 => {
                let field = row.field(1);
                let value = if sink.has_doubles() {
                    double(field)
                } else {
                    let value = number(field).and_then(|value| sink.admit_value(value));
                    value.map_err(|reason| if options.doubles { of_doubles(field, reason) } else { reason })
                };
                value.map_err(|reason| name.at(row.line(1), format!("the value {reason}")))?
            }
            Want::Pairs => sink.row_number().map_err(|reason| name.at(row.line(0), reason))?,
        };
        sink.push(key, value)?;
    }
    match supposed {
        Some(line) => {
            let advice = "give --header yes if it is a header of no rows, and numbers if it is a row";
            Err(name.at(line, format!("the only row has no number: {advice}")))
        }
        None => Ok(()),
    }
}

/// Whether a first row can be a header: something is in it, and nothing of it is meant as a key.
fn names_columns(row: &Record<'_>, k: Option<u32>) -> bool {
    let is_kmer = k.is_some_and(|k| letters::are_meant(row.field(0), k));
    !is_kmer && !row.fields().any(looks_numeric) && !row.fields().all(<[u8]>::is_empty)
}

/// Whether a field is meant as a number, be it a legal one or not.
fn looks_numeric(field: &[u8]) -> bool {
    matches!(field.first(), Some(b'0'..=b'9' | b'-' | b'+' | b'.'))
}

/// A number, or where `k` says so as many letters. Those are of either strand where keys are canonical; numbers are the
/// keys themselves.
fn key(field: &[u8], k: Option<u32>, is_canonical: bool) -> std::result::Result<Number, String> {
    match k {
        Some(k) if letters::are_meant(field, k) => {
            let key = letters::kmer(field, k).map_err(|reason| format!("`{}` {reason}", shown(field)))?;
            Ok(if is_canonical { letters::canonical(key, k) } else { key }.into())
        }
        _ => number(field).map_err(|reason| {
            let advice = "; letters are keys of tables of k-mers alone, or of FASTA files";
            if letters::are_letters(field) { reason + advice } else { reason }
        }),
    }
}

/// A whole number of 64 bits, with a sign or without.
fn number(field: &[u8]) -> std::result::Result<Number, String> {
    let (is_negative, digits) = field.strip_prefix(b"-").map_or((false, field), |digits| (true, digits));
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let add = |number: u64, digit: &u8| number.checked_mul(10)?.checked_add((digit - b'0').into());
    let number = if is_number { digits.iter().try_fold(0, add) } else { None };
    let number = number.map(|number| if is_negative { -Number::from(number) } else { number.into() });
    let Span { least, greatest } = Span { least: Type::I64.span().least, ..Type::U64.span() };
    number.filter(|&number| number >= least).ok_or_else(|| match field {
        [] => "is missing".into(),
        _ if is_number && is_negative => format!("{} is below {least}: numbers have 64 bits at most", shown(field)),
        _ if is_number => format!("{} is above {greatest}: numbers have 64 bits at most", shown(field)),
        _ => {
            let advice = "columns are separated by commas or tabs";
            format!("`{}` is no whole number from {least} to {greatest} ({advice})", shown(field))
        }
    })
}

/// The bits of the double that is nearest to a decimal.
fn double(field: &[u8]) -> std::result::Result<Number, String> {
    let number = std::str::from_utf8(field).ok().and_then(|text| text.parse::<f64>().ok());
    number.map(|number| number.to_bits().into()).ok_or_else(|| match field {
        [] => "is missing".into(),
        _ => format!("`{}` is no number (columns are separated by commas or tabs)", shown(field)),
    })
}

/// Why a field is no whole number, with what to do if it is a number all the same.
fn of_doubles(field: &[u8], reason: String) -> String {
    let advice = "; where numbers are not all whole, give --values f64";
    if double(field).is_ok() { reason + advice } else { reason }
}

/// The start of a field, for messages.
fn shown(field: &[u8]) -> std::borrow::Cow<'_, str> {
    const LONGEST: usize = 40;
    String::from_utf8_lossy(&field[..field.len().min(LONGEST)])
}

#[cfg(test)]
mod tests {
    use super::super::tests::{pairs, read_with, zipped};
    use super::super::{Header, Pairs, ReadOptions};
    use crate::number::{Number, Type};

    #[test]
    fn rows_are_read_with_and_without_header() {
        let expected = Ok(vec![(5, 1), (0, u32::MAX.into())]);
        for text in ["5,1\n0,4294967295\n", "key,value\n5,1\n0,4294967295", "\"5\", 1\r\n\r\n 0 ,4294967295\r\n"] {
            assert_eq!(pairs("x.csv", text.as_bytes(), None), expected, "{text:?}");
        }
        assert_eq!(pairs("x.csv", b"id\n7\n7\n9\n", None), Ok(vec![(7, 0), (7, 1), (9, 2)]));
        assert_eq!(pairs("x.csv", b"", None), Ok(vec![]));
    }

    /// The pairs of a text, under options.
    fn with(text: &str, options: &ReadOptions) -> Result<Vec<(Number, Number)>, String> {
        let mut sink = Pairs::default();
        read_with("x.csv", text.as_bytes(), options, &mut sink)?;
        Ok(zipped(&sink))
    }

    #[test]
    fn columns_are_as_wide_as_their_numbers() {
        for (text, keys, values) in [
            ("1,2\n3,4\n", Type::U32, Type::U32),
            ("1,2\n4294967296,-4\n", Type::U64, Type::I32),
            ("-1,18446744073709551615\n9223372036854775807,0\n", Type::I64, Type::U64),
            ("-0,-9223372036854775808\n", Type::U32, Type::I64),
        ] {
            let mut sink = Pairs::default();
            assert_eq!(read_with("x.csv", text.as_bytes(), &ReadOptions::default(), &mut sink), Ok(None));
            assert_eq!((sink.keys.kind(), sink.values.kind()), (keys, values), "{text}");
            let named = ReadOptions { keys: Some(Type::I64), values: Some(Type::U64), ..ReadOptions::default() };
            if with(text, &named).is_ok() {
                let mut sink = Pairs::default();
                let _ = read_with("x.csv", text.as_bytes(), &named, &mut sink);
                assert_eq!((sink.keys.kind(), sink.values.kind()), (Type::I64, Type::U64), "{text}");
            } else {
                assert!(text.contains(",-"), "{text}");
            }
        }
        let u32s = ReadOptions { keys: Some(Type::U32), values: Some(Type::I32), ..ReadOptions::default() };
        for (text, line, part) in [
            ("1,2\n-1,2\n", 2, "the key -1 is no u32, a whole number from 0 to 4294967295"),
            ("4294967296,2\n", 1, "the key 4294967296 is no u32"),
            ("1,2147483648\n", 1, "the value 2147483648 is no i32"),
        ] {
            let error = with(text, &u32s).expect_err(text);
            assert!(error.starts_with(&format!("x.csv, line {line}: {part}")), "{error}");
        }
    }

    #[test]
    fn a_header_is_one_where_rows_follow_or_the_user_says_so() {
        let header = |header| ReadOptions { header: Some(header), ..ReadOptions::default() };
        for text in ["key,value\n", "\nkey\n\n \n", "ACGT", "word"] {
            let error = with(text, &header(Header::Auto)).expect_err(text);
            assert!(error.contains("the only row has no number") && error.contains("--header yes"), "{error}");
            assert_eq!(pairs("x.csv", text.as_bytes(), None), Err(error), "auto is the default");
            assert_eq!(with(text, &header(Header::Yes)), Ok(vec![]));
            let error = with(text, &header(Header::No)).expect_err(text);
            assert!(error.contains("is no whole number"), "{error}");
        }
        assert_eq!(with("1,2\n3,4\n", &header(Header::Yes)), Ok(vec![(3, 4)]));
        assert_eq!(with("1,2\n3,4\n", &header(Header::No)), Ok(vec![(1, 2), (3, 4)]));
        assert_eq!(with("year,2020\n1,2\n", &header(Header::Yes)), Ok(vec![(1, 2)]));
        assert_eq!(with("", &header(Header::Yes)), Ok(vec![]));
    }

    #[test]
    fn doubles_are_values_where_they_are_asked_for() {
        let read = |text: &str, values| {
            let mut sink = Pairs::default();
            let options = ReadOptions::default().with_any_values(values);
            let read = read_with("x.csv", text.as_bytes(), &options, &mut sink);
            read.map(|_| sink.values.iter().map(|bits| f64::from_bits(bits as u64)).collect::<Vec<_>>())
        };
        let text = "key,value\n1,0.1\n2,-3\n3,1e300\n4,-inf\n5,.5\n";
        assert_eq!(read(text, Some(Type::F64)), Ok(vec![0.1, -3.0, 1e300, f64::NEG_INFINITY, 0.5]));
        assert!(read("1,nan\n", Some(Type::F64)).is_ok_and(|values| values[0].is_nan()));
        for (values, advice) in [(None, true), (Some(Type::I64), true), (Some(Type::F64), false)] {
            let error = read("1,2\n3,4.5x\n", values).expect_err("no number");
            assert!(error.starts_with("x.csv, line 2: the value `4.5x`") && !error.contains("--values"), "{error}");
            if advice {
                let error = read(text, values).expect_err("a decimal");
                assert!(error.contains("`0.1`") && error.contains("give --values f64"), "{error}");
            }
        }
        assert!(with("1,0.5\n", &ReadOptions::default()).is_err_and(|error| !error.contains("f64")));
    }

    #[test]
    fn letters_are_keys_where_a_table_has_them() {
        let letters = |header| ReadOptions { kmer: Some(4), letters: true, header, ..ReadOptions::default() };
        // ACGT = 27, CCCC = 85, TTTT = 255
        assert_eq!(with("ACGT\ncccc\n 7\nUUUU\n", &letters(None)), Ok(vec![(27, 0), (85, 1), (7, 2), (255, 3)]));
        assert_eq!(with("k-mer,n\n\"acgt\",9\n", &letters(None)), Ok(vec![(27, 9)]));
        let canonical = ReadOptions { canonical_kmers: true, ..letters(None) };
        assert_eq!(with("AAAC\nGTTT\n191\n", &canonical), Ok(vec![(1, 0), (1, 1), (191, 2)]), "numbers are keys");
        assert_eq!(with("kmer,n\nACGT,9\n", &letters(Some(Header::Yes))), Ok(vec![(27, 9)]));
        for (text, line, part) in [
            ("ACGTA\nACGT\n", 1, "`ACGTA` has 5 letters"),
            ("ACGT\nACG\n", 2, "`ACG` has 3 letters"),
            ("ACGN\nACGT\n", 1, "the letter N"),
            ("ACGR\nACGT\n", 1, "the letter R"),
            ("ACGX,1\nACGT,2\n", 1, "the letter X"),
            ("kmer,n\nACGT,9\n", 1, "if this row is a header, give --header yes"),
            ("ACGT\nACGE\n", 2, "the letter E"),
            ("ACGT\nACGTE\n", 2, "no whole number"),
            ("ACGT,ACGT\n", 1, "the value `ACGT`"),
        ] {
            let error = with(text, &letters(None)).expect_err(text);
            assert!(error.starts_with(&format!("x.csv, line {line}: ")) && error.contains(part), "{error}");
        }
        let plain = with("word\nACGT\n", &ReadOptions::default()).expect_err("letters of a table of numbers");
        assert!(plain.starts_with("x.csv, line 2: ") && plain.contains("tables of k-mers"), "{plain}");
        let kmer = ReadOptions { kmer: Some(4), ..ReadOptions::default() };
        assert!(with("ACGT\n", &kmer).is_err_and(|error| error.contains("--kmer is for FASTA")));
    }

    #[test]
    fn errors_name_the_line() {
        for (text, line, part) in [
            (&b"1,2\n18446744073709551616,1\n"[..], 2, "the key 18446744073709551616 is above"),
            (b"1,2\n3,-9223372036854775809\n", 2, "the value -9223372036854775809 is below"),
            (b"-1,2\n9223372036854775808,1\n", 2, "the key 9223372036854775808 and -1, which"),
            (b"1,18446744073709551615\n\n3,-2\n", 3, "the value -2 and 18446744073709551615, which"),
            (b"1,2\n3,--1\n", 2, "`--1`"),
            (b"1,2\n3,-\n", 2, "`-`"),
            (b"1,2\n3,+1\n", 2, "`+1`"),
            (b"k,v\n1,2\n\n3,\n", 4, "missing"),
            (b"k,v\r\n\r\n1,2\r\n3,", 4, "missing"),
            (b"1,2\r3,4\r", 1, "columns"),
            (b"1,2\n3\n", 2, "columns"),
            (b"1,2\n3,\"4\n5,6\n", 2, "quote"),
            (b"1,2\n3,\"4\n\"\n\"5\n\",x\n", 5, "value"),
            (b"1,2\n\n\"x\n\n\",\"y\n\"\n", 3, "key"),
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
