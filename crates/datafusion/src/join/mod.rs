//! The join: an operator that replaces HashJoinExec.

mod bits;
mod bounds;
mod build;
mod exec;
mod index;
mod metrics;
mod output;
mod pairs;
mod rows;
mod sort_merge_fallback;
mod spec;
mod stream;

pub use exec::KoelJoinExec;
