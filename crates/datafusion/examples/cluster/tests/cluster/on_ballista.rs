//! Ballista: a scheduler that plans adaptively, and two executors.

use std::time::Duration;

use ballista::prelude::SessionConfigExt;
use datafusion::prelude::SessionConfig;
use koel_datafusion::KoelOptions;

use crate::process::{Process, free_port, runtime};
use crate::tpch;

#[test]
fn executors_answer_as_one_machine() {
    let runtime = runtime();
    let task = runtime.spawn(async {
        let folder = tempfile::tempdir().expect("a folder");
        let scheduler = free_port();
        tokio::spawn(koel_cluster::ballista::scheduler(scheduler));
        let executors = [true, false].map(|opencl| {
            let shuffled = folder.path().join(if opencl { "first" } else { "second" });
            let part = format!("executor {} {scheduler} {}", free_port(), shuffled.display());
            Process::begin(&part, opencl)
        });
        let config = SessionConfig::new_with_ballista().with_target_partitions(3);
        // Some joins use OpenCL, unless it is off.
        let options = KoelOptions::default().device("opencl:0").min_rows(1000);
        let context = koel_cluster::ballista::session(scheduler, config, options).await.expect("a session");
        tpch::answers_are_those_of_one_machine(&context, folder.path()).await;

        // A join shows its device after it has run.
        let [first, second] = executors.each_ref().map(|executor| {
            let lines = executor.lines();
            let stock = |line: &&String| line.starts_with("HashJoinExec") || line.starts_with("SortMergeJoinExec");
            assert_eq!(lines.iter().find(stock), None);
            let joins = lines.into_iter().filter(|line| line.starts_with("KoelJoinExec")).collect::<Vec<_>>();
            let ran = joins.iter().filter(|join| join.contains("device=")).count();
            let cpu = joins.iter().filter(|join| join.contains("device=cpu")).count();
            eprintln!("{} joins by koel: {ran} have run, {cpu} on the CPU", joins.len());
            (ran, cpu)
        });
        // The executor that polls first gets more tasks.
        assert!(first.0 > 5 && second.0 > 5 && first.0 + second.0 > 100, "{first:?}, {second:?}");
        assert_eq!(second.0, second.1, "OpenCL is off");
        assert!(first.0 > first.1 || !tpch::has_opencl(), "no join by OpenCL: {first:?}");
    });
    let all = async { tokio::time::timeout(Duration::from_secs(600), task).await };
    runtime.block_on(all).expect("no more than ten minutes").expect("no panic");
}
