//! Plans that a worker rewrites: each node is replaced by one node, whatever the session's options.

use std::sync::Arc;

use datafusion::execution::SessionStateBuilder;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::{SessionConfig, SessionContext};
use koel_datafusion::{KoelOptions, WithKoel, on_worker};

/// The names of a plan's nodes, from its root down.
fn names(plan: &dyn ExecutionPlan) -> Vec<String> {
    let below = plan.children().into_iter().flat_map(|child| names(child.as_ref()));
    std::iter::once(plan.name().to_owned()).chain(below).collect()
}

#[tokio::test]
async fn one_node_replaces_each_join() {
    let config = SessionConfig::new().with_target_partitions(2);
    let builder = SessionStateBuilder::new().with_default_features().with_config(config);
    let options = KoelOptions::default().ordered(true).notes(true);
    let context = SessionContext::new_with_state(builder.with_koel_known(options).build());
    let joined =
        "select l.a from generate_series(1, 90) as l(a) join generate_series(5, 95) as r(b) on l.a = r.b where l.a > 7";
    let not_in = "select a from generate_series(1, 9) as l(a) where a not in (select nullif(b, 3) from generate_series(1, 5) as r(b))";
    for (sql, taken) in [(joined, true), (not_in, false)] {
        let plan = context.sql(sql).await.expect("SQL").create_physical_plan().await.expect("a plan");
        let mut expected = names(plan.as_ref());
        assert!(expected.iter().any(|name| name == "HashJoinExec"), "{expected:?}");
        if taken {
            expected.iter_mut().filter(|name| *name == "HashJoinExec").for_each(|name| *name = "KoelJoinExec".into());
        }
        let rewritten = on_worker(Arc::clone(&plan), context.copied_config().options()).expect("a plan");
        assert_eq!(names(rewritten.as_ref()), expected, "{sql}");
    }
}
