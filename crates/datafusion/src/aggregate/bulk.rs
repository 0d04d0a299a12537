//! Groups of many rows at once, on a device.
//!
//! ```text
//! a round   numbers the keys of the groups so far, followed by those of the rows, by koel_arrow::factorize
//! result    the groups so far keep their numbers, and each new one gets the next
//! ```
//!
//! A round has at least as many rows as there are groups, so at most half of the work is repeated.

use datafusion::arrow::array::{Array, ArrayRef, UInt32Array};
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::error::{DataFusionError, Result};
use koel::{Any, IdOrder};
use koel_arrow::{Column, Keys, NullKeys, factorize};
use log::warn;

use super::kept::Kept;
use crate::device;
use crate::error::external;

/// Groups that a device numbers.
pub(super) struct Bulk {
    schema: SchemaRef,
    kept: Kept,
    device: Any,
}

impl Bulk {
    pub(super) fn new(schema: SchemaRef, device: Any) -> Self {
        Bulk { kept: Kept::new(schema.clone()), schema, device }
    }

    /// Whether a type is supported. Floats are not, because koel treats all NaNs as equal; dictionaries are not,
    /// because concatenated ones may have more values than their keys can number; texts are not, because the host
    /// hashes and compares them, whatever the device (Q1 of TPC-H took 3.6 times stock with it).
    pub(super) fn takes(of: &DataType) -> bool {
        let is_text = of.is_string() || of.is_binary();
        let is_for = !of.is_floating() && !of.is_nested() && !matches!(of, DataType::Dictionary(..) | DataType::Null);
        is_for && !is_text && koel_arrow::check_key("", of).is_ok()
    }

    /// The maximum temporary memory in bytes for a round of this number of rows: words, their numbers, and a table of
    /// them.
    pub(super) fn bytes(rows: usize, columns: usize) -> usize {
        rows.saturating_mul(40 + 16 * columns)
    }

    /// The number of groups.
    pub(super) fn len(&self) -> usize {
        self.kept.len()
    }

    /// The memory between rounds, in bytes.
    pub(super) fn size(&self) -> usize {
        self.kept.size()
    }

    /// The keys of the groups.
    pub(super) fn keys(&self) -> Result<Vec<ArrayRef>> {
        self.kept.columns()
    }

    /// Takes the keys of the groups.
    pub(super) fn take(&mut self) -> Result<Vec<ArrayRef>> {
        let keys = self.keys()?;
        self.kept = Kept::new(self.schema.clone());
        Ok(keys)
    }

    /// The group of each row; returns false, without changes, if the device has failed.
    pub(super) fn number(&mut self, batches: &[Vec<ArrayRef>], numbers: &mut [Vec<usize>]) -> Result<bool> {
        let known = self.kept.len();
        let column = |i: usize, is_new: bool| {
            let field = self.schema.field(i);
            let old = self.kept.pieces(i).filter(|_| !is_new).cloned();
            let pieces = old.chain(batches.iter().filter_map(|keys| keys.get(i).cloned())).collect();
            Column::of_chunks(field.name(), field.data_type(), pieces)
        };
        let columns = || 0..self.schema.fields().len();
        let keys = columns().map(|i| column(i, false)).collect::<koel_arrow::Result<_>>().and_then(Keys::new);
        let groups = keys.and_then(|keys| factorize(&self.device, &keys, IdOrder::FirstSeen, NullKeys::Group));
        let groups = match groups {
            Ok(groups) => groups,
            Err(error) => {
                let rows: usize = batches.iter().filter_map(|keys| keys.first()).map(|column| column.len()).sum();
                warn!("koel: {} cannot group {rows} rows ({error}): the CPU does", device::shown(&self.device));
                return Ok(false);
            }
        };
        let mut codes = groups.codes.values().get(known..).unwrap_or_default();
        for (keys, numbers) in batches.iter().zip(numbers) {
            let rows = keys.first().map_or(0, |column| column.len());
            let (own, rest) = codes
                .split_at_checked(rows)
                .ok_or_else(|| DataFusionError::Internal(format!("koel: {} rows have no group", rows - codes.len())))?;
            numbers.clear();
            numbers.extend(own.iter().map(|&code| code as usize));
            codes = rest;
        }
        let fresh = groups.rows.values().get(known..).unwrap_or_default();
        if !fresh.is_empty() {
            let fresh: UInt32Array = fresh.iter().map(|row| row - known as u32).collect::<Vec<_>>().into();
            let taken = columns().map(|i| column(i, true)?.take(&fresh));
            self.kept.push(taken.collect::<koel_arrow::Result<_>>().map_err(external)?)?;
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{Int64Array, StringViewArray};
    use datafusion::arrow::datatypes::{Field, Schema};

    use super::super::groups::Groups;
    use super::*;

    /// A device returns the numbers of separate batches, and they are preserved when the device is abandoned.
    #[test]
    fn all_ways_number_alike() {
        let field = |name: &str, of| Field::new(name, of, true);
        let schema = Arc::new(Schema::new(vec![field("a", DataType::Int64), field("b", DataType::Utf8View)]));
        let batch = |from: i64, rows: i64| -> Vec<ArrayRef> {
            let value = |i: i64| (i % 11 != 0).then_some(i * 7919 % 501);
            let text = |i: i64| (i % 13 != 0).then(|| format!("a rather long text {}", i % 3));
            vec![
                Arc::new((from..from + rows).map(value).collect::<Int64Array>()),
                Arc::new((from..from + rows).map(text).collect::<StringViewArray>()),
            ]
        };
        let mut bulk = Groups::bulk(schema.clone(), device::cpu());
        let mut single = Groups::new(schema).expect("groups");
        let (mut of_bulk, mut of_single) = (vec![], vec![]);
        for round in 0..6 {
            let batches = [batch(round * 500, 300), batch(0, 0), batch(round * 500 + 300, 200)];
            bulk.number(&batches, &mut of_bulk).expect("numbers");
            single.number(&batches, &mut of_single).expect("numbers");
            assert_eq!(of_bulk, of_single);
            assert_eq!(bulk.len(), single.len());
            if round == 3 {
                assert!(bulk.is_remote());
                bulk.leave_device().expect("the CPU");
                assert!(!bulk.is_remote());
            }
        }
        assert_eq!(bulk.take().expect("keys"), single.take().expect("keys"));
        assert_eq!((bulk.len(), single.len()), (0, 0));
    }
}
