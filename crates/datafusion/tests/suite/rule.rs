//! Which joins koel replaces, the text of plans, and the options.

use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use koel_datafusion::{KoelOptions, WithKoel};

pub(crate) fn context(options: KoelOptions) -> SessionContext {
    let config = SessionConfig::new().with_target_partitions(2);
    let builder = SessionStateBuilder::new().with_default_features().with_config(config);
    SessionContext::new_with_state(builder.with_koel(options).build())
}

pub(crate) async fn answer(context: &SessionContext, sql: &str) -> String {
    let batches = context.sql(sql).await.expect(sql).collect().await.expect(sql);
    pretty_format_batches(&batches).expect("text").to_string()
}

const TABLES: [&str; 2] = [
    "create table l as select value as id, value % 10 as a, array_agg(value) as many from generate_series(1, 1000) group by value",
    "create table r as select value as id, nullif(value % 7, 3) as b, array_agg(value) as many from generate_series(1, 500) \
     group by value",
];

async fn with_tables() -> SessionContext {
    let context = context(KoelOptions::default());
    for sql in TABLES {
        answer(&context, sql).await;
    }
    context
}

#[tokio::test]
async fn joins_are_replaced_and_report_where_they_ran() {
    let context = with_tables().await;
    let sql = "select count(*) from l join r on l.id = r.id and l.a + r.b < 9";
    let plan = answer(&context, &format!("explain {sql}")).await;
    assert!(plan.contains("KoelJoinExec: mode="), "{plan}");
    assert!(!plan.contains("HashJoinExec"), "{plan}");
    let ran = answer(&context, &format!("explain analyze {sql}")).await;
    for part in [
        "device=cpu",
        "build_time=",
        "probe_time=",
        "join_time=",
        "build_input_rows=500",
        "input_rows=",
        "output_rows=",
    ] {
        assert!(ran.contains(part), "{part} is missing in {ran}");
    }
}

/// Keys that are not columns: they are evaluated one batch at a time, on both sides.
#[tokio::test]
async fn joins_by_expressions_match_stock() {
    let context = with_tables().await;
    for how in ["join", "left join", "right join", "full join", "left semi join", "right anti join"] {
        let columns = match how {
            "left semi join" => "l.id, l.a",
            "right anti join" => "r.id, r.b",
            _ => "l.id, l.a, r.id, r.b",
        };
        let sql = format!(
            "select {columns} from l {how} r on l.id * 3 = r.id + 1 and concat('b', l.a) = concat('b', r.b) order by {columns}"
        );
        let plan = answer(&context, &format!("explain {sql}")).await;
        assert!(plan.contains("KoelJoinExec") && !plan.contains("HashJoinExec"), "{plan}");
        let koel = answer(&context, &sql).await;
        answer(&context, "set koel.enabled = false").await;
        assert_eq!(koel, answer(&context, &sql).await, "{how}");
        answer(&context, "set koel.enabled = true").await;
        assert!(koel.lines().count() > 15, "{how}: {koel}");
    }
}

#[tokio::test]
async fn plans_say_why_joins_are_not_replaced() {
    let context = with_tables().await;
    let not_in = "select count(*) from l where a not in (select b from r)";
    let plan = answer(&context, &format!("explain verbose {not_in}")).await;
    assert!(plan.contains("KoelNoteExec: not by koel, since NOT IN with nulls"), "{plan}");
    assert!(answer(&context, not_in).await.contains("| 0 "));
    let lists = "select count(*) from l join r on l.many = r.many";
    let plan = answer(&context, &format!("explain {lists}")).await;
    assert!(plan.contains("which keys cannot have"), "{plan}");
    assert!(answer(&context, lists).await.contains("500"));
    // In a hash join, a struct that contains a null equals itself.
    let structs = "select count(*) from (values (1, cast(null as int))) as s(a, b) join (values (1, cast(null as int))) as t(a, b) \
                   on named_struct('a', s.a, 'b', s.b) = named_struct('a', t.a, 'b', t.b)";
    let plan = answer(&context, &format!("explain {structs}")).await;
    assert!(plan.contains("a struct whose fields may be null"), "{plan}");
    assert!(answer(&context, structs).await.contains("| 1 "));
    answer(&context, "set koel.notes = false").await;
    let plan = answer(&context, &format!("explain verbose {lists}")).await;
    assert!(plan.contains("HashJoinExec") && !plan.contains("KoelNoteExec"), "{plan}");
}

#[tokio::test]
async fn options_are_set_by_sql_and_checked() {
    let context = with_tables().await;
    let sql = "explain select * from l join r on l.id = r.id";
    answer(&context, "set koel.enabled = false").await;
    assert!(answer(&context, sql).await.contains("HashJoinExec"));
    answer(&context, "set koel.enabled = true").await;
    assert!(answer(&context, sql).await.contains("KoelJoinExec"));
    for (set, says) in [
        ("koel.device = 'gpu'", "give auto, cpu, opencl:NUMBER or opencl:NAME"),
        ("koel.min_rows = 'many'", "give a number of rows"),
        (
            "koel.colour = 'red'",
            "the options are koel.enabled, koel.device, koel.min_rows, koel.ordered, koel.merges, koel.notes, \
             koel.build_cache_bytes, koel.build_cache_folder",
        ),
    ] {
        let error = match context.sql(&format!("set {set}")).await {
            Err(error) => error,
            Ok(frame) => frame.collect().await.expect_err(set),
        };
        assert!(error.to_string().contains(says), "{set}: {error}");
    }
    answer(&context, "set koel.device = 'opencl:no such device'").await;
    answer(&context, "set koel.min_rows = 0").await;
    assert!(answer(&context, "select count(*) from l join r on l.id = r.id").await.contains("500"));
}

/// Operators that require an order of their input.
#[tokio::test]
async fn sort_merges_are_replaced_unless_their_order_is_used() {
    let context = with_tables().await;
    answer(&context, "set datafusion.optimizer.prefer_hash_join = false").await;
    let joined = "select l.id, r.b from l join r on l.id = r.id";
    let counted = format!("select b, count(*) as n from ({joined}) group by b order by b");
    let taken = answer(&context, &format!("explain {counted}")).await;
    assert!(taken.contains("KoelJoinExec") && !taken.contains("SortMergeJoinExec"), "{taken}");
    let ordered = format!("{joined} order by l.id");
    let stays = answer(&context, &format!("explain {ordered}")).await;
    assert!(stays.contains("SortMergeJoinExec") && stays.contains("KoelNoteExec"), "{stays}");
    // An order that is preserved by a node that does not report it.
    let unnested = "select l.id, unnest(make_array(l.a, r.b)) as a from l join r on l.id = r.id order by l.id";
    let stays = answer(&context, &format!("explain {unnested}")).await;
    assert!(stays.contains("SortMergeJoinExec"), "{stays}");
    assert!(stays.contains("those above count on the order of its rows"), "{stays}");
    for partitions in [2, 3] {
        answer(&context, &format!("set datafusion.execution.target_partitions = {partitions}")).await;
        for sql in [counted.as_str(), ordered.as_str(), unnested] {
            let with = answer(&context, sql).await;
            answer(&context, "set koel.enabled = false").await;
            assert_eq!(with, answer(&context, sql).await, "{sql}");
            answer(&context, "set koel.enabled = true").await;
        }
    }
}
