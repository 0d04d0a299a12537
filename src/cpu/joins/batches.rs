//! Left columns that come batch by batch: each is answered by the thread that calls, and nothing is held of it.

use super::{CHUNK, Right, atomic_u32};
use crate::error::Result;
use crate::join::{JoinKind, JoinRows};
use crate::memory;
use crate::scheme::Key;

impl<K: Key> Right<K> {
    /// Adds the results of a left batch, without the right rows that come behind, to `rows`; and sets the bits of right
    /// first rows that it has found, where there are `bits`.
    pub(crate) fn batch(&self, left: &[K], kind: JoinKind, bits: &mut [u32], rows: &mut JoinRows) -> Result<()> {
        let (mut firsts, bits) = ([0; CHUNK], atomic_u32(bits));
        for (left, row) in left.chunks(CHUNK).zip((0..).step_by(CHUNK)) {
            let firsts = &mut firsts[..left.len()];
            let results = self.probe(left, kind, firsts);
            self.mark(firsts, bits);
            let results = usize::try_from(results).map_err(|_| memory::no_room::<u32>(usize::MAX))?;
            let to_left = room(&mut rows.left, results)?;
            let to_right = if kind.has_right() { room(&mut rows.right, results)? } else { &mut [] };
            self.write(kind, row, firsts, 0, to_left, to_right);
        }
        Ok(())
    }
}

/// So many more elements.
fn room(of: &mut Vec<u32>, more: usize) -> Result<&mut [u32]> {
    let before = of.len();
    memory::reserve(of, more)?;
    of.resize(before + more, 0);
    Ok(&mut of[before..])
}
