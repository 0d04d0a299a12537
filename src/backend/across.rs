//! Elements that go from one device to another: by way of this machine's memory, for devices see nothing of each other.
//!
//! What it is not: the way of devices behind buses, which have both of them carry at once (opencl/runtime/across.rs).

use std::ops::Range;

use super::{HashBackend, QUERIES_AT_ONCE, Word};
use crate::error::Result;
use crate::memory;

/// A part of a buffer, and the device that has it.
#[derive(Debug)]
pub struct Piece<'a, B: HashBackend, T: Word> {
    /// Whose buffer it is.
    pub device: &'a B,
    /// The whole of it.
    pub buffer: &'a B::Buffer<T>,
    /// The elements that are meant.
    pub range: Range<usize>,
}

/// [`HashBackend::bring`], by reads and writes in turn.
pub(crate) fn by_way_of_the_host<B: HashBackend, T: Word>(
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
