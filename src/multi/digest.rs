//! The header of a multivalue table, which contains its sizes, and the digest of the whole table.
//!
//! ```text
//! sum    = BLAKE3( header of 64 bytes | starts | gap | values )   everything except the table (file/lists.rs)
//! digest = BLAKE3( sum | digest of the table )
//! ```
//!
//! A file stores `sum` after the data that `sum` covers; the file of the table of keys contains the digest of that
//! table.

use super::MultiTable;
use crate::backend::{DeviceBuffer, HashBackend, Runs, Word};
use crate::error::Result;
use crate::file::ListsHeader;
use crate::memory;
use crate::scheme::{Scheme, Value};
use crate::table::Digest;
use crate::threads;

/// The number of bytes that are transferred to the host at a time: 8 MiB.
const CHUNK: usize = 8 << 20;

impl<B: Runs<S>, S: Scheme<Value = u32>, V: Value> MultiTable<B, S, V> {
    /// The digest of the whole table: the keys, the positions of their values, and the values.
    ///
    /// For canonical tables it is a function of scheme, parameters, seed, number of slots, and each key's values in
    /// their order. It does not depend on the order of pairs with different keys.
    ///
    /// Cost: everything is read from the device once, in pieces of 8 MiB, and hashed by all threads.
    ///
    /// ```
    /// use koel::{Cpu, Cuckoo, MultiTable};
    /// let build = |keys: &[u32], values: &[u32]| MultiTable::builder(Cuckoo::default()).build(&Cpu::new(), keys, values);
    /// assert_eq!(build(&[1, 2, 1], &[3, 4, 5])?.digest()?, build(&[2, 1, 1], &[4, 3, 5])?.digest()?);
    /// assert_ne!(build(&[1, 1], &[3, 4])?.digest()?, build(&[1, 1], &[4, 3])?.digest()?);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// What the device reports.
    pub fn digest(&self) -> Result<Digest> {
        Ok(joined(self.sum(|_| Ok(()))?, self.table.digest()?))
    }

    /// Passes the header, the starts and the values to `sink` in pieces, and returns their checksum.
    pub(super) fn sum(&self, mut sink: impl FnMut(&[u8]) -> Result<()>) -> Result<[u8; 32]> {
        threads::ready()?;
        let mut hasher = blake3::Hasher::new();
        let mut take = |bytes: &[u8]| {
            hasher.update_rayon(bytes);
            sink(bytes)
        };
        let header = ListsHeader::new::<V>(self.keys_len() as u64, self.len() as u64);
        take(bytemuck::bytes_of(&header))?;
        read_pieces(self.backend(), &self.starts, self.starts.len(), &mut take)?;
        take(header.gap())?;
        read_pieces(self.backend(), &self.values, self.pairs, &mut take)?;
        Ok(*hasher.finalize().as_bytes())
    }
}

/// Passes the first `len` elements of a column to `take` in pieces.
fn read_pieces<B: HashBackend, T: Word>(
    backend: &B,
    column: &B::Buffer<T>,
    len: usize,
    mut take: impl FnMut(&[u8]) -> Result<()>,
) -> Result<()> {
    let most = (CHUNK / size_of::<T>()).min(len);
    let mut piece = memory::zeroed(most)?;
    for at in (0..len).step_by(most.max(1)) {
        let piece: &mut [T] = &mut piece[..most.min(len - at)];
        backend.read(column, at, piece)?;
        take(bytemuck::cast_slice(piece))?;
    }
    Ok(())
}

/// Combines the checksum of everything except the table of keys with the digest of that table.
pub(super) fn joined(sum: [u8; 32], table: Digest) -> Digest {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&sum).update(&table.bytes());
    hasher.finalize().into()
}
