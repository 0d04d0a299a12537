//! The axes of every bench, in one file: devices, sizes, hit rates.
#![allow(dead_code, unreachable_pub, reason = "each bench uses its own part of it")]

use koel::device::{Any, choose};
use koel::workload::Workload;

/// Numbers of pairs: one table inside the caches, one outside.
pub const SIZES: [u32; 2] = [1 << 16, 1 << 22];
/// Queries in a hundred that hit.
pub const HITS: [u32; 3] = [100, 50, 0];
/// Queries a lookup.
pub const QUERIES: usize = 1 << 20;

/// The CPU with one thread and with all, and every usable OpenCL device.
pub fn devices() -> Vec<(String, Any)> {
    let label = |device: Any, suffix: &str| {
        use koel::HashBackend;
        (format!("{}{suffix}", device.info().id), device)
    };
    let one = choose("cpu", Some(1)).expect("a thread").remove(0);
    let all = choose("all", None).expect("the CPU at least");
    std::iter::once(label(one, "-1")).chain(all.into_iter().map(|device| label(device, ""))).collect()
}

/// Pairs for a size.
pub fn workload(n: u32) -> Workload {
    Workload::new(n, 0x6265_6e63)
}
