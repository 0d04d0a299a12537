//! The build side, whole: its columns, its index, and which of its rows have been found.
//!
//! ```text
//! collect   batches as they come, their keys evaluated; their bytes are asked of the pool first, and then the index's
//! join up   column after column in one piece, the batches' own freed on the way: `take` from one piece is one pass
//! index     on a device if there are many rows, else on the CPU; by a thread that may be kept busy
//! ```
//!
//! Where the pool has no room, or rows are more than koel can number, the join is DataFusion's (instead.rs). Partitions that are
//! still reading then make room as well: a merge needs some.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::arrow::array::{ArrayRef, RecordBatch, UInt32Array, new_null_array};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::utils::memory::RecordBatchMemoryCounter;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_plan::EmptyRecordBatchStream;
use futures::StreamExt;
use koel_arrow::Column;

use super::bits::Bits;
use super::index::Index;
use super::metrics::BuildMetrics;
use super::spec::Spec;
use crate::device;
use crate::error::external;

/// A build side that is complete.
pub(super) struct Build {
    /// By their places in the build side's schema; none where nobody asks for it.
    columns: Vec<Option<Column>>,
    schema: SchemaRef,
    rows: usize,
    pub(super) index: Index,
    /// For joins that end with build rows, found or not.
    found: Option<Bits>,
    /// Probe partitions that are not done.
    probing: AtomicUsize,
    /// Held until the last partition lets go.
    reservation: MemoryReservation,
}

/// Batches and their keys, as they come.
struct Collected {
    batches: Vec<RecordBatch>,
    keys: Vec<Vec<ArrayRef>>,
    rows: usize,
    reservation: MemoryReservation,
}

/// What was read of a build side that koel cannot hold.
pub(super) struct Refused {
    pub(super) batches: Vec<RecordBatch>,
    /// What was not read yet.
    pub(super) rest: SendableRecordBatchStream,
    /// Of the batches.
    pub(super) reservation: MemoryReservation,
    pub(super) why: DataFusionError,
}

/// A build side, or what there is of it.
pub(super) enum Read {
    /// All of it.
    Whole(Arc<Build>),
    /// Not all of it.
    Refused(Refused),
}

/// Build rows from which a partition is indexed by all threads, however many partitions there are.
const MOST_ALONE: usize = 1 << 22;

/// Rows that koel can number.
const MOST_ROWS: usize = u32::MAX as usize - 1;

impl Build {
    /// Reads a partition of the build side that so many partitions of the other one will probe.
    pub(super) async fn collect(
        input: SendableRecordBatchStream,
        spec: Arc<Spec>,
        [partition, probes]: [usize; 2],
        reservation: MemoryReservation,
        metrics: BuildMetrics,
    ) -> Result<Read> {
        let collected = match Collected::read(input, &spec, reservation, &metrics).await? {
            Ok(collected) => collected,
            Err(refused) => return Ok(Read::Refused(refused)),
        };
        let timer = metrics.time.clone();
        let work = move || {
            let _timed = timer.timer();
            let build = Build::of(collected, &spec, [partition, probes])?;
            metrics.reserved(build.reservation.size());
            metrics.input.device(build.index.device());
            Ok(Read::Whole(Arc::new(build)))
        };
        SpawnedTask::spawn_blocking(work)
            .join()
            .await
            .map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?
    }

    fn of(collected: Collected, spec: &Spec, [partition, probes]: [usize; 2]) -> Result<Self> {
        let Collected { batches, keys, rows, reservation } = collected;
        let schema = Arc::clone(&spec.build_schema);
        let is_kept = |column: usize| spec.keeps_build(column) || spec.is_build_key(column);
        let mut columns: Vec<Option<Column>> = (0..schema.fields().len()).map(|_| None).collect();
        let mut pieces: Vec<Vec<ArrayRef>> = vec![Vec::with_capacity(batches.len()); columns.len()];
        for batch in batches {
            pieces.iter_mut().zip(batch.columns()).for_each(|(pieces, column)| pieces.push(Arc::clone(column)));
        }
        for (i, pieces) in pieces.into_iter().enumerate().filter(|(i, _)| is_kept(*i)) {
            let field = schema.field(i);
            let column = Column::of_chunks(field.name(), field.data_type(), pieces).map_err(external)?;
            columns[i] = Some(one_piece(column, &reservation));
        }
        let keys = spec.build_keys(&columns, keys)?;
        if let Some(bounds) = &spec.bounds {
            bounds.say(partition, &keys)?;
        }
        columns.iter_mut().enumerate().filter(|(i, _)| !spec.keeps_build(*i)).for_each(|(_, column)| *column = None);
        // A partition with most rows of all is left to all threads.
        let cpu = if spec.are_many && rows < MOST_ALONE { device::thread() } else { device::cpu() };
        let device = if rows < spec.min_rows { cpu.clone() } else { device::named(&spec.device) };
        let device = if device::is_cpu(&device) { cpu.clone() } else { device };
        let index = Index::new([device, cpu], keys, spec.nulls, spec.wants_pairs())?;
        // Columns that nobody asks for any more are gone; what the index needs is known less well.
        let kept: usize = columns.iter().flatten().map(bytes).sum();
        let kept = kept.saturating_add(spec.index_bytes(rows));
        reservation.shrink(reservation.size().saturating_sub(kept));
        Ok(Build {
            columns,
            schema,
            rows,
            index,
            found: spec.ends_with_build_rows().then(|| Bits::new(rows)),
            probing: AtomicUsize::new(probes),
            reservation,
        })
    }

    /// Rows.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Notes that a build row has been found.
    #[inline]
    pub(super) fn mark(&self, row: u32) {
        if let Some(found) = &self.found {
            found.set(row);
        }
    }

    /// Whether a build row has been found, which is known after the last partition.
    #[inline]
    pub(super) fn is_found(&self, row: u32) -> bool {
        self.found.as_ref().is_some_and(|found| found.get(self.index.marked_by(row)))
    }

    /// Called once by each partition that is done: whether it is the last one, and sees the marks of all others.
    pub(super) fn is_last(&self) -> bool {
        self.probing.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Rows of a column; null where a number is.
    pub(super) fn take(&self, column: usize, rows: &UInt32Array) -> Result<ArrayRef> {
        match self.columns.get(column) {
            Some(Some(of)) if self.rows > 0 => of.take(rows).map_err(external),
            Some(Some(of)) => Ok(new_null_array(of.data_type(), rows.len())),
            _ => Err(DataFusionError::Internal(format!("koel: column {column} of {:?} was not kept", self.schema))),
        }
    }
}

/// In one piece. In its own ones where there is no room for both, or one would be too long for its offsets or its
/// dictionary's keys.
fn one_piece(column: Column, reservation: &MemoryReservation) -> Column {
    let bytes = bytes(&column);
    if column.chunks().len() == 1 || reservation.try_grow(bytes).is_err() {
        return column;
    }
    let column = column.one_piece().unwrap_or(column);
    reservation.shrink(bytes);
    column
}

/// Bytes that a column holds.
fn bytes(column: &Column) -> usize {
    column.chunks().iter().map(|piece| piece.get_array_memory_size()).sum()
}

impl Collected {
    async fn read(
        mut input: SendableRecordBatchStream,
        spec: &Spec,
        reservation: MemoryReservation,
        metrics: &BuildMetrics,
    ) -> Result<std::result::Result<Self, Refused>> {
        let is_short = || spec.is_short.load(Ordering::Relaxed);
        let (mut batches, mut keys, mut rows) = (Vec::new(), vec![Vec::new(); spec.on_build.len()], 0);
        // Slices of one batch share its buffers.
        let mut counter = RecordBatchMemoryCounter::new();
        let refused = loop {
            let Some(batch) = input.next().await.transpose()? else {
                input = Box::pin(EmptyRecordBatchStream::new(Arc::clone(&spec.build_schema)));
                break None;
            };
            let _timed = metrics.time.timer();
            metrics.input.came(&batch);
            if batch.num_rows() == 0 {
                continue;
            }
            let mut bytes = counter.count_batch(&batch);
            for (expression, keys) in spec.on_build.iter().zip(&mut keys) {
                // A column is taken from the batches once they are joined up.
                if !is_column(expression) {
                    let key = expression.evaluate(&batch)?.into_array(batch.num_rows())?;
                    bytes += key.get_array_memory_size();
                    keys.push(key);
                }
            }
            rows += batch.num_rows();
            batches.push(batch);
            if rows > MOST_ROWS {
                break Some(DataFusionError::ResourcesExhausted(format!(
                    "koel numbers at most {MOST_ROWS} build rows"
                )));
            }
            if let Err(error) = reservation.try_grow(bytes) {
                break Some(error);
            }
            if is_short() {
                break Some(DataFusionError::ResourcesExhausted("another partition found no room".into()));
            }
        };
        Ok(match refused.or_else(|| reservation.try_grow(spec.index_bytes(rows)).err()) {
            Some(why) => {
                spec.is_short.store(true, Ordering::Relaxed);
                Err(Refused { batches, rest: input, reservation, why })
            }
            None => Ok(Collected { batches, keys, rows, reservation }),
        })
    }
}

impl Spec {
    /// Bytes of what is made of so many build rows.
    fn index_bytes(&self, rows: usize) -> usize {
        let marks = if self.ends_with_build_rows() { Bits::bytes(rows) } else { 0 };
        Index::bytes(rows, self.on_build.len()).saturating_add(marks)
    }
}

/// Whether an expression is a column of its input.
pub(super) fn is_column(expression: &PhysicalExprRef) -> bool {
    super::spec::column_of(expression).is_some()
}
