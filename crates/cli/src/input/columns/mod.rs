//! CSV and TSV: `key,value`, or keys alone, whose values are then the numbers of their rows, from 0.
//!
//! Keys are whole numbers; queries of a table of k-mers may be letters as well. Values are whole numbers, or doubles where
//! that is asked for.
//!
//! ```text
//! for each block of the text (blocks.rs):
//!     all threads parse its pieces, each as if it were a file of its own behind the first row
//!     for each piece, in order: its rows are handed on, if they can stand behind those before them;
//!                               else the piece is read row by row, as the first block is, up to the row that is wrong
//! ```
//!
//! So what is read, and which error is told, does not depend on where the text is cut.

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::io::BufRead;
use std::sync::Arc;

use koel::layout::kmers::MOST;
use rayon::prelude::*;

use super::blocks::{Block, Blocks};
use super::records::{Record, Records, too_long};
use super::{Batch, Header, Name, Named, Pairs, ReadOptions, Want, letters};
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
    sink.begin(name, Named::of(options, Named::default()))?;
    let mut rules = Rules { name, delimiter, options, want, columns: None, supposed: None, names: None };
    let mut blocks = Blocks::new(reader, delimiter, options.text.piece);
    let mut line = 1;
    while let Some(block) = blocks.next().map_err(|error| name.io(&error))? {
        line = match block {
            Block::Rows(pieces) => rules.pieces(&pieces, line, sink)?,
            Block::Endless => return Err(too_long(name, line)),
        };
    }
    match rules.supposed {
        Some(line) => {
            let mut advice = "give --header yes if it is a header of no rows, and numbers if it is a row".to_owned();
            if options.names_key.is_some() {
                advice += &rules.other_types();
            }
            Err(name.at(line, format!("the only row has no number: {advice}")))
        }
        None => Ok(()),
    }
}

/// What rows have to be, as far as those that were read say so.
#[derive(Clone)]
struct Rules<'a> {
    name: &'a Name,
    delimiter: u8,
    options: &'a ReadOptions,
    want: Want,
    /// Columns, from the first row on.
    columns: Option<usize>,
    /// The line of a first row that is a header if others follow.
    supposed: Option<u64>,
    /// The names of the columns, if the first row is a header, for messages.
    names: Option<Arc<str>>,
}

impl Rules<'_> {
    /// Reads pieces of a block, which begins with this line; the line behind them.
    fn pieces(&mut self, pieces: &[&[u8]], mut line: u64, sink: &mut Batch<'_>) -> Result<u64> {
        let is_first = self.columns.is_none() || self.supposed.is_some();
        let named = sink.named();
        let ahead: Vec<_> = match pieces {
            [_, _, ..] if !is_first => pieces.par_iter().map(|piece| self.clone().ahead(piece, named)).collect(),
            _ => Vec::new(),
        };
        let are_numbered = self.want == Want::Pairs && self.columns == Some(1);
        let mut ahead = ahead.into_iter();
        for piece in pieces {
            line = match ahead.next().flatten() {
                Some((rows, lines)) if sink.take(&rows, self.want, are_numbered)? => line + lines,
                _ => self.rows(Records::new(piece, self.delimiter, line), sink)?,
            };
        }
        Ok(line)
    }

    /// The rows of a piece, and how many lines it has, if nothing is wrong with it alone and there is memory for them.
    fn ahead(mut self, piece: &[u8], named: Named) -> Option<(Pairs, u64)> {
        let mut pairs = Pairs::default();
        let mut sink = Batch::maybe(&mut pairs)?;
        let read = sink.begin(self.name, named).and_then(|()| {
            let behind = self.rows(Records::new(piece, self.delimiter, 1), &mut sink)?;
            sink.flush()?;
            Ok(behind - 1)
        });
        let lines = read.ok()?;
        Some((pairs, lines))
    }

    /// Reads rows one by one; the line behind them.
    fn rows(&mut self, mut rows: Records<'_>, sink: &mut Batch<'_>) -> Result<u64> {
        // Numbers of as many columns as there are, which are keys and values as they stand.
        let plain = match (self.columns, self.want) {
            (Some(1), _) => 1,
            (Some(2), Want::Keys) => 2,
            (Some(2), Want::Pairs) if !sink.has_doubles() => 2,
            _ => 0,
        };
        loop {
            if plain > 0
                && self.supposed.is_none()
                && let Some(row) = rows.plain(plain)
                && let Ok(key) = sink.admit_key(row.first)
                && let Ok(value) = match (self.want, plain) {
                    (Want::Keys, _) => Ok(0),
                    (Want::Pairs, 2) => sink.admit_value(row.second),
                    (Want::Pairs, _) => sink.row_number(),
                }
            {
                rows.pass(&row);
                sink.push(key, value)?;
                continue;
            }
            match rows.next(self.name)? {
                Some(row) => self.row(&row, sink)?,
                None => return Ok(rows.last_line()),
            }
        }
    }

    fn row(&mut self, row: &Record<'_>, sink: &mut Batch<'_>) -> Result<()> {
        let Rules { name, options, want, .. } = *self;
        let (header, k) = (options.header.unwrap_or_default(), options.k_of_text());
        // Blank space alone is no row; separators are one, of which something is missing.
        if row.len() == 1 && row.field(0).is_empty() {
            return Ok(());
        }
        let is_first = self.columns.is_none();
        let expected = *self.columns.get_or_insert(row.len());
        if row.len() != expected {
            let advice = "every row must have as many columns as the first";
            return Err(name.at(row.line(0), format!("there are {} columns and not {expected}: {advice}", row.len())));
        }
        let is_header = is_first
            && match header {
                Header::Yes => true,
                Header::Auto => names_columns(row, k),
                Header::No => false,
            };
        if is_header {
            self.names = Some(listed(row).into());
        }
        if expected > 2 && options.names_key.is_some() {
            let why = format!(
                "there are {expected} columns, and without {} rows are keys, or keys and values",
                self.option()
            );
            return Err(name.at(row.line(0), format!("{why}: {}", self.by_name())));
        }
        if expected > 2 && want == Want::Pairs {
            let cut = if self.delimiter == b',' { "," } else { "$'\\t'" };
            let advice =
                format!("name two of them by --key and --value, or give key and value, e.g. `cut -d{cut} -f1,2`");
            return Err(name.at(row.line(0), format!("there are {expected} columns: {advice}")));
        }
        if is_first && header != Header::No {
            if header == Header::Yes {
                return Ok(());
            }
            if is_header {
                self.supposed = Some(row.line(0));
                return Ok(());
            }
        }
        self.supposed = None;
        let field = &row.field(0);
        let key = match key(field, k, options) {
            Ok(_) if options.names_key.is_some() && loses_zeros(field) => {
                Err(format!("{} has leading zeros, which a number does not have", shown(field)))
            }
            key => key.and_then(|key| sink.admit_key(key)),
        };
        let key = key.map_err(|mut reason| {
            if is_first && header == Header::Auto && !looks_numeric(field) {
                reason += "; if this row is a header, give --header yes";
            }
            if options.names_key.is_some() {
                reason += &self.other_types();
            }
            name.at(row.line(0), format!("the key {reason}"))
        })?;
        let value = match want {
            Want::Keys => 0,
            Want::Pairs if expected == 2 => {
                let field = &row.field(1);
                let value = if sink.has_doubles() {
                    double(field)
                } else {
                    let value = number(field).and_then(|value| sink.admit_value(value));
                    value.map_err(|reason| if options.doubles { of_doubles(field, reason) } else { reason })
                };
                value.map_err(|mut reason| {
                    if options.names_key.is_some() {
                        reason += &self.other_types();
                    }
                    name.at(row.line(1), format!("the value {reason}"))
                })?
            }
            Want::Pairs => sink.row_number().map_err(|reason| name.at(row.line(0), reason))?,
        };
        sink.push(key, value)
    }
}

impl Rules<'_> {
    fn option(&self) -> &'static str {
        self.options.names_key.unwrap_or("--key")
    }

    /// What to do where columns need names.
    fn by_name(&self) -> String {
        let option = self.option();
        match &self.names {
            Some(names) => format!("name the columns of the key by {option}; there are {names}"),
            None => format!("name the columns of the key by {option}, as in {option} column_1 --header no"),
        }
    }

    fn other_types(&self) -> String {
        format!("; for columns of other types {}", self.by_name())
    }
}

/// The fields of a header, for messages.
fn listed(row: &Record<'_>) -> String {
    const MOST: usize = 20;
    let names: Vec<_> = row.fields().take(MOST).map(|field| shown(&field).into_owned()).collect();
    let more = if row.len() > MOST { format!(" and {} more", row.len() - MOST) } else { String::new() };
    names.join(", ") + &more
}

/// Whether a field is a number with zeros in front, as codes have them.
fn loses_zeros(field: &[u8]) -> bool {
    matches!(field.strip_prefix(b"-").unwrap_or(field), [b'0', b'0'..=b'9', ..])
}

/// Whether a first row can be a header: something is in it, and nothing of it is meant as a key.
fn names_columns(row: &Record<'_>, k: Option<u32>) -> bool {
    // What koel calls a column of keys is not a k-mer of three letters.
    let first = &row.field(0);
    let is_kmer = **first != *b"key" && k.is_some_and(|k| letters::are_meant(first, k));
    !is_kmer && !row.fields().any(|field| looks_numeric(&field)) && !row.fields().all(|field| field.is_empty())
}

/// Whether a field is meant as a number, be it a legal one or not.
fn looks_numeric(field: &[u8]) -> bool {
    matches!(field.first(), Some(b'0'..=b'9' | b'-' | b'+' | b'.'))
}

/// A number, or where `k` says so as many letters. Those are of either strand where keys are canonical; numbers are the
/// keys themselves.
fn key(field: &[u8], k: Option<u32>, options: &ReadOptions) -> std::result::Result<Number, String> {
    match k {
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
        _ => number(field),
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
            format!("`{}` is not a whole number from {least} to {greatest} ({advice})", shown(field))
        }
    })
}

/// The bits of the double that is nearest to a decimal.
fn double(field: &[u8]) -> std::result::Result<Number, String> {
    let number = std::str::from_utf8(field).ok().and_then(|text| text.parse::<f64>().ok());
    number.map(|number| number.to_bits().into()).ok_or_else(|| match field {
        [] => "is missing".into(),
        _ => format!("`{}` is not a number (columns are separated by commas or tabs)", shown(field)),
    })
}

/// Why a field is not a whole number, and what to do if it is another number.
fn of_doubles(field: &[u8], reason: String) -> String {
    let advice = "; where numbers are not all whole, give --values f64";
    if double(field).is_ok() { reason + advice } else { reason }
}

/// The start of a field, for messages.
fn shown(field: &[u8]) -> Cow<'_, str> {
    const LONGEST: usize = 40;
    String::from_utf8_lossy(&field[..field.len().min(LONGEST)])
}
