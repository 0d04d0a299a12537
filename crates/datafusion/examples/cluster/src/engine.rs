//! The execution engine of Ballista's executors, with koel's joins.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use ballista_core::JobId;
use ballista_core::serde::protobuf::{RuntimeStatsReport, ShuffleWritePartition, TaskColumnStats, WindowStateReport};
use ballista_executor::execution_engine::{DefaultExecutionEngine, ExecutionEngine, QueryStageExecutor};
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::prelude::SessionConfig;
use koel_datafusion::on_worker;

/// Ballista's own engine, for stages whose joins koel executes. Ballista's connection pool is not public, so each fetch
/// from another executor opens a connection.
#[derive(Default)]
pub(crate) struct KoelEngine(DefaultExecutionEngine);

impl ExecutionEngine for KoelEngine {
    fn create_query_stage_exec(
        &self,
        job: JobId,
        stage: usize,
        task: usize,
        partitions: Vec<usize>,
        plan: Arc<dyn ExecutionPlan>,
        folder: &str,
        config: &SessionConfig,
    ) -> Result<Arc<dyn QueryStageExecutor>> {
        // The root is kept: it writes the rows that other stages read.
        let plan = on_worker(plan, config.options())?;
        let stage = self.0.create_query_stage_exec(job, stage, task, partitions, plan, folder, config)?;
        Ok(Arc::new(Printed(stage)))
    }
}

/// A stage that prints the joins that it has executed.
#[derive(Debug)]
struct Printed(Arc<dyn QueryStageExecutor>);

#[async_trait]
impl QueryStageExecutor for Printed {
    async fn execute_query_stage(&self, task: usize, context: Arc<TaskContext>) -> Result<Vec<ShuffleWritePartition>> {
        let written = self.0.execute_query_stage(task, context).await?;
        let name = |line: &str| line.split([':', ' ']).next().is_some_and(|name| name.ends_with("JoinExec"));
        // The writers of shuffles differ in whether they show their plans with metrics.
        for join in self.0.to_string().lines().map(str::trim_start).filter(|line| name(line)) {
            println!("{join}");
        }
        Ok(written)
    }

    fn collect_plan_metrics(&self) -> Vec<MetricsSet> {
        self.0.collect_plan_metrics()
    }

    fn collect_runtime_stats_reports(&self) -> Vec<RuntimeStatsReport> {
        self.0.collect_runtime_stats_reports()
    }

    fn collect_window_state_reports(&self) -> Result<Vec<WindowStateReport>> {
        self.0.collect_window_state_reports()
    }

    fn collect_column_stats(&self) -> Vec<TaskColumnStats> {
        self.0.collect_column_stats()
    }
}

impl fmt::Display for Printed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
