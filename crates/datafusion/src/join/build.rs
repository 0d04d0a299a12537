//! The build side: its columns, its index, and the rows that have a match.
//!
//! ```text
//! collect   reads batches and evaluates their keys; reserves their bytes in the pool, and then those of the index
//! join up   concatenates each column, and frees its batches meanwhile, because `take` from one piece is one pass
//! index     on a device if there are many rows, otherwise on the CPU, by a blocking thread
//! ```
//!
//! If the pool has too little memory, or there are more rows than koel can number, DataFusion joins instead
//! (sort_merge_fallback.rs). Partitions that are still being read then free their memory too, because a merge needs
//! some.

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
use super::cache::Shared;
use super::index::Index;
use super::metrics::BuildMetrics;
use super::spec::Spec;
use crate::device;
use crate::error::external;

/// A complete build side.
pub(super) struct Build {
    /// By their positions in the build side's schema; `None` if the result does not need the column.
    columns: Vec<Option<Column>>,
    schema: SchemaRef,
    rows: usize,
    pub(super) index: Index,
    /// For joins that end with build rows, with or without a match.
    found: Option<Bits>,
    /// The number of probe partitions that have not finished.
    probing: AtomicUsize,
    /// The memory of the columns and the index, reserved until the last partition drops this.
    reservation: MemoryReservation,
    /// The shared build side that the columns and the index belong to, if other joins use it too.
    _shared: Option<Arc<Shared>>,
}

/// The batches that were read, and their keys.
pub(super) struct Collected {
    pub(super) batches: Vec<RecordBatch>,
    keys: Vec<Vec<ArrayRef>>,
    pub(super) rows: usize,
    pub(super) reservation: MemoryReservation,
}

/// The part of a build side that was read before koel refused it.
pub(super) struct Refused {
    pub(super) batches: Vec<RecordBatch>,
    /// The part that was not read.
    pub(super) rest: SendableRecordBatchStream,
    /// The memory of the batches.
    pub(super) reservation: MemoryReservation,
    pub(super) why: DataFusionError,
}

/// The result of reading a build side.
pub(super) enum Read {
    /// All of it.
    Whole(Arc<Build>),
    /// A part of it; koel cannot store all of it.
    Refused(Refused),
}

/// The number of build rows from which a partition is indexed by all threads, however many partitions there are.
const MOST_ALONE: usize = 1 << 22;

/// The maximum number of rows that koel can number.
const MOST_ROWS: usize = u32::MAX as usize - 1;

impl Build {
    /// Reads a partition of the build side, which `probes` partitions of the other side will probe.
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
        // A partition with most of all rows is indexed by all threads.
        let cpu = if spec.are_many && rows < MOST_ALONE { device::thread() } else { device::cpu() };
        let device = if rows < spec.min_rows { cpu.clone() } else { device::named(&spec.device) };
        let device = if device::is_cpu(&device) { cpu.clone() } else { device };
        let index = Index::new([device, cpu], keys, spec.nulls, spec.wants_pairs())?;
        // Columns that are not needed any more were freed; the memory of the index is an estimate.
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
            _shared: None,
        })
    }

    /// A build side that other joins use too; `reservation` is for the memory that only this join needs.
    pub(super) fn of_shared(
        shared: Arc<Shared>,
        spec: &Spec,
        probes: usize,
        reservation: MemoryReservation,
    ) -> Result<Self> {
        let (prepared, has_end) = (&shared.prepared, spec.ends_with_build_rows());
        let rows = prepared.len();
        if has_end {
            reservation.grow(Bits::bytes(rows) + if spec.wants_pairs() { 0 } else { rows * size_of::<u32>() });
        }
        if let Some(bounds) = &spec.bounds {
            bounds.say(0, prepared.keys())?;
        }
        Ok(Build {
            columns: prepared.columns().iter().cloned().map(Some).collect(),
            schema: Arc::clone(&spec.build_schema),
            rows,
            index: Index::of_prepared(prepared, spec.wants_pairs(), has_end)?,
            found: has_end.then(|| Bits::new(rows)),
            probing: AtomicUsize::new(probes),
            reservation,
            _shared: Some(shared),
        })
    }

    /// The number of rows.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Marks a build row as matched.
    #[inline]
    pub(super) fn mark(&self, row: u32) {
        if let Some(found) = &self.found {
            found.set(row);
        }
    }

    /// Whether a build row has a match. Only valid after the last partition has finished.
    #[inline]
    pub(super) fn is_found(&self, row: u32) -> bool {
        self.found.as_ref().is_some_and(|found| found.get(self.index.marked_by(row)))
    }

    /// Called once by each partition that has finished. Returns whether it is the last one, which sees the marks of all
    /// others.
    pub(super) fn is_last(&self) -> bool {
        self.probing.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Rows of a column; null for a null row number.
    pub(super) fn take(&self, column: usize, rows: &UInt32Array) -> Result<ArrayRef> {
        match self.columns.get(column) {
            Some(Some(of)) if self.rows > 0 => of.take(rows).map_err(external),
            Some(Some(of)) => Ok(new_null_array(of.data_type(), rows.len())),
            _ => Err(DataFusionError::Internal(format!("koel: column {column} of {:?} was not kept", self.schema))),
        }
    }
}

/// Concatenates a column. Keeps its pieces if there is no memory for both, or if the result would be too long for its
/// offsets or for the keys of its dictionary.
pub(super) fn one_piece(column: Column, reservation: &MemoryReservation) -> Column {
    let bytes = bytes(&column);
    if column.chunks().len() == 1 || reservation.try_grow(bytes).is_err() {
        return column;
    }
    let column = column.one_piece().unwrap_or(column);
    reservation.shrink(bytes);
    column
}

/// The memory of a column in bytes.
fn bytes(column: &Column) -> usize {
    column.chunks().iter().map(|piece| piece.get_array_memory_size()).sum()
}

impl Collected {
    pub(super) async fn read(
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
                // A key that is a column is taken from the concatenated batches.
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
                break Some(DataFusionError::ResourcesExhausted("another partition ran out of memory".into()));
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
    /// The bytes of the index of this number of build rows.
    pub(super) fn index_bytes(&self, rows: usize) -> usize {
        let marks = if self.ends_with_build_rows() { Bits::bytes(rows) } else { 0 };
        Index::bytes(rows, self.on_build.len()).saturating_add(marks)
    }
}

/// Whether an expression is a column of its input.
pub(super) fn is_column(expression: &PhysicalExprRef) -> bool {
    super::spec::column_of(expression).is_some()
}
