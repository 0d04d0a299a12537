//! The exact sum or mean of the distinct values of one group. Values are distinct by their bits, as in DataFusion.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::common::cast::{as_float64_array, as_list_array};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::Accumulator;

use super::functions::What;
use super::groups::argument;
use super::plain::Retractable;

/// The accumulator of the distinct values of one group.
#[derive(Debug)]
pub(super) struct Distinct {
    what: What,
    /// The number of occurrences of each value, by its bits.
    values: HashMap<u64, u64>,
    sum: Retractable,
}

impl Distinct {
    pub(super) fn new(what: What) -> Self {
        Distinct { what, values: HashMap::new(), sum: Retractable::default() }
    }

    fn add(&mut self, value: f64) {
        let count = self.values.entry(value.to_bits()).or_insert(0);
        if *count == 0 {
            self.sum.add(value);
        }
        *count += 1;
    }

    fn retract(&mut self, value: f64) {
        if let Entry::Occupied(mut count) = self.values.entry(value.to_bits()) {
            *count.get_mut() -= 1;
            if *count.get() == 0 {
                count.remove();
                self.sum.retract(value);
            }
        }
    }
}

impl Accumulator for Distinct {
    fn update_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        argument(columns)?.iter().flatten().for_each(|value| self.add(value));
        Ok(())
    }

    fn retract_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        argument(columns)?.iter().flatten().for_each(|value| self.retract(value));
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(self.sum.result(self.what))
    }

    fn size(&self) -> usize {
        // A pair and a control byte for each slot of the map.
        size_of::<Self>() + self.values.capacity() * (size_of::<[u64; 2]>() + 1)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values = self.values.keys().map(|&bits| ScalarValue::Float64(Some(f64::from_bits(bits))));
        let values: Vec<_> = values.collect();
        Ok(vec![ScalarValue::List(ScalarValue::new_list_nullable(&values, &DataType::Float64))])
    }

    fn merge_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let [lists] = columns else {
            let why = format!("koel: {} columns are not the state of a sum of distinct values", columns.len());
            return Err(DataFusionError::Internal(why));
        };
        for list in as_list_array(lists)?.iter().flatten() {
            as_float64_array(&Arc::clone(&list))?.iter().flatten().for_each(|value| self.add(value));
        }
        Ok(())
    }
}
