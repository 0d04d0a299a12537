//! Breslow et al. 2016, Sections 6 and 8: the models compared with walked tables, and lookups over table sizes.
//!
//! ```text
//! model.rs      Figures 8 to 11 and 14: homes, remap entries, buckets read per lookup
//! functions.rs  the hash functions that the paper compared with Jenkins'
//! lookup.rs     Figures 12 and 13: rates, and the data that a query moves
//! ```
//!
//! The reads of a lookup are counted by walking the table, while the paper reads a device's counters.

mod functions;
mod lookup;
mod model;

use super::Experiment;

pub(super) const EXPERIMENTS: &[Experiment] = &[
    Experiment::here(&["8-0.75", "8-0.95"], model::homes),
    Experiment::on_device(&["9", "10", "11"], model::over_load),
    Experiment::on_device(&["12a", "12b"], lookup::hits),
    Experiment::on_device(&["13a", "13b"], lookup::misses),
    Experiment::on_device(&["14a", "14b", "14c"], model::validation),
];

/// Remap entries per bucket.
const TAGS: u32 = 21;
/// Functions of the bucketized cuckoo tables that the paper compares with.
const FUNCTIONS: u32 = 2;
