//! Reads the positions and numbers of the values of keys, and the contents of the table.

use std::ops::Range;

use super::MultiTable;
use crate::backend::chunks::{QUERIES_OF_A_BLOCK, make};
use crate::backend::{Answers, DeviceBuffer, HashBackend, Queries, Runs, Spans};
use crate::error::Result;
use crate::memory;
use crate::scheme::{Scheme, Value};

/// The number of each query's run, and a bitmap of the queries that have a run.
pub(crate) type Numbers<B> = (<B as HashBackend>::Buffer<u32>, <B as HashBackend>::Buffer<u32>);

impl<B: Runs<S>, S: Scheme<Value = u32>, V: Value> MultiTable<B, S, V> {
    /// The range of each query's values in [`values`](Self::values); empty if the key is absent.
    ///
    /// Cost: a lookup and two adjacent reads per query; queries and answers are transferred in chunks.
    ///
    /// ```
    /// use koel::{Cpu, Cuckoo, MultiTable};
    /// let table = MultiTable::builder(Cuckoo::default()).build(&Cpu::new(), &[5, 9, 5], &[1, 2, 3])?;
    /// assert_eq!(table.get(&[5, 7, 9])?, [0..2, 0..0, 2..3]);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`crate::Error::OutOfMemory`] or what the device reports.
    pub fn get(&self, queries: &[S::Key]) -> Result<Vec<Range<usize>>> {
        let block = queries.len().min(QUERIES_OF_A_BLOCK);
        let (mut starts, mut counts) = (memory::zeroed(block)?, memory::zeroed(block)?);
        let mut ranges = memory::reserved(queries.len())?;
        for queries in queries.chunks(QUERIES_OF_A_BLOCK) {
            let (starts, counts) = (&mut starts[..queries.len()], &mut counts[..queries.len()]);
            self.backend().in_chunks(Queries::Words(queries), Answers::words([starts, counts]), |mut chunk| {
                let spans = self.get_on(&chunk.queries)?;
                chunk.words = vec![spans.starts, spans.counts];
                Ok(chunk)
            })?;
            make(&mut ranges, queries.len(), |i| {
                let start = starts[i] as usize;
                start..start.saturating_add(counts[i] as usize)
            })?;
        }
        Ok(ranges)
    }

    /// As [`get`](Self::get), for queries in a buffer on the table's device. Returns a buffer of the first values'
    /// positions, and a buffer of the numbers of values.
    ///
    /// ```
    /// use koel::{Cpu, Cuckoo, HashBackend, MultiTable};
    /// let cpu = Cpu::new();
    /// let table = MultiTable::builder(Cuckoo::default()).build(&cpu, &[5, 9, 9], &[1, 2, 3])?;
    /// let spans = table.get_on(&cpu.upload(&[9, 7])?)?;
    /// assert_eq!((cpu.download(&spans.starts)?, cpu.download(&spans.counts)?), (vec![1, 0], vec![2, 0]));
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`crate::Error::WrongDevice`], or as [`get`](Self::get).
    pub fn get_on(&self, queries: &B::Buffer<S::Key>) -> Result<Spans<B::Buffer<u32>>> {
        self.spans(queries, None)
    }

    /// The number of values of each query; 0 if the key is absent.
    ///
    /// ```
    /// use koel::{Cpu, Cuckoo, MultiTable};
    /// let table = MultiTable::builder(Cuckoo::default()).build(&Cpu::new(), &[5, 9, 5], &[1, 2, 3])?;
    /// assert_eq!(table.count(&[5, 7, 9])?, [2, 0, 1]);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn count(&self, queries: &[S::Key]) -> Result<Vec<u32>> {
        let mut counts = memory::zeroed(queries.len())?;
        self.backend().in_chunks(Queries::Words(queries), Answers::words([&mut counts]), |mut chunk| {
            chunk.words = vec![self.get_on(&chunk.queries)?.counts];
            Ok(chunk)
        })?;
        Ok(counts)
    }

    /// All values, in ascending order of keys; the values of one key are in the order of the input.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn values(&self) -> Result<Vec<V>> {
        self.backend().download(&self.values)
    }

    /// [`values`](Self::values), on the device.
    pub fn values_on(&self) -> &B::Buffer<V> {
        &self.values
    }

    /// The position of the first value of each key, in ascending order of keys, followed by the number of pairs: one
    /// more element than there are keys.
    ///
    /// ```
    /// use koel::{Cpu, Cuckoo, MultiTable};
    /// let table = MultiTable::builder(Cuckoo::default()).build(&Cpu::new(), &[9, 5, 5], &[1, 2, 3])?;
    /// assert_eq!((table.keys()?, table.starts()?, table.values()?), (vec![5, 9], vec![0, 2, 3], vec![2, 3, 1]));
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn starts(&self) -> Result<Vec<u32>> {
        self.backend().download(&self.starts)
    }

    /// [`starts`](Self::starts), on the device.
    pub fn starts_on(&self) -> &B::Buffer<u32> {
        &self.starts
    }

    /// The distinct keys, ascending.
    ///
    /// Cost: the keys are read from the table, 8 bytes per slot, and sorted.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn keys(&self) -> Result<Vec<S::Key>> {
        self.backend().download(&self.keys_on()?)
    }

    /// [`keys`](Self::keys) as a buffer on the table's device.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn keys_on(&self) -> Result<B::Buffer<S::Key>> {
        let (keys, runs) = self.table.pairs_on()?;
        self.backend().scatter(&keys, &runs, keys.len())
    }

    /// All pairs, in ascending order of keys; the pairs of one key are in the order of the input.
    ///
    /// Cost: as [`keys`](Self::keys), and a read of all values.
    ///
    /// ```
    /// use koel::{Cpu, Cuckoo, MultiTable};
    /// let table = MultiTable::builder(Cuckoo::default()).build(&Cpu::new(), &[9, 5, 9], &[3, 2, 1])?;
    /// assert_eq!(table.to_pairs()?, [(5, 2), (9, 3), (9, 1)]);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn to_pairs(&self) -> Result<Vec<(S::Key, V)>> {
        let (keys, starts, values) = (self.keys()?, self.starts()?, self.values()?);
        let runs = keys.into_iter().zip(starts.windows(2));
        let keys = runs.flat_map(|(key, run)| std::iter::repeat_n(key, run[1].saturating_sub(run[0]) as usize));
        let mut pairs = memory::reserved(values.len())?;
        pairs.extend(keys.zip(values));
        Ok(pairs)
    }

    /// The run of each query. A query without a run gets the value at `missing`, if that is given.
    pub(crate) fn spans(&self, queries: &B::Buffer<S::Key>, missing: Option<u32>) -> Result<Spans<B::Buffer<u32>>> {
        self.spans_of(&self.numbers(queries)?, missing)
    }

    /// As [`spans`](Self::spans), for queries whose [`numbers`](Self::numbers) are known.
    pub(crate) fn spans_of(&self, numbers: &Numbers<B>, missing: Option<u32>) -> Result<Spans<B::Buffer<u32>>> {
        self.backend().spans(&self.starts, &numbers.0, &numbers.1, missing)
    }

    /// The number of each query's run, and a bitmap of the queries that have a run.
    pub(crate) fn numbers(&self, queries: &B::Buffer<S::Key>) -> Result<Numbers<B>> {
        self.table.get_on(queries)
    }
}
