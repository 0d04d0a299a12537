//! The aggregate: an operator that replaces AggregateExec.

mod accumulate;
mod bulk;
mod codes;
mod exec;
mod groups;
mod hash;
mod kept;
mod metrics;
mod spec;
mod spill;
mod stream;
mod table;
mod texts;
mod words;

pub use exec::KoelAggregateExec;
