//! The command `koel-bench`, run as a user would run it.
#![allow(clippy::unwrap_used)]

/// The tested program.
const PROGRAM: &str = env!("CARGO_BIN_EXE_koel-bench");

#[path = "../../../cli/tests/cli/folder.rs"]
mod folder;

mod bench;
mod papers;
mod several;
mod wide;
