//! Key columns for joins and groups.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, UInt32Array, new_empty_array};
use arrow_schema::{ArrowError, DataType, Schema};
use koel::Error as KoelError;

use crate::concat::concat;
use crate::error::{Error, Result, named};
use crate::plain::{check_dictionaries, plain, plain_type};
use crate::starts::Starts;
use crate::take::{ends, take_chunks};
use crate::wide::{is_too_narrow, wide_type, widened, within_offsets};

/// A column, in one piece or several.
#[derive(Clone, Debug)]
pub struct Column {
    name: String,
    data_type: DataType,
    chunks: Vec<ArrayRef>,
    starts: Starts,
    rows: usize,
}

impl Column {
    /// A column in one piece.
    pub fn new(name: impl Into<String>, array: ArrayRef) -> Self {
        let (data_type, rows) = (array.data_type().clone(), array.len());
        let starts = Starts::of_lengths(std::iter::once(rows));
        Column { name: name.into(), data_type, chunks: vec![array], starts, rows }
    }

    /// The column of this name in batches of one schema.
    ///
    /// # Errors
    /// [`Error::MissingColumn`], [`Error::AmbiguousColumn`]; [`Error::Arrow`] if a batch has another schema.
    pub fn of_batches(schema: &Schema, batches: &[RecordBatch], name: &str) -> Result<Self> {
        let mut places = schema.fields().iter().enumerate().filter(|(_, field)| field.name() == name);
        let Some((at, field)) = places.next() else {
            let there = schema.fields().iter().map(|field| field.name().clone()).collect();
            return Err(Error::MissingColumn { column: name.into(), there });
        };
        if places.next().is_some() {
            return Err(Error::AmbiguousColumn { column: name.into() });
        }
        let missing = || ArrowError::SchemaError(format!("a batch has no column {}, and its schema has", named(name)));
        let chunks = batches.iter().map(|batch| batch.columns().get(at).cloned().ok_or_else(missing));
        Column::of_chunks(name, field.data_type(), chunks.collect::<std::result::Result<_, _>>()?)
    }

    /// A column in these pieces.
    ///
    /// # Errors
    /// [`Error::Arrow`] if a piece has another type; [`koel::Error::TooLarge`] for 2^32 - 1 or more rows.
    pub fn of_chunks(name: impl Into<String>, data_type: &DataType, mut chunks: Vec<ArrayRef>) -> Result<Self> {
        let name = name.into();
        if let Some(other) = chunks.iter().map(|chunk| chunk.data_type()).find(|of| *of != data_type) {
            let what =
                format!("a piece of column {} is of type {other} where the column is of {data_type}", named(&name));
            return Err(ArrowError::SchemaError(what).into());
        }
        // Empty pieces are dropped, so that every piece has rows.
        chunks.retain(|chunk| !chunk.is_empty());
        let rows = chunks.iter().map(|chunk| chunk.len()).sum();
        check_rows(rows)?;
        let starts = Starts::of(&chunks);
        Ok(Column { name, data_type: data_type.clone(), chunks, starts, rows })
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The type.
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// The pieces, in order.
    pub fn chunks(&self) -> &[ArrayRef] {
        &self.chunks
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The rows with these numbers, in one piece; null if a number is null.
    ///
    /// # Errors
    /// [`Error::Arrow`] for an invalid row number; [`Error::NotOneArray`] for more than 2 GiB of text, and for pieces
    /// whose dictionaries together have more values than their keys can number ([`take_wide`](Self::take_wide) has
    /// neither limit).
    pub fn take(&self, rows: &UInt32Array) -> Result<ArrayRef> {
        if let Some((_, row)) = ends(rows).filter(|&(_, row)| row as usize >= self.rows) {
            let what = format!("row {row} of column {}, which has {} rows", named(&self.name), self.rows);
            return Err(ArrowError::InvalidArgumentError(what).into());
        }
        let taken = check_dictionaries(&self.chunks)
            .and_then(|()| take_chunks(&self.data_type, &self.chunks, &self.starts, rows));
        taken.and_then(within_offsets).map_err(|error| self.refused(error))
    }

    /// As [`take`](Self::take), but if the rows do not fit the type of the column, the result has 64-bit offsets
    /// (LargeUtf8, LargeBinary, LargeList) and dictionaries with 32-bit keys.
    ///
    /// # Errors
    /// [`Error::Arrow`] for an invalid row number; [`Error::NotOneArray`] for rows that do not fit these types either,
    /// for example maps of more than 2^31 entries.
    pub fn take_wide(&self, rows: &UInt32Array) -> Result<ArrayRef> {
        match self.take(rows) {
            Err(error) if error.is_too_long() && wide_type(&self.data_type) != self.data_type => {
                let chunks = self.chunks.iter().map(widened).collect::<Result<_>>()?;
                let data_type = wide_type(&self.data_type);
                let starts = self.starts.clone();
                Column { name: self.name.clone(), data_type, chunks, starts, rows: self.rows }.take(rows)
            }
            taken => taken,
        }
    }

    /// Adds the name of the column to an error that reports that the result does not fit its type.
    fn refused(&self, error: ArrowError) -> Error {
        match is_too_narrow(&error) {
            true => Error::NotOneArray { column: self.name.clone(), found: self.data_type.clone() },
            false => error.into(),
        }
    }

    /// The same rows in one piece.
    ///
    /// # Errors
    /// [`Error::NotOneArray`] for more than 2 GiB of text, and for pieces whose dictionaries together have more values
    /// than their keys can number ([`plain`](Self::plain) avoids this).
    pub fn one_piece(&self) -> Result<Self> {
        let whole = match &self.chunks[..] {
            [one] => Arc::clone(one),
            [] => new_empty_array(&self.data_type),
            several => {
                let whole = check_dictionaries(several).and_then(|()| concat(several)).and_then(within_offsets);
                whole.map_err(|error| self.refused(error))?
            }
        };
        Ok(Column::new(self.name.clone(), whole))
    }

    /// The same rows, with values instead of dictionaries, also in structs.
    ///
    /// # Errors
    /// [`Error::NotOneArray`] if the values of a piece, one per row, are more than 2 GiB of text.
    pub fn plain(&self) -> Result<Self> {
        let chunks = self.chunks.iter().map(plain).collect::<std::result::Result<_, ArrowError>>();
        let chunks = chunks.map_err(|error| self.refused(error))?;
        let (data_type, starts) = (plain_type(&self.data_type), self.starts.clone());
        Ok(Column { name: self.name.clone(), data_type, chunks, starts, rows: self.rows })
    }

    /// The first row of each piece.
    pub(crate) fn starts(&self) -> &Starts {
        &self.starts
    }

    /// Whether any row is not null.
    pub fn has_values(&self) -> bool {
        self.chunks.iter().any(|chunk| chunk.logical_null_count() < chunk.len())
    }

    /// Returns a function that tests whether a row is not null.
    pub(crate) fn is_there(&self) -> impl Fn(u32) -> bool + use<> {
        let starts = self.starts.clone();
        let nulls: Vec<_> = self.chunks.iter().map(|chunk| chunk.logical_nulls()).collect();
        move |row| {
            let (piece, row) = starts.place(row);
            nulls[piece].as_ref().is_none_or(|nulls| nulls.is_valid(row))
        }
    }
}

/// Checks the number of rows: row numbers have 32 bits, and the last one marks a missing row.
fn check_rows(rows: usize) -> Result<()> {
    const MOST: u64 = u32::MAX as u64 - 1;
    match rows as u64 {
        requested if requested > MOST => {
            Err(KoelError::TooLarge { what: "rows of a table (give it in parts)", requested, most: MOST }.into())
        }
        _ => Ok(()),
    }
}

/// The key columns of a table: at least one, all of the same length. The key of a row consists of its values in all of
/// them.
#[derive(Clone, Debug)]
pub struct Keys {
    columns: Vec<Column>,
    rows: usize,
}

impl Keys {
    /// Keys with these columns.
    ///
    /// # Errors
    /// [`Error::KeyCount`] if there are no columns, [`Error::Uneven`], [`koel::Error::TooLarge`] for 2^32 - 1 or more
    /// rows.
    pub fn new(columns: Vec<Column>) -> Result<Self> {
        let Some(first) = columns.first() else {
            return Err(Error::KeyCount { left: 0, right: 0 });
        };
        let rows = first.rows;
        if let Some(uneven) = columns.iter().find(|column| column.rows != rows) {
            return Err(Error::Uneven { column: uneven.name.clone(), rows: uneven.rows, expected: rows });
        }
        check_rows(rows)?;
        Ok(Keys { columns, rows })
    }

    /// Keys with these arrays, which error messages call 0, 1, and so on.
    ///
    /// # Errors
    /// As [`Keys::new`].
    pub fn of_arrays(arrays: &[ArrayRef]) -> Result<Self> {
        Keys::new(arrays.iter().enumerate().map(|(i, array)| Column::new(i.to_string(), Arc::clone(array))).collect())
    }

    /// Keys with the columns of these names in batches of one schema.
    ///
    /// # Errors
    /// As [`Keys::new`] and [`Column::of_batches`].
    pub fn of_batches<S: AsRef<str>>(schema: &Schema, batches: &[RecordBatch], names: &[S]) -> Result<Self> {
        Keys::new(names.iter().map(|name| Column::of_batches(schema, batches, name.as_ref())).collect::<Result<_>>()?)
    }

    /// The columns.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }
}
