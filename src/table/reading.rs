//! Lookups from host slices in chunks and from device buffers in place, and the pairs in table order.

use super::HashTable;
use crate::backend::chunks::{QUERIES_OF_A_BLOCK, make};
use crate::backend::{Answers, BuffersOf, Chunk, DeviceBuffer, Kernels, Queries, Runs, bitmap_words};
use crate::error::{Error, Result};
use crate::memory;
use crate::scheme::{Plan, Scheme};

impl<B: Runs<S>, S: Scheme> HashTable<B, S> {
    /// The value of each query, in the order of the queries.
    ///
    /// Cost: at most H random reads per query; queries and answers are transferred in chunks.
    ///
    /// ```
    /// use koel::{Cpu, Cuckoo, HashTable};
    /// let table = HashTable::builder(Cuckoo::default()).build(&Cpu::new(), &[0, u32::MAX], &[u32::MAX, 0])?;
    /// assert_eq!(table.get(&[u32::MAX, 7, 0])?, [Some(0), None, Some(u32::MAX)]);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] or what the device reports.
    pub fn get(&self, queries: &[S::Key]) -> Result<Vec<Option<S::Value>>> {
        let block = queries.len().min(QUERIES_OF_A_BLOCK);
        let (mut values, mut found) = (memory::zeroed(block)?, memory::zeroed(bitmap_words(block))?);
        let mut all = memory::reserved(queries.len())?;
        for queries in queries.chunks(QUERIES_OF_A_BLOCK) {
            let (values, found) = (&mut values[..queries.len()], &mut found[..bitmap_words(queries.len())]);
            self.get_into(queries, values, found)?;
            make(&mut all, queries.len(), |i| is_set(found, i).then_some(values[i]))?;
        }
        Ok(all)
    }

    /// [`get`](Self::get) into slices of the caller: `values[i]` is the value or 0, and bit `i % 32` of `found[i / 32]`
    /// is 1 if the key was found. Cost: as `get`, without its allocations.
    ///
    /// ```
    /// use koel::{Cpu, Cuckoo, HashTable};
    /// let table = HashTable::builder(Cuckoo::default()).build(&Cpu::new(), &[5, 6], &[50, 0])?;
    /// let (mut values, mut found) = ([9; 3], [0; 1]);
    /// table.get_into(&[6, 7, 5], &mut values, &mut found)?;
    /// assert_eq!((values, found), ([0, 0, 50], [0b101]));
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] unless `values` is as long as `queries` and `found` has one bit for each, rounded up
    /// to whole words; otherwise as [`get`](Self::get).
    pub fn get_into(&self, queries: &[S::Key], values: &mut [S::Value], found: &mut [u32]) -> Result<()> {
        Error::check_length("values", values.len(), queries.len())?;
        Error::check_length("found", found.len(), bitmap_words(queries.len()))?;
        self.answer(Queries::Words(queries), Answers::bits(found).and_words(values))
    }

    /// [`get_into`](Self::get_into) or [`contains`](Self::contains), for queries that may be computed where a device
    /// reads them, and answers that may be flags.
    ///
    /// ```
    /// use koel::backend::{Answers, Queries};
    /// use koel::{Cpu, Cuckoo, HashTable};
    /// let table = HashTable::builder(Cuckoo::default()).build(&Cpu::new(), &[5, 6], &[50, 0])?;
    /// let (mut values, mut found) = ([9; 3], [false; 3]);
    /// let squares = |first: usize, to: &mut [u32]| (first..).zip(to).for_each(|(i, query)| *query = (i * i + 1) as u32);
    /// let queries = Queries::Computed { len: 3, write: &squares };
    /// table.answer(queries, Answers::flags(&mut found).and_words(&mut values))?;
    /// assert_eq!((values, found), ([0, 0, 50], [false, false, true]));
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`get_into`](Self::get_into).
    pub fn answer(&self, queries: Queries<'_, S::Key>, answers: Answers<'_, S::Value>) -> Result<()> {
        self.backend.in_chunks(queries, answers, |chunk| {
            let Chunk { first, queries, bits, words } = chunk;
            let (len, values) = (queries.len(), words.into_iter().next());
            let mut found = bits.map_or_else(|| self.backend.unwritten(bitmap_words(len)), Ok)?;
            let mut values = values.map_or_else(|| self.backend.unwritten(len), Ok)?;
            self.get_on_into(&queries, &mut values, &mut found)?;
            Ok(Chunk { first, queries, bits: Some(found), words: vec![values] })
        })
    }

    /// [`get`](Self::get) of queries on the device: the values, 0 for a key that is absent, and a bitmap in which bit
    /// `i % 32` of word `i / 32` is 1 if query `i` was found, which distinguishes a stored 0 from a miss. Nothing is
    /// transferred. The call may return before the work is done; reading a buffer waits for it.
    ///
    /// ```
    /// use koel::{Cpu, Cuckoo, HashBackend, HashTable};
    /// let cpu = Cpu::new();
    /// let table = HashTable::builder(Cuckoo::default()).build(&cpu, &[5], &[0])?;
    /// let (values, found) = table.get_on(&cpu.upload(&[4, 5])?)?;
    /// assert_eq!((cpu.download(&values)?, cpu.download(&found)?), (vec![0, 0], vec![0b10]));
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::WrongDevice`], [`Error::OutOfMemory`], or what the device reports.
    pub fn get_on(&self, queries: &B::Buffer<S::Key>) -> Result<BuffersOf<B, S::Value, u32>> {
        let mut values = self.backend.unwritten(queries.len())?;
        let mut found = self.backend.unwritten(bitmap_words(queries.len()))?;
        self.get_on_into(queries, &mut values, &mut found)?;
        Ok((values, found))
    }

    /// [`get_on`](Self::get_on) into buffers of the caller, without transfer or allocation.
    ///
    /// ```
    /// use koel::{Cpu, Cuckoo, HashBackend, HashTable};
    /// let cpu = Cpu::new();
    /// let table = HashTable::builder(Cuckoo::default()).build(&cpu, &[5], &[0])?;
    /// let queries = cpu.upload(&[4, 5])?;
    /// let (mut values, mut found) = (cpu.filled(2, 9)?, cpu.filled(1, 0)?);
    /// table.get_on_into(&queries, &mut values, &mut found)?;
    /// assert_eq!((cpu.download(&values)?, cpu.download(&found)?), (vec![0, 0], vec![0b10]));
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] as [`get_into`](Self::get_into), [`Error::WrongDevice`], or what the device reports.
    pub fn get_on_into(
        &self,
        queries: &B::Buffer<S::Key>,
        values: &mut B::Buffer<S::Value>,
        found: &mut B::Buffer<u32>,
    ) -> Result<()> {
        Kernels::<S>::lookup(&self.backend, self.plan(), self.image(), queries, values, found)
    }

    /// Whether each query is a key of the table, at the cost of [`get`](Self::get); one bit per answer is transferred
    /// back.
    ///
    /// ```
    /// use koel::{Cpu, Cuckoo, HashTable};
    /// let table = HashTable::builder(Cuckoo::default()).build(&Cpu::new(), &[5], &[0])?;
    /// assert_eq!(table.contains(&[4, 5])?, [false, true]);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn contains(&self, queries: &[S::Key]) -> Result<Vec<bool>> {
        let mut found = memory::zeroed(queries.len())?;
        self.answer(Queries::Words(queries), Answers::flags(&mut found))?;
        Ok(found)
    }

    /// Whether each query is a key of the table, for queries on the device: bit `i % 32` of word `i / 32` belongs to
    /// query `i`. Nothing is transferred.
    ///
    /// Cost: a lookup. Memory: temporarily 4 bytes per query for values, which the lookups of bucketized and Horton
    /// tables on GPUs do not write.
    ///
    /// ```
    /// use koel::{Cpu, Cuckoo, HashBackend, HashTable};
    /// let cpu = Cpu::new();
    /// let table = HashTable::builder(Cuckoo::default()).build(&cpu, &[5, 6], &[0, 0])?;
    /// let found = table.contains_on(&cpu.upload(&[4, 5, 6])?)?;
    /// assert_eq!(cpu.download(&found)?, [0b110]);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::WrongDevice`], [`Error::OutOfMemory`], or what the device reports.
    pub fn contains_on(&self, queries: &B::Buffer<S::Key>) -> Result<B::Buffer<u32>> {
        Kernels::<S>::contains(&self.backend, self.plan(), self.image(), queries)
    }

    /// All pairs in table order: slot by slot, then the one outside of the image. For a canonical table this order is
    /// the same on every device.
    ///
    /// Cost: the image is decoded on the device, which takes 8 bytes per slot there, and 8 bytes per pair are read
    /// back.
    ///
    /// ```
    /// use koel::{Cpu, Cuckoo, HashTable};
    /// let table = HashTable::builder(Cuckoo::default()).build(&Cpu::new(), &[5, 6], &[1, 2])?;
    /// let mut pairs = table.to_pairs()?;
    /// pairs.sort();
    /// assert_eq!(pairs, [(5, 1), (6, 2)]);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] or what the device reports.
    pub fn to_pairs(&self) -> Result<Vec<(S::Key, S::Value)>> {
        let pairs = self.image.occupied(&self.backend)?;
        let keys = self.backend.download(&pairs.keys)?;
        let values = self.backend.download(&pairs.values)?;
        let mut pairs = memory::reserved(keys.len() + 1)?;
        make(&mut pairs, keys.len(), |i| (keys[i], values[i]))?;
        pairs.extend(self.plan().outside());
        Ok(pairs)
    }

    /// [`to_pairs`](Self::to_pairs) as buffers on the table's device, keys and values; nothing is transferred.
    ///
    /// Cost: the image is decoded, which takes 8 bytes per slot, and its pairs are selected.
    ///
    /// ```
    /// use koel::{Cpu, Cuckoo, HashBackend, HashTable};
    /// let cpu = Cpu::new();
    /// let table = HashTable::builder(Cuckoo::default()).build(&cpu, &[5], &[1])?;
    /// let (keys, values) = table.pairs_on()?;
    /// assert_eq!((cpu.download(&keys)?, cpu.download(&values)?), (vec![5], vec![1]));
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`to_pairs`](Self::to_pairs).
    pub fn pairs_on(&self) -> Result<BuffersOf<B, S::Key, S::Value>> {
        self.all_pairs().map(|pairs| (pairs.keys, pairs.values))
    }

    /// Iterates over [`to_pairs`](Self::to_pairs), at its cost.
    ///
    /// ```
    /// use koel::{Cpu, Cuckoo, HashTable};
    /// let table = HashTable::builder(Cuckoo::default()).build(&Cpu::new(), &[5, 6], &[1, 2])?;
    /// assert_eq!(table.iter()?.map(|(_, value)| value).sum::<u32>(), 3);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`to_pairs`](Self::to_pairs).
    pub fn iter(&self) -> Result<std::vec::IntoIter<(S::Key, S::Value)>> {
        Ok(self.to_pairs()?.into_iter())
    }
}

/// Bit `i` of a bitmap.
fn is_set(bits: &[u32], i: usize) -> bool {
    bits[i / 32] >> (i % 32) & 1 == 1
}
