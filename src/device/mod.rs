//! The devices of this machine: listing them, choosing one by name or the best, and one type for whichever it is.
//!
//! ```text
//! devices      what there is, usable or not
//! choose       those that a user names
//! auto         the best
//! Any          the CPU's backend or OpenCL's, as a backend
//! ```
//!
//! What it is not: known to backends. They stand below, and know the contract (`backend/`) alone.

mod any;
mod choice;

pub use crate::backend::Listed;
pub use any::{Any, AnyBuffer};
pub use choice::{Choice, auto, choose, devices, opencl_status};
