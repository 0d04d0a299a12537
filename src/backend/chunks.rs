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

use rayon::prelude::*;

use super::{DeviceBuffer, HashBackend};
use crate::error::{Error, Result};
use crate::threads;

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
        to.par_extend((0..len).into_par_iter().map(answer));
    }
    Ok(())
}

/// Where a column of answers goes on the host.
#[derive(Debug)]
pub struct Answers<'a> {
    /// Room for all of them.
    pub(crate) to: &'a mut [u32],
    /// Queries that one word answers: 1, or 32 in a bitmap.
    pub(crate) each: usize,
}

impl<'a> Answers<'a> {
    /// A word for each query.
    pub fn words(to: &'a mut [u32]) -> Self {
        Answers { to, each: 1 }
    }

    /// A bit for each query.
    pub fn bits(to: &'a mut [u32]) -> Self {
        Answers { to, each: 32 }
    }

    /// Refuses a column whose length is not that of the answers to so many queries.
    pub(crate) fn check(&self, queries: usize) -> Result<()> {
        Error::check_length("the answers", self.to.len(), queries.div_ceil(self.each))
    }
}

/// A chunk on the device.
#[derive(Debug)]
pub struct Chunk<Column> {
    /// The number of its first query.
    pub first: usize,
    /// Its queries.
    pub queries: Column,
    /// Columns of answers: what a pass over an earlier chunk of the same length left there, to be written over or
    /// replaced; or none.
    pub answers: Vec<Column>,
}

/// [`HashBackend::in_chunks`] one after the other: upload, pass, read.
pub(crate) fn one_by_one<B: HashBackend>(
    backend: &B,
    queries: &[u32],
    mut answers: Vec<Answers<'_>>,
    mut pass: impl FnMut(Chunk<B::Buffer<u32>>) -> Result<Chunk<B::Buffer<u32>>>,
) -> Result<()> {
    answers.iter().try_for_each(|column| column.check(queries.len()))?;
    let mut last: Option<Chunk<B::Buffer<u32>>> = None;
    for (i, asked) in queries.chunks(QUERIES_AT_ONCE).enumerate() {
        let first = i * QUERIES_AT_ONCE;
        let chunk = match last.take() {
            Some(mut chunk) if chunk.queries.len() == asked.len() => {
                backend.write(&mut chunk.queries, 0, asked)?;
                Chunk { first, ..chunk }
            }
            _ => Chunk { first, queries: backend.upload(asked)?, answers: Vec::new() },
        };
        let chunk = pass(chunk)?;
        check_columns(&chunk, answers.len())?;
        for (answers, column) in answers.iter_mut().zip(&chunk.answers) {
            let (first, len) = (first / answers.each, asked.len().div_ceil(answers.each));
            backend.read(column, 0, &mut answers.to[first..first + len])?;
        }
        last = Some(chunk);
    }
    Ok(())
}

/// Refuses a chunk that came back with fewer columns of answers than are wanted.
pub(crate) fn check_columns<Column>(chunk: &Chunk<Column>, wanted: usize) -> Result<()> {
    Error::check_length("the columns of answers", chunk.answers.len().min(wanted), wanted)
}
