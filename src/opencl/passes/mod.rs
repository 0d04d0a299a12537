//! Passes that schemes share, and the selection of strategies.
//!
//! ```text
//! primitives.rs  fills, bitmaps, gathers, selections
//! probe.rs       `Probe`: clocks, and random and strided accesses, for benchmarks
//! scan.rs        prefix sums of any number of counts
//! sort.rs        a radix sort of pairs
//! relational.rs  the passes of grouping and joining
//! key_slots.rs   a slot for each distinct key, for groups
//! aggregate.rs   aggregates of groups, and sums of doubles
//! tally.rs       the result of a batch: the counts of all schemes' kernels
//! parts.rs       partitions pairs into the parts of a table
//! route.rs       how a table is built: directly, or one partition at a time
//! shape.rs       how many work-items read a bucket, or how many keys one work-item looks up: the fastest shape
//! ```

pub(super) mod aggregate;
mod key_slots;
pub(super) mod parts;
pub(super) mod primitives;
mod probe;
pub(super) mod relational;
mod route;
pub(super) mod scan;
pub(super) mod shape;
pub(super) mod sort;
pub(super) mod tally;
