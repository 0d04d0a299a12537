//! Retrieves the values of many keys: in one list, into a slice of the caller, or in pieces.

use super::MultiTable;
use super::listing::{Listing, Piece, Walk, len_at_once};
use crate::backend::{DeviceBuffer, HashBackend, Runs, Word};
use crate::error::{Error, Result};
use crate::memory;
use crate::scheme::{Scheme, Value};

/// The values of many queries, concatenated in the order of the queries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Retrieved<V = u32> {
    /// The position of the first value of each query, followed by the number of all values.
    pub offsets: Vec<u64>,
    /// The values.
    pub values: Vec<V>,
}

impl<V> Retrieved<V> {
    /// The values of query `i`; empty if there is no such query.
    pub fn of(&self, i: usize) -> &[V] {
        let run = || {
            let offset = |i: usize| usize::try_from(*self.offsets.get(i)?).ok();
            self.values.get(offset(i)?..offset(i.checked_add(1)?)?)
        };
        run().unwrap_or(&[])
    }
}

/// The values of each query, in the order of the queries.
///
/// ```
/// use koel::{Cpu, Cuckoo, MultiTable};
/// let table = MultiTable::builder(Cuckoo::default()).build(&Cpu::new(), &[5, 9, 5], &[1, 2, 3])?;
/// let retrieved = table.retrieve(&[9, 7, 5])?;
/// let values: Vec<&[u32]> = (&retrieved).into_iter().collect();
/// assert_eq!(values, [&[2][..], &[], &[1, 3]]);
/// # Ok::<(), koel::Error>(())
/// ```
impl<'a, V> IntoIterator for &'a Retrieved<V> {
    type Item = &'a [V];
    type IntoIter = RetrievedIter<'a, V>;

    fn into_iter(self) -> RetrievedIter<'a, V> {
        RetrievedIter { retrieved: self, queries: 0..self.offsets.len().saturating_sub(1) }
    }
}

/// The values of each query of a [`Retrieved`].
#[derive(Clone, Debug)]
pub struct RetrievedIter<'a, V = u32> {
    retrieved: &'a Retrieved<V>,
    queries: std::ops::Range<usize>,
}

impl<'a, V> Iterator for RetrievedIter<'a, V> {
    type Item = &'a [V];

    fn next(&mut self) -> Option<&'a [V]> {
        self.queries.next().map(|i| self.retrieved.of(i))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.queries.size_hint()
    }
}

impl<V> ExactSizeIterator for RetrievedIter<'_, V> {}

/// As [`Retrieved`], but on a device.
#[derive(Debug)]
pub struct RetrievedOn<B: HashBackend, V: Word = u32> {
    /// The position of the first value of each query, followed by the number of all values.
    pub offsets: B::Buffer<u64>,
    /// The values.
    pub values: B::Buffer<V>,
}

/// A piece of the result: values, and the number of the query of each value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetrievedRows<V = u32> {
    /// The number of the query of each value; ascending.
    pub queries: Vec<u32>,
    /// The values.
    pub values: Vec<V>,
}

impl<B: Runs<S>, S: Scheme<Value = u32>, V: Value> MultiTable<B, S, V> {
    /// All values of all queries; the values of one key are in the order of the input. The values of duplicate queries
    /// are repeated, and an absent key has no values.
    ///
    /// Cost: a lookup per query, and a read and a write per value. Memory on the device: 16 bytes per query, and pieces
    /// of the list of at most 16 M values, with 8 bytes per value in addition to the value.
    ///
    /// ```
    /// use koel::{Cpu, Cuckoo, MultiTable};
    /// let table = MultiTable::builder(Cuckoo::default()).build(&Cpu::new(), &[5, 9, 5], &[1, 2, 3])?;
    /// let retrieved = table.retrieve(&[9, 7, 5])?;
    /// assert_eq!((&retrieved.offsets[..], &retrieved.values[..]), (&[0, 1, 1, 3][..], &[2, 1, 3][..]));
    /// assert_eq!(retrieved.of(2), [1, 3]);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::TooLarge`] for 2^32 values or more, for which [`retrieve_chunks`](Self::retrieve_chunks) can be used,
    /// or for 2^32 queries or more; [`Error::OutOfMemory`] or what the device reports.
    pub fn retrieve(&self, queries: &[S::Key]) -> Result<Retrieved<V>> {
        let listing = self.listing(queries)?;
        let mut values = memory::zeroed(len_at_once(listing.len())?)?;
        listing.read_all::<V>(self.backend(), &self.values, &mut values)?;
        Ok(Retrieved { offsets: self.backend().download(listing.offsets())?, values })
    }

    /// As [`retrieve`](Self::retrieve), but writes to slices of the caller: `offsets` must have one more element than
    /// there are queries, and `values` must be at least as long as the result. Returns the number of values; elements
    /// after them are unchanged. Totals of 2^32 and more are supported.
    ///
    /// ```
    /// use koel::{Cpu, Cuckoo, Error, MultiTable};
    /// let table = MultiTable::builder(Cuckoo::default()).build(&Cpu::new(), &[5, 9, 5], &[1, 2, 3])?;
    /// let (mut offsets, mut values) = ([0; 3], [9; 4]);
    /// assert_eq!(table.retrieve_into(&[5, 9], &mut offsets, &mut values)?, 3);
    /// assert_eq!((offsets, values), ([0, 2, 3], [1, 3, 2, 9]));
    ///
    /// let refused = table.retrieve_into(&[5, 9], &mut offsets, &mut values[..2]);
    /// assert!(matches!(refused, Err(Error::TooShort { given: 2, needed: 3, .. })));
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::TooShort`] with the required length if `values` is shorter; nothing is written to either slice in that
    /// case. [`Error::LengthMismatch`] for `offsets` of another length; otherwise as [`retrieve`](Self::retrieve).
    pub fn retrieve_into(&self, queries: &[S::Key], offsets: &mut [u64], values: &mut [V]) -> Result<u64> {
        Error::check_length("offsets", offsets.len(), queries.len().saturating_add(1))?;
        let listing = self.listing(queries)?;
        let (given, needed) = (values.len() as u64, listing.len());
        if given < needed {
            return Err(Error::TooShort { what: "the slice of values", given, needed });
        }
        // `needed` is at most the length of `values`, so it fits in a `usize`.
        listing.read_all::<V>(self.backend(), &self.values, &mut values[..needed as usize])?;
        self.backend().read(listing.offsets(), 0, offsets)?;
        Ok(needed)
    }

    /// As [`retrieve`](Self::retrieve), for queries in a buffer on the table's device. The results are buffers on that
    /// device.
    ///
    /// ```
    /// use koel::{Cpu, Cuckoo, HashBackend, MultiTable};
    /// let cpu = Cpu::new();
    /// let table = MultiTable::builder(Cuckoo::default()).build(&cpu, &[5, 9, 5], &[1, 2, 3])?;
    /// let there = table.retrieve_on(&cpu.upload(&[5, 5])?)?;
    /// assert_eq!((cpu.download(&there.offsets)?, cpu.download(&there.values)?), (vec![0, 2, 4], vec![1, 3, 1, 3]));
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::WrongDevice`], or as [`retrieve`](Self::retrieve).
    pub fn retrieve_on(&self, queries: &B::Buffer<S::Key>) -> Result<RetrievedOn<B, V>> {
        let listing = self.listing_on(queries)?;
        let values = listing.all_on::<V>(self.backend(), &self.values)?;
        Ok(RetrievedOn { offsets: listing.into_offsets(), values })
    }

    /// The result of [`retrieve`](Self::retrieve) in pieces of `len` values (the last may be shorter; 0 is treated as
    /// 1), for results that do not fit in memory, including those of 2^32 values and more.
    ///
    /// Cost: all lookups are done at once, and each piece is produced on demand. Memory on the device: 12 bytes per
    /// query until the iterator is dropped, and for each piece 8 bytes per value in addition to the value.
    ///
    /// ```
    /// use koel::{Cpu, Cuckoo, MultiTable};
    /// let table = MultiTable::builder(Cuckoo::default()).build(&Cpu::new(), &[5, 9, 5], &[1, 2, 3])?;
    /// let chunks = table.retrieve_chunks(&[9, 5], 2)?;
    /// assert_eq!(chunks.total(), 3);
    /// let pieces = chunks.collect::<koel::Result<Vec<_>>>()?;
    /// assert_eq!((&pieces[0].queries[..], &pieces[0].values[..]), (&[0, 1][..], &[2, 1][..]));
    /// assert_eq!((&pieces[1].queries[..], &pieces[1].values[..]), (&[1][..], &[3][..]));
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::TooLarge`] for 2^32 queries or more; [`Error::OutOfMemory`] or what the device reports. Each piece may
    /// fail with the last two errors as well, and is the last piece in that case.
    pub fn retrieve_chunks(&self, queries: &[S::Key], len: usize) -> Result<RetrieveChunks<'_, B, S, V>> {
        let listing = self.listing(queries)?;
        Ok(RetrieveChunks { table: self, walk: Walk::new(listing.len(), len), listing })
    }

    fn listing(&self, queries: &[S::Key]) -> Result<Listing<B>> {
        Error::check_rows("queries at once", queries.len())?;
        let queries = self.backend().upload(queries)?;
        self.listing_on(&queries)
    }

    fn listing_on(&self, queries: &B::Buffer<S::Key>) -> Result<Listing<B>> {
        Error::check_rows("queries at once", queries.len())?;
        Listing::of(self.backend(), self.get_on(queries)?)
    }
}

/// The pieces of [`MultiTable::retrieve_chunks`].
pub struct RetrieveChunks<'a, B: Runs<S>, S: Scheme<Value = u32>, V: Value = u32> {
    table: &'a MultiTable<B, S, V>,
    listing: Listing<B>,
    walk: Walk,
}

impl<B: Runs<S>, S: Scheme<Value = u32>, V: Value> RetrieveChunks<'_, B, S, V> {
    /// The total number of values of all pieces.
    pub fn total(&self) -> u64 {
        self.walk.total()
    }

    /// The position of the first value of each query, followed by the number of all values.
    ///
    /// # Errors
    /// What the device reports.
    pub fn offsets(&self) -> Result<Vec<u64>> {
        self.table.backend().download(self.listing.offsets())
    }
}

impl<B: Runs<S>, S: Scheme<Value = u32>, V: Value> Iterator for RetrieveChunks<'_, B, S, V> {
    type Item = Result<RetrievedRows<V>>;

    fn next(&mut self) -> Option<Self::Item> {
        self.nth(0)
    }

    /// Skipped pieces, including those skipped by `skip`, are not produced.
    fn nth(&mut self, passed: usize) -> Option<Self::Item> {
        let RetrieveChunks { table, listing, walk } = self;
        let backend = table.backend();
        walk.piece(passed, |first, len| {
            let Piece { runs, values } = listing.piece::<V>(backend, &table.values, first, len)?;
            Ok(RetrievedRows { queries: backend.download(&runs)?, values: backend.download(&values)? })
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.walk.size_hint()
    }
}

impl<B: Runs<S>, S: Scheme<Value = u32>, V: Value> std::fmt::Debug for RetrieveChunks<'_, B, S, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RetrieveChunks").field("table", &self.table).field("walk", &self.walk).finish_non_exhaustive()
    }
}
