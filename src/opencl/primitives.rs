//! The primitives that no scheme owns: `cl/primitives.cl`, launched.
//!
//! ```text
//! select:   count the bits of each word | exclusive scan of the counts | each set bit's element goes to its count
//! scan:     each group scans its items in local memory and leaves its sum | the sums are scanned likewise | and added
//! ```

use ocl::Program;

use super::launch::Arg::{Buffer as Memory, U32, U64};
use super::program::Source;
use super::{Buffer, OpenCl};
use crate::backend::{DeviceBuffer, HashBackend, bitmap_words};
use crate::error::{Error, Result};

/// Words that one work-item of `random_reads` reads.
pub(super) const READS_AN_ITEM: usize = 4;

impl OpenCl {
    fn primitives(&self) -> Result<Program> {
        self.program(Source::Primitives, &[("KOEL_READS_AN_ITEM", READS_AN_ITEM as u32)])
    }

    pub(super) fn run_iota(&self, len: usize) -> Result<Buffer<u32>> {
        let out = self.allocate(len)?;
        self.launch(&self.primitives()?, "iota", len, &[Memory(out.core()), U64(len as u64)])?;
        Ok(out)
    }

    pub(super) fn run_complement(&self, buffer: &mut Buffer<u32>) -> Result<()> {
        self.check(buffer)?;
        let args = [Memory(buffer.core()), U64(buffer.len() as u64)];
        self.launch(&self.primitives()?, "complement", buffer.len(), &args)
    }

    pub(super) fn run_gather(&self, from: &Buffer<u32>, index: &Buffer<u32>) -> Result<Buffer<u32>> {
        self.check(from)?;
        self.check(index)?;
        let out = self.allocate(index.len())?;
        let args = [
            Memory(from.core()),
            U64(from.len() as u64),
            Memory(index.core()),
            Memory(out.core()),
            U64(index.len() as u64),
        ];
        self.launch(&self.primitives()?, "gather", index.len(), &args)?;
        Ok(out)
    }

    pub(super) fn run_select(
        &self,
        bits: &Buffer<u32>,
        keep: bool,
        columns: &[&Buffer<u32>],
    ) -> Result<Vec<Buffer<u32>>> {
        self.check(bits)?;
        let Some(len) = columns.first().map(|column| column.len()) else { return Ok(Vec::new()) };
        Error::check_length("the bitmap", bits.len(), bitmap_words(len))?;
        let program = self.primitives()?;
        // Selecting the zeros is selecting the ones of the complement.
        let flip = if keep { 0 } else { u32::MAX };
        let counts = self.allocate(bits.len())?;
        let args = [Memory(bits.core()), U32(flip), U64(len as u64), Memory(counts.core()), U64(bits.len() as u64)];
        self.launch(&program, "count_bits", bits.len(), &args)?;
        let total = self.scan(&program, &counts)?;
        let mut selected = Vec::with_capacity(columns.len());
        for column in columns {
            self.check(column)?;
            Error::check_length("a column", column.len(), len)?;
            let out = self.allocate(total)?;
            let args = [
                Memory(bits.core()),
                U32(flip),
                Memory(counts.core()),
                Memory(column.core()),
                U64(len as u64),
                Memory(out.core()),
            ];
            self.launch(&program, "select_column", len, &args)?;
            selected.push(out);
        }
        Ok(selected)
    }

    /// Replaces each number by the sum of those before it; returns the sum of all.
    fn scan(&self, program: &Program, numbers: &Buffer<u32>) -> Result<usize> {
        if numbers.is_empty() {
            return Ok(0);
        }
        let len = U64(numbers.len() as u64);
        let sums = self.allocate(numbers.len().div_ceil(self.group))?;
        let args = [Memory(numbers.core()), len, Memory(sums.core())];
        self.launch(program, "scan_groups", numbers.len(), &args)?;
        if sums.len() == 1 {
            let mut total = [0];
            self.read(&sums, 0, &mut total)?;
            return Ok(total[0] as usize);
        }
        let total = self.scan(program, &sums)?;
        self.launch(program, "add_sums", numbers.len(), &args)?;
        Ok(total)
    }

    pub(super) fn run_random_reads(&self, buffer: &Buffer<u64>, reads: usize) -> Result<u64> {
        self.check(buffer)?;
        if buffer.is_empty() {
            return Ok(0);
        }
        let sum = self.upload(&[0u64])?;
        let args = [Memory(buffer.core()), U32(places(buffer)?), U64(reads as u64), Memory(sum.core())];
        self.launch(&self.primitives()?, "random_reads", reads.div_ceil(READS_AN_ITEM), &args)?;
        let mut total = [0];
        self.read(&sum, 0, &mut total)?;
        Ok(total[0])
    }

    pub(super) fn run_random_updates(&self, buffer: &mut Buffer<u64>, writes: usize) -> Result<()> {
        self.check(buffer)?;
        if buffer.is_empty() {
            return Ok(());
        }
        let args = [Memory(buffer.core()), U32(places(buffer)?), U64(writes as u64)];
        self.launch(&self.primitives()?, "random_updates", writes, &args)
    }
}

/// Words of a buffer, as places are computed in 32 bits.
fn places(buffer: &Buffer<u64>) -> Result<u32> {
    u32::try_from(buffer.len()).map_err(|_| Error::TooLarge {
        what: "words for random access",
        asked: buffer.len() as u64,
        most: u32::MAX.into(),
    })
}
