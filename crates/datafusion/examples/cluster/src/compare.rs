//! Compares the results of a cluster with those of one machine.

use std::path::Path;
use std::time::Instant;

use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::SessionContext;
use koel_datafusion::{KoelOptions, WithKoel};

use crate::digest::digest;
use crate::{files, tables};

/// Runs the 22 queries of TPC-H on a cluster and by stock DataFusion on this machine; prints times, digests, and
/// whether the results are equal.
pub async fn compare(cluster: &SessionContext, scale: f64, folder: &Path) -> Result<()> {
    let partitions = cluster.copied_config().target_partitions();
    let tables = tables::tables(scale, partitions)?;
    files::write(folder, &tables).await?;
    let one = SessionStateBuilder::new().with_default_features().with_koel_known(KoelOptions::default()).build();
    let one = SessionContext::new_with_state(one);
    tables::register(&one, &tables)?;
    files::register(cluster, folder).await?;
    println!("query  cluster ms  one machine ms  digest");
    let mut differ = 0;
    for (number, query) in (1..).zip(tables::QUERIES) {
        let began = Instant::now();
        let by_cluster = digest(cluster, query).await?;
        let cluster_time = began.elapsed().as_secs_f64() * 1e3;
        let began = Instant::now();
        let by_one = digest(&one, query).await?;
        let one_time = began.elapsed().as_secs_f64() * 1e3;
        let same = if by_cluster == by_one { "the same" } else { "DIFFERENT" };
        differ += usize::from(by_cluster != by_one);
        println!("Q{number:<5} {cluster_time:10.1}  {one_time:14.1}  {by_cluster} {same}");
    }
    match differ {
        0 => Ok(()),
        _ => Err(DataFusionError::Execution(format!("{differ} answers differ"))),
    }
}
