//! koel in Apache DataFusion: joins and aggregates with one answer on CPUs and OpenCL devices.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> datafusion::error::Result<()> {
//! use datafusion::execution::SessionStateBuilder;
//! use datafusion::prelude::SessionContext;
//! use koel_datafusion::{KoelOptions, WithKoel};
//!
//! let state = SessionStateBuilder::new().with_default_features().with_koel(KoelOptions::default()).build();
//! let context = SessionContext::new_with_state(state);
//! let sql = "select count(*) as n from generate_series(1, 100) as l(id) join generate_series(50, 200) as r(id) on l.id = r.id";
//! assert!(context.sql(&format!("explain {sql}")).await?.to_string().await?.contains("KoelJoinExec"));
//! assert!(context.sql(sql).await?.to_string().await?.contains("51"));
//! # Ok(())
//! # }
//! ```
//!
//! # What is where
//!
//! ```text
//! session.rs, options.rs   koel for a session, and what can be set
//! cluster.rs               the same for workers of a cluster
//! rule.rs, note.rs         which operators koel takes, and why not another
//! merges.rs                sort-merge joins as hash joins
//! ordered.rs, in_order.rs  plans whose rows come in one order
//! join/exec.rs             the operator: its place in plans
//! join/spec.rs             what it is to do;        metrics.rs: what it says of it
//! join/build.rs            the build side, whole;   index.rs: its keys on a device;  bits.rs: which rows were found
//! join/instead.rs          DataFusion's join, where the build side finds no room
//! join/bounds.rs           what scans of the probe side may leave out
//! join/stream.rs           the probe side;          pairs.rs, rows.rs, output.rs: from row numbers to batches
//! aggregate/exec.rs        the other operator;      spec.rs: what it is to do, and what koel leaves;  metrics.rs
//! aggregate/stream.rs      a partition;             over.rs: where it goes on without memory
//! aggregate/groups.rs      each row's group;        words.rs, codes.rs, texts.rs, table.rs, hash.rs: of short keys;  bulk.rs: on a device
//! aggregate/kept.rs        keys of the latter;     accumulate.rs: their sums, counts, extremes and means
//! digest.rs                koel_digest(columns..)
//! sums/                    exact sums and means of floats, by the names sum, avg and mean
//! shown.rs, metrics.rs     what operators say of themselves in plans, and in EXPLAIN ANALYZE
//! source.rs                streams as plans, for DataFusion's operators to go on with
//! device.rs, error.rs      devices by name;         koel's errors as DataFusion's
//! ```
//!
//! Sums and means of floats are exact: the exact sum of the values, or its quotient by their count, rounded once to the nearest
//! double. They have the same bits for any order of rows, batch size, number of partitions and machines. [`koel_sum`] and
//! [`koel_avg`] replace `sum`, `avg` and `mean` in SQL. DataFusion's own `functions_aggregate::sum::sum(..)` in code that builds
//! expressions remains what it is: call [`koel_sum`]`().call(..)` instead.
//!
//! DataFusion builds from the left child of a join and probes with the right one; koel builds from the right keys. So the
//! left child here is koel's right side.

mod aggregate;
mod cluster;
mod device;
mod digest;
mod error;
mod in_order;
mod join;
mod merges;
mod metrics;
mod note;
mod options;
mod ordered;
mod rule;
mod session;
mod shown;
mod source;
mod sums;

pub use aggregate::KoelAggregateExec;
pub use cluster::on_worker;
pub use device::take_transfers;
pub use digest::koel_digest;
pub use in_order::KoelInOrderExec;
pub use join::KoelJoinExec;
pub use note::KoelNoteExec;
pub use options::KoelOptions;
pub use rule::KoelRule;
pub use session::WithKoel;
pub use sums::{koel_avg, koel_functions, koel_sum};
