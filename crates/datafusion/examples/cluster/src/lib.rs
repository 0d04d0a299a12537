//! koel on clusters: workers, executors, and a comparison of a cluster's results with those of one machine.
//!
//! ```text
//! ballista.rs, engine.rs   Ballista: a scheduler, executors whose joins koel executes, the session of a client
//! distributed.rs           datafusion-distributed: workers, the session that plans for them
//! compare.rs, digest.rs    the 22 queries of TPC-H by a cluster and by one machine;  files.rs, tables.rs: their tables
//! bin/                     programs for both; the comments at their beginning list the commands
//! ```

pub mod ballista;
pub mod compare;
pub mod digest;
pub mod distributed;
mod engine;
pub mod files;
#[path = "../../tpch/tables.rs"]
pub mod tables;
