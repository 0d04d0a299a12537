//! Eight concurrent joins with one build side, by stock DataFusion and by koel: time, processor time and memory.
//!
//! ```text
//! cargo run --release --example shared -- compare FOLDER [ROWS [PROBES [DEVICE]]]
//! cargo run --release --example shared -- run FOLDER HOW [DEVICE]
//! ```
//!
//! `compare` writes a build side of ROWS rows [default: 1.5e7] and eight probe sides of PROBES rows [2e6] to Parquet
//! files, unless FOLDER has them. Half of the probe rows have a match. It then runs the joins by each method of
//! [`WAYS`], each in a new process, and compares the results. `run` is one of these processes: it runs the joins twice
//! in one session. DEVICE is `koel.device` [`cpu`]. Settings of DataFusion are read from the environment, such as
//! `DATAFUSION_EXECUTION_TARGET_PARTITIONS=16`.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use koel_datafusion::{KoelOptions, WithKoel};

/// The number of concurrent joins.
const JOINS: usize = 8;

/// The methods to run the joins. The last one is measured twice: the second process finds the file of the first.
const WAYS: [(&str, &str); 6] = [
    ("swapped", "DataFusion, which builds from the shorter side of each join"),
    ("stock", "DataFusion, a build side for each join"),
    ("rebuild", "koel, a build side for each join"),
    ("cache", "koel, one build side in memory"),
    ("folder", "koel, one build side, which is written to a file"),
    ("folder", "koel, another process, which maps the file"),
];

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let usage = || wrong("compare FOLDER [ROWS [PROBES [DEVICE]]], or run FOLDER HOW [DEVICE]");
    let or = |at: usize, default| arguments.get(at).copied().unwrap_or(default);
    let &[task, folder, ..] = &arguments[..] else { return Err(usage()) };
    let folder = Path::new(folder);
    match task {
        "compare" if arguments.len() <= 5 => {
            let (rows, probes) = (number(or(2, "15000000"))?, number(or(3, "2000000"))?);
            runtime()?.block_on(files(folder, rows, probes))?;
            compare(folder, or(4, "cpu"))
        }
        "run" if [3, 4].contains(&arguments.len()) => runtime()?.block_on(run(folder, arguments[2], or(3, "cpu"))),
        _ => Err(usage()),
    }
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}

/// Each key is in the build side once. Neither side is in the order of the keys.
async fn files(folder: &Path, rows: usize, probes: usize) -> Result<()> {
    // A file with the sizes, which is written last.
    let (note, sizes) = (folder.join("sizes.txt"), format!("{rows} {probes}\n"));
    if std::fs::read_to_string(&note).is_ok_and(|found| found == sizes) {
        return Ok(());
    }
    for size in [rows, probes] {
        // The keys of a side are distinct unless these factors divide its number of rows.
        if size == 0 || [15_485_863, 7_368_787].iter().any(|factor| size % factor == 0) {
            return Err(wrong(&format!("{size} rows: give another number")));
        }
    }
    std::fs::create_dir_all(folder)?;
    let context = SessionContext::new();
    let write = async |name: String, select: String| {
        let path = folder.join(name).with_extension("parquet");
        context.sql(&format!("copy ({select}) to '{}'", path.display())).await?.collect().await
    };
    let columns = "value * 3 as total, concat('customer ', value % 1000000) as customer";
    let orders = format!("select (value * 15485863) % {rows} as id, {columns} from generate_series(1, {rows})");
    write("orders".into(), orders).await?;
    for join in 0..JOINS {
        let id = format!("(value * 7368787 + {join}) % {} as id", 2 * rows);
        let select = format!("select {id}, value * 5 as price from generate_series(1, {probes})");
        write(format!("items{join}"), select).await?;
    }
    Ok(std::fs::write(note, sizes)?)
}

/// Runs the joins by all methods and prints a table.
fn compare(folder: &Path, device: &str) -> Result<()> {
    let kept = folder.join("kept");
    if kept.exists() {
        std::fs::remove_dir_all(kept)?;
    }
    let sizes = std::fs::read_to_string(folder.join("sizes.txt"))?;
    let threads = std::thread::available_parallelism()?;
    println!(
        "rows of the build side and of each probe side: {}; {threads} threads, koel.device = {device}",
        sizes.trim()
    );
    println!("{JOINS} joins at the same time, twice: seconds, and seconds of all processors\n");
    println!("   first  processors      second  processors   peak MB  built+mapped");
    let mut expected = None;
    for (how, what) in WAYS {
        let output = Command::new(std::env::current_exe()?).arg("run").arg(folder).args([how, device]).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let Some((line, result)) = text.split_once('\n').filter(|_| output.status.success()) else {
            // For example because there is not enough memory.
            let error = String::from_utf8_lossy(&output.stderr);
            println!("{what}: {}, {}", output.status, error.lines().next().unwrap_or_default());
            continue;
        };
        println!("{line}  {what}");
        if expected.get_or_insert_with(|| result.to_owned()) != result {
            return Err(wrong(&format!("the results of {how} differ:\n{result}")));
        }
    }
    println!("\nThe results are equal:\n{}", expected.unwrap_or_default());
    Ok(())
}

async fn run(folder: &Path, how: &str, device: &str) -> Result<()> {
    let options = KoelOptions::default().device(device);
    let kept = folder.join("kept");
    let options = match how {
        "swapped" | "stock" => None,
        "rebuild" => Some(options),
        "cache" => Some(options.build_cache_bytes(usize::MAX)),
        "folder" => {
            std::fs::create_dir_all(&kept)?;
            Some(options.build_cache_bytes(usize::MAX).build_cache_folder(kept.to_string_lossy()))
        }
        _ => return Err(wrong("HOW is swapped, stock, rebuild, cache or folder")),
    };
    // Without this, DataFusion builds from the shorter side, and there are eight build sides.
    let config = SessionConfig::from_env()?.set_bool("datafusion.optimizer.join_reordering", how == "swapped");
    let builder = SessionStateBuilder::new().with_default_features().with_config(config);
    let builder = match options {
        Some(options) => builder.with_koel(options),
        None => builder,
    };
    let context = SessionContext::new_with_state(builder.build());
    let register = async |name: &str| {
        let path = folder.join(name).with_extension("parquet");
        context.register_parquet(name, &path.to_string_lossy(), ParquetReadOptions::default()).await
    };
    register("orders").await?;
    for join in 0..JOINS {
        register(&format!("items{join}")).await?;
    }
    let (mut line, mut sources, mut results) = (String::new(), [0; 3], Vec::new());
    for _ in 0..2 {
        let (began, before) = (Instant::now(), processors());
        let (result, found) = joins(&context).await?;
        let (took, spent) = (began.elapsed(), processors().saturating_sub(before));
        write!(line, "{:8.2}  {:10.2}    ", took.as_secs_f64(), spent.as_secs_f64()).map_err(std::io::Error::other)?;
        results.push(result);
        sources = std::array::from_fn(|at| sources[at] + found[at]);
    }
    let [built, mapped, _] = sources;
    println!("{line}{:6}  {built:5} + {mapped:4}\n{}", peak_megabytes(), results[0]);
    if results[0] == results[1] { Ok(()) } else { Err(wrong("the results of both rounds differ")) }
}

/// The names of EXPLAIN ANALYZE for the sources of build sides that are kept.
const SOURCES: [&str; 3] = ["build_cache_misses", "build_file_hits", "build_cache_hits"];

/// The results of all joins, which run at the same time, and the sums of [`SOURCES`].
async fn joins(context: &SessionContext) -> Result<(String, [usize; 3])> {
    let join = |join: usize| {
        let context = context.clone();
        tokio::spawn(async move {
            // The first sum depends on which rows are joined with which.
            let sql = format!(
                "select count(*) as n, sum(o.total * (i.price % 1009)) as checksum, sum(o.total) as total, \
                 sum(i.price) as price, max(o.customer) as customer \
                 from orders as o join items{join} as i on o.id = i.id"
            );
            let frame = context.sql(&sql).await?;
            let task = Arc::new(frame.task_ctx());
            let plan = frame.create_physical_plan().await?;
            let batches = collect(Arc::clone(&plan), task).await?;
            Ok::<_, DataFusionError>((batches, SOURCES.map(|name| metric(plan.as_ref(), name))))
        })
    };
    let tasks: Vec<_> = (0..JOINS).map(join).collect();
    let (mut batches, mut sources) = (Vec::new(), [0; 3]);
    for task in tasks {
        let (of_join, found) = task.await.map_err(|error| DataFusionError::ExecutionJoin(Box::new(error)))??;
        batches.extend(of_join);
        sources = std::array::from_fn(|at| sources[at] + found[at]);
    }
    Ok((pretty_format_batches(&batches)?.to_string(), sources))
}

/// The sum of a metric of all operators of a plan.
fn metric(plan: &dyn ExecutionPlan, name: &str) -> usize {
    let own = plan.metrics().and_then(|metrics| metrics.sum_by_name(name)).map_or(0, |value| value.as_usize());
    own + plan.children().into_iter().map(|child| metric(child.as_ref(), name)).sum::<usize>()
}

/// The processor time of this process, in hundredths of a second, on Linux.
fn processors() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the program, in parentheses, may contain blanks. User and system time are numbers 14 and 15.
    let ticks = stat.rsplit(')').next().unwrap_or_default().split_whitespace().skip(11).take(2);
    Duration::from_millis(ticks.filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>() * 10)
}

/// The peak memory of this process, including the pages of files that it maps, on Linux.
fn peak_megabytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next()?.parse().ok());
    peak.map_or(0, |kibibytes: u64| kibibytes * 1024 / 1_000_000)
}

fn number(text: &str) -> Result<usize> {
    text.replace(',', "").parse().map_err(|_| wrong(&format!("{text} is not a number")))
}

fn wrong(what: &str) -> DataFusionError {
    DataFusionError::Configuration(what.into())
}
