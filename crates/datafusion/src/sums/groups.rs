//! Exact sums and means of many groups.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, BooleanArray, Float64Array};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::common::cast::as_float64_array;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use koel::SumStates;

use super::functions::What;
use super::state::{self, States};

/// The accumulator of many groups.
pub(super) struct Groups {
    what: What,
    sums: SumStates,
    /// The number of values of each group. For sums, only whether it is 0 matters.
    counts: Vec<u64>,
}

impl Groups {
    pub(super) fn new(what: What) -> Self {
        Groups { what, sums: SumStates::default(), counts: Vec::new() }
    }

    fn resize(&mut self, groups: usize) {
        self.sums.resize(groups);
        self.counts.resize(groups, 0);
    }

    /// Adds the values of the rows that are valid.
    fn add(&mut self, values: &Float64Array, numbers: &[usize], filter: Option<&BooleanArray>) -> Result<()> {
        if numbers.len() != values.len() || numbers.iter().any(|&number| number >= self.counts.len()) {
            return Err(DataFusionError::Internal("koel: rows of groups that do not exist".into()));
        }
        let rows = || numbers.iter().copied().zip(values.values().iter().copied());
        match valid(values, filter) {
            None => {
                self.sums.add(rows());
                numbers.iter().for_each(|&number| self.counts[number] += 1);
            }
            Some(valid) => {
                let kept = || rows().zip(valid.iter()).filter_map(|(row, is_valid)| is_valid.then_some(row));
                self.sums.add(kept());
                kept().for_each(|(number, _)| self.counts[number] += 1);
            }
        }
        Ok(())
    }

    /// Removes the groups to emit, after `write` has created columns of them and their counts.
    fn emit<T>(&mut self, emit: EmitTo, write: impl Fn(&SumStates, Vec<u64>) -> Result<T>) -> Result<T> {
        let counts = emit.take_needed(&mut self.counts);
        let groups = counts.len();
        let written = write(&self.sums, counts)?;
        match emit {
            EmitTo::All => self.sums = SumStates::default(),
            EmitTo::First(_) => self.sums.remove_first(groups),
        }
        Ok(written)
    }
}

/// The rows that are aggregated: those that are not null and pass the filter. `None` for all.
fn valid(values: &Float64Array, filter: Option<&BooleanArray>) -> Option<NullBuffer> {
    let passed = filter.map(|filter| match filter.nulls() {
        Some(nulls) => NullBuffer::new(filter.values() & nulls.inner()),
        None => NullBuffer::new(filter.values().clone()),
    });
    NullBuffer::union(passed.as_ref(), values.nulls()).filter(|valid| valid.null_count() > 0)
}

/// The argument of the function.
pub(super) fn argument(columns: &[ArrayRef]) -> Result<&Float64Array> {
    match columns {
        [values] => as_float64_array(values),
        _ => Err(DataFusionError::Internal(format!("koel: an exact sum of {} columns", columns.len()))),
    }
}

impl GroupsAccumulator for Groups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        numbers: &[usize],
        filter: Option<&BooleanArray>,
        groups: usize,
    ) -> Result<()> {
        self.resize(groups);
        self.add(argument(values)?, numbers, filter)
    }

    fn merge_batch(&mut self, states: &[ArrayRef], numbers: &[usize], groups: usize) -> Result<()> {
        self.resize(groups);
        let states = States::of(self.what, states)?;
        if numbers.len() != states.len() || numbers.iter().any(|&number| number >= groups) {
            return Err(DataFusionError::Internal("koel: states of groups that do not exist".into()));
        }
        for (row, &number) in numbers.iter().enumerate() {
            let count = states.merge(row, &mut self.sums, number)?;
            self.counts[number] = self.counts[number].saturating_add(count);
        }
        Ok(())
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        let what = self.what;
        self.emit(emit, |sums, counts| {
            let nulls = NullBuffer::from_iter(counts.iter().map(|&count| count > 0));
            let of = |(group, &count): (usize, &u64)| match what {
                _ if count == 0 => 0.0,
                What::Sum => sums.sum(group),
                What::Mean => sums.mean(group, count),
            };
            let results: Vec<f64> = counts.iter().enumerate().map(of).collect();
            Ok(Arc::new(Float64Array::try_new(results.into(), Some(nulls))?) as ArrayRef)
        })
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        let what = self.what;
        self.emit(emit, |sums, counts| state::write(what, sums, counts))
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let values = argument(values)?;
        let mut each = Groups::new(self.what);
        each.resize(values.len());
        let numbers: Vec<usize> = (0..values.len()).collect();
        each.add(values, &numbers, filter)?;
        each.state(EmitTo::All)
    }

    fn size(&self) -> usize {
        self.sums.size() + self.counts.capacity() * size_of::<u64>()
    }
}

impl fmt::Debug for Groups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Groups").field("what", &self.what).field("groups", &self.counts.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{FixedSizeBinaryArray, LargeBinaryArray, UInt64Array};
    use datafusion::logical_expr::Accumulator;

    use super::super::plain::Plain;
    use super::*;

    /// Merges states into group 0 with both accumulators.
    fn merge(what: What, columns: &[ArrayRef]) -> [Result<()>; 2] {
        let rows = columns.first().map_or(0, |column| column.len());
        let mut groups = Groups::new(what);
        [groups.merge_batch(columns, &vec![0; rows], 1), Plain::new(what).merge_batch(columns)]
    }

    fn sums(states: &[&[u8]]) -> ArrayRef {
        Arc::new(FixedSizeBinaryArray::try_from_iter(states.iter()).expect("states of one length"))
    }

    fn leftovers(of_rows: &[Option<&[u8]>]) -> ArrayRef {
        Arc::new(of_rows.iter().copied().collect::<LargeBinaryArray>())
    }

    fn count(count: Option<u64>) -> ArrayRef {
        Arc::new(UInt64Array::from(vec![count]))
    }

    #[test]
    fn damaged_states_are_errors() {
        let mut of_group = SumStates::default();
        of_group.resize(1);
        of_group.add([(0, 1e300), (0, 1e-300)].into_iter());
        let state = of_group.state(0);
        let rest = of_group.leftovers(0).expect("exponents that are far apart");
        let (whole, all) = (sums(&[&state]), leftovers(&[Some(&rest)]));
        let mut no_window = state;
        no_window[..2].copy_from_slice(&[0xff; 2]);
        for found in merge(What::Sum, &[Arc::clone(&whole), Arc::clone(&all)]) {
            found.expect("a state");
        }
        for found in merge(What::Mean, &[count(Some(2)), Arc::clone(&whole), Arc::clone(&all)]) {
            found.expect("a state");
        }
        let damaged = [
            merge(What::Sum, &[sums(&[&no_window]), Arc::clone(&all)]),
            merge(What::Sum, &[sums(&[&state, &no_window]), leftovers(&[None, None])]),
            merge(What::Sum, &[Arc::clone(&whole), leftovers(&[Some(&rest[1..])])]),
            merge(What::Sum, &[Arc::clone(&whole), leftovers(&[Some(&[])])]),
            merge(What::Mean, &[count(Some(0)), Arc::clone(&whole), Arc::clone(&all)]),
            merge(What::Mean, &[count(None), Arc::clone(&whole), Arc::clone(&all)]),
        ];
        for found in damaged.into_iter().flatten() {
            assert!(matches!(&found, Err(DataFusionError::Execution(why)) if why.contains("damaged")), "{found:?}");
        }
        let other_columns = [
            merge(What::Sum, &[]),
            merge(What::Sum, &[Arc::clone(&whole)]),
            merge(What::Sum, &[Arc::clone(&all), Arc::clone(&whole)]),
            merge(What::Sum, &[sums(&[&state[1..]]), Arc::clone(&all)]),
            merge(What::Sum, &[Arc::clone(&whole), leftovers(&[])]),
            merge(What::Mean, &[Arc::clone(&whole), Arc::clone(&all)]),
        ];
        for found in other_columns.into_iter().flatten() {
            assert!(matches!(found, Err(DataFusionError::Internal(_))), "{found:?}");
        }
        for (numbers, groups) in [(&[][..], 1), (&[0, 0], 1), (&[1], 1)] {
            let found = Groups::new(What::Sum).merge_batch(&[Arc::clone(&whole), Arc::clone(&all)], numbers, groups);
            assert!(matches!(found, Err(DataFusionError::Internal(_))), "{numbers:?}");
        }
    }
}
