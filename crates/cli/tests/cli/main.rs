//! Tests of the `koel` command, run as a user would run it.
#![allow(clippy::unwrap_used)]

/// The tested program.
const PROGRAM: &str = env!("CARGO_BIN_EXE_koel");

mod expected;
mod folder;

#[cfg(unix)]
mod advice;
mod commands;
mod convert;
mod dedup;
mod devices;
mod duckdb;
#[cfg(feature = "fault-injection")]
mod faults;
mod files;
#[cfg(unix)]
mod guides;
mod help;
mod input;
mod jellyfish;
mod key_columns;
mod kmers;
mod limited;
mod memory;
mod ndjson;
mod pandas;
mod peaks;
mod prepared;
mod progress;
mod query;
mod query_edges;
mod relational;
mod sequences;
mod several;
mod shards;
#[cfg(unix)]
mod signals;
mod sorted;
mod tables;
mod verify;
mod wide;
