//! Marks the rows of a table whose keys are among right keys, one batch at a time.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use super::devices::Emit;
use super::ordered::{Ahead, in_order};
use super::{Batches, Limit, Side, batch_of};
use crate::error::{Error, Result};
use crate::join::RightKeys;

impl RightKeys {
    /// The schema of the result of [`mark_batches`](Self::mark_batches), for a table of this schema.
    pub fn marked_schema(of: &Schema, name: &str) -> SchemaRef {
        let mark = Arc::new(Field::new(name, DataType::Boolean, false));
        Arc::new(Schema::new(of.fields().iter().cloned().chain([mark]).collect::<Vec<_>>()))
    }

    /// Calls `take` with the batches of a table, in order. Each batch has an additional last column that is true if the
    /// key of the row is among the right keys, as in [`mark`](Self::mark). The columns with the indices `by` are the
    /// key. Returns the number of rows.
    ///
    /// Cost: a lookup per row. All threads of rayon's pool run morsels and look up their keys; the calling thread calls
    /// `take` and the iterator of the table. Memory: a few batches for each thread.
    ///
    /// # Errors
    /// As [`mark`](Self::mark), [`Error::Arrow`] for a column that does not exist, and those of the table and of
    /// `take`, after which the work stops.
    pub fn mark_batches<E: From<Error> + Send>(
        &self,
        mut table: Batches<'_, E>,
        by: &[usize],
        name: &str,
        limit: &Limit,
        mut take: impl FnMut(RecordBatch) -> std::result::Result<(), E>,
    ) -> std::result::Result<u64, E> {
        let (side, schema) = (Side::new(&table.schema, by.to_vec())?, Self::marked_schema(&table.schema, name));
        let marked = |batch: &RecordBatch| -> Result<RecordBatch> {
            let marks = Arc::new(self.mark(&side.keys_of(batch)?)?);
            let columns = batch.columns().iter().cloned().chain([marks as _]).collect();
            batch_of(&schema, columns, batch.num_rows())
        };
        let work = |batch: &RecordBatch, emit: Emit<'_, RecordBatch>| emit(marked(batch)?);
        in_order(&mut table.morsels, Ahead::of(limit)?, &work, &mut |batch, _| take(batch))
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;
    use arrow_array::{ArrayRef, Int64Array};
    use koel::{Any, Cpu};

    use super::*;
    use crate::{Keys, NullEquality};

    #[test]
    fn marks_of_batches_are_those_of_the_table() -> Result<()> {
        let column = |values: Vec<Option<i64>>| Arc::new(Int64Array::from(values)) as ArrayRef;
        let values: Vec<Option<i64>> = (0..5000).map(|row| (row % 7 > 0).then_some(row % 50)).collect();
        let right = Keys::of_arrays(&[column((0..40).step_by(3).map(Some).chain([None]).collect())])?;
        let table =
            RecordBatch::try_from_iter([("row", column((0..5000).map(Some).collect())), ("k", column(values))])?;
        for nulls in [NullEquality::NothingEquals, NullEquality::NullEquals] {
            let keys = RightKeys::new(&Any::Cpu(Cpu::new()), &right, nulls)?;
            let expected = keys.mark(&Keys::of_arrays(&[Arc::clone(table.column(1))])?)?;
            assert!(expected.true_count() > 500);
            let batches = (0..5000).step_by(300).map(|start| Ok::<_, Error>(table.slice(start, 300.min(5000 - start))));
            let (mut found, mut next) = (Vec::new(), 0);
            let batches = Batches::new(table.schema(), batches);
            let rows = keys.mark_batches(batches, &[1], "isin", &Limit::new(u64::MAX), |batch| {
                assert_eq!(batch.schema(), RightKeys::marked_schema(&table.schema(), "isin"));
                assert_eq!(batch.columns()[..2], table.slice(next, batch.num_rows()).columns()[..]);
                next += batch.num_rows();
                found.extend(batch.column(2).as_boolean().iter());
                Ok(())
            })?;
            assert_eq!((rows, next), (5000, 5000));
            assert!(found.into_iter().eq(expected.iter()));
        }
        Ok(())
    }
}
