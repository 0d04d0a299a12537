//! The metrics of a join in EXPLAIN ANALYZE.

use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, Gauge, MetricBuilder, MetricType, RecordOutput,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::TryStreamExt;

use crate::device::Devices;
use crate::metrics::{Input, Part};

/// Metrics of a build side.
#[derive(Clone)]
pub(super) struct BuildMetrics {
    pub(super) input: Input,
    /// Reading and indexing.
    pub(super) time: Part,
    memory: Gauge,
}

impl BuildMetrics {
    pub(super) fn new(metrics: &ExecutionPlanMetricsSet, partition: usize, devices: Devices) -> Self {
        // The same metric type as in `BaselineMetrics`, so that this time is added to that of the probe side.
        let elapsed = MetricBuilder::new(metrics).with_type(MetricType::Summary).elapsed_compute(partition);
        let of = (metrics, partition);
        BuildMetrics {
            input: Input::new(["build_input_batches", "build_input_rows"], devices, of),
            time: Part::new("build_time", &elapsed, of),
            memory: MetricBuilder::new(metrics).gauge("build_mem_used", partition),
        }
    }

    pub(super) fn reserved(&self, bytes: usize) {
        self.memory.add(bytes);
    }
}

/// Metrics of a partition of the probe side.
#[derive(Clone)]
pub(super) struct ProbeMetrics {
    /// Rows and batches of the result.
    pub(super) all: BaselineMetrics,
    pub(super) input: Input,
    /// Looking up keys.
    pub(super) probe: Part,
    /// Creating rows of the result.
    pub(super) join: Part,
}

impl ProbeMetrics {
    pub(super) fn new(metrics: &ExecutionPlanMetricsSet, partition: usize, devices: Devices) -> Self {
        let (all, of) = (BaselineMetrics::new(metrics, partition), (metrics, partition));
        ProbeMetrics {
            input: Input::new(["input_batches", "input_rows"], devices, of),
            probe: Part::new("probe_time", all.elapsed_compute(), of),
            join: Part::new("join_time", all.elapsed_compute(), of),
            all,
        }
    }

    /// Counts the rows of another join's stream.
    pub(super) fn counted(self, rows: SendableRecordBatchStream) -> SendableRecordBatchStream {
        let schema = rows.schema();
        let rows = rows.map_ok(move |batch| batch.record_output(&self.all));
        Box::pin(RecordBatchStreamAdapter::new(schema, rows))
    }
}
