//! Marks the rows of a table whose keys are among the keys of another table, one batch at a time.

use std::sync::Arc;

use arrow_array::{BooleanArray, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use koel::backend::DeviceKind;
use koel::{Any, HashBackend};

use super::devices::Emit;
use super::ordered::{Ahead, in_order};
use super::right::may_stay;
use super::windows::{LeftBatch, Windows};
use super::{Batches, Limit, Side, batch_of};
use crate::encode::NullEquality;
use crate::error::{Error, Result};
use crate::keys::{Column, Keys};
use crate::probe::FirstKeys;

/// The parameters of [`is_in`](crate::is_in) for tables in batches.
#[derive(Clone, Copy)]
pub struct IsIn<'a> {
    /// The device that looks up keys.
    pub device: &'a Any,
    /// The key columns of the table and of the table of keys, by index.
    pub on: &'a [(usize, usize)],
    /// Whether nulls are equal.
    pub nulls: NullEquality,
    /// The name of the additional column.
    pub name: &'a str,
    /// The memory limit of a batch. All keys are in memory, unless both tables are joined one range at a time
    /// ([`Batches::of_ranges`]).
    pub limit: &'a Limit,
}

impl IsIn<'_> {
    /// The schema of the result for a table with this schema.
    pub fn schema(&self, of: &Schema) -> SchemaRef {
        let mark = Arc::new(Field::new(self.name, DataType::Boolean, false));
        Arc::new(Schema::new(of.fields().iter().cloned().chain([mark]).collect::<Vec<_>>()))
    }

    /// Calls `take` with the batches of a table, in order. Each batch has an additional last column that is true if the
    /// key of the row is among the keys of the other table. Returns the numbers of rows and of keys.
    ///
    /// Cost: an index of all keys, and a lookup per row. On a CPU, all threads of rayon's pool run morsels and look up
    /// rows; on other devices, the calling thread does. It also calls `take` and the iterators of the tables.
    ///
    /// # Errors
    /// As [`is_in`](crate::is_in), [`Error::KeyRange`](crate::Error::KeyRange), [`Error::Arrow`] for a column that does
    /// not exist, and those of the tables and of `take`, after which the work stops.
    pub fn run<E: From<Error> + Send>(
        &self,
        mut table: Batches<'_, E>,
        keys: Batches<'_, E>,
        mut take: impl FnMut(RecordBatch) -> std::result::Result<(), E>,
    ) -> std::result::Result<[u64; 2], E> {
        let schema = self.schema(&table.schema);
        let (by, key) = self.on.iter().copied().unzip();
        // Nothing is spilled, so columns keep their types.
        let (side, key_side) =
            (Side::new(&table.schema, by, &Limit::none())?, Side::new(&keys.schema, key, &Limit::none())?);
        let marked = |batch: &RecordBatch, marks: BooleanArray| -> Result<RecordBatch> {
            let columns = batch.columns().iter().cloned().chain([Arc::new(marks) as _]).collect();
            batch_of(&schema, columns, batch.num_rows())
        };
        let devices = std::slice::from_ref(self.device);
        let limit = self.limit.of(devices, 0);
        if let Some(windows) = Windows::of(self.on, self.nulls, &limit, devices, (&table, &keys))? {
            let work = |left: &LeftBatch, emit: Emit<'_, RecordBatch>| {
                let own = side.range_keys(&left.batch, left.range, true)?;
                emit(marked(&left.batch, left.right.keys.mark(&own))?)
            };
            return Ok([windows.run(&key_side, self.limit, &[], &work, &mut take)?, windows.right_rows()]);
        }
        let keys = self.keys(&key_side, keys)?;
        let index = FirstKeys::new(self.device, &keys, self.nulls)?;
        if self.device.info().kind != DeviceKind::Cpu {
            let (mut rows, bytes) = (0, limit.device_bytes());
            for batches in side.several(table, bytes, bytes) {
                let batches = batches?;
                let (marks, mut start) = (BooleanArray::from(index.contains(&side.keys_of_all(&batches)?)?), 0);
                for batch in &batches {
                    take(marked(batch, marks.slice(start, batch.num_rows()))?)?;
                    start += batch.num_rows();
                }
                rows += start as u64;
            }
            return Ok([rows, keys.len() as u64]);
        }
        let work = |batch: &RecordBatch, emit: Emit<'_, RecordBatch>| {
            emit(marked(batch, index.contains(&side.keys_of(batch)?)?.into())?)
        };
        let rows = in_order(&mut table.morsels, Ahead::of(self.limit)?, &work, &mut |batch, _| take(batch))?;
        Ok([rows, keys.len() as u64])
    }

    /// The keys of a table, in memory.
    fn keys<E: From<Error> + Send>(&self, side: &Side, mut table: Batches<'_, E>) -> std::result::Result<Keys, E> {
        let mut batches = Vec::new();
        let keys =
            |batch: &RecordBatch, emit: Emit<'_, RecordBatch>| emit(batch.project(&side.keys).map_err(Error::from)?);
        in_order(&mut table.morsels, Ahead::of(self.limit)?, &keys, &mut |batch, _| {
            batches.push(batch);
            Ok(())
        })?;
        let column = |(at, &key): (usize, &usize)| {
            let field = table.schema.field(key);
            let pieces = batches.iter().map(|batch| Arc::clone(batch.column(at))).collect();
            let column = Column::of_chunks(field.name(), field.data_type(), pieces)?;
            // Nested columns and dictionaries are concatenated if possible. Otherwise, the dictionary of each piece
            // would be processed separately.
            Ok(if may_stay(field.data_type()) { column } else { column.one_piece().unwrap_or(column) })
        };
        let columns = side.keys.iter().enumerate().map(column).collect::<Result<_>>()?;
        Ok(Keys::new(columns)?)
    }
}

impl std::fmt::Debug for IsIn<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IsIn").field("on", &self.on).field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use arrow_array::{ArrayRef, Int64Array};

    use super::*;
    use crate::external::RangedMorsel;
    use crate::external::windows::JOINED;
    use crate::tests::devices;

    fn column(values: impl IntoIterator<Item = Option<i64>>) -> ArrayRef {
        Arc::new(Int64Array::from_iter(values))
    }

    /// Checks the marks of a table, given in batches and in morsels with the ranges of their keys.
    fn check(
        device: &Any,
        table: &RecordBatch,
        keys: &ArrayRef,
        nulls: NullEquality,
        are_windows: bool,
        per_morsel: usize,
    ) -> Result<()> {
        let limit = Limit::new(u64::MAX);
        let others: HashSet<Option<i64>> = keys.as_primitive::<Int64Type>().iter().collect();
        let is_there = |key: Option<i64>| others.contains(&key) && (key.is_some() || nulls == NullEquality::NullEquals);
        let expected: Vec<bool> = table.column(1).as_primitive::<Int64Type>().iter().map(is_there).collect();
        assert!(expected.iter().filter(|found| **found).count() > 500);
        let [own, all] = [table.column(1), keys].map(|keys| Keys::of_arrays(&[Arc::clone(keys)]));
        assert!(crate::is_in(device, &own?, &all?, nulls)?.iter().eq(expected.iter().copied().map(Some)));
        let keys = RecordBatch::try_from_iter_with_nullable([("k", Arc::clone(keys), true)])?;
        let ranged = |of: &RecordBatch, key: usize, rows: usize| {
            let morsels = (0..of.num_rows()).step_by(rows).map(|start| {
                let part = of.slice(start, rows.min(of.num_rows() - start));
                let values: Vec<i64> = part.column(key).as_primitive::<Int64Type>().iter().flatten().collect();
                let ends = values.iter().min().zip(values.iter().max());
                RangedMorsel {
                    keys: ends.map(|(&least, &greatest)| (least.into(), greatest.into())),
                    rows: part.num_rows() as u64,
                    bytes: 0,
                    read: Arc::new(move |take| take(part.clone())),
                }
            });
            Batches::<Error>::of_ranges(of.schema(), key, morsels.collect::<Vec<_>>())
        };
        let batches = |of: &RecordBatch, rows: usize| {
            let starts = (0..of.num_rows()).step_by(rows);
            let slices: Vec<_> = starts.map(|start| Ok(of.slice(start, rows.min(of.num_rows() - start)))).collect();
            Batches::<Error>::new(of.schema(), slices)
        };
        let is_in = IsIn { device, on: &[(1, 0)], nulls, name: "isin", limit: &limit };
        for (table_batches, keys_batches, are_ranged) in [
            (batches(table, 300), batches(&keys, 170), false),
            (ranged(table, 1, per_morsel), ranged(&keys, 0, per_morsel.div_ceil(2)), true),
        ] {
            let (mut found, mut next, before) = (Vec::new(), 0, JOINED.get());
            let rows = is_in.run(table_batches, keys_batches, |batch| {
                assert_eq!(batch.schema(), is_in.schema(&table.schema()));
                assert_eq!(batch.columns()[..2], table.slice(next, batch.num_rows()).columns()[..]);
                next += batch.num_rows();
                found.extend(batch.column(2).as_boolean().iter());
                Ok(())
            })?;
            assert_eq!((rows, next), ([5000, keys.num_rows() as u64], 5000));
            assert!(found.into_iter().eq(expected.iter().copied().map(Some)));
            assert_eq!(JOINED.get() > before, are_ranged && are_windows);
        }
        Ok(())
    }

    const NULLS: [NullEquality; 2] = [NullEquality::NothingEquals, NullEquality::NullEquals];

    #[test]
    fn marks_of_batches_are_those_of_the_table() -> Result<()> {
        // Enough morsels for windows on any number of threads.
        let per_morsel = (5000 / (4 * rayon::current_num_threads())).clamp(1, 100);
        let table = |keys: ArrayRef| {
            let rows = column((0..5000).map(Some));
            RecordBatch::try_from_iter_with_nullable([("row", rows, true), ("k", keys, true)])
        };
        let (keys, sorted) =
            (column((0..40).step_by(3).map(Some).chain([None])), column((0..4000).step_by(2).map(Some)));
        let unsorted = table(column((0..5000).map(|row| (row % 7 > 0).then_some(row % 50))))?;
        let ascending = table(column((0..5000).map(|row| (row % 7 > 0).then_some(row / 2 * 2 + row % 3))))?;
        for (device, nulls) in devices().iter().flat_map(|device| NULLS.map(|nulls| (device, nulls))) {
            let are_windows = device.info().kind == DeviceKind::Cpu && nulls == NullEquality::NothingEquals;
            check(device, &unsorted, &keys, nulls, false, per_morsel)?;
            check(device, &ascending, &sorted, nulls, are_windows, per_morsel)?;
        }
        Ok(())
    }
}
