//! Aggregates rows in pieces, for keys whose rows do not fit in memory.
//!
//! ```text
//! piece        the id of each row's key, from a map of the bytes of keys
//!   counts, sums     added to those of the previous pieces (sums.rs)
//!   other aggregates group_by of the piece by ids: one row per id
//! finish       group_by of these rows by ids: for example, the minimum of the minima, the first of the first values
//! ```
//!
//! Distinct values cannot be counted per piece, because a value may occur in two pieces. The caller computes the
//! distinct rows, and passes them to [`Fold::add_distinct`].

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, UInt32Array};
use arrow_row::{RowConverter, SortField};
use arrow_schema::SchemaRef;
use arrow_select::concat::concat_batches;
use koel::IdOrder;

use super::group::Of;
use super::grouping::Grouping;
use super::parts::numbers;
use super::spill::copied;
use super::sums::Sums;
use super::{Side, batch_of};
use crate::aggregate::{Aggregation, Function};
use crate::canonical::canonical;
use crate::error::Result;
use crate::group::{NO_GROUP, NullKeys, distinct, factorize};
use crate::groups::Groups;
use crate::keys::{Column, Keys};
use crate::values::{Values, present};

/// Aggregates of rows that arrive in pieces.
pub(super) struct Fold<'a> {
    grouping: &'a Grouping<'a>,
    side: &'a Side,
    /// The columns of groups, followed by the number of the first row.
    schema: SchemaRef,
    ids: Ids,
    /// The state of counts and sums; `None` for other aggregates.
    sums: Vec<Option<Sums>>,
    /// For each column whose distinct values are counted: the number of distinct values per id.
    distinct: HashMap<usize, Vec<i64>>,
    /// The result of group_by for each piece: ids, keys, the number of the first row, and the other aggregates.
    pieces: Vec<RecordBatch>,
}

impl<'a> Fold<'a> {
    pub(super) fn new(grouping: &'a Grouping<'a>, side: &'a Side, schema: &SchemaRef) -> Self {
        let sums = |(of, at): (&Of, usize)| {
            let column = of.column.map(|column| side.schema.field(column));
            Sums::of(of.function, column, schema.field(at).data_type())
        };
        let sums = grouping.aggregates.iter().zip(grouping.by.len()..).map(sums).collect();
        let counted = grouping.aggregates.iter().filter(|of| of.function == Function::DistinctCount);
        let distinct = counted.filter_map(|of| Some((of.column?, Vec::new()))).collect();
        Fold { grouping, side, schema: Arc::clone(schema), ids: Ids::default(), sums, distinct, pieces: Vec::new() }
    }

    /// The columns whose distinct values are counted.
    pub(super) fn distinct_columns(&self) -> Vec<usize> {
        let mut columns: Vec<usize> = self.distinct.keys().copied().collect();
        columns.sort_unstable();
        columns
    }

    /// Adds the next rows.
    pub(super) fn add(&mut self, batches: Vec<RecordBatch>) -> Result<()> {
        let columns = self.side.columns(batches)?;
        let keys = Keys::new(self.side.keys.iter().map(|&key| columns[key].clone()).collect())?;
        let ids = self.ids.of_rows(self.grouping, &keys)?;
        for (of, sums) in self.grouping.aggregates.iter().zip(&mut self.sums) {
            match (sums, of.column.map(|column| &columns[column])) {
                (Some(sums), Some(column)) if of.function == Function::Count => {
                    sums.count(&present(column, ids.values()).ids)
                }
                (Some(sums), Some(column)) => sums.add(&Values::of(column, ids.values()))?,
                (Some(sums), None) => sums.count(ids.values()),
                (None, _) => (),
            }
        }
        let others = self.others().map(|of| of.column.map(|column| (of.function, columns[column].clone())));
        let piece = self.one_row_an_id(ids, &columns, others.flatten().collect(), NullKeys::Drop)?;
        // The piece has one row per key; without a copy, it would keep the buffers of all rows in memory.
        self.pieces.push(copied(&piece)?);
        Ok(())
    }

    /// Adds the distinct rows of the key columns and this column.
    pub(super) fn add_distinct(&mut self, column: usize, rows: &RecordBatch) -> Result<()> {
        let keys = self.side.keys.len();
        let column_of = |at: usize| Column::new(self.side.schema.field(at).name(), Arc::clone(rows.column(at)));
        let values = column_of(keys);
        let ids = self.ids.of_rows(self.grouping, &Keys::new((0..keys).map(column_of).collect())?)?;
        let counts = self.distinct.entry(column).or_default();
        for &id in present(&values, ids.values()).ids.iter().filter(|&&id| id != NO_GROUP) {
            if counts.len() <= id as usize {
                counts.resize(id as usize + 1, 0);
            }
            counts[id as usize] += 1;
        }
        Ok(())
    }

    /// The groups, with the numbers of their first rows.
    pub(super) fn finish(mut self) -> Result<RecordBatch> {
        let Some(first) = self.pieces.first() else { return Ok(RecordBatch::new_empty(self.schema)) };
        let pieces = concat_batches(&first.schema(), &std::mem::take(&mut self.pieces))?;
        let [id, columns @ ..] = pieces.columns() else { return Ok(RecordBatch::new_empty(self.schema)) };
        let ids: UInt32Array = UInt32Array::from(id.to_data());
        let column = |column: &ArrayRef| Column::new("", Arc::clone(column));
        let keys = self.side.keys.len();
        // Keys and numbers are at the same positions as in the pieces.
        let others = self.others().map(|of| of.function).zip(columns[keys + 1..].iter().map(column)).collect();
        let heads: Vec<Column> = columns[..=keys].iter().map(column).collect();
        let groups = self.heads_and(ids, &heads, others, NullKeys::Group)?;
        let numbers_at = keys + 1;
        let numbered = batch_of(&numbers_schema(), vec![Arc::clone(groups.column(numbers_at))], groups.num_rows())?;
        let first_occurrences = numbers(&numbered);
        let mut others = groups.columns()[numbers_at + 1..].iter();
        let mut found: Vec<ArrayRef> = groups.columns()[1..=keys].to_vec();
        for ((of, sums), at) in self.grouping.aggregates.iter().zip(self.sums).zip(keys..) {
            let field = self.schema.field(at);
            found.push(match (sums, of.column) {
                (Some(sums), column) => sums.finish(
                    column.map(|column| self.side.schema.field(column)),
                    field.data_type(),
                    first_occurrences,
                )?,
                (None, Some(column)) if of.function == Function::DistinctCount => {
                    let mut counts = self.distinct.get(&column).cloned().unwrap_or_default();
                    counts.resize(groups.num_rows(), 0);
                    Arc::new(Int64Array::from(counts))
                }
                (None, _) => others
                    .next()
                    .map_or_else(|| arrow_array::new_null_array(field.data_type(), groups.num_rows()), Arc::clone),
            });
        }
        found.push(Arc::clone(groups.column(numbers_at)));
        let groups = batch_of(&self.schema, found, groups.num_rows())?;
        // Ids are already in order of first occurrence.
        match self.grouping.order {
            IdOrder::Ascending => {
                let key = |at: usize| Column::new("", Arc::clone(groups.column(at)));
                let keys = Keys::new((0..keys).map(key).collect())?;
                let rows = distinct(self.grouping.device, &keys, IdOrder::Ascending, NullKeys::Group)?;
                Ok(crate::take::take_batch(&groups, &rows)?)
            }
            _ => Ok(groups),
        }
    }

    /// The aggregates for which the results of pieces are aggregated by group_by.
    fn others(&self) -> impl Iterator<Item = &Of> {
        let is_other = |of: &&Of| !matches!(of.function, Function::DistinctCount);
        self.grouping
            .aggregates
            .iter()
            .zip(&self.sums)
            .filter(|(_, sums)| sums.is_none())
            .map(|(of, _)| of)
            .filter(is_other)
    }

    /// One row per id. `columns` are all columns of the rows.
    fn one_row_an_id(
        &self,
        ids: UInt32Array,
        columns: &[Column],
        others: Vec<(Function, Column)>,
        nulls: NullKeys,
    ) -> Result<RecordBatch> {
        let mut heads: Vec<Column> = self.side.keys.iter().map(|&key| columns[key].clone()).collect();
        heads.extend(columns.last().cloned());
        self.heads_and(ids, &heads, others, nulls)
    }

    /// One row per id, in ascending order: the first value of each of these columns, and these aggregates.
    fn heads_and(
        &self,
        ids: UInt32Array,
        heads: &[Column],
        others: Vec<(Function, Column)>,
        nulls: NullKeys,
    ) -> Result<RecordBatch> {
        let keys = Keys::new(vec![Column::new("", Arc::new(ids))])?;
        let mut wanted: Vec<Aggregation> =
            heads.iter().map(|head| Aggregation::new(Function::First, head.clone())).collect();
        wanted.extend(others.into_iter().map(|(function, column)| Aggregation::new(function, column)));
        Groups::of(self.grouping.device, &keys, &wanted, IdOrder::Ascending, nulls)?.batch(Column::take)
    }
}

fn numbers_schema() -> SchemaRef {
    super::parts::numbered_schema(&arrow_schema::Schema::empty())
}

/// Numbers keys, in order of first occurrence.
#[derive(Default)]
struct Ids(HashMap<Box<[u8]>, u32>);

impl Ids {
    /// The id of each row's key; null for rows without a group.
    fn of_rows(&mut self, grouping: &Grouping<'_>, keys: &Keys) -> Result<UInt32Array> {
        let groups = factorize(grouping.device, keys, IdOrder::FirstSeen, grouping.nulls)?;
        let columns = groups.keys(keys)?.iter().map(canonical).collect::<Result<Vec<ArrayRef>>>()?;
        let fields = columns.iter().map(|column| SortField::new(column.data_type().clone())).collect();
        let bytes = RowConverter::new(fields)?.convert_columns(&columns)?;
        let mut of_group = Vec::with_capacity(groups.len());
        for key in &bytes {
            let next = self.0.len() as u32;
            of_group.push(*self.0.entry(key.as_ref().into()).or_insert(next));
        }
        let of_row = |&code: &u32| of_group.get(code as usize).copied().unwrap_or(NO_GROUP);
        let ids = groups.codes.values().iter().map(of_row).collect::<Vec<_>>();
        Ok(UInt32Array::new(ids.into(), groups.codes.nulls().cloned()))
    }
}
