//! Groups under a limit: what fits is grouped at once, and else part by part.
//!
//! ```text
//! batches     held until they are too many
//! all held    group_by, and the groups go out
//! too many    rows dealt by their keys; each part grouped, with the number of each group's first row; merged by it, or by
//!             the keys where groups are to ascend
//! too large   a part that does not fit is dealt again; rows of one key are added up piece by piece (fold.rs)
//! ```

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_row::{RowConverter, SortField};
use arrow_schema::{ArrowError, Schema, SchemaRef, SortOptions};
use koel::{Any, IdOrder};

use super::fold::Fold;
use super::hash::Hashing;
use super::merge::{Order, ROWS, Run, merged, write};
use super::parts::{Parts, batched, numbers};
use super::spill::Spill;
use super::{Batches, Held, Limit, Side, Stage, without_numbers};
use crate::aggregate::{Aggregation, Function, group_by};
use crate::encode::NullEquality;
use crate::error::{Error, Result};
use crate::group::NullKeys;
use crate::keys::{Column, Keys};

/// An aggregate, and which column it is of by its place; of none the rows are counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Of {
    /// What is wanted of the values.
    pub function: Function,
    /// Their column.
    pub column: Option<usize>,
    /// The name of the column that comes out.
    pub name: String,
}

/// What is grouped, and how.
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
///     device: &koel::auto().backend,
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
    /// Where keys are told apart and values added up.
    pub device: &'a Any,
    /// The columns of the key, by their places.
    pub by: &'a [usize],
    /// What is wanted of each group.
    pub aggregates: &'a [Of],
    /// In which order groups come.
    pub order: IdOrder,
    /// What becomes of rows whose key has a null.
    pub nulls: NullKeys,
    /// How much memory may be used.
    pub limit: &'a Limit,
    /// Is told how far the work is.
    pub watch: &'a dyn Fn(Stage),
}

/// How many rows there were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grouped {
    /// Rows of the table.
    pub rows: u64,
    /// Groups.
    pub groups: u64,
    /// Bytes written to temporary files.
    pub spilled: u64,
}

impl GroupBy<'_> {
    /// The columns of the result of a table with these columns.
    ///
    /// # Errors
    /// As [`group_by`](crate::group_by); [`Error::Arrow`] for a column that is not there.
    pub fn schema(&self, of: &SchemaRef) -> Result<SchemaRef> {
        let side = Side::new(of, self.by.to_vec())?;
        Ok(self.grouped(&side, Vec::new())?.schema())
    }

    /// Groups a table. The groups are handed on batch by batch, in their order.
    ///
    /// Cost: where the table fits, that of [`group_by`](crate::group_by). Else each row is also written to a temporary file
    /// and read back, once for every factor of 32 between the table and the limit, and each group once.
    ///
    /// # Errors
    /// As [`group_by`](crate::group_by); an [`Error::Overflow`] names one such group, and of groups by first appearance the
    /// first.
    /// [`koel::Error::Spill`], and those of the table and of `take`, after which nothing more is done. Temporary files are gone
    /// then.
    pub fn run<E: From<Error>>(
        &self,
        table: Batches<'_, E>,
        mut take: impl FnMut(RecordBatch) -> std::result::Result<(), E>,
    ) -> std::result::Result<Grouped, E> {
        let mut side = Side::new(&table.schema, self.by.to_vec())?;
        let (limit, hashing) = (self.limit.of(self.device, self.aggregates.len()), Hashing::new(self.equality()));
        let job = Job { group_by: self, hashing, schema: self.numbered(&side, Vec::new())?.schema(), limit };
        let schema: SchemaRef = without_numbers_of(&job.schema);
        let mut sizes = Grouped::default();
        let mut take = |sizes: &mut Grouped, batch: RecordBatch| {
            sizes.groups += batch.num_rows() as u64;
            take(batch)
        };
        let mut held = Held::default();
        let mut dealt: Option<Parts> = None;
        for batch in table.batches {
            for batch in side.numbered(&batch?)? {
                match &mut dealt {
                    Some(parts) => parts.deal(&side, &batch, hashing)?,
                    None => held.push(batch)?,
                }
            }
            if dealt.is_none() && !job.limit.fits(held.rows, held.bytes) {
                (self.watch)(Stage::Dealing);
                let mut parts = Parts::new(&job.limit)?;
                for batch in std::mem::take(&mut held).batches {
                    parts.deal(&side, &batch, job.hashing)?;
                }
                dealt = Some(parts);
            }
        }
        sizes.rows = side.rows;
        let Some(mut parts) = dealt else {
            let groups = self.grouped(&side, held.batches)?;
            (0..groups.num_rows())
                .step_by(ROWS)
                .try_for_each(|start| take(&mut sizes, groups.slice(start, ROWS.min(groups.num_rows() - start))))?;
            return Ok(sizes);
        };
        let mut results = Results { spill: Spill::new(job.limit.folder())?, runs: Vec::new(), overflow: None };
        for part in 0..parts.parts.len() {
            (self.watch)(Stage::Part(part + 1, parts.parts.len()));
            job.part(&side, &mut parts, part, &mut results)?;
        }
        if let Some(overflow) = results.overflow {
            return Err(overflow.into());
        }
        sizes.spilled = parts.spill.bytes() + results.spill.bytes();
        drop(parts);
        (self.watch)(Stage::Merging);
        let converter = converter(&job.schema, self.by.len())?;
        let order = match self.order {
            IdOrder::Ascending => Order::Bytes(&converter, self.by.len()),
            _ => Order::Numbers,
        };
        merged(results.spill, results.runs, &job.schema, &order, &job.limit, |batch| {
            take(&mut sizes, without_numbers(&schema, &batch)?)
        })?;
        Ok(sizes)
    }

    fn equality(&self) -> NullEquality {
        match self.nulls {
            NullKeys::Group => NullEquality::NullEquals,
            NullKeys::Drop => NullEquality::NothingEquals,
        }
    }

    /// The groups of these rows.
    fn grouped(&self, side: &Side, batches: Vec<RecordBatch>) -> Result<RecordBatch> {
        let groups = self.numbered(side, batches)?;
        without_numbers(&without_numbers_of(&groups.schema()), &groups)
    }

    /// The groups of these rows, with the numbers of their first rows.
    fn numbered(&self, side: &Side, batches: Vec<RecordBatch>) -> Result<RecordBatch> {
        let columns = side.columns(batches)?;
        let keys = Keys::new(self.by.iter().map(|&key| columns[key].clone()).collect())?;
        let numbers = columns.last().cloned();
        let aggregation = |of: &Of| {
            let Some(at) = of.column else { return Ok(Aggregation::rows().named(&of.name)) };
            // The last one is that of numbers.
            match columns.split_last().and_then(|(_, columns)| columns.get(at)) {
                Some(column) => Ok(Aggregation::new(of.function, column.clone()).named(&of.name)),
                None => Err(Error::Arrow(ArrowError::SchemaError(format!("column {at} of {}", columns.len() - 1)))),
            }
        };
        let mut wanted = self.aggregates.iter().map(aggregation).collect::<Result<Vec<_>>>()?;
        wanted.extend(numbers.iter().map(|numbers| Aggregation::new(Function::First, numbers.clone()).named("")));
        drop(columns);
        group_by(self.device, &keys, &wanted, self.order, self.nulls).map_err(|error| match (error, &numbers) {
            (Error::Overflow { column, row, sum }, Some(numbers)) => {
                let row = number_of(numbers, row).unwrap_or(row);
                Error::Overflow { column, row, sum }
            }
            (error, _) => error,
        })
    }
}

/// The number of a row among all rows.
fn number_of(column: &Column, row: usize) -> Option<usize> {
    let row = column.take(&vec![u32::try_from(row).ok()?].into()).ok()?;
    let row = RecordBatch::try_from_iter([("", row)]).ok()?;
    numbers(&row).first().map(|&number| number as usize)
}

fn without_numbers_of(schema: &SchemaRef) -> SchemaRef {
    let fields = schema.fields();
    Arc::new(Schema::new(fields[..fields.len().saturating_sub(1)].to_vec()))
}

/// Bytes of keys that ascend as keys do: NaN behind all numbers, and null behind all values.
fn converter(schema: &Schema, keys: usize) -> Result<RowConverter> {
    let options = SortOptions { descending: false, nulls_first: false };
    let field = |field: &Arc<arrow_schema::Field>| SortField::new_with_options(field.data_type().clone(), options);
    Ok(RowConverter::new(schema.fields()[..keys].iter().map(field).collect())?)
}

/// How parts are grouped.
struct Job<'a> {
    group_by: &'a GroupBy<'a>,
    hashing: Hashing,
    /// The columns of groups, and the number of the first row.
    schema: SchemaRef,
    limit: Limit,
}

struct Results {
    spill: Spill,
    runs: Vec<Run>,
    /// The sum that does not fit its type whose group comes first.
    overflow: Option<Error>,
}

impl Results {
    fn put(&mut self, groups: Result<RecordBatch>, limit: &Limit) -> Result<()> {
        match groups {
            Ok(groups) => {
                let mut run = Run::new();
                write(&mut self.spill, &mut run, &groups, limit)?;
                self.runs.extend((!run.is_empty()).then_some(run));
                Ok(())
            }
            Err(error @ Error::Overflow { row, .. }) => {
                match &self.overflow {
                    Some(Error::Overflow { row: first, .. }) if *first <= row => (),
                    _ => self.overflow = Some(error),
                }
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

impl Job<'_> {
    fn part(&self, side: &Side, parts: &mut Parts, part: usize, results: &mut Results) -> Result<()> {
        let of = &parts.parts[part];
        if of.rows == 0 {
            return Ok(());
        }
        if self.limit.fits(of.rows, of.bytes) {
            let blocks = of.blocks.clone();
            let batches = blocks.iter().map(|block| parts.spill.read(block)).collect::<Result<_>>()?;
            return results.put(self.group_by.numbered(side, batches), &self.limit);
        }
        if parts.can_be_dealt(part) {
            let own = parts.heavy(part, side, self.hashing)?;
            let mut parts = parts.deal_again(part, side, self.hashing, &self.limit, &own)?;
            return (0..parts.parts.len()).try_for_each(|part| self.part(side, &mut parts, part, results));
        }
        let mut fold = Fold::new(self.group_by, side, &self.schema);
        let blocks = of.blocks.clone();
        for blocks in blocks.chunk_by(batched(self.limit.batch_bytes())) {
            fold.add(blocks.iter().map(|block| parts.spill.read(block)).collect::<Result<_>>()?)?;
        }
        // A set of the values of one key may be as large as its rows: they are told apart as groups are.
        for distinct in fold.distinct_columns() {
            let by = [self.group_by.by, &[distinct]].concat();
            let values = GroupBy {
                by: &by,
                aggregates: &[],
                order: IdOrder::FirstSeen,
                nulls: NullKeys::Group,
                watch: &|_| (),
                ..*self.group_by
            };
            let schema = without_numbers_of(&side.schema);
            let batches = blocks.iter().map(|block| without_numbers(&schema, &parts.spill.read(block)?));
            values.run(Batches::new(Arc::clone(&schema), batches), |batch| fold.add_distinct(distinct, &batch))?;
        }
        results.put(fold.finish(), &self.limit)
    }
}

impl std::fmt::Debug for GroupBy<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("GroupBy");
        shown.field("by", &self.by).field("aggregates", &self.aggregates).field("order", &self.order);
        shown.field("limit", &self.limit).finish_non_exhaustive()
    }
}
