//! The OpenCL backend: tables on AMD, NVIDIA and Intel GPUs, and on CPUs through their OpenCL drivers.
//!
//! ```text
//! device.rs      finding devices, refusing those that cannot be trusted, opening one
//! selftest.rs    64-bit atomics, run and checked before they are relied on
//! buffer.rs      device memory that users may hold, hand in and get back
//! program.rs     sources: constants printed from Rust, the twin of `spec/`, the scheme's file; compiled once, kept
//! launch.rs      the one place that runs a kernel, and the one place with `unsafe`
//! memory.rs      `HashBackend`
//! primitives.rs  `cl/primitives.cl`          cuckoo.rs  `cl/cuckoo.cl`
//! mirror.rs      (tests) every twin function against its Rust original, bit for bit
//! ```
//!
//! What is needed: OpenCL C 1.2 with `cl_khr_int64_base_atomics` and `cl_khr_int64_extended_atomics`. Nothing else is used: no
//! sub-groups, no SVM, no program-scope variables, because the devices that matter lack one or the other.
//!
//! One in-order queue a device: passes run in the order of their calls, and every pass sees what the one before it wrote.

mod buffer;
mod cuckoo;
mod device;
mod launch;
mod memory;
mod primitives;
mod program;
mod selftest;

pub use buffer::Buffer;
pub use device::{Found, OpenCl, devices};
