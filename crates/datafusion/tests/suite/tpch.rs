//! The 22 queries of TPC-H: stock and koel return equal results.

use datafusion::execution::SessionStateBuilder;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::{SessionConfig, SessionContext};
use koel_datafusion::{KoelJoinExec, KoelOptions, WithKoel};

use crate::common::sorted;

#[path = "../../examples/tpch/tables.rs"]
mod tables;

/// The numbers of koel's and of other joins in a plan.
fn joins(plan: &dyn ExecutionPlan) -> (usize, usize) {
    let mut count = (usize::from(plan.is::<KoelJoinExec>()), usize::from(plan.name().ends_with("JoinExec")));
    count.1 -= count.0;
    for child in plan.children() {
        let of = joins(child.as_ref());
        count = (count.0 + of.0, count.1 + of.1);
    }
    count
}

/// Checks that each query returns the rows of stock DataFusion. Returns the numbers of koel's and of other joins.
async fn compared(config: SessionConfig, options: KoelOptions) -> (usize, usize) {
    let tables = tables::tables(0.01, 3).expect("the tables of TPC-H");
    let builder = || SessionStateBuilder::new().with_default_features().with_config(config.clone());
    let stock = SessionContext::new_with_state(builder().build());
    let koel = SessionContext::new_with_state(builder().with_koel(options).build());
    for context in [&stock, &koel] {
        tables::register(context, &tables).expect("new names");
    }
    let mut all = (0, 0);
    for (number, query) in (1..).zip(tables::QUERIES) {
        let mut answers = Vec::new();
        for context in [&stock, &koel] {
            let plan = context.sql(query).await.expect("SQL").create_physical_plan().await.expect("a plan");
            let of = joins(plan.as_ref());
            if std::ptr::eq(context, &koel) {
                all = (all.0 + of.0, all.1 + of.1);
            } else {
                assert_eq!(of.0, 0, "Q{number}");
            }
            let schema = plan.schema();
            let batches = collect(plan, context.task_ctx()).await.unwrap_or_else(|error| panic!("Q{number}: {error}"));
            answers.push(sorted(&schema, &batches));
        }
        assert!(!answers[0].is_empty(), "Q{number} has no rows");
        assert_eq!(answers[0], answers[1], "Q{number}");
    }
    eprintln!("{} joins by koel, {} by stock", all.0, all.1);
    all
}

fn config() -> SessionConfig {
    SessionConfig::new().with_target_partitions(3)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_queries_have_the_answers_of_stock() {
    let (koel, others) = compared(config(), KoelOptions::default()).await;
    assert!(koel > 50, "koel has {koel} joins, others {others}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_queries_match_merges() {
    let config = config().set_bool("datafusion.optimizer.prefer_hash_join", false);
    let (koel, others) = compared(config, KoelOptions::default()).await;
    assert!(koel > 50, "koel has {koel} joins, others {others}");
}
