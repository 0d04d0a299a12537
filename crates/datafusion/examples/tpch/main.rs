//! The 22 queries of TPC-H by stock DataFusion and by koel, side by side: times, which of the two executed the joins
//! and aggregates, and whether the results are equal.
//!
//! ```text
//! cargo run --release --example tpch                             scale 1, three runs of each, the fastest counts
//! cargo run --release --example tpch -- 0.1 5 opencl:0 9,18,21   scale, runs, koel.device, queries
//! cargo run --release --example tpch -- 1 3 cpu 3 explain        also prints both plans with the metrics of operators
//! ```
//!
//! The tables are generated first and stay in memory, so that times are those of the queries only. Settings of
//! DataFusion are read from the environment, such as `DATAFUSION_EXECUTION_TARGET_PARTITIONS=16`.

use std::time::{Duration, Instant};

use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_plan::display::DisplayableExecutionPlan;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{SessionConfig, SessionContext};
use koel::backend::Transfers;
use koel_datafusion::{KoelOptions, WithKoel, take_transfers};

mod tables;

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut next = |name: &str, or: &str| {
        let text = arguments.next().unwrap_or_else(|| or.into());
        (text.clone(), DataFusionError::Configuration(format!("{name}: {text}?")))
    };
    let ((scale, no_scale), (runs, no_runs)) = (next("scale", "1"), next("runs", "3"));
    let (scale, runs): (f64, usize) = (scale.parse().map_err(|_| no_scale)?, runs.parse().map_err(|_| no_runs)?);
    let ((device, _), (queries, _)) = (next("koel.device", "auto"), next("queries", ""));
    let explains = next("explain", "").0 == "explain";
    let wanted: Vec<usize> = queries.split(',').filter_map(|number| number.trim().parse().ok()).collect();

    let began = Instant::now();
    let config = SessionConfig::from_env()?;
    let partitions = config.target_partitions();
    let tables = tables::tables(scale, partitions)?;
    println!(
        "scale {scale}, {partitions} partitions, made in {:.1} s; koel.device = '{device}'",
        began.elapsed().as_secs_f64()
    );
    let builder = || SessionStateBuilder::new().with_config(config.clone()).with_default_features();
    let stock = SessionContext::new_with_state(builder().build());
    let options = KoelOptions::default().device(device.clone());
    let koel = SessionContext::new_with_state(builder().with_koel(options).build());
    tables::register(&stock, &tables)?;
    tables::register(&koel, &tables)?;

    println!(
        "query  stock ms   koel ms  ratio  joins by koel  by others  groups by koel  by others  MB to the device, back, ms"
    );
    let (mut totals, mut differ) = ([0.0; 2], Vec::new());
    for (number, query) in (1..).zip(tables::QUERIES).filter(|(number, _)| wanted.is_empty() || wanted.contains(number))
    {
        let mut best = [Duration::MAX; 2];
        let mut moved = Transfers::default();
        let (mut answers, mut made) = ([String::new(), String::new()], [[0; 2]; 2]);
        let mut plans = [String::new(), String::new()];
        // In turn, so that a disturbance affects both.
        for _ in 0..runs.max(1) {
            for (i, context) in [&stock, &koel].into_iter().enumerate() {
                let plan = context.sql(query).await?.create_physical_plan().await?;
                made = [made_by(plan.as_ref(), "JoinExec"), made_by(plan.as_ref(), "AggregateExec")];
                take_transfers(&device);
                let began = Instant::now();
                let batches = collect(plan.clone(), context.task_ctx()).await?;
                let took = began.elapsed();
                if took < best[i] && explains {
                    plans[i] = DisplayableExecutionPlan::with_metrics(plan.as_ref()).indent(false).to_string();
                }
                best[i] = best[i].min(took);
                moved = take_transfers(&device).unwrap_or_default();
                answers[i] = pretty_format_batches(&[concat_batches(&plan.schema(), &batches)?])?.to_string();
            }
        }
        let [s, k] = best.map(|time| time.as_secs_f64() * 1e3);
        totals = [totals[0] + s, totals[1] + k];
        let [[j, others], [g, left]] = made;
        let [to, back] = [moved.to_device, moved.to_host].map(|bytes| bytes as f64 / 1e6);
        print!("Q{number:<5} {s:8.1}  {k:8.1}  {:5.2}  {j:13}  {others:9}  {g:14}  {left:9}", k / s);
        println!("  {to:16.1}  {back:4.1}  {:.1}", moved.time.as_secs_f64() * 1e3);
        plans.iter().for_each(|plan| print!("{plan}"));
        if answers[0] != answers[1] {
            differ.push(number);
        }
    }
    println!("all    {:8.1}  {:8.1}  {:5.2}", totals[0], totals[1], totals[1] / totals[0]);
    match differ[..] {
        [] => println!("all answers are equal"),
        _ => println!("answers differ, if only in the order of equal rows: Q{differ:?}"),
    }
    Ok(())
}

/// The numbers of operators of a kind in a plan: koel's, and others.
fn made_by(plan: &dyn ExecutionPlan, kind: &str) -> [usize; 2] {
    let (is_one, is_own) = (plan.name().ends_with(kind), plan.name().starts_with("Koel"));
    let own = [usize::from(is_one && is_own), usize::from(is_one && !is_own)];
    let below = plan.children().into_iter().map(|child| made_by(child.as_ref(), kind));
    below.fold(own, |a, b| [a[0] + b[0], a[1] + b[1]])
}
