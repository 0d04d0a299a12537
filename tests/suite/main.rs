//! Tests of the library's guarantees through its public interface, on every device.
//!
//! All tests are in one program, because a separate program would compile every scheme for every backend again: `cargo
//! test --test suite removal::` runs a part.
#![allow(clippy::unwrap_used)]

mod advice;
mod chosen;
mod common;
mod compiler;
mod documents;

/// Tests of tables for every scheme.
mod tables {
    mod any_scheme;
    mod capacity;
    mod conformance;
    mod exchange;
    mod files;
    mod golden;
    mod heavy;
    mod key_types;
    mod order;
    mod properties;
    mod removal;
    mod salted;
    mod v2;
}

/// Tests of tables of one scheme.
mod schemes {
    mod bucketized;
    mod cuckoo;
    mod cuckoo_set;
    mod fks;
    mod horton;
    mod perfect;
    mod quadratic;
    mod robin_hood;
    mod robin_hood_wide;
    mod sorted;
}

/// Structures built from tables: sets, ids, groups, lists of values, joins.
mod structures {
    mod chosen;
    mod columns;
    mod compact;
    mod group;
    mod group_values;
    mod join;
    mod multi;
    mod multi_files;
    mod multi_values;
    mod set;
}

/// Devices that must be refused, and the race detector.
#[cfg(feature = "opencl")]
mod devices {
    mod oclgrind;
    mod refusal;
}
