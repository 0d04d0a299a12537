//! Groups rows on one device: the rows of a partition, or a piece of a table in memory.
//!
//! ```text
//! part      in memory if it fits; otherwise partitioned again; rows of one key are aggregated in pieces (fold.rs)
//! whole     a table in memory, on one device
//! pieces    of a table in memory: rows partitioned by key, one piece per device
//! ```
//!
//! The last column of groups is the number of their first row, by which they are sorted.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{RecordBatch, UInt32Array};
use arrow_schema::{ArrowError, Schema, SchemaRef};
use koel::{Any, IdOrder};
use rayon::prelude::*;

use super::buffered::Buffered;
use super::devices::{Emit, Stop, Work, shared_out};
use super::fold::Fold;
use super::group::{GroupBy, Of};
use super::hash::Hashing;
use super::merge::{ROWS, Run, write};
use super::ordered::{Ahead, Input, in_order};
use super::parts::{Parts, batched, numbers};
use super::right::{LARGE, may_stay};
use super::spill::Spill;
use super::{Batches, Limit, MorselOf, Side, batch_of, first_number, memory, without_numbers};
use crate::aggregate::{Aggregation, Function};
use crate::error::{Error, Result};
use crate::group::NullKeys;
use crate::groups::Groups;
use crate::keys::{Column, Keys};
use crate::take::take_batch;

/// The parameters of a grouping on one device.
#[derive(Clone, Copy)]
pub(super) struct Grouping<'a> {
    pub(super) device: &'a Any,
    pub(super) by: &'a [usize],
    pub(super) aggregates: &'a [Of],
    pub(super) order: IdOrder,
    pub(super) nulls: NullKeys,
}

impl<'a> Grouping<'a> {
    /// The same grouping on another device.
    fn on(self, device: &'a Any) -> Self {
        Grouping { device, ..self }
    }

    /// The groups of numbered rows, with the numbers of their first rows.
    pub(super) fn numbered(&self, side: &Side, batches: Vec<RecordBatch>) -> Result<RecordBatch> {
        self.groups(side, &side.schema, batches)?.batch(Column::take)
    }

    /// Groups a table in memory, and calls `take` with the groups in batches, which have this schema. All threads
    /// create batches, and the calling thread calls `take`.
    pub(super) fn whole<E: From<Error> + Send>(
        &self,
        side: &Side,
        batches: Vec<RecordBatch>,
        schema: &SchemaRef,
        limit: &Limit,
        mut take: impl FnMut(RecordBatch) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let groups = self.groups(side, &side.unnumbered, batches)?;
        let pieces = (0..groups.len()).step_by(ROWS).map(|start| start..groups.len().min(start + ROWS));
        let mut morsels = pieces.map(|piece| {
            let morsel: MorselOf<'_, E, Range<usize>> = Box::new(move |take| take(piece));
            Ok(morsel)
        });
        let work =
            |piece: &Range<usize>, emit: Emit<'_, RecordBatch>| emit_groups(&groups, piece.clone(), schema, emit);
        in_order(&mut morsels, Ahead::of(limit)?, &work, &mut |batch, _| take(batch)).map(drop)
    }

    /// The groups of rows with this schema: that of numbered rows, or of rows without numbers.
    fn groups(&self, side: &Side, schema: &SchemaRef, batches: Vec<RecordBatch>) -> Result<Groups> {
        // Large pieces need not be concatenated.
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        let are_large = rows / batches.len().max(1) >= LARGE;
        let stays = |at: usize| are_large && may_stay(schema.field(at).data_type());
        let mut columns = side.columns_in_pieces(schema, batches, &stays)?;
        let numbers = columns.split_off(side.unnumbered.fields().len()).pop();
        let keys = Keys::new(self.by.iter().map(|&key| columns[key].clone()).collect())?;
        let aggregation = |of: &Of| {
            let Some(at) = of.column else { return Ok(Aggregation::rows().named(&of.name)) };
            match columns.get(at) {
                Some(column) => Ok(Aggregation::new(of.function, column.clone()).named(&of.name)),
                None => Err(Error::Arrow(ArrowError::SchemaError(format!("column {at} of {}", columns.len())))),
            }
        };
        let mut wanted = self.aggregates.iter().map(aggregation).collect::<Result<Vec<_>>>()?;
        wanted.extend(numbers.iter().map(|numbers| Aggregation::new(Function::First, numbers.clone()).named("")));
        drop(columns);
        let groups = Groups::of(self.device, &keys, &wanted, self.order, self.nulls);
        groups.map_err(|error| match error {
            Error::Overflow { column, row, sum } => {
                let row = match &numbers {
                    Some(numbers) => number_of(numbers, row).unwrap_or(row),
                    None => first_number() as usize + row,
                };
                Error::Overflow { column, row, sum }
            }
            error => error,
        })
    }

    /// Groups a table in memory on several devices; each groups the rows of some of the keys.
    pub(super) fn in_memory(
        &self,
        devices: &[Any],
        side: &Side,
        buffered: Buffered,
        hashing: Hashing,
    ) -> Result<Vec<RecordBatch>> {
        let batches = buffered.numbered(side).collect::<Result<_>>()?;
        let pieces = partitioned(batches, side, hashing, devices.len())?;
        let (mut all, mut overflow) = (Vec::with_capacity(pieces.len()), Overflow::default());
        let on_each = Work {
            begin: &|device| Ok(self.on(device)),
            work: &|grouping: &mut Grouping<'_>, piece, emit: Emit<'_, (Option<RecordBatch>, Overflow)>| {
                let mut overflow = Overflow::default();
                let groups = overflow.or(grouping.numbered(side, piece))?;
                emit((groups, overflow))
            },
        };
        let count = pieces.len();
        shared_out(
            devices,
            count,
            &mut pieces.into_iter().map(Ok::<_, Error>),
            &mut |_| (),
            &on_each,
            &mut |(groups, of_piece)| {
                all.extend(groups);
                overflow.add(of_piece);
                Ok(())
            },
        )?;
        overflow.check()?;
        Ok(all)
    }

    /// Groups a partitioned table, and writes the groups to this file as runs.
    pub(super) fn in_parts(
        &self,
        devices: &[Any],
        job: &Job<'_>,
        parts: &Parts,
        spill: &Spill,
        front: &mut dyn FnMut(usize),
    ) -> Result<Vec<Run>> {
        let (mut runs, mut overflow) = (Vec::new(), Overflow::default());
        let on_each = Work {
            begin: &|device| Ok(self.on(device)),
            work: &|grouping: &mut Grouping<'_>, part, emit: Emit<'_, (Vec<Run>, Overflow)>| {
                let mut results = Results { spill, runs: Vec::new(), overflow: Overflow::default() };
                job.part(grouping, parts, part, &mut results)?;
                emit((results.runs, results.overflow))
            },
        };
        let all = parts.parts.len();
        shared_out(devices, all, &mut (0..all).map(Ok::<_, Error>), front, &on_each, &mut |(
            of_part,
            overflow_of_part,
        )| {
            runs.extend(of_part);
            overflow.add(overflow_of_part);
            Ok(())
        })?;
        overflow.check()?;
        Ok(runs)
    }
}

/// Emits these groups in a batch, or in several if they are too long for one: text of a batch is limited to 2 GiB per
/// column.
fn emit_groups(
    groups: &Groups,
    piece: Range<usize>,
    schema: &SchemaRef,
    emit: Emit<'_, RecordBatch>,
) -> std::result::Result<(), Stop> {
    match groups.some(piece.clone()) {
        Ok(columns) => emit(batch_of(schema, columns, piece.len())?),
        Err(error) if error.is_too_long() && piece.len() > 1 => {
            let middle = piece.start + piece.len() / 2;
            emit_groups(groups, piece.start..middle, schema, emit)?;
            emit_groups(groups, middle..piece.end, schema, emit)
        }
        Err(error) => Err(error.into()),
    }
}

/// Partitions rows into `pieces` pieces, each with all rows of its keys, in input order.
fn partitioned(
    batches: Vec<RecordBatch>,
    side: &Side,
    hashing: Hashing,
    count: usize,
) -> Result<Vec<Vec<RecordBatch>>> {
    let mut pieces = vec![Vec::with_capacity(batches.len()); count];
    // Each batch is dropped after its rows are partitioned.
    for batch in batches {
        let Some(&first) = numbers(&batch).first() else { continue };
        let mut rows = vec![Vec::new(); count];
        for (row, hash) in (0_u32..).zip(hashing.hashes(&side.keys_of(&batch)?, None, first)?) {
            rows[(hash % count as u64) as usize].push(row);
        }
        let taken = rows.into_par_iter().map(|rows| Ok(take_batch(&batch, &UInt32Array::from(rows))?));
        let taken: Vec<RecordBatch> = taken.collect::<Result<_>>()?;
        pieces.iter_mut().zip(taken).for_each(|(piece, rows)| piece.push(rows));
    }
    Ok(pieces)
}

/// Reads a row number from the column of row numbers.
fn number_of(column: &Column, row: usize) -> Option<usize> {
    let row = column.take(&vec![u32::try_from(row).ok()?].into()).ok()?;
    let row = RecordBatch::try_from_iter([("", row)]).ok()?;
    numbers(&row).first().map(|&number| number as usize)
}

/// The schema without its last column, the row numbers.
pub(super) fn without_number(schema: &SchemaRef) -> SchemaRef {
    let fields = schema.fields();
    Arc::new(Schema::new(fields[..fields.len().saturating_sub(1)].to_vec()))
}

/// The error of the first group whose sum does not fit its type.
#[derive(Default)]
struct Overflow(Option<Error>);

impl Overflow {
    /// The results; `None` if a sum does not fit, in which case the error is stored.
    fn or<T>(&mut self, results: Result<T>) -> Result<Option<T>> {
        match results {
            Ok(results) => Ok(Some(results)),
            Err(error @ Error::Overflow { .. }) => {
                self.add(Overflow(Some(error)));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn add(&mut self, other: Overflow) {
        match (&self.0, &other.0) {
            (Some(Error::Overflow { row: first, .. }), Some(Error::Overflow { row, .. })) if first <= row => (),
            (_, None) => (),
            (_, Some(_)) => *self = other,
        }
    }

    fn check(self) -> Result<()> {
        self.0.map_or(Ok(()), Err)
    }
}

/// A range of groups.
impl Input for Range<usize> {
    fn rows(&self) -> usize {
        self.len()
    }
}

/// The parameters for grouping parts on each device.
pub(super) struct Job<'a> {
    pub(super) side: &'a Side,
    pub(super) hashing: Hashing,
    /// The columns of groups, followed by the number of the first row.
    pub(super) schema: &'a SchemaRef,
    /// The limit of one device.
    pub(super) limit: &'a Limit,
}

/// The results of one device.
struct Results<'a> {
    spill: &'a Spill,
    runs: Vec<Run>,
    overflow: Overflow,
}

impl Results<'_> {
    fn put(&mut self, groups: Result<RecordBatch>, limit: &Limit) -> Result<()> {
        if let Some(groups) = self.overflow.or(groups)? {
            let mut run = Run::new();
            write(self.spill, &mut run, &groups, limit)?;
            self.runs.extend((!run.is_empty()).then_some(run));
        }
        Ok(())
    }
}

impl Job<'_> {
    fn part(&self, grouping: &Grouping<'_>, parts: &Parts, part: usize, results: &mut Results<'_>) -> Result<()> {
        let (of, side) = (&parts.parts[part], self.side);
        let read = |block| parts.spill.read(block);
        if of.rows == 0 {
            return Ok(());
        }
        if self.limit.fits(of.rows, of.bytes) {
            memory::check(self.limit.work_bytes(of.rows, of.bytes))?;
            let batches = of.blocks.iter().map(read).collect::<Result<_>>()?;
            return results.put(grouping.numbered(side, batches), self.limit);
        }
        if parts.can_be_partitioned(part) {
            let own = parts.heavy(part, side, self.hashing)?;
            let parts = parts.partition_again(part, side, self.hashing, self.limit, &own)?;
            return (0..parts.parts.len()).try_for_each(|part| self.part(grouping, &parts, part, results));
        }
        let mut fold = Fold::new(grouping, side, self.schema);
        for blocks in of.blocks.chunk_by(batched(self.limit.batch_bytes())) {
            fold.add(blocks.iter().map(read).collect::<Result<_>>()?)?;
        }
        // The distinct values of one key may take as much memory as its rows, so this partitions them too.
        for distinct in fold.distinct_columns() {
            let values = GroupBy {
                devices: std::slice::from_ref(grouping.device),
                by: &[grouping.by, &[distinct]].concat(),
                aggregates: &[],
                order: IdOrder::FirstSeen,
                nulls: NullKeys::Group,
                limit: self.limit,
                watch: &|_| (),
            };
            let schema = without_number(&side.schema);
            let batches = of.blocks.iter().map(|block| without_numbers(&schema, &parts.spill.read(block)?));
            values.run(Batches::new(Arc::clone(&schema), batches), |batch| fold.add_distinct(distinct, &batch))?;
        }
        results.put(fold.finish(), self.limit)
    }
}
