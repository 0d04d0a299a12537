//! Build sides that partitions, queries and processes share, compared with stock DataFusion.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::common::JoinType;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{SessionConfig, SessionContext};
use koel_arrow::{PreparedJoin, PreparedOptions};
use koel_datafusion::{KoelBuildCache, KoelJoinExec, KoelOptions, WithKoel};

use crate::rule::answer;

const LIMIT: usize = 1 << 30;

/// Writes tables with nulls, duplicates and text; the build side has several files.
async fn files(folder: &Path) {
    let context = SessionContext::new();
    for (name, rows) in [
        (
            "build/0",
            "select nullif(value % 4000, 7) as id, concat('text ', value % 9) as x, value as y from generate_series(1, 3000)",
        ),
        (
            "build/1",
            "select nullif(value % 4000, 7) as id, concat('text ', value % 9) as x, value as y from generate_series(3001, 5000)",
        ),
        (
            "probe",
            "select nullif(value * 2 % 6000, 8) as id, concat('text ', value % 7) as x, value as z from generate_series(1, 9000)",
        ),
    ] {
        let to = folder.join(format!("{name}.parquet"));
        let rows = format!("copy ({rows}) to '{}' stored as parquet", to.display());
        answer(&context, &rows).await;
    }
}

/// A session with these tables, whose build sides are partitioned or not.
async fn session(folder: &Path, options: KoelOptions, cache: &Arc<KoelBuildCache>, threshold: usize) -> SessionContext {
    let config = SessionConfig::new().with_target_partitions(3).with_extension(Arc::clone(cache));
    let mut config = config.set_usize("datafusion.optimizer.hash_join_single_partition_threshold", threshold);
    config = config.set_usize("datafusion.optimizer.hash_join_single_partition_threshold_rows", threshold);
    let builder = SessionStateBuilder::new().with_default_features().with_config(config);
    let context = SessionContext::new_with_state(builder.with_koel(options).build());
    for (name, path) in [("build", "build/"), ("probe", "probe.parquet")] {
        let from = folder.join(path);
        let sql = format!("create external table {name} stored as parquet location '{}'", from.display());
        answer(&context, &sql).await;
    }
    context
}

fn options() -> KoelOptions {
    KoelOptions::default().build_cache_bytes(LIMIT).device("cpu")
}

/// The rows of a query as text, sorted.
async fn lines(context: &SessionContext, sql: &str) -> Vec<String> {
    let mut lines: Vec<String> = answer(context, sql).await.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

/// A metric of the plan of a query, added up.
async fn metric(context: &SessionContext, sql: &str, name: &str) -> usize {
    let plan = context.sql(sql).await.expect(sql).create_physical_plan().await.expect(sql);
    collect(Arc::clone(&plan), context.task_ctx()).await.expect(sql);
    sum(plan.as_ref(), name)
}

/// A metric of a plan that was executed, added up.
fn sum(plan: &dyn ExecutionPlan, name: &str) -> usize {
    let own = plan.metrics().and_then(|metrics| metrics.sum_by_name(name)).map_or(0, |value| value.as_usize());
    own + plan.children().into_iter().map(|child| sum(child.as_ref(), name)).sum::<usize>()
}

fn numbers(values: &[i64]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}

fn batch<const N: usize>(columns: [(&str, ArrayRef); N]) -> RecordBatch {
    RecordBatch::try_from_iter(columns).expect("a batch")
}

const JOINS: [&str; 8] = [
    "select probe.id, build.x, y, z from build join probe on build.id = probe.id",
    "select build.x, y, z from build join probe on build.id = probe.id and build.x = probe.x where y % 3 = 1",
    "select build.id, y, z from build right join probe on build.id = probe.id and y + z < 4000",
    "select y, z from build full join probe on build.id = probe.id",
    "select x, y from build left join probe using (id, x)",
    "select z from probe where id in (select id from build where x like '%3')",
    "select z from probe where not exists (select * from build where build.id = probe.id and y > 40)",
    "select y from build where not exists (select * from probe where build.id = probe.id)",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_share_build_sides_and_return_stock_rows() {
    let folder = tempfile::tempdir().expect("a folder");
    files(folder.path()).await;
    for threshold in [0, 1 << 40] {
        let (cache, mut shared) = (Arc::new(KoelBuildCache::default()), 0);
        let context = session(folder.path(), options(), &cache, threshold).await;
        for sql in JOINS {
            let first = lines(&context, sql).await;
            let again = lines(&context, sql).await;
            answer(&context, "set koel.enabled = false").await;
            let stock = lines(&context, sql).await;
            answer(&context, "set koel.enabled = true").await;
            assert!(stock.len() > 100, "{sql}");
            assert!(first == stock && again == stock, "{sql}, {threshold}");
            shared += metric(&context, sql, "build_cache_hits").await;
        }
        // DataFusion may swap the sides. Joins that return unmatched build rows share a build side only if it is not
        // partitioned.
        assert!(shared >= 4, "{shared} of {threshold}");
        assert!(!cache.is_empty() && cache.bytes() < LIMIT);
    }
}

const SQL: &str =
    "select count(*) as n, sum(y) as y, sum(z) as z from build join probe on build.id = probe.id where y < 4500";

/// EXPLAIN ANALYZE of the query.
async fn analyzed(context: &SessionContext) -> String {
    answer(context, &format!("explain analyze {SQL}")).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_queries_build_once() {
    let folder = tempfile::tempdir().expect("a folder");
    files(folder.path()).await;
    let cache = Arc::new(KoelBuildCache::default());
    let context = session(folder.path(), options(), &cache, 0).await;
    let tasks = (0..8).map(|_| {
        let context = context.clone();
        tokio::spawn(async move {
            (metric(&context, SQL, "build_cache_misses").await, metric(&context, SQL, "build_cache_hits").await)
        })
    });
    let mut found = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        found.push(task.await.expect("a task"));
    }
    assert_eq!(found.iter().map(|(built, _)| built).sum::<usize>(), 1, "{found:?}");
    assert!(found.iter().all(|(_, hits)| *hits == 1), "{found:?}");
    assert_eq!(cache.len(), 1);
    let ran = analyzed(&context).await;
    assert!(ran.contains("build_cache_hits=1") && ran.contains("build_cache_misses=0"), "{ran}");
    // Disabled, which is the default.
    answer(&context, "set koel.build_cache_bytes = 0").await;
    let ran = analyzed(&context).await;
    assert!(ran.contains("KoelJoinExec") && !ran.contains("build_cache"), "{ran}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changed_files_and_other_queries_are_built_again() {
    let folder = tempfile::tempdir().expect("a folder");
    files(folder.path()).await;
    let cache = Arc::new(KoelBuildCache::default());
    let before = session(folder.path(), options(), &cache, 0).await;
    let rows = answer(&before, SQL).await;
    let others = [
        SQL.replace("4500", "4400"),
        SQL.replace("join probe on", "join probe on build.x = probe.x and"),
        SQL.replace("y < 4500", "y < 4500 and build.x <> 'text 1'"),
    ];
    for sql in &others {
        assert_eq!(metric(&before, sql, "build_cache_misses").await, 1, "{sql}");
        assert_eq!(metric(&before, sql, "build_cache_hits").await, 1, "{sql}");
    }
    assert_eq!(cache.len(), 4);
    let context = SessionContext::new();
    let to = folder.path().join("build/1.parquet");
    let rows_of_file =
        "select value % 4000 as id, concat('text ', value % 9) as x, value as y from generate_series(3001, 4000)";
    answer(&context, &format!("copy ({rows_of_file}) to '{}' stored as parquet", to.display())).await;
    let after = session(folder.path(), options(), &cache, 0).await;
    assert_eq!(metric(&after, SQL, "build_cache_misses").await, 1);
    let now = answer(&after, SQL).await;
    assert_ne!(now, rows);
    answer(&after, "set koel.enabled = false").await;
    assert_eq!(answer(&after, SQL).await, now);
}

/// A build side that depends on anything but files is not cached.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn build_sides_of_other_sources_are_not_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    files(folder.path()).await;
    let cache = Arc::new(KoelBuildCache::default());
    let context = session(folder.path(), options(), &cache, 0).await;
    answer(&context, "create table few as select value as id from generate_series(1, 90)").await;
    for build in [
        "few",
        "(select id from build limit 50)",
        "(select id from build where random() < 0.5)",
        "(select distinct id from build)",
        "(select id from build where id > (select min(id) from few))",
    ] {
        let sql = format!("select count(*) from {build} as b join probe on b.id = probe.id");
        let ran = answer(&context, &format!("explain analyze {sql}")).await;
        assert!(ran.contains("KoelJoinExec"), "{ran}");
        assert!(!ran.contains("build_cache"), "{ran}");
    }
    assert!(cache.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_limit_evicts_the_least_recently_used_build_side() {
    let folder = tempfile::tempdir().expect("a folder");
    files(folder.path()).await;
    let cache = Arc::new(KoelBuildCache::default());
    let context = session(folder.path(), options(), &cache, 0).await;
    let sql = |most: usize| SQL.replace("4500", &most.to_string());
    let misses = async |most| metric(&context, &sql(most), "build_cache_misses").await;
    assert_eq!(misses(4500).await, 1);
    let bytes = cache.bytes();
    answer(&context, &format!("set koel.build_cache_bytes = {}", bytes * 5 / 2)).await;
    assert_eq!((misses(4501).await, cache.len()), (1, 2));
    // The first build side is now the most recently used one.
    assert_eq!(misses(4500).await, 0);
    assert_eq!((misses(4502).await, cache.len()), (1, 2));
    assert_eq!((misses(4500).await, misses(4501).await), (0, 1));
    assert!(cache.bytes() <= bytes * 5 / 2);
    // A build side that is larger than the limit is not cached.
    answer(&context, "set koel.build_cache_bytes = 1000").await;
    assert_eq!((misses(4503).await, misses(4503).await, cache.bytes()), (1, 1, 0));
    let rows = answer(&context, &sql(4503)).await;
    answer(&context, "set koel.enabled = false").await;
    assert_eq!(answer(&context, &sql(4503)).await, rows);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_session_reads_the_file_of_the_first() {
    let folder = tempfile::tempdir().expect("a folder");
    files(folder.path()).await;
    let kept = folder.path().join("kept");
    fs::create_dir(&kept).expect("a folder");
    let options = options().build_cache_folder(kept.display().to_string());
    let new = async |options: &KoelOptions| {
        session(folder.path(), options.clone(), &Arc::new(KoelBuildCache::default()), 0).await
    };
    let first = new(&options).await;
    let rows = answer(&first, SQL).await;
    assert_eq!(metric(&first, SQL, "build_cache_hits").await, 1);
    let files: Vec<_> = fs::read_dir(&kept).expect("a folder").map(|entry| entry.expect("a file").path()).collect();
    let [file] = &files[..] else { panic!("{files:?}") };
    // A new session, as after a restart.
    let second = new(&options).await;
    let ran = analyzed(&second).await;
    assert!(ran.contains("build_file_hits=1") && ran.contains("build_cache_misses=0"), "{ran}");
    assert_eq!(answer(&second, SQL).await, rows);
    // Damaged files and those of other columns are replaced.
    let sound = fs::read(file).expect("a file");
    let other = batch([("id", numbers(&[1]))]);
    let other_side =
        PreparedJoin::build(&koel::auto().backend, &other.schema(), vec![other], &["id"], PreparedOptions::default());
    for damage in 0..3 {
        // A new file, because the old one is mapped.
        fs::remove_file(file).expect("removed");
        match damage {
            0 => fs::write(file, &sound[..sound.len() / 2]).expect("written"),
            1 => fs::write(file, [&sound[..8], &[9], &sound[9..]].concat()).expect("written"),
            _ => drop(other_side.as_ref().expect("a side").save(file).expect("saved")),
        }
        let context = new(&options).await;
        let ran = analyzed(&context).await;
        assert!(ran.contains("build_file_hits=0") && ran.contains("build_cache_misses=1"), "{ran}");
        assert_eq!(answer(&context, SQL).await, rows);
        assert!(fs::read(file).expect("a file") == sound);
    }
    // Without the folder there is no file, but the query succeeds.
    let context = new(&options.clone().build_cache_folder("/nowhere/at/all")).await;
    assert_eq!(answer(&context, SQL).await, rows);
}

/// The variable with the folder of the tables of a [`worker`]. Its build sides are in the subfolder `kept`.
const WORKER: &str = "KOEL_TEST_WORKER";

/// The main function of a child process, rather than a test: answers [`SQL`] with a folder of build sides.
#[tokio::test]
#[ignore = "a process that a test starts"]
async fn worker() {
    let Some(folder) = std::env::var_os(WORKER) else { return };
    let folder = Path::new(&folder);
    let options = options().build_cache_folder(folder.join("kept").display().to_string());
    let context = session(folder, options, &Arc::new(KoelBuildCache::default()), 0).await;
    let plan = context.sql(SQL).await.expect(SQL).create_physical_plan().await.expect(SQL);
    let rows = collect(Arc::clone(&plan), context.task_ctx()).await.expect(SQL);
    let [mapped, built] = ["build_file_hits", "build_cache_misses"].map(|name| sum(plan.as_ref(), name));
    println!("\nworker: {mapped} mapped, {built} built\n{}", pretty_format_batches(&rows).expect("text"));
}

/// A worker is killed while it builds, or later. The next worker returns the same rows, maps the file if it is
/// complete, and removes incomplete files of the killed worker.
#[tokio::test]
async fn workers_use_complete_files_of_killed_workers() {
    let folder = tempfile::tempdir().expect("a folder");
    files(folder.path()).await;
    let more =
        "select value * 11 % 100000 as id, concat('more ', value) as x, value as y from generate_series(1, 60000)";
    let to = folder.path().join("build/2.parquet");
    answer(&SessionContext::new(), &format!("copy ({more}) to '{}' stored as parquet", to.display())).await;
    let kept = folder.path().join("kept");
    let names = |end: &str| {
        let names = fs::read_dir(&kept).expect("a folder").map(|entry| entry.expect("a file").file_name());
        names.filter(|name| name.to_string_lossy().ends_with(end)).count()
    };
    let begin = |files: &str| {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--exact", "shared::worker", "--ignored", "--nocapture"]);
        command.env(WORKER, folder.path()).env("KOEL_UNNAMED_FILES", files);
        command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("a process")
    };
    // Parses the output of a worker: the numbers of build sides that it mapped and built, and its rows.
    let end = |worker: Child| {
        let output = worker.wait_with_output().expect("a process");
        let text = String::from_utf8(output.stdout).expect("text");
        let (_, printed) = text.split_once("worker: ").unwrap_or_else(|| panic!("{text}"));
        let (found, rows) = printed.split_once('\n').expect("lines");
        let rows = rows.lines().take_while(|line| line.starts_with(['+', '|']));
        (found.to_owned(), rows.map(str::to_owned).collect::<Vec<_>>())
    };
    let mut complete = [0; 2];
    let (mut expected, mut whole) = (None, Duration::ZERO);
    for kill in 0..10_u32 {
        fs::create_dir(&kept).expect("a folder");
        let start = Instant::now();
        // Every second worker writes to a file that has a name from the beginning.
        let mut worker = begin(if kill % 2 == 0 { "on" } else { "off" });
        match kill {
            // Not killed.
            0 => {}
            1 => while names(".part") == 0 && worker.try_wait().expect("a process").is_none() {},
            2 => while names(".koel") == 0 && worker.try_wait().expect("a process").is_none() {},
            _ => sleep(whole.mul_f64(f64::from(kill - 3) / 7.0)),
        }
        if kill == 0 {
            let (found, rows) = end(worker);
            assert_eq!(found, "0 mapped, 1 built");
            (expected, whole) = (Some(rows), start.elapsed());
        } else {
            worker.kill().expect("killed");
            worker.wait().expect("a process");
        }
        let is_complete = names(".koel") == 1;
        complete[usize::from(is_complete)] += 1;
        assert!(is_complete || kill != 2, "the file existed before the process was killed");
        let (found, rows) = end(begin("on"));
        assert_eq!(found, if is_complete { "1 mapped, 0 built" } else { "0 mapped, 1 built" }, "kill {kill}");
        assert_eq!(Some(rows), expected, "kill {kill}");
        assert_eq!((names(".koel"), names("")), (1, 1), "kill {kill}");
        fs::remove_dir_all(&kept).expect("removed");
    }
    assert!(complete[0] > 0 && complete[1] > 1, "{complete:?}");
}

#[tokio::test]
async fn joins_accept_their_build_side_and_refuse_others() {
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "c"]));
    let build = batch([("id", numbers(&[1, 2, 2])), ("x", texts)]);
    let probe = batch([("id", numbers(&[2, 3]))]);
    let plan = |batch: &RecordBatch| {
        MemorySourceConfig::try_new_exec(&[vec![batch.clone()]], batch.schema(), None).expect("a plan")
            as Arc<dyn ExecutionPlan>
    };
    let on =
        |batch: &RecordBatch| datafusion::physical_expr::expressions::col("id", &batch.schema()).expect("a column");
    let join = |how: JoinType, mode| {
        let (on, nulls) = (vec![(on(&build), on(&probe))], datafusion::common::NullEquality::NullEqualsNothing);
        let stock =
            HashJoinExec::try_new(plan(&build.slice(0, 0)), plan(&probe), on, None, &how, None, mode, nulls, false);
        KoelJoinExec::of(&stock.expect("a join"), &KoelOptions::default()).expect("a join")
    };
    let side = |batch: &RecordBatch, on: &str, options| {
        let built = PreparedJoin::build(&koel::auto().backend, &batch.schema(), vec![batch.clone()], &[on], options);
        Arc::new(built.expect("a side"))
    };
    let own = side(&build, "id", PreparedOptions::default());
    for (how, rows) in [(JoinType::Inner, 2), (JoinType::Left, 3), (JoinType::RightAnti, 1), (JoinType::LeftAnti, 1)] {
        for _ in 0..2 {
            let joined = join(how, PartitionMode::CollectLeft).with_build_side(Arc::clone(&own)).expect("a join");
            let context = SessionContext::new().task_ctx();
            let found = collect(Arc::new(joined), context).await.expect("rows");
            assert_eq!(found.iter().map(RecordBatch::num_rows).sum::<usize>(), rows, "{how}");
        }
    }
    let others = batch([("id", numbers(&[1]))]);
    let equal = PreparedOptions { nulls: koel_arrow::NullEquality::NullEquals, ..PreparedOptions::default() };
    for (other, part) in [
        (side(&others, "id", PreparedOptions::default()), "other columns: id Int64; the join needs id Int64, x Utf8"),
        (side(&build, "x", PreparedOptions::default()), "other keys: x; the join needs id"),
        (side(&build, "id", equal), "other nulls"),
    ] {
        let error = join(JoinType::Inner, PartitionMode::CollectLeft).with_build_side(other).err();
        let error = error.expect("the build side of another table is refused").to_string();
        assert!(error.contains(part), "{error}");
    }
    let error = join(JoinType::Left, PartitionMode::Partitioned).with_build_side(own).expect_err("it is partitioned");
    assert!(error.to_string().contains("CollectLeft"), "{error}");
}
