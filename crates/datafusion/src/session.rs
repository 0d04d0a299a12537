//! [`WithKoel::with_koel`] registers koel in a session with one call.

use std::sync::Arc;

use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::SessionConfig;

use crate::join::KoelBuildCache;
use crate::options::KoelOptions;
use crate::rule::KoelRule;
use crate::sums::koel_functions;

/// Registers koel in a session.
pub trait WithKoel {
    /// Registers the rule that replaces joins and aggregates by koel's, the [`KoelOptions`] (`SET koel.device`), and
    /// the aggregates of [`koel_functions`], which replace `sum`, `avg` and `mean`, so that sums of floats are exact.
    /// A config without a [`KoelBuildCache`] gets an empty one. With `ordered` it switches off settings that do not
    /// preserve order (README).
    ///
    /// Call it after `with_default_features`, `with_config` and `with_aggregate_functions`, which would replace what it
    /// sets.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> datafusion::error::Result<()> {
    /// use datafusion::execution::SessionStateBuilder;
    /// use datafusion::prelude::SessionContext;
    /// use koel_datafusion::{KoelOptions, WithKoel};
    ///
    /// let state = SessionStateBuilder::new().with_default_features().with_koel(KoelOptions::default()).build();
    /// let context = SessionContext::new_with_state(state);
    /// context.sql("set koel.device = 'cpu'").await?.collect().await?;
    /// let joined = "select * from (values (1, 'a'), (2, 'b')) as l(id, x) join (values (2, 'c')) as r(id, y) on l.id = r.id";
    /// println!("{}", context.sql(joined).await?.to_string().await?);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    fn with_koel(self, options: KoelOptions) -> Self;

    /// As [`with_koel`](Self::with_koel), without the rule: the options and the aggregates are registered, and plans
    /// have DataFusion's operators.
    ///
    /// For sessions that plan for a cluster, whose workers then call [`on_worker`](crate::on_worker), and for the
    /// sessions of those workers.
    #[must_use]
    fn with_koel_known(self, options: KoelOptions) -> Self;
}

impl WithKoel for SessionStateBuilder {
    fn with_koel(self, options: KoelOptions) -> Self {
        self.with_koel_known(options).with_physical_optimizer_rule(Arc::new(KoelRule::default()))
    }

    fn with_koel_known(mut self, options: KoelOptions) -> Self {
        let config = self.config().get_or_insert_with(SessionConfig::new);
        if options.ordered {
            config.options_mut().execution.enable_file_stream_work_stealing = false;
            config.options_mut().optimizer.enable_topk_dynamic_filter_pushdown = false;
        }
        config.options_mut().extensions.insert(options);
        if config.get_extension::<KoelBuildCache>().is_none() {
            config.set_extension(Arc::new(KoelBuildCache::default()));
        }
        self.aggregate_functions().get_or_insert_with(Vec::new).extend(koel_functions().into_iter().map(Arc::new));
        self
    }
}
