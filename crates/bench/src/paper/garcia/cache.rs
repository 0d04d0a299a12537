//! A cache: lines in sets, from which the least recently used line is evicted.
//!
//! ```text
//! line of an address = address / bytes of a line        set of a line = line mod sets
//! a set              = its lines, last read first; a read moves its line to the front, and the last one is evicted
//! ```
//!
//! It does not model time: a line that is being loaded counts as present, so a read of it hits. It does not model
//! writes.

/// The sizes of a cache.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) sets: u32,
    /// Lines per set.
    pub(super) ways: u32,
    /// Bytes of a line.
    pub(super) line: u32,
}

/// The contents of a cache of this shape.
pub(super) struct Cache {
    shape: Shape,
    /// The lines, one set after the other.
    lines: Vec<u64>,
}

/// A line that no address has.
const NONE: u64 = u64::MAX;

impl Shape {
    /// The line of an address.
    pub(super) fn line_of(self, address: u64) -> u64 {
        address / u64::from(self.line)
    }
}

impl Cache {
    pub(super) fn empty(shape: Shape) -> Cache {
        Cache { shape, lines: vec![NONE; (shape.sets * shape.ways) as usize] }
    }

    /// Reads a line. Returns whether it was present.
    pub(super) fn read(&mut self, line: u64) -> bool {
        let ways = self.shape.ways as usize;
        let set = (line % u64::from(self.shape.sets)) as usize;
        let set = &mut self.lines[set * ways..(set + 1) * ways];
        let found = set.iter().position(|&there| there == line);
        // Moves the lines before it back by one. If it is new, all lines move, and the last one is evicted.
        set[..=found.unwrap_or(ways - 1)].rotate_right(1);
        set[0] = line;
        found.is_some()
    }
}

#[cfg(test)]
mod tests {
    use koel::scheme::hash::{SplitMix64, reduce};

    use super::*;

    const SMALL: Shape = Shape { sets: 8, ways: 4, line: 128 };

    /// The share of reads that hit.
    fn share(cache: &mut Cache, lines: impl Iterator<Item = u64>) -> f64 {
        let (mut reads, mut hits) = (0, 0);
        for line in lines {
            reads += 1;
            hits += u32::from(cache.read(line));
        }
        f64::from(hits) / f64::from(reads)
    }

    #[test]
    fn a_stream_misses_once_a_line() {
        for bytes in [4, 8, 16] {
            let addresses = (0..1 << 16).step_by(bytes);
            let hits = share(&mut Cache::empty(SMALL), addresses.map(|address| SMALL.line_of(address)));
            let words = f64::from(SMALL.line) / bytes as f64;
            assert!((hits - (words - 1.0) / words).abs() < 1e-12, "words of {bytes} bytes: {hits}");
        }
    }

    #[test]
    fn what_fits_stays_and_what_is_one_line_too_many_does_not() {
        let lines = u64::from(SMALL.sets * SMALL.ways);
        let mut cache = Cache::empty(SMALL);
        assert_eq!(share(&mut cache, 1000..1000 + lines), 0.0);
        for _ in 0..3 {
            assert_eq!(share(&mut cache, 1000..1000 + lines), 1.0);
        }
        // One set is read in a cycle of one line more than it has ways, so each line is evicted before its next read.
        // The other sets are not affected.
        let mut cache = Cache::empty(SMALL);
        share(&mut cache, 0..=lines);
        for _ in 0..3 {
            let misses: Vec<u64> = (0..=lines).filter(|&line| !cache.read(line)).collect();
            assert_eq!(misses, [0, 8, 16, 24, 32]);
        }
    }

    #[test]
    fn the_line_that_was_not_read_for_the_longest_time_goes() {
        let mut cache = Cache::empty(Shape { sets: 1, ways: 3, line: 64 });
        let mut read = |lines: &[u64]| lines.iter().map(|&line| cache.read(line)).collect::<Vec<_>>();
        assert_eq!(read(&[1, 2, 3, 1]), [false, false, false, true]);
        // Line 4 evicts line 2; then line 3 is evicted, because line 1 was read after it.
        assert_eq!(read(&[4, 1, 3, 4]), [false, true, true, true]);
        assert_eq!(read(&[2, 3, 4, 1]), [false, true, true, false]);
    }

    /// Random reads over a set several times as large as the cache hit with the share of the set that the cache
    /// contains.
    #[test]
    fn random_reads_hit_as_often_as_the_cache_is_large() {
        for times in [2, 4, 16] {
            let lines = times * SMALL.sets * SMALL.ways;
            let mut random = SplitMix64::new(7);
            let mut cache = Cache::empty(SMALL);
            let hits = share(&mut cache, (0..200_000).map(|_| reduce(random.next_u32(), lines).into()));
            assert!((hits * f64::from(times) - 1.0).abs() < 0.02, "{times}: {hits}");
        }
    }
}
