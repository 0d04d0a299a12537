//! The columns of a partial state.
//!
//! ```text
//! count       UInt64                     means only: the number of values
//! sum         FixedSizeBinary(18)        window and integer (koel::SumStates); null if there is no value
//! leftovers   LargeBinary                a superaccumulator (koel::ExactSum); null if none is needed
//! ```

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, FixedSizeBinaryArray, LargeBinaryArray, UInt64Array};
use datafusion::arrow::buffer::{Buffer, NullBuffer};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, UInt64Type};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::utils::format_state_name;
use koel::SumStates;

use super::functions::What;

const BYTES: i32 = SumStates::BYTES as i32;

pub(super) fn fields(what: What, name: &str) -> Vec<FieldRef> {
    let field = |of, data_type| Arc::new(Field::new(format_state_name(name, of), data_type, true));
    let count = (what == What::Mean).then(|| field("count", DataType::UInt64));
    let sum = [field("sum", DataType::FixedSizeBinary(BYTES)), field("leftovers", DataType::LargeBinary)];
    count.into_iter().chain(sum).collect()
}

/// The states of the first groups, with these numbers of values.
pub(super) fn write(what: What, sums: &SumStates, counts: Vec<u64>) -> Result<Vec<ArrayRef>> {
    let groups = 0..counts.len();
    let nulls = NullBuffer::from_iter(counts.iter().map(|&count| count > 0));
    let bytes: Vec<u8> = groups.clone().flat_map(|group| sums.state(group)).collect();
    let states = FixedSizeBinaryArray::try_new(BYTES, Buffer::from(bytes), Some(nulls))?;
    let leftovers: LargeBinaryArray = groups.map(|group| sums.leftovers(group)).collect();
    let sum: [ArrayRef; 2] = [Arc::new(states), Arc::new(leftovers)];
    let count = (what == What::Mean).then(|| Arc::new(UInt64Array::from(counts)) as ArrayRef);
    Ok(count.into_iter().chain(sum).collect())
}

/// States of other processes.
pub(super) struct States<'a> {
    counts: Option<&'a UInt64Array>,
    sums: &'a FixedSizeBinaryArray,
    leftovers: &'a LargeBinaryArray,
}

impl<'a> States<'a> {
    pub(super) fn of(what: What, columns: &'a [ArrayRef]) -> Result<Self> {
        let read = || {
            let (counts, sum) = columns.split_at_checked(usize::from(what == What::Mean))?;
            let counts = match counts {
                [counts] => Some(counts.as_primitive_opt::<UInt64Type>()?),
                _ => None,
            };
            let [sums, leftovers] = sum else { return None };
            let sums = sums.as_fixed_size_binary_opt().filter(|sums| sums.value_length() == BYTES)?;
            let is_as_long = columns.iter().all(|column| column.len() == sums.len());
            is_as_long.then_some(States { counts, sums, leftovers: leftovers.as_binary_opt()? })
        };
        read().ok_or_else(|| {
            let types: Vec<_> = columns.iter().map(|column| column.data_type().to_string()).collect();
            DataFusionError::Internal(format!("koel: columns of types {types:?} are not the state of an exact sum"))
        })
    }

    /// The number of rows.
    pub(super) fn len(&self) -> usize {
        self.sums.len()
    }

    /// Adds the state of a row to a group. Returns the number of its values, or 1 for a sum.
    pub(super) fn merge(&self, row: usize, sums: &mut SumStates, group: usize) -> Result<u64> {
        let has_sum = self.sums.is_valid(row);
        let count =
            self.counts.map_or(has_sum.into(), |counts| if counts.is_valid(row) { counts.value(row) } else { 0 });
        let leftovers = self.leftovers.is_valid(row).then(|| self.leftovers.value(row));
        let is_state = has_sum == (count > 0)
            && (!has_sum || self.sums.value(row).try_into().is_ok_and(|state| sums.merge(group, state, leftovers)));
        if is_state {
            return Ok(count);
        }
        let why = "the state of an exact sum is damaged, or of another version of koel: use the same one everywhere";
        Err(DataFusionError::Execution(why.into()))
    }
}
