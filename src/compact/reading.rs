//! Lookups in both directions, and the inverse index.

use super::CompactingTable;
use crate::backend::chunks::{QUERIES_OF_A_BLOCK, make};
use crate::backend::{Answers, DeviceBuffer, Queries, Runs};
use crate::error::{Error, Result};
use crate::memory;
use crate::scheme::{Scheme, Violation};
use crate::table::HashTable;

impl<B: Runs<S>, S: Scheme<Value = u32>> CompactingTable<B, S> {
    /// The distinct keys, in the order of their ids.
    ///
    /// # Errors
    /// What the device reports.
    pub fn unique(&self) -> Result<Vec<S::Key>> {
        self.backend().download(&self.unique)
    }

    /// [`unique`](Self::unique), on the device.
    pub fn unique_on(&self) -> &B::Buffer<S::Key> {
        &self.unique
    }

    /// The id of each key, in the order of the queries. Cost and errors: as [`HashTable::get`].
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] or what the device reports.
    pub fn ids(&self, keys: &[S::Key]) -> Result<Vec<Option<u32>>> {
        self.table.get(keys)
    }

    /// [`ids`](Self::ids) of keys on the device: the ids, 0 for an absent key, and a bitmap of the keys that have one.
    ///
    /// # Errors
    /// As [`HashTable::get_on`].
    pub fn ids_on(&self, keys: &B::Buffer<S::Key>) -> Result<(B::Buffer<u32>, B::Buffer<u32>)> {
        self.table.get_on(keys)
    }

    /// [`ids_on`](Self::ids_on) into buffers of the caller, without transfer or allocation.
    ///
    /// ```
    /// use koel::{CompactingTable, Cpu, Cuckoo, HashBackend};
    /// let cpu = Cpu::new();
    /// let table = CompactingTable::builder(Cuckoo::default()).build(&cpu, &[5, 6])?;
    /// let (mut ids, mut found) = (cpu.filled(2, 9)?, cpu.filled(1, 0)?);
    /// table.ids_on_into(&cpu.upload(&[6, 7])?, &mut ids, &mut found)?;
    /// assert_eq!((cpu.download(&ids)?, cpu.download(&found)?), (vec![1, 0], vec![0b01]));
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`HashTable::get_on_into`].
    pub fn ids_on_into(
        &self,
        keys: &B::Buffer<S::Key>,
        ids: &mut B::Buffer<u32>,
        found: &mut B::Buffer<u32>,
    ) -> Result<()> {
        self.table.get_on_into(keys, ids, found)
    }

    /// The key of each id, in the order of `ids`; `None` for numbers that are not the id of a key.
    ///
    /// Cost: one random access per id. Ids and keys are transferred in chunks.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] or what the device reports.
    pub fn keys(&self, ids: &[u32]) -> Result<Vec<Option<S::Key>>> {
        let mut block = memory::zeroed(ids.len().min(QUERIES_OF_A_BLOCK))?;
        let mut all = memory::reserved(ids.len())?;
        for ids in ids.chunks(QUERIES_OF_A_BLOCK) {
            let keys = &mut block[..ids.len()];
            self.backend().in_chunks(Queries::Words(ids), Answers::words([keys]), |mut chunk| {
                chunk.words = vec![self.keys_on(&chunk.queries)?];
                Ok(chunk)
            })?;
            make(&mut all, ids.len(), |i| ((ids[i] as usize) < self.len()).then_some(keys[i]))?;
        }
        Ok(all)
    }

    /// [`keys`](Self::keys) of ids on the device; nothing is transferred. The key is 0 for numbers that are not ids.
    ///
    /// # Errors
    /// [`Error::WrongDevice`], [`Error::OutOfMemory`], or what the device reports.
    pub fn keys_on(&self, ids: &B::Buffer<u32>) -> Result<B::Buffer<S::Key>> {
        self.backend().gather(&self.unique, ids)
    }

    /// The id of each row's key: `keys[i] == unique[inverse[i]]`. All keys must be in the table, like those of the
    /// column from which the table was built.
    ///
    /// Cost: as [`HashTable::get`].
    ///
    /// ```
    /// use koel::{CompactingTable, Cpu, Cuckoo, Error};
    /// let table = CompactingTable::builder(Cuckoo::default()).build(&Cpu::new(), &[30, 10])?;
    /// assert_eq!(table.inverse(&[10, 10, 30])?, [1, 1, 0]);
    /// assert!(matches!(table.inverse(&[10, 99]), Err(Error::UnknownKey { key: 99, position: 1 })));
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::UnknownKey`] with the first key that has no id; [`Error::OutOfMemory`] or what the device reports.
    pub fn inverse(&self, keys: &[S::Key]) -> Result<Vec<u32>> {
        let mut ids = memory::zeroed(keys.len())?;
        self.backend().in_chunks(Queries::Words(keys), Answers::words([&mut ids]), |mut chunk| {
            chunk.words = vec![self.inverse_from(&chunk.queries, chunk.first as u64)?];
            Ok(chunk)
        })?;
        Ok(ids)
    }

    /// [`inverse`](Self::inverse) of a column on the device; nothing is transferred.
    ///
    /// ```
    /// use koel::{CompactingTable, Cpu, Cuckoo, HashBackend};
    /// let cpu = Cpu::new();
    /// let column = cpu.upload(&[30, 10, 30])?;
    /// let table = CompactingTable::builder(Cuckoo::default()).build_on(&cpu, &column)?;
    /// assert_eq!(cpu.download(&table.inverse_on(&column)?)?, [0, 1, 0]);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`inverse`](Self::inverse).
    pub fn inverse_on(&self, keys: &B::Buffer<S::Key>) -> Result<B::Buffer<u32>> {
        self.inverse_from(keys, 0)
    }

    /// The inverse of rows that begin with row `first`.
    fn inverse_from(&self, keys: &B::Buffer<S::Key>, first: u64) -> Result<B::Buffer<u32>> {
        let (ids, found) = self.table.get_on(keys)?;
        let unknown = self.backend().select(&found, false, keys)?;
        if unknown.is_empty() {
            return Ok(ids);
        }
        let mut key = [S::Key::default()];
        self.backend().read(&unknown, 0, &mut key)?;
        let found = self.backend().download(&found)?;
        let (word, bits) = (0..).zip(&found).find(|&(_, &bits)| bits != u32::MAX).unwrap_or((0, &0));
        Err(Error::UnknownKey { key: key[0].into(), position: first + 32 * word + u64::from(bits.trailing_ones()) })
    }
}

/// The list of the keys of a table, by id.
///
/// # Errors
/// [`Violation::Number`] unless each number below the number of keys is the value of one of them.
pub(super) fn list_of<B: Runs<S>, S: Scheme<Value = u32>>(table: &HashTable<B, S>) -> Result<B::Buffer<S::Key>> {
    let backend = table.backend();
    let (keys, ids) = table.pairs_on()?;
    // There are as many ids as keys. The ids are valid if all of them are less than that number and distinct: then this
    // many bits are set.
    let numbers = backend.mark(&ids, ids.len())?;
    let missing = backend.select(&numbers, false, &backend.iota(ids.len())?)?;
    if !missing.is_empty() {
        let mut number = [0];
        backend.read(&missing, 0, &mut number)?;
        return Err(Violation::Number { number: number[0] }.into());
    }
    backend.scatter(&keys, &ids, keys.len())
}

/// Checks that a list agrees with its table.
pub(super) fn check_list<B: Runs<S>, S: Scheme<Value = u32>>(
    table: &HashTable<B, S>,
    unique: &B::Buffer<S::Key>,
) -> Result<()> {
    let (listed, held) = (table.backend().download(unique)?, table.backend().download(&list_of(table)?)?);
    if listed.len() != held.len() {
        return Err(Violation::Length { expected: held.len() as u64, found: listed.len() as u64 }.into());
    }
    match listed.iter().zip(&held).position(|(listed, held)| listed != held) {
        Some(at) => Err(Violation::Number { number: at as u32 }.into()),
        None => Ok(()),
    }
}
