//! The contract between tables and devices.
//!
//! A **backend** owns the memory of one device and runs passes over it. It knows no policy: sizes are planned, retries
//! decided and duplicates judged above it (`table/`), once for all devices. What passes rely on is checked above them too:
//! `kernels.rs` sees to plans and to lengths that belong together. That buffers are its own, a backend sees to.
//!
//! ```text
//! HashBackend      memory (filled, upload, read, write, copy), and the primitives that no scheme owns
//! Relational       the passes over columns that grouping and joining are made of (`relational.rs`)
//! Probe            clocks, and what memory can do: for measuring alone (`probe.rs`); no table needs it
//! Kernels<S>       build, place, lookup, assign, decode, remove, lift of scheme S: what may be asked is checked there, once
//! Passes<S>        the same without checks: what a device must provide to run scheme S; nobody outside can call it
//! ```
//!
//! Rules for implementors:
//! - Work is done in the order of the calls. A call may return before its work is done, except where it returns data.
//! - An error leaves buffers passed as `&mut` in an unspecified but valid state; tables work on copies for that reason.
//! - Buffers of length 0 are legal everywhere.
//! - Errors are [`crate::Error::LengthMismatch`], [`crate::Error::WrongDevice`], [`crate::Error::OutOfMemory`], and
//!   [`crate::Error::Device`] or [`crate::Error::Compile`] with the driver's words. A device may report one late: at
//!   the next call that waits.
//! - Every pass over keys runs in kernels; where the host must loop over keys, it says so in the [`Ledger`].

pub(crate) mod across;
#[cfg(test)]
pub(crate) mod aggregate_tests;
mod any_scheme;
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
mod relational;
#[cfg(test)]
pub(crate) mod relational_tests;
#[cfg(test)]
pub(crate) mod set_tests;
#[cfg(test)]
pub(crate) mod wall_tests;
#[cfg(test)]
pub(crate) mod wide_table_tests;
#[cfg(test)]
pub(crate) mod wide_tests;

pub use across::Piece;
pub use chunks::{Answers, Chunk, ChunkOf, QUERIES_AT_ONCE};
pub use info::{DeviceInfo, DeviceKind, Listed};
pub use kernels::Kernels;
pub use ledger::{Allocations, Ledger, Stage, StageTime, Transfers};
pub use numbers::Numbers;
#[cfg(feature = "opencl")]
pub(crate) use passes::copied_and_placed;
pub(crate) use passes::{Passes, filled_and_placed};
pub use probe::Probe;
pub use relational::{Accumulated, Expanded, Relational, Spans, Wanted, WideAccumulated};

pub use crate::tuning::BuildRoute;

use std::fmt;

use crate::cpu::{Cpu, Memory};
use crate::error::{Error, Result};
use crate::memory;
use crate::scheme::{Key, Scheme};
use crate::sealed::Sealed;

/// An integer that buffers hold: `u32` or `u64`.
pub trait Word: bytemuck::Pod + Ord + Into<u64> + fmt::Debug + Send + Sync + Sealed {
    /// Bits of one.
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
    /// Elements.
    fn len(&self) -> usize;
    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// 32-bit words of a bitmap for `len` answers. Bit `i % 32` of word `i / 32` belongs to answer `i`; bits past the end
/// are 0.
pub fn bitmap_words(len: usize) -> usize {
    len.div_ceil(32)
}

/// Memory and data-parallel primitives of one device. Sealed, like [`Relational`], [`Kernels`] and [`Probe`]: name it in
/// bounds; the backends of this crate implement it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a device",
    label = "not a device",
    note = "`koel::auto()` has the device in its field `backend`: pass `&koel::auto().backend`"
)]
pub trait HashBackend: Sealed + Clone + Send + Sync + fmt::Debug + 'static {
    /// Memory there, freed on drop.
    type Buffer<T: Word>: DeviceBuffer;

    /// Name and limits.
    fn info(&self) -> &DeviceInfo;
    /// The record of what ran where.
    fn ledger(&self) -> &Ledger;

    /// A buffer of `len` copies of `value`.
    fn filled<T: Word>(&self, len: usize, value: T) -> Result<Self::Buffer<T>>;
    /// A buffer of `len` elements that somebody will write before anyone reads them: until then, they are any at all.
    fn unwritten<T: Word>(&self, len: usize) -> Result<Self::Buffer<T>> {
        self.filled(len, T::zeroed())
    }
    /// A buffer with the host's data.
    fn upload<T: Word>(&self, data: &[T]) -> Result<Self::Buffer<T>>;
    /// Writes the host's data over `buffer[at..]`.
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
    /// Writes these parts of buffers of other devices over `to[at..]`, one behind the other. Returns when they are there. What
    /// was to write the parts must be over ([`finish`](Self::finish) of their devices).
    ///
    /// Cost: all of it goes through this machine's memory, once each way; where buses lie between, both ways overlap.
    ///
    /// # Errors
    /// [`crate::Error::WrongDevice`], and [`crate::Error::LengthMismatch`] past an end; [`crate::Error::OutOfMemory`] or what
    /// a device reports, after which it is unspecified what is in `to`.
    fn bring<T: Word>(&self, to: &mut Self::Buffer<T>, at: usize, pieces: &[Piece<'_, Self, T>]) -> Result<()> {
        across::by_way_of_the_host(self, to, at, pieces)
    }
    /// Whether columns of this machine are best worked on by its own threads on their way to the device: it works in the same
    /// memory, or is taken to.
    fn shares_memory(&self) -> bool {
        true
    }
    /// Waits until all work is done, and reports an error that came late.
    fn finish(&self) -> Result<()>;

    /// `0, 1, .., len - 1`.
    fn iota(&self, len: usize) -> Result<Self::Buffer<u32>>;
    /// Replaces every x by `!x`, which reverses the order of integers.
    fn complement(&self, buffer: &mut Self::Buffer<u32>) -> Result<()>;
    /// `from[index[0]], from[index[1]], ..`; an index past the end reads as 0.
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
    /// [`select`](Self::select) of two columns by one bitmap, whose ones are counted once.
    fn select_pairs<K: Word, V: Word>(
        &self,
        bits: &Self::Buffer<u32>,
        keep: bool,
        keys: &Self::Buffer<K>,
        values: &Self::Buffer<V>,
    ) -> Result<(Self::Buffer<K>, Self::Buffer<V>)>;
    /// The pairs `(keys[i], values[i])` in ascending order of keys, pairs of one key in the order in which they stood.
    ///
    /// Cost: 16 bytes of memory a pair, the result among them, and also where keys crowd. On the CPU two passes through
    /// memory, and more only where keys crowd; on OpenCL one pass of 20 bytes a pair for every 8 bits in which keys
    /// differ. Keys that ascend already are copied. OpenCL devices sort fewer than 2^32 pairs.
    fn sort_pairs<K: Word, V: Word>(
        &self,
        keys: &Self::Buffer<K>,
        values: &Self::Buffer<V>,
    ) -> Result<(Self::Buffer<K>, Self::Buffer<V>)>;

    /// Answers queries from the host to the host, [`QUERIES_AT_ONCE`] (or fewer) at a time. `pass` is handed each chunk in
    /// the order of the queries, with what it left in an earlier one, and hands it back with its columns of answers, the
    /// first of which are read into `answers`. At most four chunks are on the device at a time; where a bus lies between,
    /// transfers both ways and passes overlap.
    ///
    /// # Errors
    /// [`crate::Error::LengthMismatch`] for columns that are not as long as the answers; the first of `pass`, after which
    /// it is unspecified which answers have arrived.
    fn in_chunks<Q: Word, A: Word>(
        &self,
        queries: &[Q],
        answers: Answers<'_, A>,
        mut pass: impl FnMut(ChunkOf<Self, Q, A>) -> Result<ChunkOf<Self, Q, A>>,
    ) -> Result<()> {
        chunks::one_by_one(self, queries, answers, &mut pass)
    }

    /// Uploads two columns of one length, so many rows at a time, and hands them to `pass` in their order. Where a bus lies
    /// between and both are pinned, rows come while the pass over those before them runs.
    ///
    /// # Errors
    /// [`crate::Error::LengthMismatch`]; the first of `pass`; what the device reports.
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

    /// The CPU that this backend is, if it is one: it has ways of its own to number, group and join columns.
    #[doc(hidden)]
    fn host(&self) -> Option<&Cpu> {
        None
    }
    /// The words of a buffer of that CPU.
    #[doc(hidden)]
    fn host_words<'a, T: Word>(&self, _buffer: &'a Self::Buffer<T>) -> Result<&'a [T]> {
        Err(Error::WrongDevice)
    }
    /// A buffer of that CPU as one of this backend.
    #[doc(hidden)]
    fn of_host<T: Word>(&self, _memory: Memory<T>) -> Result<Self::Buffer<T>> {
        Err(Error::WrongDevice)
    }

    /// Reads a whole buffer to the host.
    ///
    /// # Errors
    /// [`crate::Error::OutOfMemory`] where the host has no room for it; as [`read`](Self::read).
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

/// What became of a batch of pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Placed<K = u32, V = u32> {
    /// Pairs without a slot (classic: chains that were cut). Above 0 the attempt has failed and the image is of no
    /// use.
    pub unplaced: u64,
    /// Pairs beyond the first of each key, the image's own pairs counted; exact if nothing is unplaced.
    pub copies: u64,
    /// The smallest key with copies; exact if nothing is unplaced.
    pub least_copy: Option<K>,
    /// The value that came with the key that cannot stand in the image (classic: the empty marker's).
    pub outside: Option<V>,
    /// Keys in a stash whose size depends on that: the image is that of [`Plan::with_stash`](crate::scheme::Plan::with_stash).
    pub stash: u64,
}

/// [`Placed`] of a batch of tables of scheme `S`.
pub type PlacedOf<S> = Placed<<S as Scheme>::Key, <S as Scheme>::Value>;

/// The pairs of an image, cell by cell.
#[derive(Debug)]
pub struct Decoded<Keys, Values = Keys, Bits = Keys> {
    /// The key in each cell, 0 where there is none.
    pub keys: Keys,
    /// The value in each cell, 0 where there is none.
    pub values: Values,
    /// A bitmap of the cells that hold a pair.
    pub taken: Bits,
}

/// [`Decoded`] of an image of scheme `S` on backend `B`.
pub type DecodedOf<B, S> =
    Decoded<BufferOf<B, <S as Scheme>::Key>, BufferOf<B, <S as Scheme>::Value>, BufferOf<B, u32>>;

/// Two columns of backend `B` that belong together.
pub type BuffersOf<B, T, U> = (BufferOf<B, T>, BufferOf<B, U>);

/// A buffer of backend `B`.
pub type BufferOf<B, T> = <B as HashBackend>::Buffer<T>;

/// What was taken out of an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Pairs that stood in the image and do no more.
    pub pairs: u64,
    /// Whether the key that cannot stand in the image was among those to be removed.
    pub outside: bool,
}

/// A backend that can hold tables of scheme `S`: it runs `S`, the table by which duplicates of its keys are told apart,
/// and the passes that group and join.
///
/// [`Cpu`], [`Any`](crate::Any) and `OpenCl` run all schemes. Where another type is given, the compiler says so:
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
pub trait Runs<S: Scheme>: Kernels<S> + Kernels<<S::Key as Key>::Rows> + Relational {}
#[diagnostic::do_not_recommend]
impl<B, S: Scheme> Runs<S> for B where B: Kernels<S> + Kernels<<S::Key as Key>::Rows> + Relational {}
