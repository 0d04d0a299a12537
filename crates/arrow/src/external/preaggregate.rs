//! Partial aggregation: groups the rows of each morsel, and merges these groups to those of the table.
//!
//! ```text
//! plan     states     the state of each aggregate: its column, a count, or an exact sum, as a decimal or as doubles
//!                     (states.rs)
//!          merge      the aggregates that merge the states of a key
//!          results    the columns of the result, computed from merged states
//! morsel   a row per key, with its states; or a row per row, if most rows have distinct keys
//! then     the rows of all morsels are grouped like any other table, by `merge`, in memory or in partitions
//! ```
//!
//! The result has the same bits as without partial aggregation: counts and sums are exact, and the rows of a morsel are
//! in order of first occurrence.
//!
//! Counts of distinct values are not supported, because they have no such state; nor are GPUs.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, Float64Array, Int64Array, RecordBatch, UInt64Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use koel::{Any, Cpu, IdOrder};
use rayon::prelude::*;

use super::group::Of;
use super::grouping::Grouping;
use super::states::{State, sums};
use super::{Batches, Morsel, batch_of, exact_sums};
use crate::aggregate::{Aggregation, DIGITS, Function, aggregated, decimal_mean, scale};
use crate::encode::CHUNK;
use crate::error::{Error, Result};
use crate::group::{Factorized, factorize};
use crate::keys::{Column, Keys};
use crate::written::{mapped, written};

/// The greatest number of digits of decimals for which the sum of 2^63 rows fits in 38 digits.
const EXACT_DIGITS: u8 = 19;

/// The plan for a grouping that merges the groups of morsels.
pub(super) struct Plan<'a> {
    grouping: Grouping<'a>,
    /// The CPU, using only the thread that runs a morsel.
    alone: Any,
    /// The columns of partial rows: those of the key, followed by states.
    schema: SchemaRef,
    states: Vec<State>,
    /// The index of each state, by how it is merged.
    known: HashMap<(State, Function), usize>,
    /// The aggregates that merge the states of a key.
    pub(super) merge: Vec<Of>,
    results: Vec<Output>,
    counts: Counts,
}

/// A column of the result, computed from the columns of merged states.
enum Output {
    State(usize),
    /// A sum of integers, which may be too large for this type, and the column with the position of the group's first
    /// row.
    Integer {
        sum: usize,
        of: DataType,
        place: Option<usize>,
        name: String,
    },
    /// An exact sum of doubles; divided by a count if there is one.
    Doubles {
        sum: usize,
        count: Option<usize>,
    },
    /// A sum of decimals of this scale, divided by a count.
    Mean {
        sum: usize,
        count: usize,
        scale: i8,
    },
}

/// The number of all rows, of the rows of each morsel, of the rows whose keys were grouped, and of their groups.
#[derive(Default)]
struct Counts {
    rows: AtomicU64,
    sampled: AtomicU64,
    groups: AtomicU64,
    of_morsels: Mutex<Vec<u64>>,
    /// Whether rows of a morsel were kept because most of the rows so far had distinct keys, or a sum was too large.
    are_kept: AtomicBool,
}

/// The number of bits of a [`State::Place`] for the row within its morsel.
const ROW_BITS: u32 = 36;

/// The number of rows after which the share of distinct keys decides whether morsels are grouped.
const SAMPLE: u64 = 1 << 17;

impl<'a> Plan<'a> {
    /// The plan for a table of this schema, if all aggregates have states.
    pub(super) fn of(grouping: Grouping<'a>, table: &Schema) -> Option<Plan<'a>> {
        let mut plan = Plan {
            grouping,
            alone: Any::Cpu(Cpu::of_caller()),
            schema: Arc::new(Schema::empty()),
            states: Vec::new(),
            known: HashMap::new(),
            merge: Vec::new(),
            results: Vec::new(),
            counts: Counts::default(),
        };
        for of in grouping.aggregates {
            let result = plan.result(of, table)?;
            plan.results.push(result);
        }
        let keys = grouping.by.iter().map(|&key| Some(table.fields().get(key)?.as_ref().clone().with_nullable(true)));
        let mut fields = keys.collect::<Option<Vec<Field>>>()?;
        for state in &plan.states {
            fields.push(Field::new(state.name(table), state.data_type(table)?, true));
        }
        plan.schema = Arc::new(Schema::new(fields));
        Some(plan)
    }

    /// The index of a state in the columns of partial rows, which is also the index of its merged state in the columns
    /// of groups.
    fn state(&mut self, state: State, merged_by: Function) -> usize {
        let keys = self.grouping.by.len();
        let next = keys + self.states.len();
        let at = *self.known.entry((state.clone(), merged_by)).or_insert(next);
        if at == next {
            self.states.push(state);
            self.merge.push(Of { function: merged_by, column: Some(at), name: String::new() });
        }
        at
    }

    fn result(&mut self, of: &Of, table: &Schema) -> Option<Output> {
        let Some(column) = of.column else { return Some(Output::State(self.state(State::Rows, Function::Sum))) };
        let field = table.fields().get(column)?;
        let value = |plan: &mut Self| Some(Output::State(plan.state(State::Value(column), of.function)));
        match (of.function, field.data_type()) {
            (Function::Count, _) => Some(Output::State(self.state(State::Values(column), Function::Sum))),
            // Not supported: the minimum of a dictionary of numbers is a number, but the state has the type of the
            // column.
            (Function::Min | Function::Max, DataType::Dictionary(_, values)) if values.is_primitive() => None,
            (Function::Min | Function::Max | Function::First | Function::Last, _) => value(self),
            (Function::Sum, DataType::Boolean) => Some(Output::State(self.state(State::True(column), Function::Sum))),
            (Function::Sum | Function::Mean, data_type) if data_type.is_floating() => {
                let sum = self.state(State::Doubles(column), Function::ExactSum);
                let is_mean = of.function == Function::Mean;
                let count = is_mean.then(|| self.state(State::Values(column), Function::Sum));
                Some(Output::Doubles { sum, count })
            }
            (Function::Sum, data_type) if data_type.is_integer() => {
                let sum = self.state(State::Sum(column, 0), Function::Sum);
                let is_signed = data_type.is_signed_integer();
                let of_sum = if is_signed { DataType::Int64 } else { DataType::UInt64 };
                let may_overflow = matches!(data_type, DataType::Int64 | DataType::UInt64);
                let place = may_overflow.then(|| self.state(State::Place, Function::First));
                Some(Output::Integer { sum, of: of_sum, place, name: field.name().clone() })
            }
            (Function::Sum, data_type) if has_exact_sums(data_type) => {
                Some(Output::State(self.state(State::Sum(column, scale(data_type)), Function::Sum)))
            }
            (Function::Mean, data_type) if data_type.is_integer() || has_exact_sums(data_type) => {
                let scale = scale(data_type);
                let sum = self.state(State::Sum(column, scale), Function::Sum);
                Some(Output::Mean { sum, count: self.state(State::Values(column), Function::Sum), scale })
            }
            _ => None,
        }
    }

    /// The partial rows of a table.
    pub(super) fn morsels<'b, 't: 'b, E: From<Error> + Send + 'b>(&'b self, table: Batches<'t, E>) -> Batches<'b, E> {
        let partial = move |(number, morsel): (usize, std::result::Result<Morsel<'t, E>, E>)| {
            let morsel = morsel?;
            let partial: Morsel<'b, E> = Box::new(move |take| {
                let mut rows = 0;
                morsel(&mut |batch| {
                    let partial = self.partial_rows(((number as u64) << ROW_BITS) + rows, &batch)?;
                    rows += batch.num_rows() as u64;
                    take(partial)
                })?;
                self.counts.add(number, rows);
                Ok(())
            });
            Ok(partial)
        };
        Batches::of_morsels(Arc::clone(&self.schema), table.morsels.enumerate().map(partial))
    }

    /// The number of rows of the table, after all morsels were run.
    pub(super) fn rows(&self) -> u64 {
        self.counts.rows.load(Relaxed)
    }

    /// Whether the rows of all morsels that ran were grouped.
    pub(super) fn are_all_grouped(&self) -> bool {
        !self.counts.are_kept.load(Relaxed)
    }

    /// The number of groups of a batch.
    pub(super) fn groups(&self, batch: &RecordBatch) -> Result<usize> {
        Ok(self.factorized(&self.keys(batch))?.len())
    }

    fn keys(&self, batch: &RecordBatch) -> Vec<Column> {
        let column = |&at: &usize| Column::new(batch.schema_ref().field(at).name(), Arc::clone(batch.column(at)));
        self.grouping.by.iter().map(column).collect()
    }

    fn factorized(&self, keys: &[Column]) -> Result<Factorized> {
        let keys = Keys::new(keys.to_vec())?;
        factorize(self.device(keys.len()), &keys, IdOrder::FirstSeen, self.grouping.nulls)
    }

    /// The device for a batch. A small batch is processed on the current thread: if that thread waited for others to
    /// finish their parts, it would begin another morsel, and the results of this one, for which the caller waits,
    /// would be late.
    fn device(&self, rows: usize) -> &Any {
        match self.grouping.device {
            Any::Cpu(_) if rows <= CHUNK => &self.alone,
            device => device,
        }
    }

    /// The partial rows of a batch, whose first row is at this position.
    fn partial_rows(&self, place: u64, batch: &RecordBatch) -> Result<RecordBatch> {
        let (rows, keys) = (batch.num_rows(), self.keys(batch));
        if self.counts.are_reduced() {
            let groups = self.factorized(&keys)?;
            self.counts.sample(rows, groups.len());
            if let Some(merged) = self.merged(&groups, &keys, batch, place)? {
                return Ok(merged);
            }
        }
        self.counts.are_kept.store(true, Relaxed);
        let keys = keys.iter().map(|key| Ok(Arc::clone(&key.chunks()[0])));
        let states = self.states.iter().map(|state| state.of_rows(batch, place));
        batch_of(&self.schema, keys.chain(states).collect::<Result<_>>()?, rows)
    }

    /// A row per group with its merged states. `None` if a sum is too large for its state.
    fn merged(
        &self,
        groups: &Factorized,
        keys: &[Column],
        batch: &RecordBatch,
        place: u64,
    ) -> Result<Option<RecordBatch>> {
        let mut columns = keys.iter().map(|key| key.take(&groups.rows)).collect::<Result<Vec<_>>>()?;
        let device = self.device(batch.num_rows());
        let column = |at: usize| Column::new("", Arc::clone(batch.column(at)));
        let aggregated = |of: Aggregation| aggregated(device, groups, &of, None)?.all(Column::take);
        for (state, of) in self.states.iter().zip(&self.merge) {
            columns.push(match *state {
                State::Rows => aggregated(Aggregation::rows())?,
                State::Values(at) => aggregated(Aggregation::new(Function::Count, column(at)))?,
                State::Sum(at, scale) => match sums(&column(at), groups) {
                    Some(sums) => Arc::new(sums.with_precision_and_scale(DIGITS, scale)?),
                    None => return Ok(None),
                },
                State::Doubles(at) => match exact_sums::of_groups(&column(at), groups) {
                    Some(sums) => sums,
                    None => return Ok(None),
                },
                State::Value(at) => aggregated(Aggregation::new(of.function, column(at)))?,
                State::True(_) => {
                    let trues = Column::new("", state.of_rows(batch, place)?);
                    aggregated(Aggregation::new(Function::Sum, trues))?
                }
                State::Place => {
                    Arc::new(groups.rows.values().iter().map(|&row| place + u64::from(row)).collect::<UInt64Array>())
                }
            });
        }
        batch_of(&self.schema, columns, groups.len()).map(Some)
    }

    /// The columns of the result, computed from the columns of merged states.
    pub(super) fn finish(&self, groups: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
        let keys = &groups.columns()[..self.grouping.by.len()];
        let results = self.results.iter().map(|output| self.output(output, groups));
        let columns = keys.iter().cloned().map(Ok).chain(results).collect::<Result<Vec<_>>>()?;
        batch_of(schema, columns, groups.num_rows())
    }

    fn output(&self, output: &Output, groups: &RecordBatch) -> Result<ArrayRef> {
        let sums = |at: usize| groups.column(at).as_primitive::<Decimal128Type>();
        Ok(match output {
            Output::State(at) => Arc::clone(groups.column(*at)),
            Output::Doubles { sum, count } => {
                let counts = count.map(|count| &groups.column(count).as_primitive::<Int64Type>().values()[..]);
                exact_sums::rounded(groups.column(*sum), counts)?
            }
            Output::Integer { sum, of, place, name } => {
                let sums = sums(*sum);
                let too_large = |group: usize| {
                    let place = place.map(|at| groups.column(at).as_primitive::<UInt64Type>().value(group));
                    Error::Overflow { column: name.clone(), row: self.counts.row(place.unwrap_or(0)), sum: of.clone() }
                };
                let is_too_large = |group: &usize| {
                    let fits = |sum: i128| match of {
                        DataType::Int64 => i64::try_from(sum).is_ok(),
                        _ => u64::try_from(sum).is_ok(),
                    };
                    // The value under a null is unspecified.
                    sums.is_valid(*group) && !fits(sums.value(*group))
                };
                if let Some(group) = (0..groups.num_rows()).into_par_iter().find_first(is_too_large) {
                    return Err(too_large(group));
                }
                let nulls = sums.nulls().cloned();
                match of {
                    DataType::Int64 => Arc::new(Int64Array::new(mapped(sums.values(), |sum| sum as i64).into(), nulls)),
                    _ => Arc::new(UInt64Array::new(mapped(sums.values(), |sum| sum as u64).into(), nulls)),
                }
            }
            Output::Mean { sum, count, scale } => {
                let (sums, counts) = (sums(*sum), groups.column(*count).as_primitive::<Int64Type>());
                let means = written(sums.len(), |start, to| {
                    for (to, group) in to.iter_mut().zip(start..) {
                        *to = decimal_mean(sums.value(group), *scale, counts.value(group));
                    }
                });
                Arc::new(Float64Array::new(means.into(), sums.nulls().cloned()))
            }
        })
    }
}

/// Whether the sums of decimals of a type fit 38 digits, for any number of rows.
fn has_exact_sums(of: &DataType) -> bool {
    matches!(of, DataType::Decimal32(digits, _) | DataType::Decimal64(digits, _) | DataType::Decimal128(digits, _)
        if *digits <= EXACT_DIGITS)
}

impl Counts {
    fn add(&self, morsel: usize, rows: u64) {
        self.rows.fetch_add(rows, Relaxed);
        let mut of_morsels = self.of_morsels.lock().unwrap_or_else(PoisonError::into_inner);
        if of_morsels.len() <= morsel {
            of_morsels.resize(morsel + 1, 0);
        }
        of_morsels[morsel] = rows;
    }

    /// The number of the row at this position.
    fn row(&self, place: u64) -> usize {
        let of_morsels = self.of_morsels.lock().unwrap_or_else(PoisonError::into_inner);
        let before: u64 = of_morsels.iter().take((place >> ROW_BITS) as usize).sum();
        (before + (place & ((1 << ROW_BITS) - 1))) as usize
    }

    /// Counts rows whose keys were grouped, and their groups.
    fn sample(&self, rows: usize, groups: usize) {
        self.sampled.fetch_add(rows as u64, Relaxed);
        self.groups.fetch_add(groups as u64, Relaxed);
    }

    /// Whether groups of morsels have had two or more rows on average so far, or too few rows were sampled.
    fn are_reduced(&self) -> bool {
        let (rows, groups) = (self.sampled.load(Relaxed), self.groups.load(Relaxed));
        rows < SAMPLE || 2 * groups <= rows
    }
}
