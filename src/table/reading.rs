//! Answers: from host slices in chunks, from device buffers in place, and the pairs in table order.

use super::{HashTable, distinct};
use crate::backend::{DeviceBuffer, Kernels, Runs, bitmap_words};
use crate::error::{Error, Result};
use crate::spec::{Plan, Scheme};

/// Queries that are on the device at a time: 8 bytes each, whatever the number asked. A multiple of 32, so that the
/// bitmaps of chunks join without shifting.
const CHUNK: usize = 1 << 20;

impl<B: Runs<S>, S: Scheme> HashTable<B, S> {
    /// The value of each query, in the order of the queries.
    ///
    /// Cost: at most H random reads a query; queries and answers travel to the device and back in chunks.
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
    pub fn get(&self, queries: &[u32]) -> Result<Vec<Option<u32>>> {
        let mut values = vec![0; queries.len()];
        let mut found = vec![0; bitmap_words(queries.len())];
        self.get_into(queries, &mut values, &mut found)?;
        Ok(values.iter().enumerate().map(|(i, &value)| is_set(&found, i).then_some(value)).collect())
    }

    /// [`get`](Self::get) into slices of the caller: `values[i]` is the value or 0, and bit `i % 32` of `found[i / 32]`
    /// tells which. Cost: as `get`, without its allocations.
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
    pub fn get_into(&self, queries: &[u32], values: &mut [u32], found: &mut [u32]) -> Result<()> {
        Error::check_length("values", values.len(), queries.len())?;
        Error::check_length("found", found.len(), bitmap_words(queries.len()))?;
        let mut buffers = None;
        let chunks = queries.chunks(CHUNK).zip(values.chunks_mut(CHUNK)).zip(found.chunks_mut(CHUNK / 32));
        for ((queries, values), found) in chunks {
            let (on_device, answers, bits) = match &mut buffers {
                Some((on_device, answers, bits)) if DeviceBuffer::len(on_device) == queries.len() => {
                    self.backend.write(on_device, 0, queries)?;
                    (&*on_device, answers, bits)
                }
                other => {
                    let on_device = self.backend.upload(queries)?;
                    let answers = self.backend.filled(queries.len(), 0)?;
                    let bits = self.backend.filled(found.len(), 0)?;
                    let (on_device, answers, bits) = other.insert((on_device, answers, bits));
                    (&*on_device, answers, bits)
                }
            };
            self.lookup(on_device, answers, bits)?;
            self.backend.read(answers, 0, values)?;
            self.backend.read(bits, 0, found)?;
        }
        Ok(())
    }

    /// Looks up device-resident queries: no transfer, no allocation. `values[i]` is the value or 0; bit `i % 32` of
    /// `found[i / 32]` tells which, so that a stored 0 is not a miss. The call may return before the work is done;
    /// reading a buffer waits for it.
    ///
    /// ```
    /// use koel::{Cpu, Cuckoo, HashBackend, HashTable};
    /// let cpu = Cpu::new();
    /// let table = HashTable::builder(Cuckoo::default()).build(&cpu, &[5], &[0])?;
    /// let queries = cpu.upload(&[4, 5])?;
    /// let (mut values, mut found) = (cpu.filled(2, 9)?, cpu.filled(1, 0)?);
    /// table.lookup(&queries, &mut values, &mut found)?;
    /// assert_eq!((cpu.download(&values)?, cpu.download(&found)?), (vec![0, 0], vec![0b10]));
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] as [`get_into`](Self::get_into), [`Error::WrongDevice`], or what the device reports.
    pub fn lookup(
        &self,
        queries: &B::Buffer<u32>,
        values: &mut B::Buffer<u32>,
        found: &mut B::Buffer<u32>,
    ) -> Result<()> {
        Error::check_length("values", values.len(), queries.len())?;
        Error::check_length("found", found.len(), bitmap_words(queries.len()))?;
        Kernels::<S>::lookup(&self.backend, &self.plan, &self.image, queries, values, found)
    }

    /// Whether each query is a key of the table, at the cost of [`get`](Self::get).
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
    pub fn contains(&self, queries: &[u32]) -> Result<Vec<bool>> {
        let mut values = vec![0; queries.len()];
        let mut found = vec![0; bitmap_words(queries.len())];
        self.get_into(queries, &mut values, &mut found)?;
        Ok((0..queries.len()).map(|i| is_set(&found, i)).collect())
    }

    /// All pairs in table order: slot by slot, then the one beside the image. In a canonical table that is one order on
    /// every device.
    ///
    /// Cost: the image is decoded on the device, which takes 8 bytes a slot there, and 8 bytes a pair are read back.
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
    pub fn to_pairs(&self) -> Result<Vec<(u32, u32)>> {
        let pairs = distinct::occupied::<B, S>(&self.backend, &self.plan, &self.image)?;
        let keys = self.backend.download(&pairs.keys)?;
        let values = self.backend.download(&pairs.values)?;
        Ok(keys.into_iter().zip(values).chain(self.plan.outside()).collect())
    }

    /// [`to_pairs`](Self::to_pairs) as buffers on the table's device, keys and values; nothing is transferred.
    ///
    /// Cost: the image is decoded, which takes 8 bytes a slot, and its pairs are picked out.
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
    pub fn pairs_on(&self) -> Result<(B::Buffer<u32>, B::Buffer<u32>)> {
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
    pub fn iter(&self) -> Result<std::vec::IntoIter<(u32, u32)>> {
        Ok(self.to_pairs()?.into_iter())
    }
}

/// Bit `i` of a bitmap.
fn is_set(bits: &[u32], i: usize) -> bool {
    bits[i / 32] >> (i % 32) & 1 == 1
}
