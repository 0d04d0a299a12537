//! The `koel` command, run as a user does.
#![allow(clippy::unwrap_used)]

/// The program that is run.
const PROGRAM: &str = env!("CARGO_BIN_EXE_koel");

mod expected;
mod folder;

mod commands;
mod faults;
mod kmers;
mod relational;
mod tables;
mod verify;
