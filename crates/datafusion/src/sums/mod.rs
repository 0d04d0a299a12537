//! Exact sums and means of floats: `sum`, `avg` and `mean` of a session with koel.
//!
//! ```text
//! functions.rs   koel_sum and koel_avg: floats by the accumulators below, other types by DataFusion's own functions
//! groups.rs      the accumulator of many groups
//! plain.rs       the accumulator of one group, also used for windows: values can be retracted
//! distinct.rs    the accumulator of one group for DISTINCT
//! state.rs       the columns of a partial state, which every accumulator except that of DISTINCT reads and writes
//! ```
//!
//! A sum is the exact sum of the values, rounded once to the nearest double; a mean is the exact sum divided by the
//! count, rounded once. So they do not depend on the order of rows, on batches, partitions, spilling or machines.

mod distinct;
mod functions;
mod groups;
mod plain;
mod state;

pub use functions::{koel_avg, koel_functions, koel_sum};
