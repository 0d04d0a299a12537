//! Eight concurrent joins with one build side, by stock DataFusion and by koel.
//!
//! ```text
//! cargo run --release --example shared -- files FOLDER [ROWS]   orders of ROWS rows [default: 1.5e7], and 8 probe files
//! cargo run --release --example shared -- run FOLDER HOW        the joins, twice, in one session
//! ```
//!
//! HOW is `stock`; `rebuild`, koel without a cache; `cache`, koel with one; or `folder`, with files too: a second process
//! maps them. Each run prints its times, the peak memory of the process and the source of the cached build sides.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use koel_datafusion::{KoelOptions, WithKoel};

/// The number of concurrent joins.
const JOINS: usize = 8;

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["files", folder] => files(Path::new(folder), 15_000_000).await,
        ["files", folder, rows] => files(Path::new(folder), number(rows)?).await,
        ["run", folder, how] => run(Path::new(folder), how).await,
        _ => Err(usage("files FOLDER [ROWS], or run FOLDER stock|rebuild|cache|folder")),
    }
}

/// Each order is in each probe file with a probability of a quarter, in another order.
async fn files(folder: &Path, rows: usize) -> Result<()> {
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
        let id = format!("(value * 7368787 + {join}) % {rows} as id");
        let select = format!("select {id}, value * 5 as price from generate_series(1, {})", rows / 4);
        write(format!("items{join}"), select).await?;
    }
    Ok(())
}

async fn run(folder: &Path, how: &str) -> Result<()> {
    let options = KoelOptions::default().device("cpu");
    let kept = folder.join("kept");
    let options = match how {
        "stock" => None,
        "rebuild" => Some(options),
        "cache" => Some(options.build_cache_bytes(usize::MAX)),
        "folder" => {
            std::fs::create_dir_all(&kept)?;
            Some(options.build_cache_bytes(usize::MAX).build_cache_folder(kept.to_string_lossy()))
        }
        _ => return Err(usage("stock, rebuild, cache or folder")),
    };
    let builder = SessionStateBuilder::new().with_default_features();
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
    let mut all = Vec::new();
    for _ in 0..2 {
        all.push(joins(&context).await?);
    }
    // What the system says of this process; elsewhere than on Linux nothing.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).map_or("not known", str::trim);
    let [first, second] = [0, 1].map(|round: usize| all[round].1.as_secs_f64());
    let [built, cache, file] = [0, 1, 2].map(|at: usize| all.iter().map(|joins| joins.2[at]).sum::<usize>());
    println!("{how}: {first:.2} s, then {second:.2} s, at most {peak}");
    println!("build sides: {built} built for the cache, {file} from files, {cache} from the cache\n{}", all[0].0);
    if all[0].0 == all[1].0 { Ok(()) } else { Err(usage("results differ")) }
}

/// What EXPLAIN ANALYZE calls the sources of cached build sides.
const SOURCES: [&str; 3] = ["build_cache_misses", "build_cache_hits", "build_file_hits"];

/// The results of all joins, which run at the same time, how long they took, and the numbers of [`SOURCES`].
async fn joins(context: &SessionContext) -> Result<(String, Duration, [usize; 3])> {
    let began = Instant::now();
    let join = |join: usize| {
        let context = context.clone();
        tokio::spawn(async move {
            let sql = format!(
                "select count(*) as n, sum(o.total) as total, sum(i.price) as price, max(o.customer) as customer \
                 from orders as o right join items{join} as i on o.id = i.id"
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
    Ok((pretty_format_batches(&batches)?.to_string(), began.elapsed(), sources))
}

/// The sum of a metric of all operators of a plan.
fn metric(plan: &dyn ExecutionPlan, name: &str) -> usize {
    let own = plan.metrics().and_then(|metrics| metrics.sum_by_name(name)).map_or(0, |value| value.as_usize());
    own + plan.children().into_iter().map(|child| metric(child.as_ref(), name)).sum::<usize>()
}

fn number(text: &str) -> Result<usize> {
    text.replace(',', "").parse().map_err(|_| usage(&format!("{text} is not a number")))
}

fn usage(what: &str) -> DataFusionError {
    DataFusionError::Configuration(what.into())
}
