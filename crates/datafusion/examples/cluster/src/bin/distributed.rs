//! koel in datafusion-distributed: workers, and the 22 queries of TPC-H on them.
//!
//! ```text
//! cargo build --release -p koel-cluster
//! target/release/distributed worker 8101 &
//! KOEL_OPENCL=off target/release/distributed worker 8102 &
//! target/release/distributed tpch 8101,8102 0.1
//! ```
//!
//! The first worker uses the best device it has, the second one the CPU: the results are equal. There is no scheduler:
//! the client's session plans, and sends the stages to the workers.

use std::time::Instant;

use datafusion::error::{DataFusionError, Result};
use datafusion::prelude::SessionConfig;
use koel_datafusion::KoelOptions;
use tokio::net::TcpListener;

use koel_cluster::{compare, distributed};

#[tokio::main]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["worker", port] => {
            let listener = TcpListener::bind(("127.0.0.1", number(port)?)).await?;
            println!("a worker at {}", listener.local_addr()?);
            distributed::worker(listener).await
        }
        ["tpch", ports] => tpch(ports, "0.1").await,
        ["tpch", ports, scale] => tpch(ports, scale).await,
        _ => Err(DataFusionError::Configuration("worker PORT, or tpch PORT,PORT [SCALE]".into())),
    }
}

async fn tpch(ports: &str, scale: &str) -> Result<()> {
    let ports = ports.split(',').map(number).collect::<Result<_>>()?;
    // Partitions of one byte, so that even small files are divided among workers.
    let context = distributed::session(ports, SessionConfig::new(), KoelOptions::default(), 1)?;
    let folder = tempfile::tempdir()?;
    let began = Instant::now();
    compare::compare(&context, number(scale)?, folder.path()).await?;
    println!("all answers are those of one machine, after {:.1} s", began.elapsed().as_secs_f64());
    Ok(())
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T> {
    text.trim().parse().map_err(|_| DataFusionError::Configuration(format!("{text} is no number for this")))
}
