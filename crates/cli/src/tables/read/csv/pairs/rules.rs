//! Interprets the fields of rows without column names: numbers, k-mers or doubles, and whether the first row is a
//! header.

use std::borrow::Cow;

use koel::layout::kmers::MOST;

use crate::input::{ReadOptions, letters};
use crate::number::{Number, Span, Type};

/// Whether a field is a number with leading zeros, as codes may have.
fn loses_zeros(field: &[u8]) -> bool {
    matches!(field.strip_prefix(b"-").unwrap_or(field), [b'0', b'0'..=b'9', ..])
}

/// Whether the first row can be a header: it is not empty, and it does not contain a key.
pub(super) fn names_columns(row: &[Vec<u8>], k: Option<u32>) -> bool {
    // `key`, koel's name of a column of keys, is not a k-mer of three letters.
    let is_kmer = row[0] != b"key" && k.is_some_and(|k| letters::are_meant(&row[0], k));
    !is_kmer && !row.iter().any(|field| looks_numeric(field)) && !row.iter().all(Vec::is_empty)
}

/// Whether a field is meant as a number, valid or not.
pub(super) fn looks_numeric(field: &[u8]) -> bool {
    matches!(field.first(), Some(b'0'..=b'9' | b'-' | b'+' | b'.'))
}

/// Parses a key: a number, or `k` letters if the options say so. With canonical keys, letters may be of either strand;
/// numbers are taken as they are.
pub(super) fn key(field: &[u8], options: &ReadOptions) -> Result<Number, String> {
    match options.k_of_text() {
        Some(k) if letters::are_meant(field, k) => {
            let key = letters::kmer(field, k).map_err(|reason| format!("`{}` {reason}", shown(field)))?;
            Ok(if options.canonical_kmers { koel::layout::kmers::canonical(key, k) } else { key }.into())
        }
        None if options.names_key.is_none() && letters::are_letters(field) => Err(format!(
            "`{}` is not a whole number: for a table of k-mers give `koel build` --kmer {}, with --canonical-kmers if \
             both strands count as one",
            shown(field),
            field.len().min(MOST as usize)
        )),
        _ if options.names_key.is_some() && loses_zeros(field) => {
            number(field)?;
            Err(format!("{} has leading zeros, which a number does not have", shown(field)))
        }
        _ => number(field),
    }
}

/// Parses an integer of 64 bits, with or without a sign.
pub(super) fn number(field: &[u8]) -> Result<Number, String> {
    let (is_negative, digits) = field.strip_prefix(b"-").map_or((false, field), |digits| (true, digits));
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let number = std::str::from_utf8(field).ok().filter(|_| is_number).and_then(|text| text.parse().ok());
    let Span { least, greatest } = Type::I64.span().and(Type::U64.span());
    number.filter(|number| (least..=greatest).contains(number)).ok_or_else(|| match field {
        [] => "is missing".into(),
        _ if is_number && is_negative => format!("{} is below {least}: numbers have 64 bits at most", shown(field)),
        _ if is_number => format!("{} is above {greatest}: numbers have 64 bits at most", shown(field)),
        _ => {
            let advice = "columns are separated by commas or tabs";
            format!("`{}` is not a whole number from {least} to {greatest} ({advice})", shown(field))
        }
    })
}

/// The bits of the double nearest to a decimal number.
pub(super) fn double(field: &[u8]) -> Result<Number, String> {
    let number = std::str::from_utf8(field).ok().and_then(|text| text.parse::<f64>().ok());
    number.map(|number| number.to_bits().into()).ok_or_else(|| match field {
        [] => "is missing".into(),
        _ => format!("`{}` is not a number (columns are separated by commas or tabs)", shown(field)),
    })
}

/// Why a field is not an integer, and what to do if it is another number.
pub(super) fn of_doubles(field: &[u8], reason: String) -> String {
    let advice = "; where numbers are not all whole, give --values f64";
    if double(field).is_ok() { reason + advice } else { reason }
}

/// The start of a field, for messages.
fn shown(field: &[u8]) -> Cow<'_, str> {
    const LONGEST: usize = 40;
    String::from_utf8_lossy(&field[..field.len().min(LONGEST)])
}
