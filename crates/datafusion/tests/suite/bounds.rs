//! Scans of the probe side learn from the build side what they may leave out, as with HashJoinExec.

use crate::rule::{answer, context};
use koel_datafusion::KoelOptions;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scans_leave_out_what_no_build_key_has() {
    let folder = tempfile::tempdir().expect("a folder");
    let context = context(KoelOptions::default());
    let file = |name: &str| folder.path().join(name).display().to_string();
    for (name, rows) in [
        ("few", "select value as id, value % 3 as x from generate_series(5003, 5009) where value <> 5005"),
        ("many", "select value as id, value % 5 as y from generate_series(1, 20000)"),
    ] {
        let to = file(&format!("{name}.parquet"));
        let copy = format!("copy ({rows}) to '{to}' stored as parquet options ('format.max_row_group_size' '1000')");
        answer(&context, &copy).await;
        answer(&context, &format!("create external table {name} stored as parquet location '{to}'")).await;
    }
    let sql = "select count(*), sum(y) from few join many on few.id = many.id where few.x >= 0 and many.y >= 0";
    for mode in ["1048576", "0"] {
        // Build sides above it are partitioned.
        answer(&context, &format!("set datafusion.optimizer.hash_join_single_partition_threshold = {mode}")).await;
        answer(&context, &format!("set datafusion.optimizer.hash_join_single_partition_threshold_rows = {mode}")).await;
        let ran = answer(&context, &format!("explain analyze {sql}")).await;
        assert!(ran.contains("KoelJoinExec"), "{ran}");
        assert!(ran.contains("id@0 >= 5003 AND id@0 <= 5009"), "{ran}");
        answer(&context, "set koel.enabled = false").await;
        let stock = answer(&context, sql).await;
        answer(&context, "set koel.enabled = true").await;
        assert_eq!(answer(&context, sql).await, stock);
    }
}
