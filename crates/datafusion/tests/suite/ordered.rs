//! `koel.ordered`: twenty runs with four partitions return rows in the same order, on every device.

use datafusion::physical_plan::collect;
use koel_datafusion::KoelOptions;

use crate::common::listed;
use crate::devices::has_opencl;
use crate::rule::{answer, context};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn twenty_runs_have_one_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let context = context(KoelOptions::default().ordered(true).min_rows(0));
    for set in ["datafusion.execution.target_partitions = 4", "datafusion.execution.batch_size = 50"] {
        answer(&context, &format!("set {set}")).await;
    }
    for (name, rows) in [
        ("l", "select value as id, value * 7919 % 97 as k, 'left ' || value as a from generate_series(1, 3000)"),
        ("r", "select value as id, value * 104729 % 101 as k, 'right ' || value as b from generate_series(1, 2000)"),
    ] {
        let to = folder.path().join(name);
        std::fs::create_dir(&to).expect("a folder");
        for part in 0..5 {
            let file = to.join(format!("{part}.parquet"));
            let copy = format!("copy (select * from ({rows}) where id % 5 = {part}) to '{}'", file.display());
            answer(&context, &copy).await;
        }
        let create = format!("create external table {name} stored as parquet location '{}/'", to.display());
        answer(&context, &create).await;
    }
    let has_opencl = has_opencl();
    for threshold in ["1048576", "0"] {
        for limit in ["hash_join_single_partition_threshold", "hash_join_single_partition_threshold_rows"] {
            answer(&context, &format!("set datafusion.optimizer.{limit} = {threshold}")).await;
        }
        for sql in [
            "select * from l join r on l.k = r.k",
            "select l.id, r.id from l left join r on l.id = r.k",
            "select * from l full join r on l.id = r.id and l.k < r.k",
            "select * from l where k in (select id from r)",
            "select * from r where not exists (select 1 from l where l.id = r.k)",
            "select l.k, count(*), sum(r.id), min(a) from l join r on l.k = r.k group by l.k",
            "select distinct b from r join l on r.id = l.id where l.k > 50",
            "select k, sum(n) from (select k, count(*) as n from l group by k union all select k, count(*) from r group by k) group by k",
            "select l.id, r.id from l left join r on l.id < r.k - 90 and l.k < 3",
            "select k from (select l.k as k from l join r on l.k = r.k) order by k % 7 limit 300",
            "select k from (select l.k as k from l join r on l.k = r.k) order by k % 7",
        ] {
            let mut first = None;
            for run in 0..20 {
                let device = if run % 4 == 3 && has_opencl { "opencl:0" } else { "cpu" };
                answer(&context, &format!("set koel.device = '{device}'")).await;
                let plan = context.sql(sql).await.expect(sql).create_physical_plan().await.expect(sql);
                let schema = plan.schema();
                let rows = listed(&schema, &collect(plan, context.task_ctx()).await.expect(sql));
                assert!(!rows.is_empty(), "{sql}");
                match &first {
                    None => first = Some(rows),
                    Some(first) => assert!(rows == *first, "{sql} has another order in run {run}"),
                }
            }
        }
    }
}
