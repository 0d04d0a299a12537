//! Shared by the benches: devices, sizes, hit rates.
#![allow(dead_code, unreachable_pub, reason = "each bench uses its own part of it")]

use koel::device::{Any, choose};
use koel::workload::Workload;

/// Numbers of pairs: one table fits the caches, the other does not.
pub const SIZES: [u32; 2] = [1 << 16, 1 << 22];
/// Hits per hundred queries.
pub const HITS: [u32; 3] = [100, 50, 0];
/// Queries per lookup.
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

/// Pairs of a size.
pub fn workload(n: u32) -> Workload {
    Workload::new(n, 0x6265_6e63)
}
