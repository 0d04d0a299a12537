//! Parses a piece of text into arrays: first with the types of its first rows, and again for columns whose later rows
//! do not fit these types.

use arrow_array::ArrayRef;

use super::super::super::kinds::{Kind, Seen};
use super::super::text::LONGEST;
use super::TOO_LONG;
use super::column::{Cells, Refusal};
use super::fields::{self, Dialect, End, Field};
use crate::number::{Number, Words, digits};

/// The number of rows from which types are guessed.
const GUESSED_FROM: usize = 64;

const NO_UTF8: &str = "this is not UTF-8: save the file as UTF-8, e.g. with `iconv -f LATIN1 -t UTF-8`";

/// How a column is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Want {
    Nothing,
    /// As the type that fits all values.
    Fitting,
    /// As the type that the user states.
    Named(Kind),
    /// As a type that is known to fit all values.
    Known(Kind),
    /// As the numbers that the `parse` function of [`numbers`] returns; if `is_plain`, plain integers bypass that
    /// function.
    Number {
        is_plain: bool,
    },
}

/// Given a column and a field, returns the number of the field, without surrounding spaces, or what is wrong with it.
pub(super) type Parse<'a> = dyn FnMut(usize, &[u8]) -> Result<Number, String> + 'a;

/// The contents of a piece.
pub(super) struct Piece {
    pub(super) rows: usize,
    /// The array of each column; `None` if the column is not wanted.
    pub(super) arrays: Vec<Option<ArrayRef>>,
    /// The classes of the fields, for columns whose type is inferred.
    pub(super) seen: Vec<Seen>,
}

/// An error, and its position in the piece.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) at: usize,
    pub(super) column: Option<usize>,
    pub(super) what: String,
}

/// Parses a piece.
///
/// # Errors
/// The first error of the piece, so that the error that is reported for a file does not depend on where it is cut.
pub(super) fn read(text: &[u8], dialect: Dialect<'_>, wants: &[Want]) -> Result<Piece, Fault> {
    attempt(text, dialect, wants).map_err(|fault| {
        let mut pass = Pass::new(text, dialect, wants);
        pass.is_careful = true;
        pass.run().err().unwrap_or(fault)
    })
}

fn attempt(text: &[u8], dialect: Dialect<'_>, wants: &[Want]) -> Result<Piece, Fault> {
    let mut pass = Pass::new(text, dialect, wants);
    pass.run()?;
    let rows = pass.rows;
    let mut seen = pass.seen.clone();
    let late = pass.columns.iter().map(|column| matches!(column.cells, Cells::Classes)).collect::<Vec<_>>();
    for (seen, column) in seen.iter_mut().zip(&pass.columns) {
        *seen = seen.and(column.cells.seen());
    }
    let mut arrays = pass.finish()?;
    if late.contains(&true) {
        let of = |(&is_late, seen): (&bool, &Seen)| if is_late { Want::Known(seen.kind()) } else { Want::Nothing };
        let again: Vec<_> = late.iter().zip(&seen).map(of).collect();
        let mut pass = Pass::new(text, dialect, &again);
        pass.run()?;
        for (array, found) in arrays.iter_mut().zip(pass.finish()?) {
            *array = array.take().or(found);
        }
    }
    Ok(Piece { rows, arrays, seen })
}

/// The numbers of all columns that are [`Want::Number`], up to the first row with an error.
pub(super) fn numbers(
    text: &[u8],
    dialect: Dialect<'_>,
    wants: &[Want],
    parse: &mut Parse<'_>,
) -> (Vec<Words>, Option<Fault>) {
    let mut pass = Pass::new(text, dialect, wants);
    pass.parse = Some(parse);
    let fault = pass.run().err();
    let rows = pass.rows;
    let words = pass.columns.into_iter().filter_map(|column| match column.cells {
        Cells::Words(words, _) => Some(words.truncated(rows)),
        _ => None,
    });
    (words.collect(), fault)
}

struct Pass<'a> {
    text: &'a [u8],
    dialect: Dialect<'a>,
    columns: Vec<Column>,
    seen: Vec<Seen>,
    /// Whether invalid UTF-8 is reported at its line instead of when the column is finished.
    is_careful: bool,
    /// The number of complete rows that were read.
    rows: usize,
    /// Parses numbers, if columns are numbers.
    parse: Option<&'a mut Parse<'a>>,
}

struct Column {
    cells: Cells,
    want: Want,
    /// The guessed type.
    kind: Kind,
}

impl<'a> Pass<'a> {
    fn new(text: &'a [u8], dialect: Dialect<'a>, wants: &[Want]) -> Pass<'a> {
        let rows = about_rows(text, wants.len());
        let guessed = if wants.contains(&Want::Fitting) { guess(text, dialect, wants.len()) } else { Vec::new() };
        let mut seen = vec![Seen::default(); wants.len()];
        let columns = wants.iter().enumerate().map(|(i, &want)| {
            let (kind, cells) = match want {
                Want::Nothing => (Kind::Utf8, Cells::Skipped),
                Want::Named(kind) | Want::Known(kind) => (kind, Cells::of(kind, rows)),
                Want::Number { is_plain } => (Kind::Int64, Cells::Words(Words::with_capacity(rows), is_plain)),
                Want::Fitting => {
                    seen[i] = guessed[i];
                    match guessed[i].kind() {
                        // The first rows contain only nulls.
                        _ if guessed[i] == Seen::default() => (Kind::Int64, Cells::of(Kind::Int64, rows)),
                        // The classes fit only text, although no field is text. With a class of a later field, they may
                        // fit another type, so only classes are recorded.
                        Kind::Utf8 if !guessed[i].has(Seen::TEXT) => (Kind::Utf8, Cells::Classes),
                        kind => (kind, Cells::of(kind, rows)),
                    }
                }
            };
            Column { cells, want, kind }
        });
        Pass { text, dialect, columns: columns.collect(), seen, is_careful: false, rows: 0, parse: None }
    }

    /// Reads all rows.
    fn run(&mut self) -> Result<(), Fault> {
        let (text, dialect, width) = (self.text, self.dialect, self.columns.len());
        let skips_empty = width > 1 || self.parse.is_some();
        let mut at = 0;
        'rows: while at < text.len() {
            // In a file with one column, an empty line is a null.
            if skips_empty && matches!(&text[at..], [b'\n', ..] | [b'\r', b'\n', ..] | [b'\r']) {
                at += if text[at] == b'\r' { 2 } else { 1 };
                continue;
            }
            let row = at;
            for i in 0..width {
                let end;
                if let Some((stops, next)) = self.columns[i].take(text, at, dialect) {
                    (end, at) = (stops, next);
                } else {
                    let start = at;
                    let found = fields::field(text, start, dialect);
                    let (field, stops, next) = found.map_err(|what| Fault {
                        at: start,
                        // An invalid number is not an error of the column's type.
                        column: self.parse.is_none().then_some(i),
                        what: self.with_quote_advice(what),
                    })?;
                    (end, at) = (stops, next);
                    // A blank line is not a row of numbers.
                    if self.parse.is_some() && (i, end) == (0, End::Row) && field.text().trim_ascii().is_empty() {
                        continue 'rows;
                    }
                    self.push(i, field, start).map_err(|fault| self.first_fault(row, fault))?;
                }
                if (end == End::Row) != (i + 1 == width) {
                    return Err(self.ragged(row));
                }
            }
            if at - row > LONGEST {
                return Err(Fault { at: row, column: None, what: TOO_LONG.into() });
            }
            self.rows += 1;
        }
        Ok(())
    }

    fn push(&mut self, i: usize, field: Field<'_>, at: usize) -> Result<(), Fault> {
        let column = &mut self.columns[i];
        if let (Cells::Words(words, _), Some(parse)) = (&mut column.cells, &mut self.parse) {
            let number = parse(i, field.text().trim_ascii());
            return number.map(|number| words.push_number(number)).map_err(|what| Fault { at, column: Some(i), what });
        }
        if self.is_careful
            && (column.want == Want::Fitting || column.kind == Kind::Utf8 && column.want != Want::Nothing)
            && std::str::from_utf8(&field.text()).is_err()
        {
            return Err(Fault { at, column: Some(i), what: NO_UTF8.into() });
        }
        if column.want == Want::Fitting && !field.is_null() && column.kind != Kind::Utf8
            || matches!(column.cells, Cells::Classes)
        {
            if field.is_null() {
                return Ok(());
            }
            let class = if field.bytes.is_empty() { Seen::TEXT } else { Seen::of(&field.text()) };
            if matches!(column.cells, Cells::Classes) || !fits(class, column.kind) {
                self.seen[i] = self.seen[i].and(column.cells.seen()).and(class);
                column.cells = Cells::Classes;
                return Ok(());
            }
        }
        let kind = column.kind;
        column.cells.push(field).map_err(|refusal| {
            let what = match refusal {
                Refusal::Type => {
                    format!(
                        "{} is not of the type {}: correct it, give the column another of --types, or give \
                         --null-value if it stands for a null",
                        fields::shown(field),
                        kind.name()
                    )
                }
                Refusal::Length => "the texts of these rows are longer than 2 GiB: remove the column".into(),
            };
            Fault { at, column: Some(i), what }
        })
    }

    /// The error of a row of numbers. If the number of its fields is wrong, that is reported instead of `fault`,
    /// because fields may be in the wrong column.
    fn first_fault(&self, row: usize, fault: Fault) -> Fault {
        let fields = fields::row(self.text, row, self.dialect);
        let is_whole = fields.is_ok_and(|(fields, _)| fields.len() == self.columns.len());
        if is_whole || self.parse.is_none() { fault } else { self.ragged(row) }
    }

    /// The error for a row with more or fewer fields than there are columns.
    fn ragged(&self, row: usize) -> Fault {
        let width = self.columns.len();
        let are = if width == 1 { "is" } else { "are" };
        match fields::row(self.text, row, self.dialect) {
            Ok((fields, _)) if self.parse.is_some() => {
                let advice = "every row must have as many columns as the first";
                let what = format!("{} where there {are} {width}: {advice}", counted(fields.len()));
                Fault { at: row, column: None, what }
            }
            Ok((fields, _)) => {
                let what = format!(
                    "{} where there {are} {width}: correct the line, or give --delimiter if it is another",
                    counted(fields.len())
                );
                Fault { at: row, column: None, what }
            }
            Err((_, what @ fields::TOO_MANY)) => Fault { at: row, column: None, what: what.into() },
            Err((at, what)) => Fault { at, column: None, what: self.with_quote_advice(what) },
        }
    }

    /// Adds advice on --quote to a message, except for rows of numbers, which do not have this option.
    fn with_quote_advice(&self, reason: &str) -> String {
        if self.parse.is_some() { reason.into() } else { fields::with_quote_advice(reason) }
    }

    fn finish(self) -> Result<Vec<Option<ArrayRef>>, Fault> {
        let arrays = self.columns.into_iter().enumerate().map(|(i, column)| {
            column.cells.finish().map_err(|()| Fault { at: 0, column: Some(i), what: NO_UTF8.into() })
        });
        arrays.collect()
    }
}

impl Column {
    /// Parses the field that begins at a position. Returns what ends it, and the position after it. `None` for the few
    /// fields that need the slow path: those that are quoted, or are not integers in a column of integers.
    #[inline]
    fn take(&mut self, text: &[u8], at: usize, dialect: Dialect<'_>) -> Option<(End, usize)> {
        let (number, end, next);
        let delimiter = dialect.delimiter;
        match &mut self.cells {
            Cells::Skipped => return fields::skip(text, at, dialect),
            // A number may be one of the texts that are null.
            _ if !dialect.nulls.is_empty() => return None,
            Cells::Int64(numbers) => {
                (number, end, next) = whole(text, at, delimiter)?;
                numbers.push(i64::try_from(number).ok()?);
            }
            Cells::UInt64(numbers) => {
                (number, end, next) = whole(text, at, delimiter)?;
                numbers.push(number);
            }
            Cells::Int32(numbers) => {
                (number, end, next) = whole(text, at, delimiter)?;
                numbers.push(i32::try_from(number).ok()?);
            }
            Cells::UInt32(numbers) => {
                (number, end, next) = whole(text, at, delimiter)?;
                numbers.push(u32::try_from(number).ok()?);
            }
            Cells::Words(words, true) => {
                let is_negative = text.get(at) == Some(&b'-');
                (number, end, next) = whole(text, at + usize::from(is_negative), delimiter)?;
                if is_negative { words.push_negative(0i64.checked_sub_unsigned(number)?) } else { words.push(number) }
            }
            _ => return None,
        }
        Some((end, next))
    }
}

/// Parses an unsigned integer of at most 19 digits in canonical form. Returns it, what ends it, and the position after
/// it.
#[inline]
fn whole(text: &[u8], start: usize, delimiter: u8) -> Option<(u64, End, usize)> {
    let (number, digits) = digits::leading(text.get(start..)?)?;
    if digits == 0 || (digits > 1 && text[start] == b'0') {
        return None;
    }
    let at = start + digits;
    match text.get(at) {
        Some(&byte) if byte == delimiter => Some((number, End::Field, at + 1)),
        Some(b'\n') => Some((number, End::Row, at + 1)),
        Some(b'\r') if text.get(at + 1) == Some(&b'\n') => Some((number, End::Row, at + 2)),
        None => Some((number, End::Row, at)),
        _ => None,
    }
}

/// Estimates the number of rows, to reserve memory.
fn about_rows(text: &[u8], width: usize) -> usize {
    const LOOKED_AT: usize = 16 << 10;
    let head = &text[..text.len().min(LOOKED_AT)];
    let lines = memchr::memchr_iter(b'\n', head).count() + 1;
    // An eighth more, because later lines may be shorter.
    let about = if head.len() == text.len() { lines } else { text.len() / head.len() * lines / 8 * 9 };
    // A row has at least one byte per column.
    about.min(text.len() / width.max(1) + 1)
}

/// Whether a column of this type accepts fields of a class.
fn fits(class: Seen, kind: Kind) -> bool {
    let is = |classes: &[Seen]| class.is_within(classes);
    match kind {
        Kind::Int64 => is(&[Seen::WHOLE, Seen::NEGATIVE, Seen::WIDE]),
        Kind::UInt64 => is(&[Seen::WHOLE, Seen::BIG, Seen::WIDE]),
        Kind::Float64 => is(&[Seen::WHOLE, Seen::NEGATIVE, Seen::BIG, Seen::FLOAT]),
        Kind::Bool => is(&[Seen::BOOL]),
        Kind::Date32 => is(&[Seen::DATE]),
        Kind::Timestamp { is_utc: false } => is(&[Seen::DATE, Seen::TIME]),
        Kind::Timestamp { is_utc: true } => is(&[Seen::UTC]),
        _ => true,
    }
}

/// The classes of the first rows. Errors in them are found later.
fn guess(text: &[u8], dialect: Dialect<'_>, width: usize) -> Vec<Seen> {
    let mut seen = vec![Seen::default(); width];
    let mut at = 0;
    for _ in 0..GUESSED_FROM {
        let Some((fields, next)) =
            Some(at).filter(|&at| at < text.len()).and_then(|at| fields::row(text, at, dialect).ok())
        else {
            break;
        };
        for (seen, field) in seen.iter_mut().zip(&fields).filter(|(_, field)| !field.is_null()) {
            *seen = seen.and(Seen::of(&field.text()));
        }
        at = next;
    }
    seen
}

fn counted(fields: usize) -> String {
    if fields == 1 { "1 field".into() } else { format!("{fields} fields") }
}
