//! The host side of cl/sort.cl and cl/sort_alone.cl; that of cl/sort_runs.cl is in `sort/runs.rs`.

mod runs;

use super::scan::Scan;
use crate::backend::{DeviceBuffer, DeviceKind, HashBackend, Word};
use crate::error::{Error, Result};
use crate::opencl::runtime::program::{SORT, SORT_ALONE, SORT_RUNS};
use crate::opencl::runtime::sizes::MOST_PASS_GROUP;
use crate::opencl::{Buffer, OpenCl};

/// Pairs of one work-item, as the words of cl/sort.cl require.
const EACH: usize = 16;
/// Bits of a digit, and the number of its values.
const DIGIT_BITS: u32 = 8;
const DIGITS: usize = 1 << DIGIT_BITS;
/// The maximum number of chunks of tiles: enough to keep any GPU busy, but few enough that their counts need little
/// memory.
const MOST_CHUNKS: usize = 1024;
/// The maximum number of chunks if each belongs to one work-item.
const MOST_CHUNKS_ALONE: usize = 256;
/// The minimum number of pairs for [`Strategy::Runs`], which reads from the device once more.
const FEWEST: usize = 1 << 14;
/// Counts that one work-item adds up.
const COUNTS_EACH: usize = 8;
/// Pairs that a work-item reads to determine the bits in which keys differ.
const LOOKS_EACH: usize = 16;

// The constants that `sorted::counts_bytes` assumes.
const _: () =
    assert!(MOST_PASS_GROUP * EACH == 4096 && DIGITS == 256 && MOST_CHUNKS == 1024 && MOST_CHUNKS_ALONE <= MOST_CHUNKS);

/// The maximum number of pairs: their positions are 32-bit numbers.
const MOST_PAIRS: u64 = u32::MAX as u64;

/// Keys and their values.
type Columns<K, V> = (Buffer<K>, Buffer<V>);

/// How pairs are sorted. All strategies have the same result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::opencl) enum Strategy {
    /// A chunk is processed by a single work-item: on CPUs.
    Alone,
    /// A chunk is processed by a group for each of its tiles.
    Together,
    /// The most significant digits as [`Together`](Strategy::Together), and the others by one pass in local memory, if
    /// the keys permit it: on all devices but CPUs, where it is faster.
    Runs,
}

/// What is known about keys before they are sorted.
struct Inspected {
    /// The bits in which keys differ; 0 if they are ascending.
    differing: u64,
    /// Keys of pseudo-random rows.
    sample: Vec<u64>,
}

impl Strategy {
    /// The maximum number of chunks of a batch.
    fn most_chunks(self) -> usize {
        match self {
            Strategy::Alone => MOST_CHUNKS_ALONE,
            Strategy::Together | Strategy::Runs => MOST_CHUNKS,
        }
    }
}

/// The chunks of a batch, and the memory that its passes share.
struct Passes<'a> {
    device: &'a OpenCl,
    strategy: Strategy,
    len: usize,
    tiles: usize,
    /// Tiles of each chunk but the last.
    each: usize,
    chunks: usize,
    /// The counts before each tile within its chunk, by tile and digit.
    befores: Buffer<u32>,
    /// The counts of each chunk, by digit and chunk; with [`Strategy::Alone`], the starts of each chunk.
    counts: Buffer<u32>,
    /// The counts of all chunks together, by pass and digit.
    totals: Buffer<u32>,
    /// The start of each chunk, by chunk and digit.
    starts: Buffer<u32>,
}

impl OpenCl {
    pub(in crate::opencl) fn sort_program<K: Word, V: Word>(&self, strategy: Strategy) -> Result<ocl::core::Program> {
        let words = [("KEY_WORDS", K::BITS / u32::BITS), ("VALUE_WORDS", V::BITS / u32::BITS)];
        let mut parameters = words.to_vec();
        parameters.push(("DIGIT_BITS", DIGIT_BITS));
        match strategy {
            Strategy::Alone => {
                parameters.push(("GROUP", 1));
                self.program(SORT_ALONE, &parameters)
            }
            Strategy::Together | Strategy::Runs => {
                let each = [("EACH", EACH as u32), ("COUNTS_EACH", COUNTS_EACH as u32)];
                parameters.extend([("GROUP", self.pass_group() as u32), ("WIDE", 0)].into_iter().chain(each));
                if strategy == Strategy::Together {
                    return self.program(SORT, &parameters);
                }
                parameters.extend(self.registers(runs::REGISTERS_EACH));
                self.program(SORT_RUNS, &parameters)
            }
        }
    }

    /// Pairs of one tile.
    fn sort_tile(&self) -> usize {
        self.pass_group() * EACH
    }

    /// Reads at most 16 KiB from the device, and a word after a sort by runs. Then, unless keys are ascending, runs a
    /// count, a scan and a scatter for each of at most four or eight digits, or for the most significant ones, and a
    /// pass over the others.
    pub(in crate::opencl) fn run_sort_pairs<K: Word, V: Word>(
        &self,
        keys: &Buffer<K>,
        values: &Buffer<V>,
    ) -> Result<Columns<K, V>> {
        let strategy = match self.0.info.kind {
            DeviceKind::Cpu => Strategy::Alone,
            _ if keys.len() < FEWEST => Strategy::Together,
            _ => Strategy::Runs,
        };
        self.sort_pairs_by(strategy, strategy.most_chunks(), keys, values)
    }

    /// As [`run_sort_pairs`](Self::run_sort_pairs), with this strategy, in at most this many chunks.
    pub(in crate::opencl) fn sort_pairs_by<K: Word, V: Word>(
        &self,
        strategy: Strategy,
        most_chunks: usize,
        keys: &Buffer<K>,
        values: &Buffer<V>,
    ) -> Result<Columns<K, V>> {
        let len = keys.len();
        Error::check_length("the values", values.len(), len)?;
        if len as u64 > MOST_PAIRS {
            return Err(Error::TooLarge { what: "pairs to sort", requested: len as u64, most: MOST_PAIRS });
        }
        let samples = if strategy == Strategy::Runs { runs::SAMPLES } else { 0 };
        let inspected = self.inspect::<K, V>(keys, samples)?;
        let shifts = digits(inspected.differing);
        if shifts.is_empty() {
            return Ok((self.clone_buffer(keys)?, self.clone_buffer(values)?));
        }
        let passes = |count| Passes::of(self, strategy, chunks_of(len, self.sort_tile(), most_chunks), len, count);
        if let Some(top) = runs::top_digits(&inspected, len, self.sort_tile(), shifts.len())
            && let Some(sorted) = passes(top.len())?.by_runs(&top, inspected.differing, keys, values)?
        {
            return Ok(sorted);
        }
        Ok(passes(shifts.len())?.all(&shifts, keys, values)?.0)
    }

    /// Pairs in ascending order of the upper bits of their keys, which are less than `end`: in 256 parts or fewer.
    pub(in crate::opencl) fn in_parts<K: Word, V: Word>(
        &self,
        keys: &Buffer<K>,
        values: &Buffer<V>,
        end: usize,
    ) -> Result<Columns<K, V>> {
        let shift = end.next_power_of_two().ilog2().saturating_sub(DIGIT_BITS);
        let chunks = chunks_of(keys.len(), self.sort_tile(), MOST_CHUNKS);
        Ok(Passes::of(self, Strategy::Together, chunks, keys.len(), 1)?.all(&[shift], keys, values)?.0)
    }

    /// Inspects keys, and returns this many of them.
    fn inspect<K: Word, V: Word>(&self, keys: &Buffer<K>, samples: usize) -> Result<Inspected> {
        let (len, words) = (keys.len(), (K::BITS / u32::BITS) as usize);
        let mut found = vec![0; 5 + words * samples];
        let result: Buffer<u32> = self.filled(found.len(), 0)?;
        let program = self.sort_program::<K, V>(Strategy::Together)?;
        let launch = self.kernel(&program, "sort_differing")?.buffer(keys).value(len as u64).value(samples as u32);
        launch.buffer(&result).over_groups_of(self.pass_group(), len.div_ceil(LOOKS_EACH), len)?;
        self.read(&result, 0, &mut found)?;
        let joined = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
        let key = |key: &[u32]| joined(key.get(1).copied().unwrap_or(0), key[0]);
        let sample = found[5..].chunks_exact(words).map(key).collect();
        let differing = if found[2] == 0 { 0 } else { joined(found[3] & found[4], found[0] & found[1]) };
        Ok(Inspected { differing, sample })
    }
}

impl<'a> Passes<'a> {
    fn of(
        device: &'a OpenCl,
        strategy: Strategy,
        (tiles, each): (usize, usize),
        len: usize,
        passes: usize,
    ) -> Result<Passes<'a>> {
        let together = |count: usize| if strategy == Strategy::Alone { 0 } else { count };
        let chunks = tiles.div_ceil(each);
        Ok(Passes {
            device,
            strategy,
            len,
            tiles,
            each,
            chunks,
            befores: Buffer::allocate(device, together(DIGITS * tiles))?,
            counts: Buffer::allocate(device, DIGITS * chunks)?,
            totals: device.filled(together(DIGITS * passes), 0)?,
            starts: Buffer::allocate(device, together(DIGITS * chunks))?,
        })
    }

    /// Sorts by the digits that begin at these bits, of which there is at least one. Returns the result, and the
    /// columns of the last pass but one if there are any.
    fn all<K: Word, V: Word>(
        self,
        shifts: &[u32],
        keys: &Buffer<K>,
        values: &Buffer<V>,
    ) -> Result<(Columns<K, V>, Option<Columns<K, V>>)> {
        // The output of the last pass, and that of the next one.
        let (mut sorted, mut spare) = (None, None);
        for (pass, &shift) in (0..).zip(shifts) {
            let from = sorted.as_ref().map_or((keys, values), |(keys, values)| (keys, values));
            let to = spare.take().map_or_else(|| columns(self.device, self.len), Ok)?;
            match self.strategy {
                Strategy::Alone => self.alone(shift, from, &to)?,
                Strategy::Together | Strategy::Runs => self.together(pass, shift, from, &to)?,
            }
            spare = sorted.replace(to);
        }
        Ok((sorted.map_or_else(|| columns(self.device, self.len), Ok)?, spare))
    }

    /// The pass of this number, over the digit that begins at bit `shift`.
    fn together<K: Word, V: Word>(
        &self,
        pass: u32,
        shift: u32,
        (keys, values): (&Buffer<K>, &Buffer<V>),
        to: &Columns<K, V>,
    ) -> Result<()> {
        let (device, len, each) = (self.device, self.len as u32, self.each as u32);
        let group = device.pass_group();
        let program = device.sort_program::<K, V>(Strategy::Together)?;
        let count = device.kernel(&program, "sort_count")?.buffer(keys).value(len).value(each).value(pass).value(shift);
        let count = count.buffer(&self.befores).buffer(&self.counts).buffer(&self.totals);
        count.over_groups_of(group, group * self.chunks, self.len)?;
        let start = device.kernel(&program, "sort_starts")?.buffer(&self.counts).value(self.chunks as u32).value(pass);
        let start = start.buffer(&self.totals).buffer(&self.starts);
        start.over_groups_of(group, self.counts.len().div_ceil(COUNTS_EACH), self.counts.len())?;
        let scatter = device.kernel(&program, "sort_scatter")?.buffer(keys).buffer(values).value(len).value(each);
        let scatter = scatter.value(shift).buffer(&self.befores).buffer(&self.starts).buffer(&to.0).buffer(&to.1);
        scatter.over_groups_of(group, group * self.tiles, self.len)
    }

    /// As [`together`](Self::together), with one work-item per chunk.
    fn alone<K: Word, V: Word>(
        &self,
        shift: u32,
        (keys, values): (&Buffer<K>, &Buffer<V>),
        to: &Columns<K, V>,
    ) -> Result<()> {
        let device = self.device;
        let (len, chunk) = (self.len as u64, (self.each * device.sort_tile()) as u64);
        let program = device.sort_program::<K, V>(self.strategy)?;
        let count = device.kernel(&program, "sort_count")?.buffer(keys).value(len).value(chunk).value(shift);
        count.buffer(&self.counts).over_groups_of(1, self.chunks, self.len)?;
        Scan::of(device, self.counts.len())?.run(&self.counts)?;
        let scatter = device.kernel(&program, "sort_scatter")?.buffer(keys).buffer(values).value(len).value(chunk);
        let scatter = scatter.value(shift).buffer(&self.counts).buffer(&to.0).buffer(&to.1);
        scatter.over_groups_of(1, self.chunks, self.len)
    }
}

/// Columns for this many pairs.
fn columns<K: Word, V: Word>(device: &OpenCl, len: usize) -> Result<Columns<K, V>> {
    Ok((Buffer::allocate(device, len)?, Buffer::allocate(device, len)?))
}

/// The number of tiles of this many pairs, and how many of them each of at most `most` chunks has.
fn chunks_of(pairs: usize, tile: usize, most: usize) -> (usize, usize) {
    let tiles = pairs.div_ceil(tile);
    (tiles, tiles.div_ceil(most).max(1))
}

/// The shifts of digits that cover these bits, from the lowest up. No digit is in both halves.
fn digits(bits: u64) -> Vec<u32> {
    let mut shifts = Vec::new();
    for (mut half, begin) in [(bits as u32, 0), ((bits >> 32) as u32, u32::BITS)] {
        while half != 0 {
            let shift = half.trailing_zeros().min(u32::BITS - DIGIT_BITS);
            shifts.push(begin + shift);
            half &= !((DIGITS as u32 - 1) << shift);
        }
    }
    shifts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_hold_all_tiles_and_are_no_more_than_allowed() {
        const TILE: usize = 4096;
        for most in [MOST_CHUNKS, MOST_CHUNKS_ALONE] {
            for pairs in [1, TILE, TILE + 1, 1 << 20, TILE * most, TILE * most + 1, 100_000_007, u32::MAX as usize] {
                let (tiles, each) = chunks_of(pairs, TILE, most);
                assert!(tiles * TILE >= pairs && (tiles - 1) * TILE < pairs, "{pairs}");
                assert!((1..=most).contains(&tiles.div_ceil(each)), "{pairs}");
            }
        }
        assert_eq!(
            (chunks_of(1 << 20, TILE, MOST_CHUNKS), chunks_of(1 << 26, TILE, MOST_CHUNKS)),
            ((256, 1), (16_384, 16))
        );
    }

    #[test]
    fn digits_cover_the_bits_that_differ_and_no_more_than_four_a_half_are_needed() {
        let known: [(u64, &[u32]); 10] = [
            (0, &[]),
            (1, &[0]),
            (1 << 31, &[24]),
            (0xff00, &[8]),
            (0x1ff0, &[4, 12]),
            (0x8000_0001, &[0, 24]),
            (u32::MAX.into(), &[0, 8, 16, 24]),
            (0x7fff_fffe, &[1, 9, 17, 24]),
            (0xff_8000_0000, &[24, 32]),
            (u64::MAX, &[0, 8, 16, 24, 32, 40, 48, 56]),
        ];
        for (bits, shifts) in known {
            assert_eq!(digits(bits), shifts, "{bits:#x}");
        }
        for bits in (0..100_000u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)) {
            let shifts = digits(bits);
            let covered = shifts.iter().fold(0, |covered, shift| covered | 0xff << shift);
            assert!(shifts.len() <= 8 && bits & !covered == 0 && shifts.is_sorted(), "{bits:#x}");
        }
    }
}
