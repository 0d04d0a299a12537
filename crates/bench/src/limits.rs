//! The limits of a device's memory, measured in the same run as the rates that are compared with them.
//!
//! ```text
//! words      random reads of 8 bytes             limits lookups of one slot
//! lines      random reads of 64 bytes            limits lookups of one bucket
//! updates    random 64-bit atomic maxima         limits builds that place single pairs
//! copy       words of 4 bytes, in and out        limits streams of keys and values, and builds by partition
//! ```
//!
//! Buffers are not freshly zeroed: an operating system maps such memory to one page, so that all reads would hit the
//! cache.

use std::time::Duration;

use koel::backend::{DeviceBuffer, HashBackend, Probe};
use koel::device::Any;

use super::measure::repeated;
use super::wrong;
use koel_cli::failure::Result;

type Image = <Any as HashBackend>::Buffer<u64>;

/// The bytes that a copied key moves, in and out.
pub(super) const COPIED: f64 = 8.0;

/// Accesses per second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) words: f64,
    pub(super) lines: f64,
    pub(super) updates: f64,
    pub(super) copy: f64,
}

impl Limits {
    /// Measures all limits, with `accesses` accesses to a table of `words` words of 8 bytes, and copies of `keys` keys.
    pub(super) fn measure(device: &Any, words: usize, accesses: usize, keys: usize, repeats: u32) -> Result<Limits> {
        let rate = |count: usize, time: Duration| count as f64 / time.as_secs_f64().max(1e-9);
        // Whole lines.
        let words = words.next_multiple_of(8).max(8);
        let mut image = device.filled(words, 1u64)?;
        // Distinct words, so that a missing access changes the result.
        device.random_updates(&mut image, words)?;
        let by_words = rate(accesses, random_reads(device, &image, accesses, repeats)?);
        let by_lines = rate(accesses, random_lines(device, &image, accesses, repeats)?);
        drop(image);
        let updates = rate(accesses, random_updates(device, words, accesses, repeats)?);
        let copy = rate(keys, copies(device, keys, repeats)?);
        Ok(Limits { words: by_words, lines: by_lines, updates, copy })
    }
}

/// The time of random reads of an image.
pub(super) fn random_reads(device: &Any, image: &Image, reads: usize, repeats: u32) -> Result<Duration> {
    same_every_time("random reads", repeats, || device.timed(|| device.random_reads(image, reads)))
}

fn random_lines(device: &Any, image: &Image, reads: usize, repeats: u32) -> Result<Duration> {
    same_every_time("random reads of lines", repeats, || device.timed(|| device.random_lines(image, reads)))
}

fn same_every_time(what: &str, repeats: u32, run: impl Fn() -> koel::Result<(u64, Duration)>) -> Result<Duration> {
    // A warm-up, which compiles the kernels.
    let (expected, _) = run()?;
    repeated(repeats, || match run()? {
        (sum, time) if sum == expected => Ok(time),
        (sum, _) => Err(wrong(what, format!("{sum:#x} was read and not {expected:#x}"))),
    })
}

/// The time of random updates of a buffer of `words` words.
pub(super) fn random_updates(device: &Any, words: usize, updates: usize, repeats: u32) -> Result<Duration> {
    device.random_updates(&mut device.filled(words, 1u64)?, updates)?;
    repeated(repeats, || {
        // Fresh each time: a maximum that is already stored is not written again.
        let mut buffer = device.filled(words, 1u64)?;
        device.finish()?;
        Ok(device.timed(|| device.random_updates(&mut buffer, updates))?.1)
    })
}

fn copies(device: &Any, keys: usize, repeats: u32) -> Result<Duration> {
    let from = device.filled(keys, 1u32)?;
    let mut to = device.filled(keys, 2u32)?;
    device.finish()?;
    repeated(repeats, || Ok(device.timed(|| device.copy(&from, 0, &mut to, 0, from.len()))?.1))
}
