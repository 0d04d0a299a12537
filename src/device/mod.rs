//! The devices of this machine: all devices, the best one or those with a name, and one type for all of them.
//!
//! ```text
//! devices      all devices, usable or not
//! choose       the devices with a name
//! auto         the best device
//! Any          the CPU or OpenCL backend, as a backend
//! ```
//!
//! Backends do not depend on this module, only on the contract of backends (`backend/`).

mod any;
mod choice;

pub use crate::backend::Listed;
pub use any::{Any, AnyBuffer};
pub use choice::{Choice, auto, choose, devices, opencl_status};
