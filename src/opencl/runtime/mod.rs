//! What every pass needs of OpenCL: a device, its memory, programs, commands and clocks. It knows no scheme.
//!
//! ```text
//! sizes.rs       of groups and transfers
//! device.rs      which devices there are, which can be used, which is best
//! selftest.rs    the proof that a device's 64-bit atomics work
//! program.rs     the sources in cl/, the numbers printed in front of them, the compiler
//! launch.rs      running a kernel
//! commands.rs    what the driver is trusted with: the one place with `unsafe`
//! timing.rs      how long the device was busy
//! buffer.rs      memory, koel's own and what was handed in
//! pool.rs        memory that was freed and is kept
//! staging.rs     long transfers, by way of pinned memory
//! pinned.rs      host memory that needs no such way
//! stream.rs      queries in chunks, transfers and kernels overlapped
//! pairs.rs       columns in chunks, on their way while kernels work on those before
//! across.rs      from one device to another
//! ```

mod across;
pub(super) mod buffer;
pub(super) mod commands;
pub(super) mod device;
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
