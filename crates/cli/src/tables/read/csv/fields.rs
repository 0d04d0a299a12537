//! Splits text into fields.

use std::borrow::Cow;

use super::COLUMNS;

/// The syntax of fields.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dialect<'a> {
    pub(super) delimiter: u8,
    /// Whether a field may be quoted; otherwise quotes are ordinary text.
    pub(super) has_quotes: bool,
    /// Unquoted fields with these texts are null, as are empty ones.
    pub(super) nulls: &'a [String],
}

impl Dialect<'_> {
    /// The position of the first quote, if fields may be quoted.
    pub(super) fn first_quote(self, text: &[u8]) -> Option<usize> {
        if self.has_quotes { memchr::memchr(b'"', text) } else { None }
    }

    fn is_quoted(self, text: &[u8], start: usize) -> bool {
        self.has_quotes && text.get(start) == Some(&b'"')
    }

    fn is_null(self, field: &[u8]) -> bool {
        self.nulls.iter().any(|null| null.as_bytes() == field)
    }
}

/// The text between two separators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Field<'a> {
    /// The bytes of the field, without surrounding quotes.
    pub(super) bytes: &'a [u8],
    pub(super) is_quoted: bool,
    /// Whether the field contains quotes, each of them written twice.
    has_quotes: bool,
}

impl<'a> Field<'a> {
    pub(super) fn is_null(self) -> bool {
        self.bytes.is_empty() && !self.is_quoted
    }

    /// The text of the field.
    pub(super) fn text(self) -> Cow<'a, [u8]> {
        if !self.has_quotes {
            return Cow::Borrowed(self.bytes);
        }
        let mut text = Vec::with_capacity(self.bytes.len());
        let mut quotes = 0;
        for &byte in self.bytes {
            quotes = if byte == b'"' { quotes + 1 } else { 0 };
            if quotes != 2 {
                text.push(byte);
            } else {
                quotes = 0;
            }
        }
        Cow::Owned(text)
    }
}

/// A field as messages show it.
pub(super) fn shown(field: Field<'_>) -> String {
    let text = field.text();
    let text = String::from_utf8_lossy(&text);
    let short: String = text.chars().take(40).collect();
    let more = if short.len() < text.len() { ".." } else { "" };
    format!("`{}{more}`", short.escape_debug())
}

/// What ends a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Field,
    Row,
}

/// Returns the field that begins at `start`, what ends it, and the position after it.
///
/// # Errors
/// A description of what is wrong with the field.
#[inline]
pub(super) fn field<'a>(
    text: &'a [u8],
    start: usize,
    dialect: Dialect<'_>,
) -> Result<(Field<'a>, End, usize), &'static str> {
    if dialect.is_quoted(text, start) {
        return quoted(text, start + 1, dialect.delimiter);
    }
    let (stop, end, next) = unquoted(text, start, dialect.delimiter);
    let mut bytes = &text[start..stop];
    if end == End::Row {
        bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
    }
    if dialect.is_null(bytes) {
        bytes = &[];
    }
    Ok((Field { bytes, is_quoted: false, has_quotes: false }, end, next))
}

/// Skips a field: returns what ends it, and the position after it. `None` if the field is quoted.
#[inline]
pub(super) fn skip(text: &[u8], start: usize, dialect: Dialect<'_>) -> Option<(End, usize)> {
    let (_, end, next) = (!dialect.is_quoted(text, start)).then(|| unquoted(text, start, dialect.delimiter))?;
    Some((end, next))
}

/// Returns the end of a field, what ends it, and the position after it.
#[inline]
fn unquoted(text: &[u8], start: usize, delimiter: u8) -> (usize, End, usize) {
    let stop = stop(text, start, delimiter);
    match text.get(stop) {
        Some(&byte) if byte == delimiter => (stop, End::Field, stop + 1),
        Some(_) => (stop, End::Row, stop + 1),
        None => (stop, End::Row, stop),
    }
}

/// The error for an opening quote without a closing one.
pub(super) const NEVER_CLOSED: &str = "a quote is opened here and never closed: close it";

/// The error for a quoted field with text after its closing quote.
const AFTER_QUOTE: &str = "text follows a closing quote: write quotes in quotes twice";

/// Adds advice to an error in a field: `--quote none` may read it differently. Only files with named columns have this
/// option.
pub(super) fn with_quote_advice(reason: &str) -> String {
    let advice = ", or give --quote none if quotes are text like any other";
    format!("{reason}{}", if [NEVER_CLOSED, AFTER_QUOTE].contains(&reason) { advice } else { "" })
}

fn quoted(text: &[u8], start: usize, delimiter: u8) -> Result<(Field<'_>, End, usize), &'static str> {
    let (mut at, mut has_quotes) = (start, false);
    loop {
        let rest = text.get(at..).unwrap_or(&[]);
        at += memchr::memchr(b'"', rest).ok_or(NEVER_CLOSED)?;
        if text.get(at + 1) != Some(&b'"') {
            break;
        }
        has_quotes = true;
        at += 2;
    }
    let field = Field { bytes: &text[start..at], is_quoted: true, has_quotes };
    at += 1;
    // Spaces between the quote and the delimiter are not part of the field.
    if delimiter != b' ' {
        at += text[at..].iter().take_while(|&&byte| byte == b' ').count();
    }
    match &text[at..] {
        [] => Ok((field, End::Row, at)),
        [b'\n', ..] | [b'\r'] => Ok((field, End::Row, at + 1)),
        [b'\r', b'\n', ..] => Ok((field, End::Row, at + 2)),
        [byte, ..] if *byte == delimiter => Ok((field, End::Field, at + 1)),
        _ => Err(AFTER_QUOTE),
    }
}

/// The position of the next delimiter or line end, or the end of the text; searches eight bytes at a time.
#[inline]
fn stop(text: &[u8], start: usize, delimiter: u8) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const TOPS: u64 = 0x8080_8080_8080_8080;
    let (delimiters, lines) = (ONES * u64::from(delimiter), ONES * u64::from(b'\n'));
    let zeros = |word: u64| word.wrapping_sub(ONES) & !word & TOPS;
    let mut at = start;
    while let Some(&bytes) = text.get(at..).and_then(<[u8]>::first_chunk) {
        let word = u64::from_le_bytes(bytes);
        // The lowest match is always right; borrows may add false matches above it.
        let found = zeros(word ^ delimiters) | zeros(word ^ lines);
        if found != 0 {
            return at + found.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let rest = text.get(at..).unwrap_or(&[]);
    at + rest.iter().position(|&byte| byte == delimiter || byte == b'\n').unwrap_or(rest.len())
}

/// The error for a row with more than [`COLUMNS`] fields.
pub(super) const TOO_MANY: &str = "this row has more than 65536 fields, the most that koel reads";

/// Returns the fields of the row that begins at `start`, and the position after it.
///
/// # Errors
/// A description of what is wrong with the row, and the position.
pub(super) fn row<'a>(
    text: &'a [u8],
    start: usize,
    dialect: Dialect<'_>,
) -> Result<(Vec<Field<'a>>, usize), (usize, &'static str)> {
    let (mut fields, mut at) = (Vec::new(), start);
    loop {
        let (field, end, next) = field(text, at, dialect).map_err(|reason| (at, reason))?;
        if fields.len() == COLUMNS {
            return Err((at, TOO_MANY));
        }
        fields.push(field);
        at = next;
        if end == End::Row {
            return Ok((fields, at));
        }
    }
}

/// Returns the start of the last row of a text, or of the first row with an error.
pub(super) fn last_row(text: &[u8], dialect: Dialect<'_>) -> usize {
    let (mut row, mut at) = (0, 0);
    while let Ok((_, end, next)) = field(text, at, dialect) {
        at = next;
        if at >= text.len() {
            break;
        }
        if end == End::Row {
            row = at;
        }
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMAS: Dialect<'_> = Dialect { delimiter: b',', has_quotes: true, nulls: &[] };

    #[test]
    fn fields_end_where_they_should() {
        let text = |text: &'static str| {
            let (fields, next) = row(text.as_bytes(), 0, COMMAS).map_err(|(at, _)| at)?;
            let said = fields.iter().map(|field| String::from_utf8_lossy(&field.text()).into_owned());
            Ok::<_, usize>((said.collect::<Vec<_>>(), next))
        };
        assert_eq!(
            text("a,,abcdefgh,abcdefghijklm\r\nx"),
            Ok((vec!["a".into(), "".into(), "abcdefgh".into(), "abcdefghijklm".into()], 27))
        );
        assert_eq!(text("\"a,\n\"\"b\"\"\"\"\",5\" pipe"), Ok((vec!["a,\n\"b\"\"".into(), "5\" pipe".into()], 20)));
        assert_eq!(text("\"\"\r\n"), Ok((vec![String::new()], 4)));
        assert_eq!(text("a,\"b"), Err(2));
        assert_eq!(text("\"a\"b,c"), Err(0));
        assert_eq!(text("\"3\" ,\"4\"  \r\n"), Ok((vec!["3".into(), "4".into()], 12)));
        assert_eq!(text("\"3\" "), Ok((vec!["3".into()], 4)));
        assert_eq!(text("\"3\" x,4"), Err(0));
        let spaces = Dialect { delimiter: b' ', ..COMMAS };
        assert!(row(b"\"3\"  4", 0, spaces).is_ok_and(|(fields, _)| fields.len() == 3));
        assert_eq!([&b"a,b\nc,d\ne,f"[..], b"a\n\"b\nc", b"a\n"].map(|text| last_row(text, COMMAS)), [8, 2, 0]);
        assert!(row(&[b','; COLUMNS - 1], 0, COMMAS).is_ok_and(|(fields, _)| fields.len() == COLUMNS));
        assert_eq!(row(&[b','; COLUMNS], 0, COMMAS).err(), Some((COLUMNS, TOO_MANY)));
        let (fields, _) = row(b",\"\"", 0, COMMAS).expect("two fields");
        assert!(fields[0].is_null() && !fields[1].is_null());
    }

    #[test]
    fn quotes_and_nulls_are_what_the_dialect_says() {
        let text = b"NA,\"NA\",\"a\"b,NAN\n";
        let nulls = ["NA".to_owned(), "".to_owned()];
        let plain = Dialect { has_quotes: false, nulls: &nulls, ..COMMAS };
        let (fields, next) = row(text, 0, plain).expect("no quotes");
        assert_eq!(
            fields.iter().map(|field| field.bytes).collect::<Vec<_>>(),
            [&b""[..], b"\"NA\"", b"\"a\"b", b"NAN"]
        );
        assert!(fields[0].is_null() && next == text.len() && plain.first_quote(text).is_none());
        let quoted = Dialect { has_quotes: true, ..plain };
        let (second, ..) = field(text, 3, quoted).expect("a field in quotes");
        assert!(!second.is_null() && second.bytes == b"NA" && quoted.first_quote(text) == Some(3));
        assert_eq!(row(text, 0, quoted).map_err(|(at, _)| at), Err(8));
    }
}
