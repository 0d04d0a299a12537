//! The public behaviour of koel in DataFusion, compared with stock DataFusion. All tests are one program, because each
//! program links all of DataFusion.

mod aggregates;
mod bounds;
mod common;
mod devices;
mod digest;
mod joins;
mod memory;
mod ordered;
mod rule;
mod shared;
mod streams;
mod sums;
mod tpch;
mod worker;
