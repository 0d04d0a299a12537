//! What EXPLAIN ANALYZE says of an aggregate.

use datafusion::physical_plan::metrics::{BaselineMetrics, Count, ExecutionPlanMetricsSet, Gauge, MetricBuilder};

use crate::device::Devices;
use crate::metrics::{Input, Part};

/// Of a partition.
#[derive(Clone)]
pub(super) struct Metrics {
    /// Rows and batches of the result.
    pub(super) all: BaselineMetrics,
    pub(super) input: Input,
    /// Finding each row's group.
    pub(super) group: Part,
    /// Evaluating arguments, adding up.
    pub(super) aggregate: Part,
    /// Making rows of the result.
    pub(super) emit: Part,
    /// Rows that left as they were.
    pub(super) skipped: Count,
    /// Partitions that went on in an AggregateExec, for want of memory.
    pub(super) handed_over: Count,
    /// The most bytes that were reserved.
    memory: Gauge,
}

impl Metrics {
    pub(super) fn new(metrics: &ExecutionPlanMetricsSet, partition: usize, devices: Devices) -> Self {
        let (all, of) = (BaselineMetrics::new(metrics, partition), (metrics, partition));
        let count = |name| MetricBuilder::new(metrics).counter(name, partition);
        Metrics {
            input: Input::new(["input_batches", "input_rows"], devices, of),
            group: Part::new("group_time", all.elapsed_compute(), of),
            aggregate: Part::new("aggregate_time", all.elapsed_compute(), of),
            emit: Part::new("emit_time", all.elapsed_compute(), of),
            all,
            skipped: count("skipped_aggregation_rows"),
            handed_over: count("handed_over"),
            memory: MetricBuilder::new(metrics).gauge("peak_mem_used", partition),
        }
    }

    pub(super) fn reserved(&self, bytes: usize) {
        self.memory.set_max(bytes);
    }
}
