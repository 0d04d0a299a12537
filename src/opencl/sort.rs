//! The host side of cl/sort.cl.

use super::primitives::GROUP;
use super::program::SORT;
use super::scan::Scan;
use super::{Buffer, OpenCl};
use crate::backend::{DeviceBuffer, HashBackend};
use crate::error::{Error, Result};

/// Pairs of one work-item.
const EACH: usize = 16;
/// Pairs of one group.
const TILE: usize = GROUP * EACH;
/// Bits of a digit, and its values.
const DIGIT_BITS: u32 = 8;
const DIGITS: usize = 1 << DIGIT_BITS;

// What `Sorted::scratch_bytes` says of them.
const _: () = assert!(TILE == 4096 && DIGITS == 256);

/// The most pairs: their places are numbers of 32 bits.
const MOST_PAIRS: u64 = u32::MAX as u64;

/// Keys and their values.
type Columns = (Buffer<u32>, Buffer<u32>);

impl OpenCl {
    pub(super) fn sort_program(&self) -> Result<ocl::core::Program> {
        let parameters = [("GROUP", GROUP as u32), ("EACH", EACH as u32), ("DIGIT_BITS", DIGIT_BITS), ("WIDE", 0)];
        self.program(SORT, &parameters)
    }

    /// One read of 12 bytes; then, unless keys ascend, for each of at most four digits, a count, a scan and a scatter.
    pub(super) fn run_sort_pairs(&self, keys: &Buffer<u32>, values: &Buffer<u32>) -> Result<Columns> {
        let len = keys.len();
        Error::check_length("the values", values.len(), len)?;
        if len as u64 > MOST_PAIRS {
            return Err(Error::TooLarge { what: "pairs to sort", asked: len as u64, most: MOST_PAIRS });
        }
        let shifts = digits(self.differing(keys)?);
        if shifts.is_empty() {
            return Ok((self.clone_buffer(keys)?, self.clone_buffer(values)?));
        }
        let program = self.sort_program()?;
        let counts = Buffer::<u32>::allocate(self, DIGITS * len.div_ceil(TILE))?;
        let scan = Scan::of(self, counts.len())?;
        let room = || -> Result<Columns> { Ok((Buffer::allocate(self, len)?, Buffer::allocate(self, len)?)) };
        // What the last pass wrote, and what the next one writes to.
        let (mut sorted, mut spare) = (None, None);
        for shift in shifts {
            let (keys, values) = sorted.as_ref().map_or((keys, values), |(keys, values)| (keys, values));
            let to = spare.take().map_or_else(room, Ok)?;
            let count = self.kernel(&program, "sort_count")?.buffer(keys).value(len as u32).value(shift);
            count.buffer(&counts).over_groups_of(GROUP, items(len), len)?;
            scan.run(&counts)?;
            let scatter = self.kernel(&program, "sort_scatter")?.buffer(keys).buffer(values).value(len as u32);
            let scatter = scatter.value(shift).buffer(&counts).buffer(&to.0).buffer(&to.1);
            scatter.over_groups_of(GROUP, items(len), len)?;
            spare = sorted.replace(to);
        }
        sorted.map_or_else(room, Ok)
    }

    /// The bits in which keys differ; none if they ascend.
    fn differing(&self, keys: &Buffer<u32>) -> Result<u32> {
        let len = keys.len();
        let result: Buffer<u32> = self.filled(3, 0)?;
        let launch = self.kernel(&self.sort_program()?, "sort_differing")?.buffer(keys).value(len as u64);
        launch.buffer(&result).over_groups_of(GROUP, items(len), len)?;
        let mut found = [0; 3];
        self.read(&result, 0, &mut found)?;
        let [ones, zeros, falls] = found;
        Ok(if falls == 0 { 0 } else { ones & zeros })
    }
}

/// Work-items for so many pairs.
fn items(pairs: usize) -> usize {
    pairs.div_ceil(EACH)
}

/// Where digits begin that cover these bits, from the lowest up.
fn digits(mut bits: u32) -> Vec<u32> {
    let mut shifts = Vec::new();
    while bits != 0 {
        let shift = bits.trailing_zeros().min(u32::BITS - DIGIT_BITS);
        shifts.push(shift);
        bits &= !((DIGITS as u32 - 1) << shift);
    }
    shifts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_cover_the_bits_that_differ_and_no_more_than_four_are_needed() {
        let known: [(u32, &[u32]); 8] = [
            (0, &[]),
            (1, &[0]),
            (1 << 31, &[24]),
            (0xff00, &[8]),
            (0x1ff0, &[4, 12]),
            (0x8000_0001, &[0, 24]),
            (u32::MAX, &[0, 8, 16, 24]),
            (0x7fff_fffe, &[1, 9, 17, 24]),
        ];
        for (bits, shifts) in known {
            assert_eq!(digits(bits), shifts, "{bits:#x}");
        }
        for bits in (0..100_000u32).map(|i| i.wrapping_mul(0x9e37_79b9)) {
            let shifts = digits(bits);
            let covered = shifts.iter().fold(0, |covered, shift| covered | 0xff << shift);
            assert!(shifts.len() <= 4 && bits & !covered == 0 && shifts.is_sorted(), "{bits:#x}");
        }
    }
}
