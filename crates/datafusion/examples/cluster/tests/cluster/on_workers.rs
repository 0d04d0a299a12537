//! datafusion-distributed: two workers, and joins by koel on each.

use std::sync::Arc;
use std::time::Duration;

use datafusion::physical_plan::collect;
use datafusion::prelude::SessionConfig;
use datafusion_distributed::{DistributedMetricsFormat, display_plan_ascii, rewrite_distributed_plan_with_metrics};
use koel_datafusion::KoelOptions;

use crate::process::{Process, runtime};
use crate::tpch;

/// The numbers of joins, koel's and others, in the stages of a worker.
fn joins(worker: &Process) -> (usize, usize) {
    let numbers = |line: &String| {
        let (koel, others) = line.strip_prefix("a stage with ")?.split_once(" joins by koel, ")?;
        Some((koel.parse::<usize>().ok()?, others.split(' ').next()?.parse::<usize>().ok()?))
    };
    worker.lines().iter().filter_map(numbers).fold((0, 0), |all, of| (all.0 + of.0, all.1 + of.1))
}

#[test]
fn workers_answer_as_one_machine() {
    let workers = [Process::begin("worker", true), Process::begin("worker", false)];
    let ports = workers.iter().map(|worker| worker.said("a worker at port ").parse().expect("a port")).collect();
    let runtime = runtime();
    let task = runtime.spawn(async move {
        let folder = tempfile::tempdir().expect("a folder");
        let config = SessionConfig::new().with_target_partitions(2).with_information_schema(true);
        // Some joins use OpenCL, unless it is off.
        let options = KoelOptions::default().device("opencl:0").min_rows(1000);
        let context = koel_cluster::distributed::session(ports, config, options, 1).expect("a session");
        tpch::answers_are_those_of_one_machine(&context, folder.path()).await;
        for worker in &workers {
            let (koel, others) = joins(worker);
            eprintln!("{koel} joins by koel, {others} by others");
            assert!(koel > 40 && koel > others, "{koel} joins by koel, {others} by others");
        }

        // Only koel reports the time of key lookups, so the workers have run the rewritten plan.
        let query = koel_cluster::tables::QUERIES[8];
        let text = async || {
            let plan = context.sql(query).await.expect("SQL").create_physical_plan().await.expect("a plan");
            collect(Arc::clone(&plan), context.task_ctx()).await.expect("rows");
            let format = DistributedMetricsFormat::Aggregated;
            let plan = rewrite_distributed_plan_with_metrics(plan, format).await.expect("metrics");
            display_plan_ascii(plan.as_ref(), true)
        };
        let joined = text().await;
        assert!(joined.contains("HashJoinExec") && joined.contains("probe_time="), "{joined}");

        // koel's options of a session reach its workers.
        let before = workers.each_ref().map(joins);
        context.sql("set koel.enabled = false").await.expect("SQL").collect().await.expect("an option");
        let joined = text().await;
        assert!(joined.contains("HashJoinExec") && !joined.contains("probe_time="), "{joined}");
        for (worker, before) in workers.iter().zip(before) {
            let now = joins(worker);
            assert!(now.0 == before.0 && now.1 > before.1, "{before:?}, then {now:?}");
        }
    });
    let all = async { tokio::time::timeout(Duration::from_secs(600), task).await };
    runtime.block_on(all).expect("no more than ten minutes").expect("no panic");
}
