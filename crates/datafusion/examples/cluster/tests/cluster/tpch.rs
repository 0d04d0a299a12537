//! TPC-H on a cluster, and on one machine by stock DataFusion.

use std::path::Path;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use koel_datafusion::{KoelOptions, WithKoel};

use koel_cluster::digest::digest;
use koel_cluster::{files, tables};

/// Fails if the rows of a query or their digest differ from those of one machine. The cluster's tables are files in
/// this folder.
pub(crate) async fn answers_are_those_of_one_machine(cluster: &SessionContext, folder: &Path) {
    let config = SessionConfig::new().with_target_partitions(2);
    let builder = SessionStateBuilder::new().with_default_features().with_config(config);
    let stock = SessionContext::new_with_state(builder.with_koel_known(KoelOptions::default()).build());
    let tables = tables::tables(0.01, 4).expect("the tables of TPC-H");
    tables::register(&stock, &tables).expect("new names");
    files::write(folder, &tables).await.expect("files");
    files::register(cluster, folder).await.expect("new names");
    for (number, query) in (1..).zip(tables::QUERIES) {
        let (expected, found) = (rows(&stock, query).await, rows(cluster, query).await);
        assert!(!expected.is_empty(), "Q{number} has no rows");
        assert_eq!(expected, found, "Q{number}");
    }
    // Few rows, and many rows of many partitions, whose partial digests are merged.
    let many = "select o_custkey, o_comment, l_partkey, l_extendedprice, l_shipdate from orders join lineitem on l_orderkey = o_orderkey";
    let left = "select c_name, o_totalprice, o_orderstatus from customer left join orders on c_custkey = o_custkey";
    let nothing = "select l_comment, p_name from lineitem join part on l_partkey = p_partkey where p_size < 0";
    // Partial sums of doubles on several machines are merged without rounding.
    let sums = "select l_suppkey, sum(cast(l_extendedprice as double) / 7), avg(cast(l_tax as double)), \
                sum(case when l_linenumber < 3 then 1e-300 else 1e300 end / l_partkey) from lineitem group by l_suppkey";
    for query in [many, left, nothing, sums].into_iter().chain([1, 5, 16, 21].map(|number| tables::QUERIES[number - 1]))
    {
        let of = async |context| digest(context, query).await.unwrap_or_else(|error| panic!("{query}: {error}"));
        assert_eq!(of(&stock).await, of(cluster).await, "{query}");
    }
}

/// The rows of a query as text, sorted.
async fn rows(context: &SessionContext, query: &str) -> Vec<String> {
    let answer = async { context.sql(query).await?.collect().await };
    let batches = answer.await.unwrap_or_else(|error| panic!("{query}: {error}"));
    let mut rows: Vec<String> = batches.iter().flat_map(listed).collect();
    rows.sort_unstable();
    rows
}

fn listed(batch: &RecordBatch) -> Vec<String> {
    let options = FormatOptions::default().with_null("NULL");
    let columns: Vec<_> =
        batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options).expect("a format")).collect();
    (0..batch.num_rows())
        .map(|row| columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>().join("|"))
        .collect()
}

/// Whether there is an OpenCL device; with `KOEL_REQUIRE_OPENCL`, its absence is an error.
pub(crate) fn has_opencl() -> bool {
    let found = koel::device::choose("opencl:0", None);
    let required = std::env::var_os("KOEL_REQUIRE_OPENCL").is_some();
    assert!(found.is_ok() || !required, "an OpenCL device is required");
    found.is_ok()
}
