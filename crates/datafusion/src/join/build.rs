//! The build side, whole: its columns, its index, and which of its rows have been found.
//!
//! ```text
//! collect   batches as they come, their keys evaluated; their bytes, not those of the keys, asked of the pool first
//! join up   column after column in one piece, the batches' own freed on the way: `take` from one piece is one pass
//! index     on a device if there are many rows, else on the CPU; by a thread that may be kept busy
//! ```

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
    _reservation: MemoryReservation,
}

/// Batches and their keys, as they come.
struct Collected {
    batches: Vec<RecordBatch>,
    keys: Vec<Vec<ArrayRef>>,
    rows: usize,
}

impl Build {
    /// Reads a partition of the build side that so many partitions of the other one will probe.
    pub(super) async fn collect(
        input: SendableRecordBatchStream,
        spec: Arc<Spec>,
        [partition, probes]: [usize; 2],
        reservation: MemoryReservation,
        metrics: BuildMetrics,
    ) -> Result<Self> {
        let collected = Collected::read(input, &spec, &reservation, &metrics).await?;
        let timer = metrics.time.clone();
        let work = move || {
            let _timed = timer.timer();
            let build = Build::of(collected, &spec, [partition, probes], reservation)?;
            metrics.device(build.index.device());
            Ok(build)
        };
        SpawnedTask::spawn_blocking(work)
            .join()
            .await
            .map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?
    }

    fn of(
        collected: Collected,
        spec: &Spec,
        [partition, probes]: [usize; 2],
        reservation: MemoryReservation,
    ) -> Result<Self> {
        let Collected { batches, keys, rows } = collected;
        let schema = Arc::clone(&spec.build_schema);
        let is_kept = |column: usize| spec.keeps_build(column) || spec.is_build_key(column);
        let mut columns: Vec<Option<Column>> = (0..schema.fields().len()).map(|_| None).collect();
        let mut pieces: Vec<Vec<ArrayRef>> = vec![Vec::with_capacity(batches.len()); columns.len()];
        for batch in batches {
            pieces.iter_mut().zip(batch.columns()).for_each(|(pieces, column)| pieces.push(Arc::clone(column)));
        }
        for (i, pieces) in pieces.into_iter().enumerate().filter(|(i, _)| is_kept(*i)) {
            let field = schema.field(i);
            columns[i] = Some(one_piece(Column::of_chunks(field.name(), field.data_type(), pieces).map_err(external)?));
        }
        let keys = spec.build_keys(&columns, keys)?;
        if let Some(bounds) = &spec.bounds {
            bounds.say(partition, &keys)?;
        }
        columns.iter_mut().enumerate().filter(|(i, _)| !spec.keeps_build(*i)).for_each(|(_, column)| *column = None);
        let device = if rows < spec.min_rows { device::cpu() } else { device::named(&spec.device) };
        let index = Index::new(device, keys, spec.nulls, spec.wants_pairs())?;
        Ok(Build {
            columns,
            schema,
            rows,
            index,
            found: spec.ends_with_build_rows().then(|| Bits::new(rows)),
            probing: AtomicUsize::new(probes),
            _reservation: reservation,
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

/// In one piece; in its own ones where one would be too long for its offsets or its dictionary's keys.
fn one_piece(column: Column) -> Column {
    if column.chunks().len() == 1 { column } else { column.one_piece().unwrap_or(column) }
}

impl Collected {
    async fn read(
        mut input: SendableRecordBatchStream,
        spec: &Spec,
        reservation: &MemoryReservation,
        metrics: &BuildMetrics,
    ) -> Result<Self> {
        let mut collected = Collected { batches: Vec::new(), keys: vec![Vec::new(); spec.on_build.len()], rows: 0 };
        // Slices of one batch share its buffers.
        let mut counter = RecordBatchMemoryCounter::new();
        while let Some(batch) = input.next().await {
            let batch = batch?;
            let _timed = metrics.time.timer();
            metrics.came(&batch);
            if batch.num_rows() == 0 {
                continue;
            }
            reservation.try_grow(counter.count_batch(&batch))?;
            for (expression, keys) in spec.on_build.iter().zip(&mut collected.keys) {
                // A column is taken from the batches once they are joined up.
                if !is_column(expression) {
                    keys.push(expression.evaluate(&batch)?.into_array(batch.num_rows())?);
                }
            }
            collected.rows += batch.num_rows();
            collected.batches.push(batch);
        }
        let marks = if spec.ends_with_build_rows() { Bits::bytes(collected.rows) } else { 0 };
        let index = Index::bytes(collected.rows, spec.on_build.len());
        reservation.try_grow(index.saturating_add(marks))?;
        metrics.reserved(reservation.size());
        Ok(collected)
    }
}

/// Whether an expression is a column of its input.
pub(super) fn is_column(expression: &PhysicalExprRef) -> bool {
    super::spec::column_of(expression).is_some()
}
