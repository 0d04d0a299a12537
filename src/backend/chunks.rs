//! Many queries from the host, answered to the host, a chunk at a time: what is on the device is bounded, however much
//! is asked.
//!
//! ```text
//! queries     |--- chunk 0 ---|--- chunk 1 ---|-2-|
//!                   | upload       | pass       ..
//! on device    [queries] -pass-> [answers] ..            one chunk here; devices behind a bus overlap some
//!                   | read
//! answers     |---------------|---------------|---|      as many columns as are wanted
//! ```

use super::{BufferOf, DeviceBuffer, HashBackend, Word, bitmap_words};
use crate::error::{Error, Result};
use crate::{parallel, threads};

/// Queries of a chunk: 4 MiB each way, long enough for a bus to run at its full rate. A multiple of 32, so that bitmaps
/// of chunks join without shifting.
pub const QUERIES_AT_ONCE: usize = 1 << 20;

/// Queries whose answers wait on the host to be made into something else there.
pub(crate) const QUERIES_OF_A_BLOCK: usize = 16 * QUERIES_AT_ONCE;

/// Answers that are made on the host by one thread: waking others would take longer.
const FEW: usize = 1 << 14;

/// Makes answers number 0 to `len` of what a block has brought, and adds them to a vector that has room for them.
pub(crate) fn make<T: Send>(to: &mut Vec<T>, len: usize, answer: impl Fn(usize) -> T + Sync + Send) -> Result<()> {
    if len <= FEW {
        to.extend((0..len).map(answer));
    } else {
        threads::ready()?;
        parallel::append(to, len, FEW, answer);
    }
    Ok(())
}

/// Where answers go on the host: bits, columns of words, or both.
#[derive(Debug)]
pub struct Answers<'a, A> {
    /// Room for a bit for each query.
    pub(crate) bits: Option<&'a mut [u32]>,
    /// Room for a word for each query, column by column.
    pub(crate) words: Vec<&'a mut [A]>,
}

impl<'a, A> Answers<'a, A> {
    /// A word for each query in each column.
    pub fn words<const N: usize>(columns: [&'a mut [A]; N]) -> Self {
        Answers { bits: None, words: columns.into() }
    }

    /// A bit for each query.
    pub fn bits(to: &'a mut [u32]) -> Self {
        Answers { bits: Some(to), words: Vec::new() }
    }

    /// A bit and a word for each query.
    pub fn bits_and_words(bits: &'a mut [u32], words: &'a mut [A]) -> Self {
        Answers { bits: Some(bits), words: vec![words] }
    }

    /// Refuses columns whose lengths are not those of the answers to so many queries.
    pub(crate) fn check(&self, queries: usize) -> Result<()> {
        let bits = self.bits.iter().map(|bits| (bits.len(), bitmap_words(queries)));
        let words = self.words.iter().map(|words| (words.len(), queries));
        bits.chain(words).try_for_each(|(found, wanted)| Error::check_length("the answers", found, wanted))
    }
}

/// A chunk on the device.
#[derive(Debug)]
pub struct Chunk<Queries, Bits, Words> {
    /// The number of its first query.
    pub first: usize,
    /// Its queries.
    pub queries: Queries,
    /// Answers: what a pass over an earlier chunk of the same length left there, to be written over or replaced; or none.
    pub bits: Option<Bits>,
    /// The same, column by column.
    pub words: Vec<Words>,
}

/// A chunk of `Q` queries with `A` answers on backend `B`.
pub type ChunkOf<B, Q, A> = Chunk<BufferOf<B, Q>, BufferOf<B, u32>, BufferOf<B, A>>;

/// What passes over each chunk. Not a type of its caller's, so that what takes it is compiled once per word.
pub(crate) type Pass<'a, B, Q, A> = &'a mut dyn FnMut(ChunkOf<B, Q, A>) -> Result<ChunkOf<B, Q, A>>;

impl<Queries, Bits, Words> Chunk<Queries, Bits, Words> {
    /// A chunk without answers.
    pub(crate) fn asking(first: usize, queries: Queries) -> Self {
        Chunk { first, queries, bits: None, words: Vec::new() }
    }

    /// Refuses a chunk that came back with fewer columns of answers than are wanted.
    pub(crate) fn check(&self, bits: bool, words: usize) -> Result<()> {
        let found = self.words.len().min(words) + usize::from(bits && self.bits.is_some());
        Error::check_length("the columns of answers", found, words + usize::from(bits))
    }
}

/// [`HashBackend::in_chunks`] one after the other: upload, pass, read.
pub(crate) fn one_by_one<B: HashBackend, Q: Word, A: Word>(
    backend: &B,
    queries: &[Q],
    mut answers: Answers<'_, A>,
    pass: Pass<'_, B, Q, A>,
) -> Result<()> {
    answers.check(queries.len())?;
    let mut last: Option<ChunkOf<B, Q, A>> = None;
    for (i, asked) in queries.chunks(QUERIES_AT_ONCE).enumerate() {
        let first = i * QUERIES_AT_ONCE;
        let chunk = match last.take() {
            Some(mut chunk) if chunk.queries.len() == asked.len() => {
                backend.write(&mut chunk.queries, 0, asked)?;
                Chunk { first, ..chunk }
            }
            _ => Chunk::asking(first, backend.upload(asked)?),
        };
        let chunk = pass(chunk)?;
        chunk.check(answers.bits.is_some(), answers.words.len())?;
        if let (Some(to), Some(bits)) = (&mut answers.bits, &chunk.bits) {
            backend.read(bits, 0, &mut to[first / 32..][..bitmap_words(asked.len())])?;
        }
        for (to, words) in answers.words.iter_mut().zip(&chunk.words) {
            backend.read(words, 0, &mut to[first..][..asked.len()])?;
        }
        last = Some(chunk);
    }
    Ok(())
}
