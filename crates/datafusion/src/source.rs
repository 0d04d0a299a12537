//! Streams as plans, and batches through a file: input for DataFusion's operators if memory is short.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::runtime::SpawnedTask;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::spill_file::SpillFile;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::metrics::SpillMetrics;
use datafusion::physical_plan::spill::SpillManager;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::{EmptyRecordBatchStream, ExecutionPlan};
use futures::{Stream, StreamExt, stream};

/// The source of the rows of a partition.
pub(crate) enum Source {
    /// A partition of another plan, with its own session.
    Partition(Arc<dyn ExecutionPlan>, usize, Arc<TaskContext>),
    /// A stream that can be read once.
    Once(Mutex<Option<SendableRecordBatchStream>>),
    /// A file that can be read any number of times.
    File(Spilled),
}

impl Source {
    /// A source of these rows, which can be read once.
    pub(crate) fn once(schema: SchemaRef, rows: impl Stream<Item = Result<RecordBatch>> + Send + 'static) -> Self {
        Source::Once(Mutex::new(Some(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))))
    }
}

/// A plan with these partitions.
pub(crate) fn plan_of(
    schema: SchemaRef,
    partitions: impl IntoIterator<Item = Source>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let partition = |source| Arc::new(Origin { schema: Arc::clone(&schema), source }) as Arc<dyn PartitionStream>;
    let partitions = partitions.into_iter().map(partition).collect();
    Ok(Arc::new(StreamingTableExec::try_new(schema, partitions, None, None, false, None)?))
}

#[derive(Debug)]
struct Origin {
    schema: SchemaRef,
    source: Source,
}

impl PartitionStream for Origin {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let stream = match &self.source {
            Source::Partition(plan, partition, context) => plan.execute(*partition, Arc::clone(context)),
            Source::File(spilled) => spilled.read(),
            Source::Once(stream) => stream
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take()
                .ok_or_else(|| DataFusionError::Internal("koel: a stream was requested twice".into())),
        };
        stream.unwrap_or_else(|error| {
            let failed = stream::once(std::future::ready(Err(error)));
            Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), failed))
        })
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Partition(plan, partition, _) => write!(f, "partition {partition} of {}", plan.name()),
            Source::Once(_) => write!(f, "a stream"),
            Source::File(_) => write!(f, "a file"),
        }
    }
}

/// Batches in a file of the session, which is removed with the last clone.
#[derive(Clone)]
pub(crate) struct Spilled {
    spills: SpillManager,
    file: Option<Arc<dyn SpillFile>>,
}

impl Spilled {
    /// Writes batches, which are then dropped, followed by the batches of a stream.
    pub(crate) async fn write(
        batches: Vec<RecordBatch>,
        mut rest: SendableRecordBatchStream,
        context: &TaskContext,
        metrics: SpillMetrics,
        what: &'static str,
    ) -> Result<Self> {
        let spills = SpillManager::new(context.runtime_env(), metrics, rest.schema());
        let spills = spills.with_compression_type(context.session_config().spill_compression());
        let mut file = spills.create_in_progress_file(what)?;
        let mut batches = Some(batches);
        loop {
            let next = match batches.take() {
                Some(batches) => batches,
                None => match rest.next().await.transpose()? {
                    Some(batch) => vec![batch],
                    None => break,
                },
            };
            let appended = SpawnedTask::spawn_blocking(move || {
                next.into_iter().try_for_each(|batch| file.append_batch(&batch).map(drop))?;
                Ok::<_, DataFusionError>(file)
            });
            file = appended.join().await.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))??;
        }
        Ok(Spilled { file: file.finish()?, spills })
    }

    /// The batches, in order.
    pub(crate) fn read(&self) -> Result<SendableRecordBatchStream> {
        match &self.file {
            Some(file) => self.spills.read_spill_as_stream(Arc::clone(file), None),
            None => Ok(Box::pin(EmptyRecordBatchStream::new(Arc::clone(self.spills.schema())))),
        }
    }
}
