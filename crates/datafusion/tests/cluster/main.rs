//! koel on clusters: the answers of one machine, by workers that are processes of their own, one of them without OpenCL.
//!
//! A target by itself: it links the engines of clusters, which the other tests do without.

mod on_ballista;
mod on_workers;
mod process;
mod tpch;

// What the examples run is what is tested.
#[path = "../../examples/ballista/cluster.rs"]
mod ballista_cluster;
#[path = "../../examples/tpch/digest.rs"]
mod digest;
#[path = "../../examples/distributed/cluster.rs"]
mod distributed_cluster;
#[path = "../../examples/ballista/engine.rs"]
mod engine;
#[path = "../../examples/tpch/files.rs"]
mod files;
#[path = "../../examples/tpch/tables.rs"]
mod tables;
