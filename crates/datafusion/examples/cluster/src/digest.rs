//! The digest of a query's result.

use datafusion::arrow::array::AsArray;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::Expr;
use datafusion::prelude::SessionContext;
use koel_datafusion::koel_digest;

/// `koel_digest` of all columns of a query's result, computed partially on the machines that store the rows.
pub async fn digest(context: &SessionContext, query: &str) -> Result<String> {
    let rows = context.sql(query).await?;
    let columns = rows.schema().columns().into_iter().map(Expr::Column).collect();
    let batches = rows.aggregate(vec![], vec![koel_digest().call(columns).alias("digest")])?.collect().await?;
    match batches.iter().find(|batch| batch.num_rows() == 1).and_then(|batch| batch.column(0).as_string_opt::<i32>()) {
        Some(digest) => Ok(digest.value(0).into()),
        None => Err(DataFusionError::Internal("no digest came".into())),
    }
}
