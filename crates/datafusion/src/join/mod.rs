//! The join: an operator that replaces HashJoinExec.

mod bits;
mod bounds;
mod build;
mod cache;
mod exec;
mod identity;
mod index;
mod metrics;
mod output;
mod pairs;
mod rows;
mod sharing;
mod sort_merge_fallback;
mod spec;
mod stream;

pub use cache::KoelBuildCache;
pub use exec::KoelJoinExec;
