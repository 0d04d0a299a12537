//! What EXPLAIN ANALYZE says of an aggregate.

use datafusion::arrow::array::RecordBatch;
use datafusion::physical_plan::metrics::{BaselineMetrics, Count, ExecutionPlanMetricsSet, Gauge, MetricBuilder, Time};

use crate::device::Devices;

/// Of a partition.
#[derive(Clone)]
pub(super) struct Metrics {
    /// Time for the whole, rows and batches of the result.
    pub(super) all: BaselineMetrics,
    /// Finding each row's group.
    pub(super) group: Time,
    /// Evaluating arguments, adding up.
    pub(super) aggregate: Time,
    /// Making rows of the result.
    pub(super) emit: Time,
    batches: Count,
    rows: Count,
    /// Rows that left as they were.
    pub(super) skipped: Count,
    /// Partitions that went on in an AggregateExec, for want of memory.
    pub(super) handed_over: Count,
    /// The most bytes that were reserved.
    memory: Gauge,
    devices: Devices,
}

impl Metrics {
    pub(super) fn new(metrics: &ExecutionPlanMetricsSet, partition: usize, devices: Devices) -> Self {
        let time = |name| MetricBuilder::new(metrics).subset_time(name, partition);
        let count = |name| MetricBuilder::new(metrics).counter(name, partition);
        Metrics {
            all: BaselineMetrics::new(metrics, partition),
            group: time("group_time"),
            aggregate: time("aggregate_time"),
            emit: time("emit_time"),
            batches: count("input_batches"),
            rows: count("input_rows"),
            skipped: count("skipped_aggregation_rows"),
            handed_over: count("handed_over"),
            memory: MetricBuilder::new(metrics).gauge("peak_mem_used", partition),
            devices,
        }
    }

    pub(super) fn came(&self, batch: &RecordBatch) {
        self.batches.add(1);
        self.rows.add(batch.num_rows());
    }

    pub(super) fn reserved(&self, bytes: usize) {
        self.memory.set_max(bytes);
    }

    pub(super) fn device(&self, device: String) {
        self.devices.add(device);
    }
}
