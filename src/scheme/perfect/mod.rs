//! The perfect spatial hash (Lefebvre and Hoppe 2006), the CPU-built baseline of the 2009 poster and of Garcia 2011: no
//! two keys share a slot, and a lookup is two reads, of an offset and of a slot.
//!
//! ```text
//! a key is a cell p of a plane or a volume       x = key mod width, ..           (`params.rs`, `functions.rs`)
//! slot(p) = (p mod M + offset[p mod R]) mod M    in each axis; M^d slots, R^d offsets, R smaller
//! find(key)   the pair in its slot, if it is of this key
//! build       offset cells with many points first; for each, the first offset that moves all its points to free
//!             slots: one offset after the other (`canonical.rs`), 64 at a time (`build.rs`)
//! ```
//!
//! If adjacent cells of the offset table have equal offsets, adjacent cells of the domain are stored in adjacent slots.
//! The offsets of adjacent cells are therefore tried first.
//!
//! From the paper: the function, the two tables, the two reads, and offsets chosen for coherence (from its abstract and
//! Garcia 2011); and, from secondary sources, cells ordered by their number of points, and a larger offset table after
//! a failure. New in koel: the set and the seed determine the order in which offsets are tried, so the bytes are a
//! function of both; the sizes and their growth (`plan.rs`); the search of 64 offsets at a time; both tables in one
//! image.
//!
//! Some sets cannot be built in an attempt: keys that agree modulo M and modulo R in every axis share their offset and
//! their slot. The next attempt has a larger R.

pub(crate) mod build;
pub(crate) mod canonical;
mod functions;
mod params;
mod plan;
mod scheme;

pub use functions::Functions;
pub(crate) use functions::half;
pub use params::Perfect;
pub use plan::PerfectPlan;
pub use scheme::MOST_PAIRS;
#[cfg(test)]
mod tests;
