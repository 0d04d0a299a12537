//! Alcantara et al. 2011, Sections 4.2, 4.3.1.1 and 4.5.
//!
//! ```text
//! rates.rs       insertion and retrieval over N; queries in order
//! space.rs       insertion and retrieval over slots per pair, and the construction-time model
//! limits.rs      the smallest tables, restarts, iterations
//! search.rs      chains of evictions against searches for an empty slot
//! passes.rs      pairs at once, or first keys and then values
//! misses.rs      retrieval over the share of absent keys
//! copies.rs      compacting and multivalue tables over multiplicity
//! strided.rs     memory accesses at strides
//! ```
//!
//! The paper's table is the kind `classic`; some figures also have a curve for `canonical`.

mod copies;
mod limits;
mod misses;
mod passes;
mod rates;
mod search;
mod space;
mod strided;

use super::Experiment;

pub(super) const EXPERIMENTS: &[Experiment] = &[
    Experiment::here(&["iterations"], limits::iterations),
    Experiment::here(&["search"], search::measure),
    Experiment::on_device(&["two-passes"], passes::measure),
    Experiment::on_device(&["space-insertion", "space-retrieval", "4.7-model"], space::measure),
    Experiment::on_device(&["smallest-space"], limits::smallest),
    Experiment::on_device(&["restarts"], limits::restarts),
    Experiment::on_device(&["4.4-insertion", "4.4-retrieval"], rates::measure),
    Experiment::on_device(&["failed-queries"], misses::measure),
    Experiment::on_device(&["4.5-construction", "4.5-retrieval"], copies::compacting),
    Experiment::on_device(&["4.6-construction", "4.6-retrieval"], copies::multivalue),
    Experiment::on_device(&["4.7-strided"], strided::measure),
    Experiment::on_device(&["sorted-queries"], rates::in_order),
];

/// Section 4.3.1.1: the smallest practical sizes for two to five functions, in slots per pair.
const SMALLEST: [(u32, f64); 4] = [(2, 2.1), (3, 1.1), (4, 1.03), (5, 1.02)];
