//! Joins that are hard on memory and on one key, by stock DataFusion and by koel.
//!
//! ```text
//! cargo run --release --example limits -- skew [ROWS]                 most probe rows have one key, 78 matches each
//! cargo run --release --example limits -- files FOLDER [ROWS]         two Parquet files of ROWS rows [default: 2e7]
//! cargo run --release --example limits -- join FOLDER stock|koel [MB] joins them with MB of memory for the session
//! ```
//!
//! `join` prints its result or its error, its time, and the peak memory of the process.

use std::path::Path;
use std::time::{Duration, Instant};

use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use koel_datafusion::{KoelOptions, WithKoel};

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["skew"] => skew(1_000_000).await,
        ["skew", rows] => skew(number(rows)?).await,
        ["files", folder] => files(Path::new(folder), 20_000_000).await,
        ["files", folder, rows] => files(Path::new(folder), number(rows)?).await,
        ["join", folder, who] => join(Path::new(folder), who, None).await,
        ["join", folder, who, megabytes] => join(Path::new(folder), who, Some(number(megabytes)?)).await,
        _ => Err(usage("skew [ROWS], files FOLDER [ROWS], or join FOLDER stock|koel [MB]")),
    }
}

fn session(is_koel: bool, runtime: RuntimeEnvBuilder) -> Result<SessionContext> {
    let builder = SessionStateBuilder::new().with_default_features().with_runtime_env(runtime.build_arc()?);
    let builder = if is_koel { builder.with_koel(KoelOptions::default().device("cpu")) } else { builder };
    Ok(SessionContext::new_with_state(builder.build()))
}

/// The result of a query as text, and its duration.
async fn answer(context: &SessionContext, sql: &str) -> Result<(String, Duration)> {
    let began = Instant::now();
    let batches = context.sql(sql).await?.collect().await?;
    let took = began.elapsed();
    Ok((pretty_format_batches(&batches)?.to_string(), took))
}

async fn skew(rows: usize) -> Result<()> {
    let sessions = [session(false, RuntimeEnvBuilder::new())?, session(true, RuntimeEnvBuilder::new())?];
    for context in &sessions {
        // 100 keys of 78 rows each; 999 of 1,000 probe rows have the same key.
        let build = "create table build as select (value - 1) / 78 as id, value as x from generate_series(1, 7800)";
        let probe = format!(
            "create table probe as select case when value % 1000 = 0 then value % 100 else 7 end as id, value as y \
             from generate_series(1, {rows})"
        );
        answer(context, build).await?;
        answer(context, &probe).await?;
    }
    let sql = "select count(*) as n, sum(x) as x, sum(y) as y from build join probe on build.id = probe.id";
    let mut best = [Duration::MAX; 2];
    let mut answers = [String::new(), String::new()];
    for _ in 0..5 {
        for (i, context) in sessions.iter().enumerate() {
            let (text, took) = answer(context, sql).await?;
            best[i] = best[i].min(took);
            answers[i] = text;
        }
    }
    let [stock, koel] = best.map(|time| time.as_secs_f64() * 1e3);
    println!("{rows} probe rows, of which 999 of 1,000 have 78 partners: the fastest of 5 runs");
    println!("stock {stock:.1} ms, koel {koel:.1} ms, ratio {:.2}", koel / stock);
    println!("{}", answers[1]);
    if answers[0] == answers[1] { Ok(()) } else { Err(usage("answers differ")) }
}

async fn files(folder: &Path, rows: usize) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    let context = session(false, RuntimeEnvBuilder::new())?;
    // Neither file is in the order of its keys, and each key occurs once.
    for (name, factor) in [("left", 7_368_787), ("right", 15_485_863)] {
        let path = folder.join(name).with_extension("parquet");
        let made = format!("(value * {factor}) % {rows} as id, value * 3 as x, value * 5 as y");
        let sql = format!("copy (select {made} from generate_series(1, {rows})) to '{}'", path.display());
        answer(&context, &sql).await?;
    }
    Ok(())
}

async fn join(folder: &Path, who: &str, megabytes: Option<usize>) -> Result<()> {
    let is_koel = match who {
        "stock" => false,
        "koel" => true,
        _ => return Err(usage("stock or koel")),
    };
    let mut runtime = RuntimeEnvBuilder::new();
    if let Some(megabytes) = megabytes {
        runtime = runtime.with_memory_limit(megabytes << 20, 1.0);
    }
    let context = session(is_koel, runtime)?;
    for name in ["left", "right"] {
        let path = folder.join(name).with_extension("parquet");
        context.register_parquet(name, &path.to_string_lossy(), ParquetReadOptions::default()).await?;
    }
    let sql = "select count(*) as n, sum(l.x - r.x) as x, sum(l.y) as l, sum(r.y) as r \
               from \"left\" as l join \"right\" as r on l.id = r.id";
    let answered = answer(&context, sql).await;
    // The peak memory that Linux reports for this process; nothing on other systems.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).map_or("not known", str::trim);
    match answered {
        Ok((text, took)) => println!("{who}: {:.1} s, at most {peak}\n{text}", took.as_secs_f64()),
        Err(error) => println!("{who}: at most {peak}\n{error}"),
    }
    Ok(())
}

fn number(text: &str) -> Result<usize> {
    text.replace(',', "").parse().map_err(|_| usage(&format!("{text} is no number")))
}

fn usage(what: &str) -> DataFusionError {
    DataFusionError::Configuration(what.into())
}
