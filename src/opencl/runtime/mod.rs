//! The parts of OpenCL that every pass needs: devices, memory, programs, commands and clocks. Nothing here depends on
//! schemes.
//!
//! ```text
//! sizes.rs       sizes of groups and transfers
//! device.rs      which devices there are, which can be used, which is best
//! selftest.rs    the test of a device's atomics
//! program.rs     the sources in cl/, the constants defined before them, the compiler
//! launch.rs      running a kernel
//! commands.rs    the commands that rely on the driver, with all `unsafe`
//! timing.rs      how long the device was busy
//! buffer.rs      memory, koel's own and imported
//! pool.rs        the cache of freed memory
//! staging.rs     long transfers, through pinned memory
//! pinned.rs      host memory that is transferred directly
//! stream.rs      queries in chunks, with transfers, kernels and copies by the host overlapped
//! lane.rs        a chunk of queries, its slots and its pending commands
//! pairs.rs       columns in chunks, transferred while kernels process the previous ones
//! across.rs      transfers from one device to another
//! ```

mod across;
pub(super) mod buffer;
pub(super) mod commands;
pub(super) mod device;
mod lane;
pub(super) mod launch;
mod pairs;
pub(super) mod pinned;
pub(super) mod pool;
pub(super) mod program;
mod selftest;
pub(super) mod sizes;
pub(super) mod staging;
mod stream;
pub(super) mod timing;
