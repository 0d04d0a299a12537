//! The exact sum or mean of one group, from which values can be retracted: subtraction is as exact as addition.
//! Infinities and NaN are counted, because arithmetic cannot retract them.

use datafusion::arrow::array::ArrayRef;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::Accumulator;
use koel::{ExactSum, SumStates};

use super::functions::What;
use super::groups::argument;
use super::state::{self, States};

/// The accumulator of one group.
#[derive(Debug)]
pub(super) struct Plain {
    what: What,
    sum: Retractable,
    /// The states that were merged, and the number of their values. They are not retracted.
    merged: SumStates,
    merged_count: u64,
}

impl Plain {
    pub(super) fn new(what: What) -> Self {
        let mut merged = SumStates::default();
        merged.resize(1);
        Plain { what, sum: Retractable::default(), merged, merged_count: 0 }
    }

    /// All values as one state.
    fn all(&self) -> (SumStates, u64) {
        let mut all = self.merged.clone();
        if self.sum.count > 0 {
            // The state of a window without values has the integer 0.
            let mut none = SumStates::default();
            none.resize(1);
            all.merge(0, &none.state(0), Some(&self.sum.exact().to_bytes()));
        }
        (all, self.merged_count + self.sum.count)
    }
}

impl Accumulator for Plain {
    fn update_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        argument(columns)?.iter().flatten().for_each(|value| self.sum.add(value));
        Ok(())
    }

    fn retract_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        argument(columns)?.iter().flatten().for_each(|value| self.sum.retract(value));
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.merged_count == 0 {
            return Ok(self.sum.result(self.what));
        }
        let (all, count) = self.all();
        Ok(ScalarValue::Float64(Some(match self.what {
            What::Sum => all.sum(0),
            What::Mean => all.mean(0, count),
        })))
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.merged.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let (all, count) = self.all();
        let columns = state::write(self.what, &all, vec![count])?;
        columns.iter().map(|column| ScalarValue::try_from_array(column, 0)).collect()
    }

    fn merge_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let states = States::of(self.what, columns)?;
        for row in 0..states.len() {
            let count = states.merge(row, &mut self.merged, 0)?;
            self.merged_count = self.merged_count.saturating_add(count);
        }
        Ok(())
    }
}

/// An exact sum from which values can be retracted.
#[derive(Debug, Default)]
pub(super) struct Retractable {
    finite: ExactSum,
    /// The numbers of NaN, infinity and negative infinity.
    special: [u64; 3],
    pub(super) count: u64,
}

const SPECIAL: [f64; 3] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];

impl Retractable {
    #[inline]
    pub(super) fn add(&mut self, value: f64) {
        self.count += 1;
        if value.is_finite() {
            self.finite.add(value);
        } else {
            self.special[special(value)] += 1;
        }
    }

    /// Retracts a value that was added.
    pub(super) fn retract(&mut self, value: f64) {
        self.count = self.count.saturating_sub(1);
        if value.is_finite() {
            self.finite.add(-value);
        } else {
            let count = &mut self.special[special(value)];
            *count = count.saturating_sub(1);
        }
    }

    fn exact(&self) -> ExactSum {
        let mut all = self.finite.clone();
        for (&count, value) in self.special.iter().zip(SPECIAL) {
            if count > 0 {
                all.add(value);
            }
        }
        all
    }

    /// The result; null without values.
    pub(super) fn result(&self, what: What) -> ScalarValue {
        let all = || self.exact();
        ScalarValue::Float64((self.count > 0).then(|| match what {
            What::Sum => all().sum(),
            What::Mean => all().mean(self.count),
        }))
    }
}

fn special(value: f64) -> usize {
    if value.is_nan() { 0 } else { 1 + usize::from(value < 0.0) }
}
