//! koel in Ballista: a scheduler, executors, and the 22 queries of TPC-H on them.
//!
//! ```text
//! cargo build --release -p koel-cluster
//! target/release/ballista scheduler 50050 &
//! target/release/ballista executor 50061 50050 &
//! KOEL_OPENCL=off target/release/ballista executor 50062 50050 &
//! target/release/ballista tpch 50050 0.1
//! ```
//!
//! The first executor uses the best device it has, the second one the CPU: the results are equal. Executors print the
//! joins that they have executed, with their device.

use std::time::Instant;

use ::ballista::prelude::SessionConfigExt;
use datafusion::error::{DataFusionError, Result};
use datafusion::prelude::SessionConfig;
use koel_datafusion::KoelOptions;

use koel_cluster::{ballista, compare};

fn main() -> Result<()> {
    // Plans are decoded recursively; Ballista's own programs have stacks of this size too.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_stack_size(32 << 20).build()?;
    let task = runtime.spawn(async {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let folder = tempfile::tempdir()?;
        match arguments[..] {
            ["scheduler", port] => ballista::scheduler(number(port)?).await,
            ["executor", port, scheduler] => {
                ballista::executor(number(port)?, number(scheduler)?, 0, folder.path()).await
            }
            ["tpch", scheduler] => tpch(number(scheduler)?, 0.1).await,
            ["tpch", scheduler, scale] => tpch(number(scheduler)?, number(scale)?).await,
            _ => {
                let usage = "scheduler PORT, executor PORT SCHEDULER, or tpch SCHEDULER [SCALE]";
                Err(DataFusionError::Configuration(usage.into()))
            }
        }
    });
    runtime.block_on(task).map_err(|error| DataFusionError::External(Box::new(error)))?
}

async fn tpch(scheduler: u16, scale: f64) -> Result<()> {
    let context = ballista::session(scheduler, SessionConfig::new_with_ballista(), KoelOptions::default()).await?;
    let folder = tempfile::tempdir()?;
    let began = Instant::now();
    compare::compare(&context, scale, folder.path()).await?;
    println!("all answers are those of one machine, after {:.1} s", began.elapsed().as_secs_f64());
    Ok(())
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T> {
    text.trim().parse().map_err(|_| DataFusionError::Configuration(format!("{text} is no number for this")))
}
