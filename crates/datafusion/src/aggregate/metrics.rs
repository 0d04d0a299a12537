//! The metrics of an aggregate in EXPLAIN ANALYZE.

use datafusion::physical_plan::metrics::{BaselineMetrics, Count, ExecutionPlanMetricsSet, Gauge, MetricBuilder};

use crate::device::Devices;
use crate::metrics::{Input, Part};

/// Metrics of a partition.
#[derive(Clone)]
pub(super) struct Metrics {
    /// Rows and batches of the result.
    pub(super) all: BaselineMetrics,
    pub(super) input: Input,
    /// Finding the group of each row.
    pub(super) group: Part,
    /// Evaluating arguments and aggregating.
    pub(super) aggregate: Part,
    /// Creating rows of the result.
    pub(super) emit: Part,
    /// Rows that were returned ungrouped.
    pub(super) skipped: Count,
    /// Partitions that continued in an AggregateExec because memory was short.
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
