//! A build side that others use too: given by the caller, from the cache, from a file, or newly built.
//!
//! ```text
//! cache    of the session (cache.rs), by the digest of the build side (identity.rs)
//! file     in the folder of koel.build_cache_folder, named by the digest; its rows are mapped, so that processes share
//!          them, and a process that restarts need not read the input again
//! build    all partitions of the input: koel_arrow::PreparedJoin
//! ```
//!
//! A file that is damaged, of another version or of other columns is replaced, with a warning.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::common::runtime::SpawnedTask;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder};
use koel::Any;
use koel_arrow::{Column, PreparedJoin, PreparedOptions};
use log::warn;

use super::build::{Build, Collected, Read, Refused, one_piece};
use super::cache::{KoelBuildCache, Shared};
use super::index::may_be_mended;
use super::metrics::BuildMetrics;
use super::spec::Spec;
use crate::device;
use crate::error::external;

/// The source of a shared build side.
#[derive(Clone)]
pub(super) enum Sharing {
    Given(Arc<PreparedJoin>),
    Cached(Arc<Cached>),
}

/// A build side of the cache.
pub(super) struct Cached {
    pub(super) cache: Arc<KoelBuildCache>,
    pub(super) identity: u128,
    /// The bytes that the cache may keep.
    pub(super) limit: usize,
    pub(super) folder: Option<PathBuf>,
    /// One partition with all rows.
    pub(super) input: Arc<dyn ExecutionPlan>,
    /// The positions of the keys.
    pub(super) on: Vec<usize>,
    pub(super) counts: Counts,
}

/// Where build sides were found, in EXPLAIN ANALYZE.
pub(super) struct Counts {
    cache: Count,
    file: Count,
    built: Count,
}

impl Counts {
    pub(super) fn new(metrics: &ExecutionPlanMetricsSet) -> Self {
        let count = |name| MetricBuilder::new(metrics).counter(name, 0);
        Counts { cache: count("build_cache_hits"), file: count("build_file_hits"), built: count("build_cache_misses") }
    }
}

/// A new build side, and whether it was read from a file; or the part that was read before koel refused it.
type Made = std::result::Result<(Arc<Shared>, bool), Refused>;

impl Sharing {
    /// The build side, for `probes` partitions of the other side.
    pub(super) async fn build(
        self,
        spec: Arc<Spec>,
        probes: usize,
        reservation: MemoryReservation,
        metrics: BuildMetrics,
        context: Arc<TaskContext>,
    ) -> Result<Read> {
        let marks = reservation.new_empty();
        let shared = match self {
            Sharing::Given(prepared) => Arc::new(Shared { prepared, reservation: reservation.new_empty() }),
            Sharing::Cached(cached) => match cached.side(&spec, reservation, &metrics, context).await? {
                Ok(shared) => shared,
                Err(refused) => return Ok(Read::Refused(refused)),
            },
        };
        let build = move || {
            let _timed = metrics.time.timer();
            metrics.reserved(shared.reservation.size());
            let build = Build::of_shared(shared, &spec, probes, marks)?;
            metrics.input.device(build.index.device());
            Ok(Read::Whole(Arc::new(build)))
        };
        blocking(build).await
    }
}

impl Cached {
    async fn side(
        self: Arc<Self>,
        spec: &Arc<Spec>,
        reservation: MemoryReservation,
        metrics: &BuildMetrics,
        context: Arc<TaskContext>,
    ) -> Result<std::result::Result<Arc<Shared>, Refused>> {
        let slot = self.cache.slot(self.identity);
        let (mut refused, mut is_of_file) = (None, None);
        let made = slot.get_or_try_init(|| async {
            let work = Arc::clone(&self).made(Arc::clone(spec), reservation, metrics.clone(), context);
            // A task, because others wait for the build even if this query is not polled.
            match joined(SpawnedTask::spawn(work)).await? {
                Ok((shared, from_file)) => {
                    is_of_file = Some(from_file);
                    Ok(shared)
                }
                Err(part) => {
                    let why = DataFusionError::ResourcesExhausted(part.why.to_string());
                    refused = Some(part);
                    Err(why)
                }
            }
        });
        let made = made.await.cloned();
        let shared = match (made, refused) {
            (Ok(shared), _) => shared,
            (Err(error), refused) => {
                self.cache.forget(self.identity);
                return refused.map_or(Err(error), |refused| Ok(Err(refused)));
            }
        };
        match is_of_file {
            None => self.counts.cache.add(1),
            Some(is_of_file) => {
                (if is_of_file { &self.counts.file } else { &self.counts.built }).add(1);
                self.cache.keep(self.identity, &slot, shared.reservation.size(), self.limit);
            }
        }
        Ok(Ok(shared))
    }

    /// Opens the build side from its file, or else builds it.
    async fn made(
        self: Arc<Self>,
        spec: Arc<Spec>,
        reservation: MemoryReservation,
        metrics: BuildMetrics,
        context: Arc<TaskContext>,
    ) -> Result<Made> {
        let (cached, of_file, timer) = (Arc::clone(&self), Arc::clone(&spec), metrics.time.clone());
        let (opened, reservation) = blocking(move || {
            let _timed = timer.timer();
            Ok((cached.opened(&of_file, &reservation), reservation))
        })
        .await?;
        if let Some(prepared) = opened {
            return Ok(Ok((Arc::new(Shared { prepared: Arc::new(prepared), reservation }), true)));
        }
        let input = self.input.execute(0, context)?;
        let collected = match Collected::read(input, &spec, reservation, &metrics).await? {
            Ok(collected) => collected,
            Err(refused) => return Ok(Err(refused)),
        };
        let shared = blocking(move || {
            let _timed = metrics.time.timer();
            self.prepared(collected, &spec)
        });
        Ok(Ok((Arc::new(shared.await?), false)))
    }

    /// Indexes the rows, and writes them to a file if there is a folder.
    fn prepared(&self, collected: Collected, spec: &Spec) -> Result<Shared> {
        let Collected { mut batches, rows, reservation, .. } = collected;
        if self.folder.is_none() {
            batches = one_batch(batches, spec, &reservation)?;
        }
        let mut kept: usize = batches.iter().map(RecordBatch::get_array_memory_size).sum();
        let (schema, options) =
            (&spec.build_schema, PreparedOptions { nulls: spec.nulls, ..PreparedOptions::default() });
        let on: Vec<&str> = self.on.iter().map(|&at| schema.field(at).name().as_str()).collect();
        let device = device_for(rows, spec);
        let prepared = match PreparedJoin::build(&device, schema, batches.clone(), &on, options) {
            Err(error) if may_be_mended(&device, &error) => {
                warn!("koel: {} cannot index {rows} rows ({error}): the CPU does", device::shown(&device));
                PreparedJoin::build(&device::cpu(), schema, batches, &on, options)
            }
            built => built,
        };
        let mut prepared = prepared.map_err(external)?;
        if let Some(path) = self.path() {
            // The rows in the file replace those in memory.
            match prepared.save(&path).and_then(|_| open(prepared.device(), &path)) {
                Ok(mapped) => (prepared, kept) = (mapped, 0),
                Err(error) => warn!("koel: the build side is not kept in a file: {error}"),
            }
        }
        reservation.shrink(reservation.size().saturating_sub(kept.saturating_add(spec.index_bytes(rows))));
        Ok(Shared { prepared: Arc::new(prepared), reservation })
    }

    /// The build side in the file, if there is one, and memory for its index.
    fn opened(&self, spec: &Spec, reservation: &MemoryReservation) -> Option<PreparedJoin> {
        let path = self.path().filter(|path| path.exists())?;
        let open = |device: &Any| {
            let prepared = open(device, &path)?;
            prepared.check(&spec.build_schema, &self.on, spec.nulls).map(|()| prepared)
        };
        let opened = open(&device::cpu()).and_then(|prepared| {
            let device = device_for(prepared.len(), spec);
            if device::is_cpu(&device) { Ok(prepared) } else { open(&device) }
        });
        match opened {
            Ok(prepared) => reservation.try_grow(spec.index_bytes(prepared.len())).is_ok().then_some(prepared),
            Err(error) => {
                warn!("koel: the build side is built again: {error}");
                None
            }
        }
    }

    fn path(&self) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(format!("{:032x}.koel", self.identity)))
    }
}

fn device_for(rows: usize, spec: &Spec) -> Any {
    if rows < spec.min_rows { device::cpu() } else { device::named(&spec.device) }
}

#[expect(unsafe_code, reason = "other programs may write to the files of the folder")]
fn open(device: &Any, path: &Path) -> koel_arrow::Result<PreparedJoin> {
    // SAFETY: the option koel.build_cache_folder requires a folder whose files only koel writes, and koel replaces them
    // by new ones.
    unsafe { PreparedJoin::open_mapped(device, path) }
}

/// Concatenates the batches, because gathering rows from one batch is one pass. Returns them unchanged if there is no
/// memory for both.
fn one_batch(batches: Vec<RecordBatch>, spec: &Spec, reservation: &MemoryReservation) -> Result<Vec<RecordBatch>> {
    let whole = |at: usize| {
        let field = spec.build_schema.field(at);
        let pieces: Vec<ArrayRef> = batches.iter().map(|batch| Arc::clone(batch.column(at))).collect();
        let column = Column::of_chunks(field.name(), field.data_type(), pieces).map_err(external)?;
        Ok(match one_piece(column, reservation).chunks() {
            [one] => Some(Arc::clone(one)),
            _ => None,
        })
    };
    let columns: Option<Vec<ArrayRef>> = (0..spec.build_schema.fields().len()).map(whole).collect::<Result<_>>()?;
    match columns.filter(|columns| !columns.is_empty()) {
        Some(columns) => Ok(vec![RecordBatch::try_new(Arc::clone(&spec.build_schema), columns)?]),
        None => Ok(batches),
    }
}

/// Runs work that takes long, or waits for a device, on a blocking thread.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    joined(SpawnedTask::spawn_blocking(work)).await
}

async fn joined<T: Send + 'static>(task: SpawnedTask<Result<T>>) -> Result<T> {
    task.join().await.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?
}
