//! Everything of koel in DataFusion that is seen from outside, against stock DataFusion. One program: each links all of
//! DataFusion.

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
