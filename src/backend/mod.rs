//! The contract between tables and devices.
//!
//! A **backend** owns the memory of one device and runs passes over it. It contains no policy: sizes, retries and
//! duplicates are decided above it (`table/`), once for all devices. The preconditions of passes are checked above it
//! too: `kernels.rs` checks plans and lengths. A backend checks that buffers belong to it.
//!
//! ```text
//! HashBackend      memory (filled, upload, read, write, copy), and the primitives that do not depend on a scheme
//! Relational       the passes over columns that grouping and joining are composed of (`relational.rs`)
//! Probe            clocks and memory benchmarks, for measuring only (`probe.rs`); tables do not use it
//! Kernels<S>       build, place, lookup, assign, decode, remove, lift of scheme S, with checked arguments
//! Passes<S>        the same without checks: what a device must provide to run scheme S; not callable from outside
//! ```
//!
//! Rules for implementors:
//! - Work is done in the order of the calls. A call may return before its work is done, except where it returns data.
//! - After an error, buffers passed as `&mut` are valid, but their contents are unspecified; for that reason tables
//!   work on copies.
//! - Buffers of length 0 are legal everywhere.
//! - Errors are [`crate::Error::LengthMismatch`], [`crate::Error::WrongDevice`], [`crate::Error::OutOfMemory`], and
//!   [`crate::Error::Device`] or [`crate::Error::Compile`] with the driver's message. A device may report an error
//!   late: at the next call that waits.
//! - Every pass over keys runs in kernels; a loop over keys on the host is recorded in the [`Ledger`].

pub(crate) mod across;
#[cfg(test)]
pub(crate) mod aggregate_tests;
mod any_scheme;
mod builder;
pub(crate) mod chunks;
#[cfg(test)]
pub(crate) mod erase_tests;
pub(crate) mod host;
mod info;
pub(crate) mod join_rows;
mod kernels;
mod ledger;
pub(crate) mod numbers;
mod passes;
mod probe;
pub(crate) mod queries;
mod relational;
#[cfg(test)]
pub(crate) mod relational_tests;
#[cfg(test)]
pub(crate) mod scheme_tests;
#[cfg(test)]
pub(crate) mod set_tests;
#[cfg(test)]
pub(crate) mod sorted_tests;
#[cfg(test)]
pub(crate) mod wall_tests;
#[cfg(test)]
pub(crate) mod wide_table_tests;
#[cfg(test)]
pub(crate) mod wide_tests;

pub use across::Piece;
pub use chunks::{Chunk, ChunkOf, QUERIES_AT_ONCE};
pub use info::{DeviceInfo, DeviceKind, Listed, Tier};
pub use kernels::Kernels;
pub use ledger::{Allocations, Ledger, Stage, StageTime, Transfers};
pub use numbers::Numbers;
#[cfg(feature = "opencl")]
pub(crate) use passes::copied_and_placed;
pub(crate) use passes::{Passes, filled_and_placed};
pub use probe::Probe;
pub use queries::{Answers, Queries};
pub use relational::{Accumulated, Expanded, KeySlots, Relational, Spans, Wanted, WideAccumulated};

pub use crate::tuning::BuildRoute;

use std::fmt;

use crate::columns::Columns;
use crate::cpu::{Cpu, Memory};
use crate::error::{Error, Result};
use crate::memory;
use crate::scheme::Scheme;
use crate::sealed::Sealed;

/// An integer that buffers hold: `u32` or `u64`.
pub trait Word: bytemuck::Pod + Ord + Into<u64> + fmt::Debug + Send + Sync + Sealed {
    /// The number of bits.
    const BITS: u32;
    /// The lowest bits of an integer.
    fn low(of: u64) -> Self;
}
impl Word for u32 {
    const BITS: u32 = u32::BITS;
    #[inline(always)]
    fn low(of: u64) -> Self {
        of as u32
    }
}
impl Word for u64 {
    const BITS: u32 = u64::BITS;
    #[inline(always)]
    fn low(of: u64) -> Self {
        of
    }
}

/// Memory of one device. Sealed: the backends of this crate implement it.
pub trait DeviceBuffer: Sealed + Send + Sync + fmt::Debug {
    /// The number of elements.
    fn len(&self) -> usize;
    /// Whether the buffer is empty.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// 32-bit words of a bitmap for `len` answers. Bit `i % 32` of word `i / 32` belongs to answer `i`; bits past the end
/// are 0.
pub fn bitmap_words(len: usize) -> usize {
    len.div_ceil(32)
}

/// Memory and data-parallel primitives of one device. Sealed, like [`Relational`], [`Kernels`] and [`Probe`]: name it
/// in bounds; the backends of this crate implement it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a device",
    label = "not a device",
    note = "`koel::auto()` has the device in its field `backend`: pass `&koel::auto().backend`"
)]
pub trait HashBackend: Sealed + Clone + Send + Sync + fmt::Debug + 'static {
    /// Memory of the device, freed on drop.
    type Buffer<T: Word>: DeviceBuffer;

    /// Name and limits.
    fn info(&self) -> &DeviceInfo;
    /// The record of what ran on the device and what on the host.
    fn ledger(&self) -> &Ledger;

    /// A buffer of `len` copies of `value`.
    fn filled<T: Word>(&self, len: usize, value: T) -> Result<Self::Buffer<T>>;
    /// An uninitialised buffer of `len` elements: its contents are unspecified until written.
    fn unwritten<T: Word>(&self, len: usize) -> Result<Self::Buffer<T>> {
        self.filled(len, T::zeroed())
    }
    /// A buffer with the data of the host.
    fn upload<T: Word>(&self, data: &[T]) -> Result<Self::Buffer<T>>;
    /// Overwrites `buffer[at..]` with data of the host.
    fn write<T: Word>(&self, buffer: &mut Self::Buffer<T>, at: usize, data: &[T]) -> Result<()>;
    /// Reads `buffer[at..at + data.len()]` to the host.
    fn read<T: Word>(&self, buffer: &Self::Buffer<T>, at: usize, data: &mut [T]) -> Result<()>;
    /// Copies `from[from_at..from_at + len]` over `to[to_at..]`, on the device.
    fn copy<T: Word>(
        &self,
        from: &Self::Buffer<T>,
        from_at: usize,
        to: &mut Self::Buffer<T>,
        to_at: usize,
        len: usize,
    ) -> Result<()>;
    /// Writes these parts of buffers of other devices to `to[at..]`, one after the other, and returns when they have
    /// arrived. Work that writes the parts must be finished ([`finish`](Self::finish) of their devices).
    ///
    /// Cost: the data is copied through host memory, once in each direction; between devices on buses, both directions
    /// overlap.
    ///
    /// # Errors
    /// [`crate::Error::WrongDevice`], and [`crate::Error::LengthMismatch`] past an end; [`crate::Error::OutOfMemory`]
    /// or what a device reports, after which the contents of `to` are unspecified.
    fn fetch<T: Word>(&self, to: &mut Self::Buffer<T>, at: usize, pieces: &[Piece<'_, Self, T>]) -> Result<()> {
        across::through_host(self, to, at, pieces)
    }
    /// Whether the host's threads should preprocess columns on their way from host memory to the device. True if the
    /// device works in host memory, or is treated as if it did.
    fn shares_memory(&self) -> bool {
        true
    }
    /// Waits until all work is done, and reports errors that were delayed.
    fn finish(&self) -> Result<()>;

    /// `0, 1, .., len - 1`.
    fn iota(&self, len: usize) -> Result<Self::Buffer<u32>>;
    /// Replaces every x by `!x`, which reverses the order of integers.
    fn complement(&self, buffer: &mut Self::Buffer<u32>) -> Result<()>;
    /// Returns `from[index[0]], from[index[1]], ..`; an index past the end reads as 0.
    fn gather<T: Word>(&self, from: &Self::Buffer<T>, index: &Self::Buffer<u32>) -> Result<Self::Buffer<T>>;
    /// The greatest element; 0 of an empty buffer.
    fn greatest<T: Word>(&self, buffer: &Self::Buffer<T>) -> Result<T>;
    /// The elements of a column whose bit in `bits` equals `keep`, in their order.
    fn select<T: Word>(
        &self,
        bits: &Self::Buffer<u32>,
        keep: bool,
        column: &Self::Buffer<T>,
    ) -> Result<Self::Buffer<T>>;
    /// As [`select`](Self::select), for two columns and one bitmap, whose ones are counted once.
    fn select_pairs<K: Word, V: Word>(
        &self,
        bits: &Self::Buffer<u32>,
        keep: bool,
        keys: &Self::Buffer<K>,
        values: &Self::Buffer<V>,
    ) -> Result<(Self::Buffer<K>, Self::Buffer<V>)>;
    /// The elements of a column in ascending order. Cost: as [`sort_pairs`](Self::sort_pairs).
    fn sort<T: Word>(&self, column: &Self::Buffer<T>) -> Result<Self::Buffer<T>> {
        // The values are not used, so they are short: a device then moves fewer bytes.
        Ok(self.sort_pairs(column, &self.unwritten::<u32>(column.len())?)?.0)
    }
    /// Returns the pairs `(keys[i], values[i])` in ascending order of keys. The sort is stable.
    ///
    /// Cost: the memory of the pairs twice, including the result, whatever the distribution of the keys. On the CPU two
    /// passes through memory, and more only if many keys share their leading bits. On OpenCL one pass for every 8 bits
    /// in which keys differ; on GPUs three or four passes for long keys if few of them share their leading bits. If the
    /// keys are sorted already, they are copied. OpenCL devices sort fewer than 2^32 pairs.
    fn sort_pairs<K: Word, V: Word>(
        &self,
        keys: &Self::Buffer<K>,
        values: &Self::Buffer<V>,
    ) -> Result<(Self::Buffer<K>, Self::Buffer<V>)>;

    /// Answers queries from host memory to host memory, at most [`QUERIES_AT_ONCE`] at a time. `pass` receives each
    /// chunk in the order of the queries, with buffers that it returned for an earlier chunk, and returns it with its
    /// columns of answers, the first of which are read into `answers`. At most eight chunks are on the device at a
    /// time; for a device on a bus, transfers in both directions and passes overlap.
    ///
    /// # Errors
    /// [`crate::Error::LengthMismatch`] for columns whose length is not that of the answers; the first error of `pass`,
    /// after which the contents of `answers` are unspecified.
    fn in_chunks<Q: Word, A: Word>(
        &self,
        queries: Queries<'_, Q>,
        answers: Answers<'_, A>,
        mut pass: impl FnMut(ChunkOf<Self, Q, A>) -> Result<ChunkOf<Self, Q, A>>,
    ) -> Result<()> {
        chunks::one_by_one(self, queries, answers, &mut pass)
    }

    /// Uploads two columns of equal length, a chunk of rows at a time, and calls `pass` with the chunks in order. For a
    /// device on a bus and pinned columns, a chunk is uploaded while the pass over the previous one runs.
    ///
    /// # Errors
    /// [`crate::Error::LengthMismatch`]; the first error of `pass`; what the device reports.
    fn in_pairs<K: Word, V: Word>(
        &self,
        keys: &[K],
        values: &[V],
        rows: usize,
        mut pass: impl FnMut(Self::Buffer<K>, Self::Buffer<V>) -> Result<()>,
    ) -> Result<()> {
        Error::check_length("values", values.len(), keys.len())?;
        let mut chunks = keys.chunks(rows.max(1)).zip(values.chunks(rows.max(1)));
        chunks.try_for_each(|(keys, values)| pass(self.upload(keys)?, self.upload(values)?))
    }

    /// The words of a buffer, if the host can read them in place.
    #[doc(hidden)]
    fn words<'a, T: Word>(&self, _buffer: &'a Self::Buffer<T>) -> Option<&'a [T]> {
        None
    }
    /// A buffer with these words; without copying them, if the memory of the device is that of the host.
    #[doc(hidden)]
    fn of_host<T: Word>(&self, memory: Memory<T>) -> Result<Self::Buffer<T>> {
        self.upload(memory.words())
    }

    /// The CPU that builds and changes tables in place of this device, if the device cannot.
    #[doc(hidden)]
    fn builder(&self) -> Option<&Cpu> {
        None
    }

    /// Reads a whole buffer to the host.
    ///
    /// # Errors
    /// [`crate::Error::OutOfMemory`] if the host lacks memory for it; otherwise as [`read`](Self::read).
    fn download<T: Word>(&self, buffer: &Self::Buffer<T>) -> Result<Vec<T>> {
        let mut data = memory::zeroed(buffer.len())?;
        self.read(buffer, 0, &mut data)?;
        Ok(data)
    }

    /// A second buffer with the same contents.
    fn clone_buffer<T: Word>(&self, buffer: &Self::Buffer<T>) -> Result<Self::Buffer<T>> {
        let mut copy = self.filled(buffer.len(), T::zeroed())?;
        self.copy(buffer, 0, &mut copy, 0, buffer.len())?;
        Ok(copy)
    }

    /// One buffer with the elements of `first`, then those of `second`.
    fn concat<T: Word>(&self, first: &Self::Buffer<T>, second: &Self::Buffer<T>) -> Result<Self::Buffer<T>> {
        let mut both = self.filled(first.len() + second.len(), T::zeroed())?;
        self.copy(first, 0, &mut both, 0, first.len())?;
        self.copy(second, 0, &mut both, first.len(), second.len())?;
        Ok(both)
    }
}

/// The result of placing a batch of pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Placed<K = u32, V = u32> {
    /// The number of pairs without a slot (classic: chains that were cut). If it is above 0, the attempt has failed and
    /// the image must not be used.
    pub unplaced: u64,
    /// The number of duplicates, including duplicates of the image's own pairs; exact if `unplaced` is 0.
    pub duplicates: u64,
    /// The smallest key with duplicates; exact if `unplaced` is 0.
    pub least_duplicate: Option<K>,
    /// The value of the sentinel pair, whose key cannot be stored in the image (classic: it is the empty marker).
    pub outside: Option<V>,
    /// The number of keys in a stash whose size depends on it: the image is that of
    /// [`Plan::with_stash`](crate::scheme::Plan::with_stash).
    pub stash: u64,
}

/// The [`Placed`] of a batch of tables of scheme `S`.
pub type PlacedOf<S> = Placed<<S as Scheme>::Key, <S as Scheme>::Value>;

/// The pairs of an image, cell by cell.
#[derive(Debug)]
pub struct Decoded<Keys, Values = Keys, Bits = Keys> {
    /// The key in each cell, 0 if the cell is empty.
    pub keys: Keys,
    /// The value in each cell, 0 if the cell is empty.
    pub values: Values,
    /// A bitmap of the cells that contain a pair.
    pub taken: Bits,
}

/// The [`Decoded`] of an image of scheme `S` on backend `B`.
pub type DecodedOf<B, S> =
    Decoded<BufferOf<B, <S as Scheme>::Key>, BufferOf<B, <S as Scheme>::Value>, BufferOf<B, u32>>;

/// Two columns of backend `B` with the same rows.
pub type BuffersOf<B, T, U> = (BufferOf<B, T>, BufferOf<B, U>);

/// A buffer of backend `B`.
pub type BufferOf<B, T> = <B as HashBackend>::Buffer<T>;

/// The result of removing keys from an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// The number of pairs that were removed.
    pub pairs: u64,
    /// Whether the sentinel key was among the keys to remove.
    pub outside: bool,
}

/// A backend that can store tables of scheme `S`: it runs `S`, the table that detects duplicates of its keys, and the
/// passes for groups and joins.
///
/// [`Cpu`], [`Any`](crate::Any) and `OpenCl` run all schemes. The compiler rejects other types with an explanation:
///
/// ```compile_fail,E0277
/// # use koel::prelude::*;
/// // error: tables of `Cuckoo` cannot be built on `Choice`
/// // note: `koel::auto()` has the device in its field `backend`: pass `&koel::auto().backend`
/// let table = HashTable::builder(Cuckoo::canonical(4)).build(&auto(), &[1], &[10]);
/// ```
#[diagnostic::on_unimplemented(
    message = "tables of `{S}` cannot be built on `{Self}`",
    label = "not a device that runs `{S}`",
    note = "devices are `koel::Cpu`, `koel::OpenCl` and `koel::Any`, which is one of these",
    note = "`koel::auto()` has the device in its field `backend`: pass `&koel::auto().backend`",
    note = "generic code states what it needs, such as `B: Runs<Cuckoo>`"
)]
pub trait Runs<S: Scheme>: Kernels<S> + Columns<S::Key> {}
#[diagnostic::do_not_recommend]
impl<B, S: Scheme> Runs<S> for B where B: Kernels<S> + Columns<S::Key> {}
