//! Duplicate texts of a column: equal ones, by document, paragraph or line, and similar ones.
//!
//! The table is read twice. The first pass finds the duplicates, without keeping more text in memory than the limit
//! allows; the second pass removes them:
//!
//! ```text
//! find     exact    units of text, numbered -> GroupBy -> the least number of each distinct text      (exact.rs, units.rs)
//!          near     a signature per document -> bands -> groups -> pairs -> clusters                  (near.rs, sketch.rs)
//!          result   a bit per unit; and on request, the row that is kept in place of each row
//! filter   the rows, or the text of rows, without the units whose bit is not set
//!
//! normalize.rs   removal of ignored differences       text.rs       columns of text of any layout
//! parameters.rs  parameters, checked                  signatures.rs signatures, in memory or in a temporary file
//! ```
//!
//! The first of several duplicates, in the order of rows, is kept. The result does not depend on the device, the number
//! of threads, the memory limit, or the division of the table into batches.

mod exact;
mod near;
mod normalize;
mod parameters;
mod signatures;
mod sketch;
#[cfg(test)]
mod tests;
mod text;
mod units;

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch, UInt32Array};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrow_select::filter::filter_record_batch;
use koel::Any;
use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::external::{Limit, Stage};
use crate::plain::plain_type;

pub use normalize::Normalize;
pub use parameters::{Near, Unit};

use text::Texts;

/// The parameters of a deduplication.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, RecordBatch, StringArray};
/// use koel_arrow::Error;
/// use koel_arrow::dedup::{Dedup, Normalize, Unit};
/// use koel_arrow::external::Limit;
///
/// let texts: ArrayRef = Arc::new(StringArray::from(vec!["A fig.", "a plum", "a  FIG."]));
/// let table = RecordBatch::try_from_iter([("text", texts)])?;
/// let dedup = Dedup {
///     devices: &[koel::auto().backend],
///     column: "text",
///     unit: Unit::Document,
///     near: None,
///     normalize: Normalize { case: true, whitespace: true, ..Normalize::default() },
///     limit: &Limit::new(100_000_000),
///     watch: &|_| (),
/// };
/// let found = dedup.find(&table.schema(), [Ok::<_, Error>(table.clone())], true)?;
/// assert_eq!(found.kept_rows(), Some(&[0, 1, 0][..]));
/// assert_eq!(dedup.filter(&found).batch(&table)?, table.slice(0, 2));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct Dedup<'a> {
    /// The devices that group texts or bands; the result does not depend on them.
    pub devices: &'a [Any],
    /// The column of text.
    pub column: &'a str,
    /// The unit of text that is compared and removed.
    pub unit: Unit,
    /// How similar documents are found; `None` finds equal ones.
    pub near: Option<Near>,
    /// What is ignored in comparisons. The text that is kept is not changed.
    pub normalize: Normalize,
    /// The memory limit.
    pub limit: &'a Limit,
    /// Receives progress reports, on the calling thread.
    pub watch: &'a dyn Fn(Stage),
}

/// The duplicates of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Duplicates {
    /// Rows of the table.
    pub rows: u64,
    /// Units of text.
    pub units: u64,
    /// Units that are duplicates of earlier ones.
    pub duplicates: u64,
    /// The number of bytes written to temporary files, by the grouping and for texts or signatures.
    pub spilled: u64,
    kept: Vec<u64>,
    kept_rows: Option<Vec<u32>>,
}

impl Duplicates {
    /// For each row, the row that is kept in its place: the first of its duplicates, or the row itself. `None` if
    /// [`Dedup::find`] did not compute them.
    pub fn kept_rows(&self) -> Option<&[u32]> {
        self.kept_rows.as_deref()
    }

    /// Whether a unit is kept.
    fn is_kept(&self, unit: u64) -> bool {
        self.kept.get((unit / 64) as usize).is_some_and(|word| word >> (unit % 64) & 1 == 1)
    }

    fn keep(&mut self, unit: u64) {
        let word = (unit / 64) as usize;
        if self.kept.len() <= word {
            self.kept.resize(word + 1, 0);
        }
        self.kept[word] |= 1 << (unit % 64);
    }
}

impl Dedup<'_> {
    /// Finds the duplicates of a table with this schema. `with_kept_rows` also computes [`Duplicates::kept_rows`], for
    /// documents. To find equal documents, it buffers their text, in a temporary file if it exceeds a quarter of the
    /// limit.
    ///
    /// Rows whose text is null are never duplicates, and neither are blank lines and paragraphs.
    ///
    /// Memory in addition to batches of the table: a bit per unit, and with `with_kept_rows` 4 bytes per row. Similar
    /// documents also need about 64 bytes per row, and their signatures, which are written to a temporary file if they
    /// exceed their share of the limit.
    ///
    /// # Errors
    /// [`Error::MissingColumn`], [`Error::AmbiguousColumn`], [`Error::UnsupportedValue`] for a column that is not text,
    /// [`koel::Error::InvalidParameter`], [`koel::Error::TooLarge`] for 2^32 - 1 or more rows if similar documents or
    /// the kept rows are requested, [`Error::LimitTooSmall`], those of
    /// [`GroupBy::run`](crate::external::GroupBy::run), and those of the table.
    pub fn find<E: From<Error> + Send>(
        &self,
        schema: &SchemaRef,
        table: impl IntoIterator<Item = std::result::Result<RecordBatch, E>>,
        with_kept_rows: bool,
    ) -> std::result::Result<Duplicates, E> {
        let at = self.place(schema)?;
        self.check(with_kept_rows)?;
        match self.near {
            None => self.exact(schema, at, table.into_iter(), with_kept_rows),
            Some(near) => self.similar(&near, at, table.into_iter()),
        }
    }

    /// The schema of rows without duplicates. If lines or paragraphs are removed, a column of dictionaries of text
    /// becomes a column of plain text.
    ///
    /// # Errors
    /// As [`find`](Self::find).
    pub fn schema(&self, of: &SchemaRef) -> Result<SchemaRef> {
        let at = self.place(of)?;
        if self.unit == Unit::Document {
            return Ok(Arc::clone(of));
        }
        let mut fields: Vec<Field> = of.fields().iter().map(|field| field.as_ref().clone()).collect();
        fields[at].set_data_type(plain_type(of.field(at).data_type()));
        Ok(Arc::new(Schema::new_with_metadata(fields, of.metadata().clone())))
    }

    /// Removes duplicates from the batches of the same table, which are read again in the same order.
    pub fn filter<'b>(&'b self, found: &'b Duplicates) -> Filter<'b> {
        Filter { dedup: self, found, next: 0 }
    }

    /// The index of the column of text.
    fn place(&self, schema: &SchemaRef) -> Result<usize> {
        let mut places = schema.fields().iter().enumerate().filter(|(_, field)| field.name() == self.column);
        let (at, field) = places.next().ok_or_else(|| Error::MissingColumn {
            column: self.column.into(),
            there: schema.fields().iter().map(|field| field.name().clone()).collect(),
        })?;
        if places.next().is_some() {
            return Err(Error::AmbiguousColumn { column: self.column.into() });
        }
        match plain_type(field.data_type()) {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null => Ok(at),
            _ => Err(Error::UnsupportedValue {
                function: "the deduplication",
                column: self.column.into(),
                found: field.data_type().clone(),
                advice: "duplicates are found in text: cast it to Utf8, or find distinct rows",
            }),
        }
    }

    fn check(&self, with_kept_rows: bool) -> Result<()> {
        let wrong = |what, advice| koel::Error::InvalidParameter { what, given: self.unit.name().into(), advice };
        if let Some(near) = &self.near {
            near.check()?;
        }
        if self.unit != Unit::Document && self.near.is_some() {
            return Err(wrong("the unit of near-duplicates", "near-duplicates are found by document").into());
        }
        if self.unit != Unit::Document && with_kept_rows {
            return Err(wrong("the unit of clusters", "clusters are of documents").into());
        }
        Ok(())
    }
}

impl std::fmt::Debug for Dedup<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Dedup");
        shown.field("column", &self.column).field("unit", &self.unit).field("near", &self.near);
        shown.field("normalize", &self.normalize).field("limit", &self.limit).finish_non_exhaustive()
    }
}

/// The second pass: batches without duplicates.
#[derive(Debug)]
pub struct Filter<'a> {
    dedup: &'a Dedup<'a>,
    found: &'a Duplicates,
    /// The number of the next row, or unit.
    next: u64,
}

impl Filter<'_> {
    /// The rows of the next batch without duplicates. If units are lines or paragraphs, the rest of each text is kept,
    /// and rows are dropped whose whole text was removed.
    ///
    /// # Errors
    /// As [`Dedup::find`].
    pub fn batch(&mut self, batch: &RecordBatch) -> Result<RecordBatch> {
        match self.dedup.unit {
            Unit::Document => {
                let first = self.next;
                self.next += batch.num_rows() as u64;
                let kept = BooleanBuffer::collect_bool(batch.num_rows(), |row| self.found.is_kept(first + row as u64));
                Ok(filter_record_batch(batch, &BooleanArray::new(kept, None))?)
            }
            _ => {
                let (texts, left) = self.shortened(batch)?;
                let mut columns: Vec<ArrayRef> = batch.columns().to_vec();
                columns[self.dedup.place(&batch.schema())?] = texts;
                let rows = RecordBatch::try_new(self.dedup.schema(&batch.schema())?, columns)?;
                Ok(filter_record_batch(&rows, &left)?)
            }
        }
    }

    /// The rows that are kept in place of the next `rows` rows.
    pub fn kept_rows(&mut self, rows: usize) -> UInt32Array {
        let all = self.found.kept_rows().unwrap_or_default();
        let start = (self.next as usize).min(all.len());
        self.next += rows as u64;
        all[start..(start + rows).min(all.len())].to_vec().into()
    }

    /// The texts of the next batch without duplicates, as in [`batch`](Self::batch), but every row is kept: a text that
    /// was removed completely becomes empty.
    ///
    /// # Errors
    /// As [`Dedup::find`].
    pub fn texts(&mut self, batch: &RecordBatch) -> Result<ArrayRef> {
        Ok(self.shortened(batch)?.0)
    }

    /// The texts of a batch without duplicates, and for each text whether any part of it is left.
    fn shortened(&mut self, batch: &RecordBatch) -> Result<(ArrayRef, BooleanArray)> {
        let unit = self.dedup.unit;
        let column = Texts::of(batch.column(self.dedup.place(&batch.schema())?))?;
        let texts = column.rows();
        let counts: Vec<u64> =
            texts.par_iter().map(|text| text.map_or(0, |text| unit.split(text).count() as u64)).collect();
        let starts: Vec<u64> =
            counts.iter().scan(self.next, |next, count| Some(std::mem::replace(next, *next + count))).collect();
        self.next += counts.iter().sum::<u64>();
        let shorter = texts.par_iter().zip(&starts).map(|(text, &start)| {
            text.map(|text| {
                let kept = unit.split(text).zip(start..).filter(|&(_, number)| self.found.is_kept(number));
                kept.map(|(piece, _)| piece.whole).collect::<String>()
            })
        });
        let mut shorter: Vec<Option<String>> = shorter.collect();
        let is_left = |row: usize| match (&texts[row], &shorter[row]) {
            (Some(old), Some(new)) => old.len() == new.len() || !new.trim().is_empty(),
            _ => true,
        };
        let left = BooleanArray::new(BooleanBuffer::collect_bool(texts.len(), is_left), None);
        for (text, is_left) in shorter.iter_mut().zip(left.values()) {
            if !is_left {
                *text = Some(String::new());
            }
        }
        Ok((column.like(&shorter), left))
    }
}
