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
//! # Modules
//!
//! ```text
//! session.rs, options.rs       koel for a session, and its options
//! cluster.rs                   koel for workers of a cluster
//! rule.rs, fallback_reason.rs  which operators koel replaces, and why it does not replace others
//! merges.rs                    sort-merge joins as hash joins
//! ordered.rs, in_order.rs      plans whose rows have one order
//! join/exec.rs                 the join operator and its role in plans
//! join/spec.rs                 its parameters;          metrics.rs: its metrics
//! join/build.rs                the build side;          index.rs: its keys;  bits.rs: which rows have a match
//! join/sharing.rs              build sides that queries share;  cache.rs: of a session;  identity.rs: what they contain
//! join/sort_merge_fallback.rs  DataFusion's join, if the build side does not fit in memory
//! join/bounds.rs               dynamic filters for scans of the probe side
//! join/stream.rs               the probe side;          pairs.rs, rows.rs, output.rs: from row numbers to batches
//! aggregate/exec.rs            the aggregate operator;  spec.rs: its parameters, and what koel supports;  metrics.rs
//! aggregate/stream.rs          a partition;             spill.rs: its fallback if memory is short
//! aggregate/groups.rs          each row's group;        words.rs, codes.rs, texts.rs, table.rs, hash.rs: short keys;
//!                              bulk.rs: on a device
//! aggregate/kept.rs            keys of the latter;      accumulate.rs: sums, counts, extremes and means
//! digest.rs                    koel_digest(columns..)
//! sums/                        exact sums and means of floats, under the names sum, avg and mean
//! shown.rs, metrics.rs         output of operators in EXPLAIN and EXPLAIN ANALYZE
//! source.rs                    streams as plans, as input for DataFusion's operators
//! device.rs, error.rs          devices by name;         koel's errors as DataFusion's
//! ```
//!
//! Sums and means of floats are exact: the exact sum of the values, or its quotient by their count, rounded once to the
//! nearest double. They have the same bits for any order of rows, batch size, number of partitions and machines.
//! [`koel_sum`] and [`koel_avg`] replace `sum`, `avg` and `mean` in SQL. Code that builds expressions with DataFusion's
//! `functions_aggregate::sum::sum(..)` still gets DataFusion's function: call [`koel_sum`]`().call(..)` instead.
//!
//! DataFusion builds from the left child of a join and probes with the right one; koel builds from the right keys. So
//! the left child is koel's right side.

mod aggregate;
mod cluster;
mod device;
mod digest;
mod error;
mod fallback_reason;
mod in_order;
mod join;
mod merges;
mod metrics;
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
pub use fallback_reason::KoelNoteExec;
pub use in_order::KoelInOrderExec;
pub use join::{KoelBuildCache, KoelJoinExec};
pub use options::KoelOptions;
pub use rule::KoelRule;
pub use session::WithKoel;
pub use sums::{koel_avg, koel_functions, koel_sum};
