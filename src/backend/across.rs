//! Copies elements from one device to another through host memory, because devices cannot access each other's memory.
//!
//! Devices on buses use opencl/runtime/across.rs instead, which uses both buses at once.

use std::ops::Range;

use super::{HashBackend, QUERIES_AT_ONCE, Word};
use crate::error::Result;
use crate::memory;

/// A part of a buffer, with its device.
#[derive(Debug)]
pub struct Piece<'a, B: HashBackend, T: Word> {
    /// The device of the buffer.
    pub device: &'a B,
    /// The whole buffer.
    pub buffer: &'a B::Buffer<T>,
    /// The range of elements.
    pub range: Range<usize>,
}

/// [`HashBackend::fetch`] by alternating reads and writes.
pub(crate) fn through_host<B: HashBackend, T: Word>(
    backend: &B,
    to: &mut B::Buffer<T>,
    mut at: usize,
    pieces: &[Piece<'_, B, T>],
) -> Result<()> {
    let longest = pieces.iter().map(|piece| piece.range.len()).max().unwrap_or(0);
    let mut words = memory::zeroed(longest.min(QUERIES_AT_ONCE))?;
    for Piece { device, buffer, range } in pieces {
        for first in range.clone().step_by(QUERIES_AT_ONCE) {
            let words = &mut words[..(range.end - first).min(QUERIES_AT_ONCE)];
            device.read(buffer, first, words)?;
            backend.write(to, at, words)?;
            at += words.len();
        }
    }
    Ok(())
}
