//! Lookups from host memory to host memory, a chunk at a time. The memory that they need on the device is bounded,
//! whatever the number of queries.
//!
//! ```text
//! queries     |--- chunk 0 ---|--- chunk 1 ---|-2-|
//!                   | upload       | pass       ..
//! on device    [queries] -pass-> [answers] ..            one chunk here; devices on a bus overlap several
//!                   | read
//! answers     |---------------|---------------|---|      as many columns as requested
//! ```

use super::queries::{Answers, Column, Queries, set_flags};
use super::{BufferOf, DeviceBuffer, HashBackend, Word, bitmap_words};
use crate::error::{Error, Result};
use crate::{memory, parallel, threads};

/// Queries of a chunk: 4 or 8 MiB each way, long enough for a bus to run at its full rate. A multiple of 32, so that
/// bitmaps of chunks join without shifting.
pub const QUERIES_AT_ONCE: usize = 1 << 20;

/// Queries whose answers the host buffers before it converts them.
pub(crate) const QUERIES_OF_A_BLOCK: usize = 16 * QUERIES_AT_ONCE;

/// The most answers that one thread converts: waking other threads would take longer.
const FEW: usize = 1 << 14;

/// Appends answers 0 to `len` of a block to a vector with enough capacity.
pub(crate) fn make<T: Send>(to: &mut Vec<T>, len: usize, answer: impl Fn(usize) -> T + Sync + Send) -> Result<()> {
    if len <= FEW {
        to.extend((0..len).map(answer));
    } else {
        threads::ready()?;
        parallel::append(to, len, FEW, answer);
    }
    Ok(())
}

/// A chunk on the device.
#[derive(Debug)]
pub struct Chunk<Queries, Bits, Words> {
    /// The number of the first query.
    pub first: usize,
    /// The queries.
    pub queries: Queries,
    /// Buffers for answers, to be overwritten or replaced: those that a pass over an earlier chunk of the same length
    /// returned, or `None`.
    pub bits: Option<Bits>,
    /// Such a buffer for each column of words.
    pub words: Vec<Words>,
}

/// A chunk of `Q` queries with `A` answers on backend `B`.
pub type ChunkOf<B, Q, A> = Chunk<BufferOf<B, Q>, BufferOf<B, u32>, BufferOf<B, A>>;

/// A pass over each chunk. It is a `dyn` type, so that functions that take it are compiled once per word type.
pub(crate) type Pass<'a, B, Q, A> = &'a mut dyn FnMut(ChunkOf<B, Q, A>) -> Result<ChunkOf<B, Q, A>>;

impl<Queries, Bits, Words> Chunk<Queries, Bits, Words> {
    /// A chunk without answers.
    pub(crate) fn of_queries(first: usize, queries: Queries) -> Self {
        Chunk { first, queries, bits: None, words: Vec::new() }
    }

    /// Returns an error if `pass` returned a chunk with fewer columns of answers than requested.
    pub(crate) fn check(&self, bits: bool, words: usize) -> Result<()> {
        let found = self.words.len().min(words) + usize::from(bits && self.bits.is_some());
        Error::check_length("the columns of answers", found, words + usize::from(bits))
    }
}

/// [`HashBackend::in_chunks`] without overlap: upload, pass, read.
pub(crate) fn one_by_one<B: HashBackend, Q: Word, A: Word>(
    backend: &B,
    queries: Queries<'_, Q>,
    mut answers: Answers<'_, A>,
    pass: Pass<'_, B, Q, A>,
) -> Result<()> {
    answers.check(queries.len())?;
    let (mut computed, mut bits_of_flags) = (Vec::new(), Vec::new());
    let mut last: Option<ChunkOf<B, Q, A>> = None;
    for first in (0..queries.len()).step_by(QUERIES_AT_ONCE) {
        let len = QUERIES_AT_ONCE.min(queries.len() - first);
        let queried = match queries.words() {
            Some(words) => &words[first..][..len],
            None => {
                ready(len)?;
                let computed = buffer(&mut computed, len)?;
                queries.write(first, computed, FEW);
                computed
            }
        };
        let chunk = match last.take() {
            Some(mut chunk) if chunk.queries.len() == len => {
                backend.write(&mut chunk.queries, 0, queried)?;
                Chunk { first, ..chunk }
            }
            _ => Chunk::of_queries(first, backend.upload(queried)?),
        };
        let chunk = pass(chunk)?;
        chunk.check(answers.found.is_some(), answers.words.len())?;
        let to = answers.next(len);
        if let (Some(found), Some(bits)) = (to.found, &chunk.bits) {
            match found {
                Column::Words(to) => backend.read(bits, 0, to)?,
                Column::Flags(flags) => {
                    let here = buffer(&mut bits_of_flags, bitmap_words(len))?;
                    backend.read(bits, 0, here)?;
                    ready(len)?;
                    set_flags(here, flags);
                }
            }
        }
        for (to, words) in to.words.into_iter().zip(&chunk.words) {
            backend.read(words, 0, to)?;
        }
        last = Some(chunk);
    }
    Ok(())
}

/// The first elements of a vector, which is allocated if it is shorter.
fn buffer<T: Word>(of: &mut Vec<T>, len: usize) -> Result<&mut [T]> {
    if of.len() < len {
        *of = memory::zeroed(len)?;
    }
    Ok(&mut of[..len])
}

/// Starts the threads for work on this many queries.
fn ready(queries: usize) -> Result<()> {
    if queries <= FEW { Ok(()) } else { threads::ready() }
}
