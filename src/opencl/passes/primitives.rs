//! The host side of cl/primitives.cl, and of selections by cl/columns.cl.

use ocl::prm::Uint4;

use super::scan::Scan;
use crate::backend::{DeviceBuffer, HashBackend, Word, bitmap_words};
use crate::error::{Error, Result};
use crate::opencl::runtime::program::{COLUMNS, PRIMITIVES};
use crate::opencl::{Buffer, OpenCl};

/// Words that one work-item of a reduction reads.
pub(super) const READS_EACH: usize = 8;

/// The maximum number of bytes that a driver is requested to fill. NVIDIA's (580.159, on an H200, 2026-11-22) hangs
/// when it fills 2^34 bytes or more with values of 8 bytes, and a fill of a piece beyond that offset terminates its
/// queue.
pub(in crate::opencl) const MOST_FILLED: u64 = 1 << 30;
/// Work-items that fill a long buffer in turn.
pub(in crate::opencl) const MOST_FILLERS: usize = 1 << 22;

/// A selection: counted once, for any number of columns.
pub(in crate::opencl) struct Kept<'a> {
    device: &'a OpenCl,
    bits: &'a Buffer<u32>,
    flip: u32,
    len: usize,
    offsets: Buffer<u64>,
    total: usize,
}

impl Kept<'_> {
    /// The selected elements of a column.
    pub(in crate::opencl) fn of<T: Word>(&self, column: &Buffer<T>) -> Result<Buffer<T>> {
        let Kept { device, bits, flip, len, ref offsets, total } = *self;
        Error::check_length("a column", column.len(), len)?;
        let selected = Buffer::allocate(device, total)?;
        let launch = device.kernel(&device.columns::<T>()?, "select_move")?.buffer(bits).value(len as u64).value(flip);
        let launch = launch.buffer(offsets).buffer(column).buffer(&selected);
        launch.over_groups_of(device.pass_group(), bitmap_words(len), len)?;
        Ok(selected)
    }
}

impl OpenCl {
    /// Work-items of a group of passes that do not belong to a scheme: a power of two, at least 64.
    pub(in crate::opencl) fn pass_group(&self) -> usize {
        self.0.sizes.passes
    }

    /// Elements of one tile of a selection, or of ranks: a word of the bitmap per work-item.
    pub(in crate::opencl) fn select_tile(&self) -> usize {
        32 * self.pass_group()
    }

    pub(in crate::opencl) fn primitives(&self) -> Result<ocl::core::Program> {
        self.program(PRIMITIVES, &[("GROUP", self.pass_group() as u32), ("WIDE", 1)])
    }

    /// Fills a buffer by a kernel of this many work-items, rather than by the driver's command.
    pub(in crate::opencl) fn fill<T: Word>(&self, buffer: &Buffer<T>, value: T, fillers: usize) -> Result<()> {
        let words: &[u32] = bytemuck::cast_slice(std::slice::from_ref(&value));
        let four: [u32; 4] = std::array::from_fn(|i| words[i % words.len()]);
        let len = buffer.len() * words.len();
        let launch = self.kernel(&self.primitives()?, "fill")?.buffer(buffer);
        let launch = launch.value(len as u64).value(Uint4::from(four));
        launch.over_groups_of(self.pass_group(), len.div_ceil(4).min(fillers), buffer.len())
    }

    pub(in crate::opencl) fn run_iota(&self, len: usize) -> Result<Buffer<u32>> {
        let to = Buffer::allocate(self, len)?;
        let launch = self.kernel(&self.primitives()?, "iota")?.buffer(&to).value(len as u64);
        launch.over_groups_of(self.pass_group(), len.div_ceil(4), len)?;
        Ok(to)
    }

    pub(in crate::opencl) fn run_complement(&self, words: &mut Buffer<u32>) -> Result<()> {
        let len = words.len();
        let launch = self.kernel(&self.primitives()?, "complement")?.buffer(words).value(len as u64);
        launch.over_groups_of(self.pass_group(), len, len)
    }

    /// The words whose upper halves are the first 32-bit cells of a buffer, and whose lower halves are 0.
    pub(in crate::opencl) fn widened(&self, cells: &Buffer<u64>, words: usize) -> Result<Buffer<u64>> {
        Error::check_length("the cells", cells.len(), words.div_ceil(2))?;
        let to = Buffer::allocate(self, words)?;
        let launch = self.kernel(&self.primitives()?, "upper_halves")?.buffer(cells).value(words as u64).buffer(&to);
        launch.over_groups_of(self.pass_group(), words, words)?;
        Ok(to)
    }

    /// The program for columns of this type.
    pub(in crate::opencl) fn columns<T: Word>(&self) -> Result<ocl::core::Program> {
        self.program(COLUMNS, &[("GROUP", self.pass_group() as u32), ("WIDE", 1), ("WORD_BITS", T::BITS)])
    }

    pub(in crate::opencl) fn run_gather<T: Word>(&self, from: &Buffer<T>, index: &Buffer<u32>) -> Result<Buffer<T>> {
        let len = index.len();
        let to = Buffer::allocate(self, len)?;
        let launch = self.kernel(&self.columns::<T>()?, "gather")?.buffer(from).value(from.len() as u64);
        launch.buffer(index).buffer(&to).value(len as u64).over_groups_of(self.pass_group(), len, len)?;
        Ok(to)
    }

    pub(in crate::opencl) fn run_greatest<T: Word>(&self, words: &Buffer<T>) -> Result<T> {
        let len = words.len();
        let items = len.div_ceil(READS_EACH);
        // In the partial tier, the groups have no atomic of 64 bits for one result.
        let is_split = self.0.builder.is_some() && T::BITS == u64::BITS;
        let results = if is_split { items.div_ceil(self.pass_group()).max(1) } else { 1 };
        let result: Buffer<T> = self.filled(results, T::zeroed())?;
        let launch = self.kernel(&self.columns::<T>()?, "greatest")?.buffer(words).value(len as u64).buffer(&result);
        launch.over_groups_of(self.pass_group(), items, len)?;
        if results > 1 {
            return self.run_greatest(&result);
        }
        let mut greatest = [T::zeroed()];
        self.read(&result, 0, &mut greatest)?;
        Ok(greatest[0])
    }

    /// Counts which elements of a column a bitmap selects, and where they go.
    pub(in crate::opencl) fn kept<'a>(&'a self, bits: &'a Buffer<u32>, keep: bool, len: usize) -> Result<Kept<'a>> {
        Error::check_length("the bitmap", bits.len(), bitmap_words(len))?;
        let flip = if keep { 0 } else { u32::MAX };
        let offsets = self.tile_offsets(bits, len, flip, "select_count")?;
        let mut total = [0];
        self.read(&offsets, offsets.len() - 1, &mut total)?;
        Ok(Kept { device: self, bits, flip, len, offsets, total: total[0] as usize })
    }

    pub(in crate::opencl) fn run_ranks(&self, bits: &Buffer<u32>, len: usize) -> Result<Buffer<u32>> {
        Error::check_length("the bitmap", bits.len(), bitmap_words(len))?;
        let offsets = self.tile_offsets(bits, len, 0, "ranks")?;
        let ranks = Buffer::allocate(self, len)?;
        let launch = self.kernel(&self.primitives()?, "ranks")?.buffer(bits).value(len as u64).buffer(&offsets);
        launch.buffer(&ranks).over_groups_of(self.pass_group(), bitmap_words(len), len)?;
        Ok(ranks)
    }

    /// For each tile the number of ones before it among the first `len` bits, after the flip, followed by the total.
    fn tile_offsets(&self, bits: &Buffer<u32>, len: usize, flip: u32, stage: &'static str) -> Result<Buffer<u64>> {
        // A count for each tile, followed by a 0, which becomes the total.
        let offsets: Buffer<u64> = self.filled(len.div_ceil(self.select_tile()) + 1, 0)?;
        let count = self.kernel(&self.primitives()?, "select_count")?.stage(stage).buffer(bits);
        let count = count.value(len as u64).value(flip).buffer(&offsets);
        count.over_groups_of(self.pass_group(), bitmap_words(len), len)?;
        Scan::of(self, offsets.len())?.run(&offsets)?;
        Ok(offsets)
    }
}
