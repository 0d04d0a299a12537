//! The `koel` command, run as a user does.
#![allow(clippy::unwrap_used)]

mod expected;
mod folder;

mod bench;
mod commands;
mod documents;
mod faults;
mod papers;
mod plots;
mod relational;
mod tables;
mod verify;
