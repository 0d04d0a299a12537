//! Plans of clusters: koel on a worker that has received a part of a plan.

use std::sync::Arc;

use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;

use crate::options::KoelOptions;
use crate::rule::KoelRule;

/// Replaces joins by [`KoelJoinExec`](crate::KoelJoinExec) in a plan that a worker has decoded and is about to run.
///
/// The planner of a cluster plans stock joins, so koel's operators need not be encoded, and each worker uses the device
/// it has. One node replaces one other, because some engines count nodes to assign metrics. Therefore there are no
/// notes and no ordered plans, and merges keep their sorts, whatever the values of `koel.notes`, `koel.ordered` and
/// `koel.merges`. The README names the engines and where they call this.
///
/// # Errors
/// The errors of DataFusion when the plan is rebuilt. A join that koel does not support is kept.
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
