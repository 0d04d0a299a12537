//! The tables of TPC-H as Parquet files that all processes of a cluster can read.

use std::path::Path;
use std::sync::Arc;

use datafusion::dataframe::DataFrameWriteOptions;
use datafusion::datasource::MemTable;
use datafusion::error::Result;
use datafusion::prelude::{ParquetReadOptions, SessionContext};

/// Writes tables to folders of their names: several files each, so that they can be divided among workers.
pub async fn write(folder: &Path, tables: &[(&'static str, Arc<MemTable>)]) -> Result<()> {
    let context = SessionContext::new();
    for (name, table) in tables {
        let path = format!("{}/{name}/", folder.display());
        context.read_table(Arc::clone(table) as _)?.write_parquet(&path, DataFrameWriteOptions::new(), None).await?;
    }
    Ok(())
}

/// Registers the tables in a session.
pub async fn register(context: &SessionContext, folder: &Path) -> Result<()> {
    for name in ["nation", "region", "part", "supplier", "partsupp", "customer", "orders", "lineitem"] {
        let path = format!("{}/{name}/", folder.display());
        context.register_parquet(name, &path, ParquetReadOptions::default()).await?;
    }
    Ok(())
}
