//! The perfect spatial hash (Lefebvre and Hoppe 2006), the CPU-built baseline of the 2009 poster and of Garcia 2011: no
//! two keys share a slot, and a lookup is two reads, of an offset and of a slot.
//!
//! ```text
//! a key is a cell p of a plane or a volume       x = key mod width, ..           (`params.rs`, `functions.rs`)
//! slot(p) = (p mod M + offset[p mod R]) mod M    in each axis; M^d slots, R^d offsets, R smaller
//! find(key)   the pair in its slot, if it is of this key
//! build       offset cells with many points first; for each, the first offset that brings all its points to free
//!             slots: the rule one by one (`canonical.rs`), 64 at a time (`build.rs`)
//! ```
//!
//! Where neighbouring cells of the offset table have one offset, neighbouring cells of the domain stand in neighbouring
//! slots; so the offsets of neighbours are tried first.
//!
//! What is the paper's: the function, the two tables and the two reads, and offsets chosen with an eye to coherence, as
//! its abstract and Garcia 2011 tell; and, known to us at second hand, cells in the order of their number of points,
//! and a larger offset table after a failure. What is ours: the order in which offsets are tried is fixed by the set
//! and the seed, so that the bytes are a function of them; the sizes and how they grow (`plan.rs`); the search 64
//! offsets at a time; both tables behind each other in one image.
//!
//! What it is not: able to hold any set. Keys that agree modulo M and modulo R in every axis share their offset and
//! their slot; the next attempt has a larger R.

pub(crate) mod build;
pub mod canonical;
mod functions;
mod params;
mod plan;
mod scheme;

pub use functions::{Functions, half};
pub use params::{DEFAULT_WIDTH, MOST_EXTENT, Perfect};
pub use plan::PerfectPlan;
pub use scheme::{MOST_PAIRS, MOST_SLOTS};
#[cfg(test)]
mod tests;
