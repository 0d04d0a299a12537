//! The groups of a table. Keys and first values are taken from their columns when they are needed, so that the result
//! is created and written in pieces.

use std::cell::OnceCell;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, UInt32Array};
use arrow_schema::{Field, Schema};
use koel::{Any, IdOrder};

use crate::aggregate::{Aggregation, aggregated};
use crate::ascending;
use crate::error::{Error, Result};
use crate::group::{Factorized, NullKeys, distinct, factorize};
use crate::keys::{Column, Keys};

/// A column of groups.
pub(crate) enum GroupColumn {
    Values(ArrayRef),
    /// The values of these rows of a column.
    Rows(Box<Column>, UInt32Array),
}

/// Takes rows of a column by number.
type Take = fn(&Column, &UInt32Array) -> Result<ArrayRef>;

impl GroupColumn {
    pub(crate) fn of(values: impl Array + 'static) -> Self {
        GroupColumn::Values(Arc::new(values))
    }

    pub(crate) fn rows(column: &Column, rows: UInt32Array) -> Self {
        GroupColumn::Rows(column.clone().into(), rows)
    }

    /// All values, created by `take`.
    pub(crate) fn all(&self, take: Take) -> Result<ArrayRef> {
        match self {
            GroupColumn::Values(values) => Ok(Arc::clone(values)),
            GroupColumn::Rows(column, rows) => take(column, rows),
        }
    }

    fn some(&self, groups: &Range<usize>) -> Result<ArrayRef> {
        match self {
            GroupColumn::Values(values) => Ok(values.slice(groups.start, groups.len())),
            GroupColumn::Rows(column, rows) => column.take(&rows.slice(groups.start, groups.len())),
        }
    }
}

/// The keys and the aggregates of all groups.
pub(crate) struct Groups {
    names: Vec<String>,
    columns: Vec<GroupColumn>,
    len: usize,
}

impl Groups {
    /// Groups rows by their keys.
    ///
    /// # Errors
    /// As [`group_by`](crate::group_by).
    pub(crate) fn of(
        device: &Any,
        keys: &Keys,
        aggregations: &[Aggregation],
        order: IdOrder,
        nulls: NullKeys,
    ) -> Result<Groups> {
        let columns = aggregations.iter().filter_map(Aggregation::column);
        if let Some(column) = columns.into_iter().find(|column| column.len() != keys.len()) {
            return Err(Error::Uneven { column: column.name().into(), rows: column.len(), expected: keys.len() });
        }
        if let Some((values, counts)) = ascending::integers(device, keys, aggregations, order)? {
            let names = keys.columns().iter().map(Column::name).chain(aggregations.iter().map(Aggregation::name));
            let (names, len) = (names.map(str::to_owned).collect(), values.len());
            let counts = aggregations.iter().flat_map(|_| counts.clone());
            return Ok(Groups {
                names,
                columns: [values].into_iter().chain(counts).map(GroupColumn::Values).collect(),
                len,
            });
        }
        let groups = match aggregations.iter().all(Aggregation::is_first) {
            true => Factorized { codes: Vec::<u32>::new().into(), rows: distinct(device, keys, order, nulls)? },
            false => factorize(device, keys, order, nulls)?,
        };
        // If values are added up, the same pass counts the rows.
        let counted = OnceCell::new();
        let rows = aggregations.iter().any(Aggregation::is_count_of_rows).then_some(&counted);
        let (of_columns, of_rows): (Vec<_>, Vec<_>) =
            aggregations.iter().enumerate().partition(|(_, aggregation)| !aggregation.is_count_of_rows());
        let mut found = Vec::with_capacity(aggregations.len());
        for (place, aggregation) in of_columns.into_iter().chain(of_rows) {
            found.push((place, aggregation.name(), aggregated(device, &groups, aggregation, rows)?));
        }
        found.sort_unstable_by_key(|&(place, ..)| place);
        let key = |key: &Column| (key.name().to_owned(), GroupColumn::rows(key, groups.rows.clone()));
        let aggregates = found.into_iter().map(|(_, name, column)| (name.to_owned(), column));
        let (names, columns) = keys.columns().iter().map(key).chain(aggregates).unzip();
        Ok(Groups { names, columns, len: groups.len() })
    }

    /// The number of groups.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// All groups in one batch. With [`Column::take`], the schema does not depend on the rows.
    ///
    /// # Errors
    /// Those of `take`.
    pub(crate) fn batch(self, take: Take) -> Result<RecordBatch> {
        let columns = self.columns.iter().map(|column| column.all(take)).collect::<Result<Vec<_>>>()?;
        let field = |(name, column): (String, &ArrayRef)| Field::new(name, column.data_type().clone(), true);
        let fields: Vec<Field> = self.names.into_iter().zip(&columns).map(field).collect();
        Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
    }

    /// The columns of these groups.
    ///
    /// # Errors
    /// As [`Column::take`].
    pub(crate) fn some(&self, groups: Range<usize>) -> Result<Vec<ArrayRef>> {
        self.columns.iter().map(|column| column.some(&groups)).collect()
    }
}
