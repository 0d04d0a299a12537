//! The text of a file, read in ranges. Ranges of a plain file are read into reused buffers when they are used: the
//! whole text would take more memory, and the kernel would map new pages for all of it.

use std::io;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use memchr::{memchr, memchr_iter};

use super::Data;
use super::csv::cut;

/// The most bytes of a row or line. A row is in memory as a whole; longer ones are unlikely to be rows.
pub(crate) const LONGEST: usize = 16 << 20;
/// The least bytes of a piece, which one thread reads.
pub(super) const LEAST: usize = 1 << 20;
/// The most bytes of a piece, not counting its last row.
pub(super) const MOST: usize = 4 << 20;
/// The most pieces that are in memory at once, for any number of threads.
pub(super) const AT_ONCE: usize = 8;
/// The bytes that are searched at a time for the end of a line.
const NEAR: usize = 4 << 10;
/// The bytes in which lines are counted at a time.
const BLOCK: usize = 1 << 20;

/// The number of pieces that are in memory at once.
pub(super) fn at_once() -> usize {
    rayon::current_num_threads().min(AT_ONCE)
}

pub(super) struct Text<'a> {
    data: &'a Data,
    length: usize,
    /// Buffers for ranges, to be reused.
    rooms: Mutex<Vec<Vec<u8>>>,
}

impl<'a> Text<'a> {
    pub(super) fn of(data: &'a Data) -> io::Result<Text<'a>> {
        let length = usize::try_from(data.length()).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        Ok(Text { data, length, rooms: Mutex::default() })
    }

    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// Calls `find` with the bytes of a range, all of which must exist, and returns its result.
    pub(super) fn look<T>(&self, range: Range<usize>, find: impl FnOnce(&[u8]) -> T) -> io::Result<T> {
        let rooms = || self.rooms.lock().unwrap_or_else(PoisonError::into_inner);
        let mut buffer = rooms().pop().unwrap_or_default();
        let found = self.data.range_in(range.start as u64, range.len(), &mut buffer).map(find);
        // The buffer of a range with a long row is not kept.
        if buffer.capacity() <= 2 * MOST {
            rooms().push(buffer);
        }
        found
    }

    /// The position after the first line end at or after `from`.
    pub(super) fn behind_line(&self, from: usize) -> io::Result<Option<usize>> {
        let mut at = from;
        while at < self.length {
            let end = self.length.min(at + NEAR);
            if let Some(line) = self.look(at..end, |bytes| memchr(b'\n', bytes))? {
                return Ok(Some(at + line + 1));
            }
            at = end;
        }
        Ok(None)
    }

    /// Ranges of whole lines from `start` on, in order, of about `size` bytes each. An empty text has no range.
    pub(super) fn lines(&self, start: usize, size: usize) -> io::Result<Vec<Range<usize>>> {
        let mut starts = vec![start];
        while let Some(next) = starts.last().and_then(|last| last.checked_add(size.max(1) - 1)) {
            let Some(next) = self.behind_line(next)? else { break };
            starts.push(next);
        }
        Ok(cut::ranges(&starts, self.length))
    }

    /// The number, from 1, of the line that contains a position.
    pub(super) fn line(&self, place: usize) -> io::Result<u64> {
        let end = place.min(self.length);
        let lines = (0..end)
            .step_by(BLOCK)
            .map(|start| self.look(start..end.min(start + BLOCK), |bytes| memchr_iter(b'\n', bytes).count() as u64));
        Ok(lines.sum::<io::Result<u64>>()? + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_whole_wherever_the_text_is_cut() {
        let lines = |text: &str, start, size| {
            let data = Data::from(text.as_bytes().to_vec());
            Text::of(&data).expect("a length").lines(start, size).expect("memory")
        };
        assert_eq!(lines("1\n2\n3\n", 0, 1), [0..2, 2..4, 4..6]);
        assert_eq!(lines("1\n2\n3", 2, 1), [2..4, 4..5]);
        assert_eq!(lines("1\n2\n3", 0, 3), [0..4, 4..5]);
        assert_eq!(lines("1\n2", 4, 3), []);
        assert_eq!(lines("", 0, 3), []);
        let long = format!("a\n{}\nb\n", "x".repeat(10_000));
        assert_eq!(lines(&long, 0, 10), [0..10_003, 10_003..10_005]);
    }
}
