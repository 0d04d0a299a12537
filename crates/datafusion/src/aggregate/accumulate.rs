//! Counts, sums, extremes and means of groups by DataFusion's own accumulators, so that types, nulls, precision and
//! states equal those of AggregateExec.

use datafusion::arrow::array::{ArrayRef, AsArray, BooleanArray, RecordBatch};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use datafusion::physical_expr::PhysicalExprRef;

use super::spec::Spec;

/// All aggregates of a partition.
pub(super) struct Accumulators {
    all: Vec<One>,
    /// Whether the input is states of accumulators rather than values.
    merges: bool,
}

struct One {
    accumulator: Box<dyn GroupsAccumulator>,
    arguments: Vec<PhysicalExprRef>,
    filter: Option<PhysicalExprRef>,
}

/// The arguments of one accumulator for a batch.
pub(super) struct Arguments {
    values: Vec<ArrayRef>,
    filter: Option<BooleanArray>,
}

/// The values of expressions for a batch.
pub(super) fn evaluated(expressions: &[PhysicalExprRef], batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
    expressions.iter().map(|expression| expression.evaluate(batch)?.into_array(batch.num_rows())).collect()
}

impl Accumulators {
    pub(super) fn new(spec: &Spec) -> Result<Self> {
        let one = |((of, arguments), filter): ((&_, &Vec<_>), &Option<_>)| {
            let of: &datafusion::physical_expr::aggregate::AggregateFunctionExpr = of;
            let accumulator = of.create_groups_accumulator()?;
            Ok(One { accumulator, arguments: arguments.clone(), filter: filter.clone() })
        };
        let of = spec.functions.iter().map(AsRef::as_ref).zip(&spec.arguments).zip(&spec.filters);
        Ok(Accumulators { all: of.map(one).collect::<Result<_>>()?, merges: spec.merges })
    }

    /// The arguments of all accumulators for a batch.
    pub(super) fn arguments(&self, batch: &RecordBatch) -> Result<Vec<Arguments>> {
        let of = |one: &One| {
            let filter = one.filter.as_ref().map(|filter| filter.evaluate(batch)?.into_array(batch.num_rows()));
            let truth = |filter: ArrayRef| {
                let no_truth = || DataFusionError::Internal(format!("koel: a filter is {}", filter.data_type()));
                filter.as_boolean_opt().cloned().ok_or_else(no_truth)
            };
            let filter = filter.transpose()?.map(truth).transpose()?;
            Ok(Arguments { values: evaluated(&one.arguments, batch)?, filter })
        };
        self.all.iter().map(of).collect()
    }

    /// Adds a batch; `numbers` are the groups of its rows, below `groups`.
    pub(super) fn update(&mut self, arguments: &[Arguments], numbers: &[usize], groups: usize) -> Result<()> {
        for (one, Arguments { values, filter }) in self.all.iter_mut().zip(arguments) {
            if self.merges {
                one.accumulator.merge_batch(values, numbers, groups)?;
            } else {
                one.accumulator.update_batch(values, numbers, filter.as_ref(), groups)?;
            }
        }
        Ok(())
    }

    /// Takes the results of all groups: states or values.
    pub(super) fn take(&mut self, states: bool, into: &mut Vec<ArrayRef>) -> Result<()> {
        for one in &mut self.all {
            if states {
                into.extend(one.accumulator.state(EmitTo::All)?);
            } else {
                into.push(one.accumulator.evaluate(EmitTo::All)?);
            }
        }
        Ok(())
    }

    /// The states of groups of one row each.
    pub(super) fn states_of_rows(&self, arguments: &[Arguments], into: &mut Vec<ArrayRef>) -> Result<()> {
        for (one, Arguments { values, filter }) in self.all.iter().zip(arguments) {
            into.extend(one.accumulator.convert_to_state(values, filter.as_ref())?);
        }
        Ok(())
    }

    /// The memory in bytes.
    pub(super) fn size(&self) -> usize {
        self.all.iter().map(|one| one.accumulator.size()).sum()
    }
}
