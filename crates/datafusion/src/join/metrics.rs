//! What EXPLAIN ANALYZE says of a join.

use datafusion::arrow::array::RecordBatch;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, Gauge, MetricBuilder, RecordOutput, Time,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::TryStreamExt;

use crate::device::Devices;

/// Of a build side.
#[derive(Clone)]
pub(super) struct BuildMetrics {
    /// Reading, indexing.
    pub(super) time: Time,
    batches: Count,
    rows: Count,
    memory: Gauge,
    devices: Devices,
}

impl BuildMetrics {
    pub(super) fn new(metrics: &ExecutionPlanMetricsSet, partition: usize, devices: Devices) -> Self {
        BuildMetrics {
            time: MetricBuilder::new(metrics).subset_time("build_time", partition),
            batches: MetricBuilder::new(metrics).counter("build_input_batches", partition),
            rows: MetricBuilder::new(metrics).counter("build_input_rows", partition),
            memory: MetricBuilder::new(metrics).gauge("build_mem_used", partition),
            devices,
        }
    }

    pub(super) fn came(&self, batch: &RecordBatch) {
        self.batches.add(1);
        self.rows.add(batch.num_rows());
    }

    pub(super) fn reserved(&self, bytes: usize) {
        self.memory.add(bytes);
    }

    pub(super) fn device(&self, device: String) {
        self.devices.add(device);
    }
}

/// Of a partition of the probe side.
#[derive(Clone)]
pub(super) struct ProbeMetrics {
    /// Time for the whole, rows and batches of the result.
    pub(super) all: BaselineMetrics,
    /// Looking up keys.
    pub(super) probe: Time,
    /// Making rows of the result.
    pub(super) join: Time,
    batches: Count,
    rows: Count,
    devices: Devices,
}

impl ProbeMetrics {
    pub(super) fn new(metrics: &ExecutionPlanMetricsSet, partition: usize, devices: Devices) -> Self {
        ProbeMetrics {
            all: BaselineMetrics::new(metrics, partition),
            probe: MetricBuilder::new(metrics).subset_time("probe_time", partition),
            join: MetricBuilder::new(metrics).subset_time("join_time", partition),
            batches: MetricBuilder::new(metrics).counter("input_batches", partition),
            rows: MetricBuilder::new(metrics).counter("input_rows", partition),
            devices,
        }
    }

    pub(super) fn came(&self, batch: &RecordBatch) {
        self.batches.add(1);
        self.rows.add(batch.num_rows());
    }

    pub(super) fn device(&self, device: String) {
        self.devices.add(device);
    }

    /// A stream that another join gives, its rows counted.
    pub(super) fn counted(self, rows: SendableRecordBatchStream) -> SendableRecordBatchStream {
        let schema = rows.schema();
        let rows = rows.map_ok(move |batch| batch.record_output(&self.all));
        Box::pin(RecordBatchStreamAdapter::new(schema, rows))
    }
}
