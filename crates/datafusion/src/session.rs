//! One line for users: [`WithKoel::with_koel`].

use std::sync::Arc;

use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::SessionConfig;

use crate::digest::koel_digest;
use crate::options::KoelOptions;
use crate::rule::KoelRule;

/// koel for a session.
pub trait WithKoel {
    /// Lets koel take the joins and aggregates it can take, makes `SET koel.device` and the other [`KoelOptions`] known, and the aggregate
    /// [`koel_digest`].
    ///
    /// Call it behind `with_config` and `with_aggregate_functions`, which put what they are given in place of what there is.
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
}

impl WithKoel for SessionStateBuilder {
    fn with_koel(mut self, options: KoelOptions) -> Self {
        let config = self.config().get_or_insert_with(SessionConfig::new);
        config.options_mut().extensions.insert(options);
        self.aggregate_functions().get_or_insert_with(Vec::new).push(Arc::new(koel_digest()));
        self.with_physical_optimizer_rule(Arc::new(KoelRule::default()))
    }
}
