//! The result of one probe partition.
//!
//! ```text
//! gather       probe batches: one for the CPU, about 2^20 rows for a device
//! look up      their keys in the index; on a device by a blocking thread
//! pairs        convert slices to rows, and apply the filter
//! build rows   after the probe side has ended, the last partition returns those with, or without, a match
//! ```
//!
//! The stream returns a batch as soon as it is complete and does not work ahead, so a dropped stream stops at once,
//! except for work on a device. Between slices it yields to other tasks, even if a filter removes all rows.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::utils::memory::RecordBatchMemoryCounter;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::metrics::RecordOutput;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, stream};
use koel::NO_ROW;

use super::build::Build;
use super::index::{AT_ONCE, AT_ONCE_REMOTE};
use super::metrics::ProbeMetrics;
use super::output::Output;
use super::pairs::Pairs;
use super::rows::Open;
use super::spec::Spec;

/// The result of a probe partition.
pub(super) fn probed(
    spec: Arc<Spec>,
    build: Arc<Build>,
    input: SendableRecordBatchStream,
    reservation: MemoryReservation,
    metrics: ProbeMetrics,
) -> SendableRecordBatchStream {
    let schema = Arc::clone(&spec.schema);
    let prober = Prober::new(spec, build, input, reservation, metrics);
    let step = async |mut prober: Prober| Ok(prober.next().await?.map(|batch| (batch, prober)));
    Box::pin(RecordBatchStreamAdapter::new(schema, stream::try_unfold(prober, step)))
}

struct Prober {
    spec: Arc<Spec>,
    build: Arc<Build>,
    /// `None` after its end.
    input: Option<SendableRecordBatchStream>,
    /// Memory of the batches that are gathered for a device, and of their results.
    reservation: MemoryReservation,
    output: Output,
    /// The number of rows that are still required.
    wanted: usize,
    state: State,
    metrics: ProbeMetrics,
}

#[derive(Default)]
enum State {
    Gather,
    Pairs(Pairs, Open),
    /// From this row on.
    BuildRows(usize),
    #[default]
    Done,
}

impl Prober {
    fn new(
        spec: Arc<Spec>,
        build: Arc<Build>,
        input: SendableRecordBatchStream,
        reservation: MemoryReservation,
        metrics: ProbeMetrics,
    ) -> Self {
        let is_empty = build.rows() == 0 && spec.is_empty_without_build();
        let output = Output::new(Arc::clone(&spec.schema), spec.batch_size, spec.ordered);
        let state = if is_empty { State::Done } else { State::Gather };
        let wanted = spec.fetch.unwrap_or(usize::MAX);
        Prober { input: (!is_empty).then_some(input), spec, build, reservation, output, wanted, state, metrics }
    }

    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if self.wanted == 0 {
                return Ok(None);
            }
            if let Some(batch) = self.output.next() {
                let batch = batch.slice(0, batch.num_rows().min(self.wanted));
                self.wanted -= batch.num_rows();
                return Ok(Some(batch.record_output(&self.metrics.all)));
            }
            tokio::task::consume_budget().await;
            self.state = match std::mem::take(&mut self.state) {
                State::Gather => self.gather().await?,
                State::Pairs(pairs, open) => self.slice(pairs, open).await?,
                State::BuildRows(from) => self.build_rows(from)?,
                State::Done => return Ok(None),
            };
        }
    }

    async fn gather(&mut self) -> Result<State> {
        let batches = self.gathered().await?;
        if batches.is_empty() {
            return self.ended();
        }
        let (spec, build, time) = (Arc::clone(&self.spec), Arc::clone(&self.build), self.metrics.probe.clone());
        if spec.wants_pairs() {
            let at_once = self.at_once();
            let pairs = self.look_up(move || {
                let _timed = time.timer();
                let probe = build.index.probe(&spec.probe_keys(&batches)?, spec.listed(), at_once)?;
                Ok(Pairs::new(batches, probe, at_once))
            });
            return Ok(State::Pairs(pairs.await?, Open::default()));
        }
        let found = self.look_up(move || {
            let _timed = time.timer();
            let first_occurrences = build.index.first_occurrences(&spec.probe_keys(&batches)?)?;
            Ok((batches, first_occurrences))
        });
        let (batches, first_occurrences) = found.await?;
        self.found(&batches, &first_occurrences)?;
        Ok(State::Gather)
    }

    /// The number of results to list at once: more for a device, if memory allows.
    fn at_once(&mut self) -> usize {
        let bytes = AT_ONCE_REMOTE * 2 * size_of::<u32>();
        let is_for_many = self.build.index.is_remote() && self.reservation.try_grow(bytes).is_ok();
        if is_for_many { AT_ONCE_REMOTE } else { AT_ONCE }
    }

    /// The batches to look up together; empty at the end.
    async fn gathered(&mut self) -> Result<Vec<RecordBatch>> {
        self.reservation.free();
        let (mut batches, mut rows, mut counter) = (Vec::new(), 0, RecordBatchMemoryCounter::new());
        let is_remote = self.build.index.is_remote();
        let wanted = self.build.index.gathered();
        while rows < wanted {
            let Some(input) = &mut self.input else { break };
            let Some(batch) = input.next().await.transpose()? else {
                self.input = None;
                break;
            };
            self.metrics.input.came(&batch);
            if batch.num_rows() == 0 {
                continue;
            }
            rows += batch.num_rows();
            // The operator that processes a batch accounts for it; more batches need a reservation.
            let fits = !is_remote || self.reservation.try_grow(counter.count_batch(&batch)).is_ok();
            batches.push(batch);
            if !fits {
                break;
            }
        }
        Ok(batches)
    }

    /// Runs work that may block on a device, on a blocking thread if the index is on one.
    async fn look_up<T: Send + 'static>(&mut self, question: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
        if !self.build.index.is_remote() {
            return question();
        }
        let answer = SpawnedTask::spawn_blocking(question).join().await;
        self.metrics.input.device(self.build.index.device());
        answer.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?
    }

    async fn slice(&mut self, mut pairs: Pairs, mut open: Open) -> Result<State> {
        if pairs.is_short() {
            let (build, time) = (Arc::clone(&self.build), self.metrics.probe.clone());
            pairs = self
                .look_up(move || {
                    let _timed = time.timer();
                    pairs.load(&build.index)?;
                    Ok(pairs)
                })
                .await?;
        }
        let time = self.metrics.join.clone();
        let _timed = time.timer();
        let Some(slice) = pairs.next(self.spec.batch_size) else { return Ok(State::Gather) };
        let at = slice.batch;
        if let Some(rows) = self.spec.of_slice(&self.build, pairs.batch(at), slice, &mut open)? {
            self.output.push(rows)?;
        }
        Ok(State::Pairs(pairs, open))
    }

    /// Adds the rows of semi, anti and mark joins without a filter.
    fn found(&mut self, batches: &[RecordBatch], mut first_occurrences: &[u32]) -> Result<()> {
        let time = self.metrics.join.clone();
        let _timed = time.timer();
        if self.spec.is_of_build_rows() {
            first_occurrences.iter().filter(|&&row| row != NO_ROW).for_each(|&row| self.build.mark(row));
            return Ok(());
        }
        for batch in batches {
            let (own, rest) = first_occurrences.split_at(batch.num_rows());
            first_occurrences = rest;
            let found = BooleanBuffer::collect_bool(own.len(), |i| own[i] != NO_ROW);
            if let Some(rows) = self.spec.of_probe_rows(batch, found)? {
                self.output.push(rows)?;
            }
        }
        Ok(())
    }

    fn ended(&mut self) -> Result<State> {
        if self.spec.ends_with_build_rows() && self.build.is_last() {
            return Ok(State::BuildRows(0));
        }
        let time = self.metrics.join.clone();
        let _timed = time.timer();
        self.output.finish()?;
        Ok(State::Done)
    }

    fn build_rows(&mut self, from: usize) -> Result<State> {
        let time = self.metrics.join.clone();
        let _timed = time.timer();
        let to = self.build.rows().min(from + self.spec.batch_size.max(1));
        if let Some(rows) = self.spec.of_build_rows(&self.build, from as u32, to as u32)? {
            self.output.push(rows)?;
        }
        if to < self.build.rows() {
            return Ok(State::BuildRows(to));
        }
        self.output.finish()?;
        Ok(State::Done)
    }
}
