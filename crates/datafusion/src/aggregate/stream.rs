//! The result of one partition.
//!
//! ```text
//! Read    batches: finds their rows' groups (groups.rs), and passes values to the accumulators
//! Emit    returns the groups so far, in batches, in order of first occurrence
//! Rows    returns further rows ungrouped: as states of groups of one row
//!
//! no memory     a partial aggregate emits states and begins new groups: the final aggregate merges them;
//!               any other one passes states, and then all other rows, to an AggregateExec (spill.rs)
//! few rows per group    before an exchange, rows are also returned ungrouped, because grouping saves nothing
//! ```
//!
//! Groups numbered in order of first occurrence are in that order in the final aggregate too, however often states were
//! emitted early. So the order of the result does not depend on memory, unless an AggregateExec has to sort.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::utils::memory::RecordBatchMemoryCounter;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::physical_plan::EmptyRecordBatchStream;
use datafusion::physical_plan::metrics::RecordOutput;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, stream};

use super::accumulate::{Accumulators, evaluated};
use super::bulk::Bulk;
use super::groups::Groups;
use super::metrics::Metrics;
use super::spec::Spec;
use super::spill::Spill;
use crate::device;
use crate::ordered::NO_ORDER;

/// The number of rows that a device numbers at once, if there are enough and memory allows.
const GATHERED: usize = 1 << 20;

/// The result of a partition.
pub(super) fn aggregated(
    spec: Arc<Spec>,
    spill: Spill,
    input: SendableRecordBatchStream,
    reservation: MemoryReservation,
    metrics: Metrics,
) -> Result<SendableRecordBatchStream> {
    let schema = Arc::clone(&spec.schema);
    let aggregator = Aggregator::new(spec, spill, input, reservation, metrics)?;
    let step = async |mut aggregator: Aggregator| Ok(aggregator.next().await?.map(|batch| (batch, aggregator)));
    Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream::try_unfold(aggregator, step))))
}

/// The state of a partition.
pub(super) struct Aggregator {
    spec: Arc<Spec>,
    /// The fallback if memory is short.
    spill: Option<Spill>,
    input: SendableRecordBatchStream,
    reservation: MemoryReservation,
    groups: Groups,
    accumulators: Accumulators,
    numbers: Vec<Vec<usize>>,
    rows: usize,
    place: Place,
    state: State,
    metrics: Metrics,
}

/// The place where groups are numbered.
enum Place {
    /// On this device, if there are enough rows.
    Open(String),
    Settled,
}

enum State {
    Read,
    /// A batch of the groups so far, the next row, and the next state.
    Emit(RecordBatch, usize, Then),
    Rows,
    /// An AggregateExec continues.
    Spill(SendableRecordBatchStream),
    Done,
}

#[derive(Clone, Copy)]
enum Then {
    Read,
    Rows,
    Done,
}

impl Aggregator {
    fn new(
        spec: Arc<Spec>,
        spill: Spill,
        input: SendableRecordBatchStream,
        reservation: MemoryReservation,
        metrics: Metrics,
    ) -> Result<Self> {
        let (groups, accumulators) = (Groups::new(Arc::clone(&spec.key_schema))?, Accumulators::new(&spec)?);
        // If the device is known to be the CPU, there is nothing to wait for.
        let place = match spec.device.as_deref().filter(|name| !device::known(name).is_some_and(|d| device::is_cpu(&d)))
        {
            Some(name) => Place::Open(name.into()),
            None => Place::Settled,
        };
        if matches!(place, Place::Settled) {
            metrics.input.device(device::shown(&device::cpu()));
        }
        Ok(Aggregator {
            spill: (!spec.states).then_some(spill),
            spec,
            input,
            reservation,
            groups,
            accumulators,
            numbers: Vec::new(),
            rows: 0,
            place,
            state: State::Read,
            metrics,
        })
    }

    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            tokio::task::consume_budget().await;
            self.state = match std::mem::replace(&mut self.state, State::Done) {
                State::Read => self.read().await?,
                State::Emit(batch, from, then) if from < batch.num_rows() => {
                    let rows = self.spec.batch_size.min(batch.num_rows() - from);
                    let slice = batch.slice(from, rows);
                    self.state = State::Emit(batch, from + rows, then);
                    return self.handed(slice);
                }
                State::Emit(_, _, Then::Read) => State::Read,
                State::Emit(_, _, Then::Rows) => State::Rows,
                State::Emit(_, _, Then::Done) | State::Done => return Ok(None),
                State::Rows => {
                    let Some(batch) = self.batch().await? else { return Ok(None) };
                    let slice = self.ungrouped(batch)?;
                    self.state = State::Rows;
                    return self.handed(slice);
                }
                State::Spill(mut stream) => {
                    let Some(batch) = stream.next().await.transpose()? else { return Ok(None) };
                    self.state = State::Spill(stream);
                    // The same columns under other names, if a rule has renamed the columns of this operator.
                    return self.handed(RecordBatch::try_new(Arc::clone(&self.spec.schema), batch.columns().to_vec())?);
                }
            };
        }
    }

    fn handed(&self, batch: RecordBatch) -> Result<Option<RecordBatch>> {
        Ok(Some(batch.record_output(&self.metrics.all)))
    }

    /// The next batch with rows.
    async fn batch(&mut self) -> Result<Option<RecordBatch>> {
        while let Some(batch) = self.input.next().await.transpose()? {
            self.metrics.input.came(&batch);
            if batch.num_rows() > 0 {
                return Ok(Some(batch));
            }
        }
        // Frees the memory of the input before groups are emitted.
        self.end_input();
        Ok(None)
    }

    /// Takes the input, and replaces it by an empty one.
    fn end_input(&mut self) -> SendableRecordBatchStream {
        let none = EmptyRecordBatchStream::new(self.input.schema());
        std::mem::replace(&mut self.input, Box::pin(none))
    }

    async fn read(&mut self) -> Result<State> {
        let batches = self.gathered().await?;
        if batches.is_empty() {
            let batch = self.taken(self.spec.states)?;
            self.reservation.free();
            return Ok(State::Emit(batch, 0, Then::Done));
        }
        self.rows += batches.iter().map(RecordBatch::num_rows).sum::<usize>();
        self.number(&batches).await?;
        let groups = self.groups.len();
        let time = self.metrics.aggregate.clone();
        let timed = time.timer();
        for (batch, numbers) in batches.iter().zip(&self.numbers) {
            let arguments = self.accumulators.arguments(batch)?;
            self.accumulators.update(&arguments, numbers, groups)?;
        }
        drop(timed);
        drop(batches);
        if self.spec.skip.is_some_and(|skip| skip.is_due(groups, self.rows)) {
            return Ok(State::Emit(self.early()?, 0, Then::Rows));
        }
        match self.reservation.try_resize(self.size()) {
            Ok(()) => {
                self.metrics.reserved(self.reservation.size());
                Ok(State::Read)
            }
            Err(why @ DataFusionError::ResourcesExhausted(_)) => self.relieved(why).await,
            Err(other) => Err(other),
        }
    }

    fn size(&self) -> usize {
        let numbers: usize = self.numbers.iter().map(|numbers| numbers.capacity() * size_of::<usize>()).sum();
        self.groups.size() + self.accumulators.size() + numbers
    }

    /// The batches to number together; empty at the end.
    async fn gathered(&mut self) -> Result<Vec<RecordBatch>> {
        let wanted = match &self.place {
            Place::Open(_) => self.spec.min_rows.max(1),
            Place::Settled if self.groups.is_remote() => GATHERED.max(self.groups.len()),
            Place::Settled => 1,
        };
        let (mut batches, mut rows, mut counter) = (Vec::new(), 0, RecordBatchMemoryCounter::new());
        while rows < wanted {
            let Some(batch) = self.batch().await? else { break };
            rows += batch.num_rows();
            // The operator that processes a batch accounts for it; more batches need a reservation.
            let fits = wanted == 1 || self.reservation.try_grow(counter.count_batch(&batch)).is_ok();
            batches.push(batch);
            if !fits {
                break;
            }
        }
        if let Place::Open(name) = &self.place {
            let room = Bulk::bytes(rows, self.spec.keys.len());
            if rows >= wanted && self.reservation.try_grow(room).is_ok() {
                self.open_device(name.clone()).await?;
            }
            self.place = Place::Settled;
            if !self.groups.is_remote() {
                self.metrics.input.device(device::shown(&device::cpu()));
            }
        } else if self.groups.is_remote() {
            let room = Bulk::bytes(rows + self.groups.len(), self.spec.keys.len());
            if self.reservation.try_grow(room).is_err() {
                self.waiting(Groups::leave_device).await?;
            }
        }
        Ok(batches)
    }

    /// Opens a device on a blocking thread, because this compiles its kernels.
    async fn open_device(&mut self, name: String) -> Result<()> {
        let device = SpawnedTask::spawn_blocking(move || device::named(&name)).join().await;
        let device = device.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?;
        if !device::is_cpu(&device) {
            self.metrics.input.device(device::shown(&device));
            self.groups = Groups::bulk(Arc::clone(&self.spec.key_schema), device);
        }
        Ok(())
    }

    async fn number(&mut self, batches: &[RecordBatch]) -> Result<()> {
        let time = self.metrics.group.clone();
        let _timed = time.timer();
        let keys = batches.iter().map(|batch| evaluated(&self.spec.keys, batch));
        let keys: Vec<Vec<ArrayRef>> = keys.collect::<Result<_>>()?;
        if !self.groups.is_remote() {
            return self.groups.number(&keys, &mut self.numbers);
        }
        let mut numbers = std::mem::take(&mut self.numbers);
        self.numbers = self.waiting(move |groups| groups.number(&keys, &mut numbers).map(|()| numbers)).await?;
        Ok(())
    }

    /// Runs work on the device's groups on a blocking thread, and records the CPU if the groups have left the device.
    async fn waiting<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Groups) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let none = Groups::bulk(Arc::clone(&self.spec.key_schema), device::cpu());
        let mut groups = std::mem::replace(&mut self.groups, none);
        let done = SpawnedTask::spawn_blocking(move || work(&mut groups).map(|done| (groups, done)));
        let done = done.join().await.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))?;
        let (groups, done) = done?;
        self.groups = groups;
        if !self.groups.is_remote() {
            self.metrics.input.device(device::shown(&device::cpu()));
        }
        Ok(done)
    }

    /// Takes all groups as one batch.
    fn taken(&mut self, states: bool) -> Result<RecordBatch> {
        let time = self.metrics.emit.clone();
        let _timed = time.timer();
        let schema = match &self.spill {
            Some(spill) if states => spill.state_schema()?,
            _ => Arc::clone(&self.spec.schema),
        };
        if self.groups.len() == 0 {
            // GroupValues does not support an empty result.
            return Ok(RecordBatch::new_empty(schema));
        }
        let mut columns = self.groups.take()?;
        self.accumulators.take(states, &mut columns)?;
        Ok(RecordBatch::try_new(schema, columns)?)
    }

    /// Takes the states of all groups before the end.
    fn early(&mut self) -> Result<RecordBatch> {
        let batch = self.taken(true)?;
        self.numbers = Vec::new();
        self.reservation.try_resize(self.size()).or_else(|_| self.reservation.try_resize(0))?;
        Ok(batch)
    }

    /// Releases memory after the error `why`: emits states, or continues in an AggregateExec.
    async fn relieved(&mut self, why: DataFusionError) -> Result<State> {
        if self.spill.is_some() && self.spec.ordered {
            return Err(why.context(NO_ORDER));
        }
        let batch = self.early()?;
        let Some(spill) = self.spill.take() else { return Ok(State::Emit(batch, 0, Then::Read)) };
        self.metrics.handed_over.add(1);
        // Pools that are divided among spilling consumers must no longer count this one.
        self.reservation = MemoryConsumer::new("KoelAggregateExec, handed over").register(spill.pool());
        // Further input is either states already, or each row is converted to a state.
        let schema = batch.schema();
        let (spec, none) = (Arc::clone(&self.spec), Accumulators::new(&self.spec)?);
        let accumulators = std::mem::replace(&mut self.accumulators, none);
        let (input, metrics) = (self.end_input(), self.metrics.clone());
        let rest = input.map(move |input| {
            let input = input?;
            metrics.input.came(&input);
            if spec.merges { Ok(input) } else { states_of_rows(&spec, &accumulators, &input, &schema) }
        });
        Ok(State::Spill(spill.go_on(batch, self.spec.batch_size, rest.boxed()).await?))
    }

    /// Converts a batch's rows to groups of one row.
    fn ungrouped(&self, batch: RecordBatch) -> Result<RecordBatch> {
        let _timed = self.metrics.aggregate.timer();
        self.metrics.skipped.add(batch.num_rows());
        states_of_rows(&self.spec, &self.accumulators, &batch, &self.spec.schema)
    }
}

fn states_of_rows(
    spec: &Spec,
    accumulators: &Accumulators,
    batch: &RecordBatch,
    schema: &SchemaRef,
) -> Result<RecordBatch> {
    let mut columns = evaluated(&spec.keys, batch)?;
    accumulators.states_of_rows(&accumulators.arguments(batch)?, &mut columns)?;
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}
