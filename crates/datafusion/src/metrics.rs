//! The metrics of all operators in EXPLAIN ANALYZE: parts of their time, their input, and their devices.

use datafusion::arrow::array::RecordBatch;
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder, ScopedTimerGuard, Time};

use crate::device::Devices;

/// A part of an operator's time, which counts as `elapsed_compute` too.
#[derive(Clone)]
pub(crate) struct Part {
    own: Time,
    elapsed: Time,
}

impl Part {
    pub(crate) fn new(
        name: &'static str,
        elapsed: &Time,
        (metrics, partition): (&ExecutionPlanMetricsSet, usize),
    ) -> Self {
        Part { own: MetricBuilder::new(metrics).subset_time(name, partition), elapsed: elapsed.clone() }
    }

    /// Measures time until it is dropped.
    pub(crate) fn timer(&self) -> [ScopedTimerGuard<'_>; 2] {
        [self.own.timer(), self.elapsed.timer()]
    }
}

/// The input of a partition, and its devices.
#[derive(Clone)]
pub(crate) struct Input {
    batches: Count,
    rows: Count,
    devices: Devices,
}

impl Input {
    /// Metrics with these names.
    pub(crate) fn new(
        [batches, rows]: [&'static str; 2],
        devices: Devices,
        (metrics, partition): (&ExecutionPlanMetricsSet, usize),
    ) -> Self {
        let count = |name| MetricBuilder::new(metrics).counter(name, partition);
        Input { batches: count(batches), rows: count(rows), devices }
    }

    pub(crate) fn came(&self, batch: &RecordBatch) {
        self.batches.add(1);
        self.rows.add(batch.num_rows());
    }

    pub(crate) fn device(&self, device: String) {
        self.devices.add(device);
    }
}
