//! The first and last value of each group, and the number of its distinct values.
//!
//! ```text
//! first, last    find the smallest and the largest row number of each group;  gather the values at these rows
//! nunique        pairs = (group, code of the value) of each row in one word, without NaN;  distinct = unique(pairs)
//!                count the distinct pairs of each group
//! ```
//!
//! Values are first replaced by codes, which fit in the 32 bits that a pair has for them. -0.0 equals 0.0.

use koel::device::AnyBuffer;
use koel::group::wide::{aggregate_on, factorize_on, unique_on};
use koel::opencl::cuda::{Cuda, Part, append_column, column_of, without_nan, without_negative_zero};
use koel::{Aggregate, Any, DeviceBuffer as _, HashBackend as _, IdOrder};
use koel_arrow::Function;

use super::argument::GpuColumn;
use super::groups::Loaded;
use super::keys::{self, Imported, opencl_buffer};
use super::{Array, Dtype};
use crate::error::Result;

/// The rows of a column, and their groups.
pub(super) struct Rows<'a> {
    pub(super) cuda: &'a Cuda,
    pub(super) device: &'a Any,
    /// The group of each row.
    pub(super) ids: &'a AnyBuffer<u32>,
    /// The number of groups. Each has at least one row.
    pub(super) groups: usize,
}

impl Rows<'_> {
    /// Returns the results of a column, each with its position in the request.
    pub(super) fn results(
        &self,
        (column, of): (&GpuColumn, Dtype),
        functions: &[(usize, Function)],
    ) -> Result<Vec<(usize, Array)>> {
        let has = |function| functions.iter().any(|&(_, other)| other == function);
        let ends = [(Function::First, Aggregate::Min), (Function::Last, Aggregate::Max)];
        let ends: Vec<Aggregate> = ends.into_iter().filter_map(|(of, end)| has(of).then_some(end)).collect();
        let numbers = self.device.iota(if ends.is_empty() { 0 } else { column.len })?;
        let rows = aggregate_on::<Any, u32>(self.device, self.ids, self.groups, &numbers, &ends)?;
        let result = |&(at, function): &(usize, Function)| {
            let array = match function {
                Function::First => self.values_at(column, of, &rows.mins)?,
                Function::Last => self.values_at(column, of, &rows.maxs)?,
                _ => keys::rows(self.cuda, &self.distinct_counts(column, of)?)?,
            };
            Ok((at, array))
        };
        functions.iter().map(result).collect()
    }

    /// Gathers the values at the given rows.
    fn values_at(&self, column: &GpuColumn, of: Dtype, rows: &AnyBuffer<u32>) -> Result<Array> {
        let memory = Imported::of(self.cuda, column)?;
        match of.bytes() {
            4 => keys::copied(self.cuda, &self.device.gather(&memory.values::<u32>()?, rows)?, of),
            _ => keys::copied(self.cuda, &self.device.gather(&memory.values::<u64>()?, rows)?, of),
        }
    }

    /// Returns the number of distinct values of each group.
    fn distinct_counts(&self, column: &GpuColumn, of: Dtype) -> Result<AnyBuffer<u32>> {
        const HALF: Part = Part { bits: u32::BITS, is_signed: false };
        let opencl = self.cuda.device();
        let loaded = Loaded::of(self.cuda, column, of)?;
        let canonical = match of {
            Dtype::Floats(_) => {
                let values = opencl_buffer(&loaded.values)?;
                let ids = without_nan(opencl, opencl_buffer(self.ids)?, values)?;
                let values = without_negative_zero(opencl, values)?;
                Some((AnyBuffer::OpenCl(ids), AnyBuffer::OpenCl(values)))
            }
            _ => None,
        };
        let (ids, values) = match &canonical {
            Some((ids, values)) => (ids, values),
            None => (self.ids, &loaded.values),
        };
        let (_, codes) = factorize_on::<Any, u64>(self.device, values, IdOrder::FirstSeen)?;
        let mut pairs = opencl.unwritten::<u64>(column.len)?;
        append_column(opencl, opencl_buffer(ids)?, HALF, true, &mut pairs)?;
        append_column(opencl, opencl_buffer(&codes)?, HALF, false, &mut pairs)?;
        let pairs = unique_on::<Any, u64>(self.device, &AnyBuffer::OpenCl(pairs), IdOrder::FirstSeen)?;
        let mut of_pairs = opencl.unwritten::<u32>(pairs.len())?;
        column_of(opencl, opencl_buffer(&pairs)?, u32::BITS, HALF, &mut of_pairs)?;
        let (of_pairs, none) = (AnyBuffer::OpenCl(of_pairs), self.device.filled(0, 0)?);
        Ok(aggregate_on::<Any, u32>(self.device, &of_pairs, self.groups, &none, &[Aggregate::Count])?.counts)
    }
}
