//! Rows in a temporary file until their types are known, which for text is after the last row.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{ArrayRef, RecordBatch, UInt64Array};
use arrow_schema::{DataType, Field, Schema};
use koel_arrow::external::{self, Limit};

use super::{Inputs, Named, ReadOptions, Sink, Want, note_types};
use crate::failure::Result;
use crate::number::{Numbers, Span, Type, Words};

/// Rows of all inputs: keys and values are words of 64 bits, which hold all numbers.
pub(crate) struct Spooled {
    file: external::Spooled,
    columns: [Column; 2],
    rows: u64,
}

/// What is known of a column.
#[derive(Clone, Copy, Default)]
struct Column {
    named: Option<Type>,
    span: Span,
}

impl Column {
    fn kind(&self) -> Type {
        self.named.or(self.span.narrowest()).unwrap_or(Type::I64)
    }
}

impl Spooled {
    pub(crate) fn read(inputs: Inputs<'_>, options: &ReadOptions, want: Want) -> Result<Spooled> {
        let schema = Schema::new(["key", "value"].map(|name| Field::new(name, DataType::UInt64, false)).to_vec());
        let file = external::Spooled::new(&Arc::new(schema), &Limit::new(u64::MAX));
        let mut rows = Spooled { file, columns: [Column::default(); 2], rows: 0 };
        let shown = inputs.shown();
        let options = ReadOptions { spool: true, ..options.clone() };
        inputs.read(&options, want, &mut rows)?;
        note_types(&shown, rows.columns.map(|column| column.named.is_none().then(|| column.kind())));
        Ok(rows)
    }

    /// The types of keys and of values.
    pub(crate) fn types(&self) -> (Type, Type) {
        (self.columns[0].kind(), self.columns[1].kind())
    }

    /// A span of all types that hold the keys.
    pub(crate) fn span_of_keys(&self) -> Span {
        self.columns[0].span
    }

    pub(crate) fn len(&self) -> u64 {
        self.rows
    }

    /// Keys and values of all rows, in blocks.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = Result<(Numbers, Numbers)>> {
        let kinds = self.types();
        self.file.read().map(move |batch| {
            let batch = batch?;
            let column = |at| batch.column(at).as_primitive::<UInt64Type>().values().to_vec();
            Ok((Numbers::of(column(0), kinds.0), Numbers::of(column(1), kinds.1)))
        })
    }
}

impl Sink for Spooled {
    fn begin(&mut self, named: Named) -> Result<()> {
        (self.columns[0].named, self.columns[1].named) = (named.keys, named.values);
        Ok(())
    }

    fn append(&mut self, keys: Words, values: Words) -> Result<()> {
        self.columns[0].span = self.columns[0].span.and(keys.span());
        self.columns[1].span = self.columns[1].span.and(values.span());
        self.rows += keys.len() as u64;
        let column = |words: Words| Arc::new(UInt64Array::from(words.into_vec())) as ArrayRef;
        let batch = RecordBatch::try_from_iter([("key", column(keys)), ("value", column(values))]);
        Ok(self.file.push(&batch.map_err(koel_arrow::Error::from)?)?)
    }
}
