//! Groups under a memory limit: rows that fit are grouped at once, and others one partition at a time.
//!
//! ```text
//! morsels           on CPUs, one row per key of the morsel, with mergeable states of the aggregates (preaggregate.rs)
//! rows of morsels   buffered until they exceed the limit
//! all buffered      group_by, if all of them fit; groups of morsels whose keys ascend need no hash table (sorted.rs)
//! over the limit    partitioned by their keys, and each partition grouped, with the number of each group's first row; the
//!                   groups are merged in the order of these numbers, or of their keys
//! too large         a partition that does not fit is partitioned again; rows of one key are aggregated in pieces (fold.rs)
//! ```
//!
//! Several devices share the partitions. For several devices, tables that fit are partitioned in memory if they are
//! large enough.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_row::{RowConverter, SortField};
use arrow_schema::{Field, Schema, SchemaRef, SortOptions};
use koel::backend::DeviceKind;
use koel::{Any, HashBackend, IdOrder};

use super::buffered::{Collected, buffer_or_partition};
use super::devices::some;
use super::grouping::{Grouping, Job, without_number};
use super::hash::Hashing;
use super::merge::{Order, merged, merged_in_memory};
use super::preaggregate::Plan;
use super::spill::Spill;
use super::{Batches, Limit, Side, Stage, sorted, without_numbers};
use crate::aggregate::Function;
use crate::encode::NullEquality;
use crate::error::{Error, Result};
use crate::group::NullKeys;

/// The least number of rows for which it is faster to partition in memory for several devices.
const WORTH_DEVICES: u64 = 1 << 16;

/// An aggregate of a column, given by its index; without a column, rows are counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Of {
    /// The function.
    pub function: Function,
    /// The index of the column.
    pub column: Option<usize>,
    /// The name of the result column.
    pub name: String,
}

/// The parameters of a grouping.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Int64Array, RecordBatch};
/// use koel_arrow::external::{Batches, GroupBy, Limit, Of};
/// use koel_arrow::{Error, Function, IdOrder, NullKeys};
///
/// let column = |values: Vec<i64>| Arc::new(Int64Array::from(values)) as ArrayRef;
/// let batch = RecordBatch::try_from_iter([("k", column(vec![7, 3, 7])), ("v", column(vec![1, 2, 3]))])?;
/// let group_by = GroupBy {
///     devices: &[koel::auto().backend],
///     by: &[0],
///     aggregates: &[Of { function: Function::Sum, column: Some(1), name: "sum".into() }],
///     order: IdOrder::FirstSeen,
///     nulls: NullKeys::Group,
///     limit: &Limit::new(100_000_000),
///     watch: &|_| (),
/// };
/// let mut groups = Vec::new();
/// group_by.run(Batches::new(batch.schema(), [Ok::<_, Error>(batch)]), |batch| Ok(groups.push(batch)))?;
/// assert_eq!(groups[0].column(1).as_ref(), &Int64Array::from(vec![4, 2]));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct GroupBy<'a> {
    /// The devices that group keys and aggregate values; a device may occur twice. The result does not depend on them.
    pub devices: &'a [Any],
    /// The key columns, by index.
    pub by: &'a [usize],
    /// The aggregates of each group.
    pub aggregates: &'a [Of],
    /// The order of the groups.
    pub order: IdOrder,
    /// How rows with a null in their key are handled.
    pub nulls: NullKeys,
    /// The memory limit.
    pub limit: &'a Limit,
    /// Receives progress reports, on the calling thread.
    pub watch: &'a dyn Fn(Stage),
}

/// The numbers of rows, and of spilled bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grouped {
    /// The number of rows of the table.
    pub rows: u64,
    /// The number of groups.
    pub groups: u64,
    /// The number of bytes written to temporary files: by the first partitioning of the rows, and for results.
    pub spilled: u64,
}

impl GroupBy<'_> {
    /// The schema of the result for a table with this schema.
    ///
    /// # Errors
    /// As [`group_by`](crate::group_by); [`Error::Arrow`] for a column that does not exist.
    pub fn schema(&self, of: &SchemaRef) -> Result<SchemaRef> {
        let side = Side::new(of, self.by.to_vec(), self.limit)?;
        let devices = some(self.devices)?;
        Ok(without_number(&self.grouping(&devices[0]).numbered(&side, Vec::new())?.schema()))
    }

    /// Groups a table, and calls `take` with the groups in batches, in order. The calling thread calls `take` and the
    /// iterator of the table; all threads of rayon's pool run morsels.
    ///
    /// Cost: on CPUs, the rows of each morsel are grouped first, unless most of them have distinct keys. If the
    /// resulting groups, or all rows, fit the limit, the rest is [`group_by`](crate::group_by); but if the groups of
    /// all morsels ascend by one key column of a primitive type, hardly any of them are grouped again. Otherwise each
    /// row is also written to a temporary file and read back, once for every factor of 32 between the table and the
    /// limit, and each group once.
    ///
    /// # Errors
    /// As [`group_by`](crate::group_by); an [`Error::Overflow`] names one of the groups whose sum does not fit, and in
    /// order of first occurrence the first of them. [`koel::Error::Spill`], [`koel::Error::InvalidParameter`] if
    /// `devices` is empty, and the errors of the table and of `take`, after which the work stops and temporary files
    /// are removed.
    pub fn run<E: From<Error> + Send>(
        &self,
        table: Batches<'_, E>,
        mut take: impl FnMut(RecordBatch) -> std::result::Result<(), E>,
    ) -> std::result::Result<Grouped, E> {
        let plan = self.plan(&table.schema);
        let Some(plan) = plan else { return self.run_rows(table, take) };
        let schema = self.schema(&table.schema)?;
        let by: Vec<usize> = (0..self.by.len()).collect();
        let merge = GroupBy { by: &by, aggregates: &plan.merge, ..*self };
        let of_morsels = plan.morsels(table);
        let grouped = merge.all(of_morsels, Some(&plan), |groups| take(plan.finish(&groups, &schema)?))?;
        Ok(Grouped { rows: plan.rows(), ..grouped })
    }

    /// The plan for merging the groups of morsels; `None` unless all devices are CPUs and all aggregates have mergeable
    /// states.
    fn plan(&self, table: &SchemaRef) -> Option<Plan<'_>> {
        let are_cpus = self.devices.iter().all(|device| device.info().kind == DeviceKind::Cpu);
        self.devices.first().filter(|_| are_cpus).and_then(|device| Plan::of(self.grouping(device), table))
    }

    /// Whether the groups of tables like this sample take much less memory than their rows: this requires that groups
    /// are computed while rows are read, and have three rows or more on average. If not,
    /// [`run_rows`](Self::run_rows) is faster than [`run`](Self::run).
    ///
    /// # Errors
    /// As [`factorize`](crate::factorize).
    pub fn reduces(&self, sample: &RecordBatch) -> Result<bool> {
        match self.plan(&sample.schema()) {
            Some(plan) => Ok(3 * plan.groups(sample)? <= sample.num_rows()),
            None => Ok(false),
        }
    }

    /// As [`run`](Self::run), but morsels are not grouped first: this takes less memory and time if most keys have only
    /// one or two rows.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_rows<E: From<Error> + Send>(
        &self,
        table: Batches<'_, E>,
        take: impl FnMut(RecordBatch) -> std::result::Result<(), E>,
    ) -> std::result::Result<Grouped, E> {
        self.all(table, None, take)
    }

    /// Groups rows. If they are groups of morsels, `plan` is their plan.
    fn all<E: From<Error> + Send>(
        &self,
        table: Batches<'_, E>,
        plan: Option<&Plan<'_>>,
        mut take: impl FnMut(RecordBatch) -> std::result::Result<(), E>,
    ) -> std::result::Result<Grouped, E> {
        let (side, devices) = (Side::new(&table.schema, self.by.to_vec(), self.limit)?, some(self.devices)?);
        let grouping = self.grouping(&devices[0]);
        let schema = grouping.numbered(&side, Vec::new())?.schema();
        let plain = without_number(&schema);
        let (mut sizes, mut groups) = (Grouped::default(), 0);
        let mut take = |batch: RecordBatch| {
            groups += batch.num_rows() as u64;
            take(batch)
        };
        let take_numbered = |batch: RecordBatch| take(without_numbers(&plain, &batch)?);
        let limit = self.limit.of(devices, self.aggregates.len()).numbered();
        let each = self.limit.each(devices, self.aggregates.len());
        let hashing = Hashing::new(match self.nulls {
            NullKeys::Group => NullEquality::NullEquals,
            NullKeys::Drop => NullEquality::NothingEquals,
        });
        match buffer_or_partition(&side, table, &mut sizes.rows, &limit, hashing, self.watch)? {
            Collected::Buffered(buffered) => {
                let is_grouped = plan.is_some_and(Plan::are_all_grouped);
                let sorted = is_grouped.then(|| sorted::merged(&grouping, &side, &plain, &buffered.batches));
                if let Some(found) = sorted.transpose()?.flatten() {
                    drop(buffered);
                    found.into_iter().try_for_each(take)?;
                } else {
                    match devices {
                        [_, _, ..] if buffered.rows >= WORTH_DEVICES => {
                            let found = grouping.in_memory(devices, &side, buffered, hashing)?;
                            merged_in_memory(found, &schema, &self.in_order(&schema)?, &limit, take_numbered)?;
                        }
                        _ => grouping.whole(&side, buffered.batches, &plain, &limit, take)?,
                    }
                }
            }
            Collected::Partitioned(parts) => {
                let spill = Spill::new(limit.folder())?;
                let job = Job { side: &side, hashing, schema: &schema, limit: &each };
                let mut front = |part| (self.watch)(Stage::Part(part + 1, parts.parts.len()));
                let runs = grouping.in_parts(devices, &job, &parts, &spill, &mut front)?;
                sizes.spilled = parts.spill.bytes() + spill.bytes();
                drop(parts);
                (self.watch)(Stage::Merging);
                merged(spill, runs, &schema, &self.in_order(&schema)?, &each, take_numbered)?;
            }
        }
        sizes.groups = groups;
        Ok(sizes)
    }

    pub(super) fn grouping<'b>(&'b self, device: &'b Any) -> Grouping<'b> {
        let GroupBy { by, aggregates, order, nulls, .. } = *self;
        Grouping { device, by, aggregates, order, nulls }
    }

    /// The order of groups with these columns. The bytes of keys have the order of the keys: NaN follows all numbers,
    /// and null follows all values.
    fn in_order(&self, schema: &Schema) -> Result<Order> {
        let options = SortOptions { descending: false, nulls_first: false };
        let field = |field: &Arc<Field>| SortField::new_with_options(field.data_type().clone(), options);
        let keys = self.by.len();
        Ok(match self.order {
            IdOrder::Ascending => {
                Order::Bytes(RowConverter::new(schema.fields()[..keys].iter().map(field).collect())?, keys)
            }
            _ => Order::Numbers,
        })
    }
}

impl std::fmt::Debug for GroupBy<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("GroupBy");
        shown.field("by", &self.by).field("aggregates", &self.aggregates).field("order", &self.order);
        shown.field("limit", &self.limit).finish_non_exhaustive()
    }
}
