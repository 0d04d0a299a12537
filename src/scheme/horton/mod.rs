//! The Horton table (Breslow et al. 2016): most keys are stored in their primary bucket, and remap entries locate the
//! rest.
//!
//! ```text
//! Type A bucket   S pairs
//! Type B bucket   S - 1 pairs and, in the last word, a remap entry for each tag: the R_i that its keys were moved to
//! find(key)       the home bucket;  if the key is not there, and the entry of its tag is set:  the bucket it leads to
//! canonical       grouped, then deferred acceptance; a small stash for the few unplaced keys  (`canonical.rs`)
//! classic         the paper's insertions one by one, and deletion with repatriation          (`classic.rs`)
//! ```
//!
//! `params.rs` has the parameters, `plan.rs` the stored integers, `functions.rs` the hash functions, `bucket.rs` the
//! layout, `tokens.rs` and `group.rs` the canonical rule in small integers, and `model.rs` the equations of the paper.
//! This file implements the scheme.

mod audit;
pub(crate) mod bucket;
pub(crate) mod canonical;
pub(crate) mod classic;
pub(crate) mod functions;
pub(crate) mod group;
pub mod model;
mod moves;
mod params;
mod plan;
mod scheme;
pub(crate) mod tokens;

pub use functions::Functions;
pub use moves::Moves;
pub(crate) use params::MAX_HEIGHT;
pub use params::{Horton, HortonFamily};
pub use plan::HortonPlan;
pub use scheme::stash_buckets;
#[cfg(test)]
mod canonical_tests;
#[cfg(test)]
mod classic_tests;
