//! Plans of clusters: what a worker does with the part of a plan that it has been sent.

use std::sync::Arc;

use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;

use crate::options::KoelOptions;
use crate::rule::KoelRule;

/// Puts [`KoelJoinExec`](crate::KoelJoinExec) in the place of joins in a plan that a worker has decoded, and will run.
///
/// The planner of a cluster plans stock joins, so nothing of koel has to be encoded, and each worker takes the device it
/// has. One node takes the place of one other, as engines demand that count nodes to give them their metrics: no notes, no
/// plans in one order, and merges with their sorts as they are, whatever `koel.notes`, `koel.ordered` and `koel.merges` say. The
/// README names the engines and where they call this.
///
/// # Errors
/// Only what DataFusion says of the plan when it is put together anew. A join that koel does not take stays.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> datafusion::error::Result<()> {
/// use datafusion::physical_plan::displayable;
/// use datafusion::prelude::SessionContext;
///
/// let context = SessionContext::new();
/// let joined = "select * from (values (1, 'a'), (2, 'b')) as l(id, x) join (values (2, 'c')) as r(id, y) on l.id = r.id";
/// let plan = context.sql(joined).await?.create_physical_plan().await?;
/// let plan = koel_datafusion::on_worker(plan, context.copied_config().options())?;
/// assert!(displayable(plan.as_ref()).indent(false).to_string().contains("KoelJoinExec"));
/// # Ok(())
/// # }
/// ```
pub fn on_worker(plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
    let options = config.extensions.get::<KoelOptions>().cloned().unwrap_or_default();
    let mut config = config.clone();
    config.extensions.insert(options.notes(false).ordered(false).merges(false));
    KoelRule::default().optimize(plan, &config)
}
