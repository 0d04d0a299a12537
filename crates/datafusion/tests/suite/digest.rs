//! `koel_digest`: equal rows have equal digests in any order, partitioning and layout; different rows have different
//! digests.

use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use koel_datafusion::{KoelOptions, WithKoel};

async fn digest(partitions: usize, sql: &str) -> String {
    let config = SessionConfig::new().with_target_partitions(partitions).with_batch_size(100);
    let builder = SessionStateBuilder::new().with_default_features().with_config(config);
    let context = SessionContext::new_with_state(builder.with_koel(KoelOptions::default()).build());
    let answer = context.sql(sql).await.expect("SQL").collect().await.expect("an answer");
    datafusion::arrow::util::display::array_value_to_string(answer[0].column(0), 0).expect("text")
}

const ROWS: &str =
    "select value as a, cast(value % 7 as varchar) as b, nullif(value % 3, 1) as c from generate_series(1, 5000)";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn order_and_partitions_do_not_change_digests() {
    let one = digest(1, &format!("select koel_digest(a, b, c) from ({ROWS})")).await;
    assert!(one.starts_with("5000:"), "{one}");
    assert_eq!(one, digest(4, &format!("select koel_digest(a, b, c) from ({ROWS})")).await);
    assert_eq!(
        one,
        digest(3, &format!("select koel_digest(a, b, c) from (select * from ({ROWS}) order by b, a desc)")).await
    );
}

#[tokio::test]
async fn other_rows_have_another_digest() {
    let mut all = Vec::new();
    for (columns, rows) in [
        ("a, b", "(1, 2)"),
        ("a, b", "(2, 1)"),
        ("b, a", "(1, 3)"),
        ("a, b", "(1, 2), (1, 2)"),
        ("a, b", "(1, 2), (1, 2), (1, 2)"),
        ("a, b", "(1, null), (1, 2)"),
        ("a, b", "(null, 1), (1, 2)"),
        ("cast(a as int), b", "(1, 2)"),
        ("a", "(1, 2)"),
        ("a, b, a", "(1, 2)"),
        ("a, b", "('1', '2')"),
        ("a, b", "('1', null), ('', '2')"),
        ("a, b", "('', null), ('1', '2')"),
    ] {
        all.push(digest(2, &format!("select koel_digest({columns}) from (values {rows}) as t(a, b)")).await);
    }
    let none = digest(2, "select koel_digest(a) from (values (1)) as t(a) where a > 1").await;
    assert_eq!(none, format!("0:{:032x}", 0));
    all.push(none);
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), count, "{all:?}");
}

#[tokio::test]
async fn layouts_of_text_do_not_change_digests() {
    let mut all = Vec::new();
    for of in ["Utf8", "LargeUtf8", "Utf8View", "Dictionary(Int32, Utf8)"] {
        all.push(digest(2, &format!("select koel_digest(arrow_cast(b, '{of}')) from ({ROWS})")).await);
    }
    assert!(all.iter().all(|digest| *digest == all[0]), "{all:?}");
}

#[tokio::test]
async fn groups_and_windows_have_digests() {
    let groups = format!("select koel_digest(b, d) from (select b, koel_digest(a) as d from ({ROWS}) group by b)");
    assert!(digest(2, &groups).await.starts_with("7:"));
    let sliding = "select count(distinct d) from (select koel_digest(column1) over \
                   (order by column1 rows between 1 preceding and current row) as d from (values (1), (2), (3)) v)";
    assert_eq!(digest(1, sliding).await, "3");
}

#[tokio::test]
async fn a_digest_is_the_same_in_every_release() {
    let golden = digest(1, &format!("select koel_digest(a, b, c) from ({ROWS})")).await;
    assert_eq!(golden, include_str!("digest.txt").trim());
}

#[tokio::test]
async fn empty_groups_have_the_digest_of_no_rows() {
    let none = "0:00000000000000000000000000000000";
    assert_eq!(digest(1, "select koel_digest(a) from (values (1)) as t(a) where a > 1").await, none);
    let correlated = "select d from (select l.id, (select koel_digest(r.x) from (values (7, 1)) as r(id, x) where r.id = l.id) \
                      as d from (values (8)) as l(id))";
    assert_eq!(digest(1, correlated).await, none);
}

#[tokio::test]
async fn distinct_is_refused_rather_than_ignored() {
    let state = SessionStateBuilder::new().with_default_features().with_koel(KoelOptions::default()).build();
    let context = SessionContext::new_with_state(state);
    let sql = "select koel_digest(distinct a), count(b) from (values (1, 2), (1, 3)) as t(a, b)";
    let error = match context.sql(sql).await {
        Ok(plan) => plan.collect().await.expect_err("DISTINCT").to_string(),
        Err(error) => error.to_string(),
    };
    assert!(error.contains("take the digest of a SELECT DISTINCT"), "{error}");
}
