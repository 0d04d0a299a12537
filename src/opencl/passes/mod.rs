//! Passes that schemes share, and the choices between two ways of one pass.
//!
//! ```text
//! primitives.rs  fills, bitmaps, gathers, selections
//! probe.rs       `Probe`: clocks, and accesses at random places and at strides, for benches
//! scan.rs        prefix sums of any number of counts
//! sort.rs        a radix sort of pairs
//! relational.rs  what grouping and joining are made of
//! key_slots.rs   a slot for each distinct key, for groups
//! aggregate.rs   the part of it that adds up: aggregates of groups, and sums of doubles
//! tally.rs       what became of a batch: the counts of all schemes' kernels
//! parts.rs       dealing pairs to the parts of a table
//! route.rs       pairs one by one, or part by part: how a table is built
//! shape.rs       one work-item a key, several, or one for many keys: which is faster here
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
