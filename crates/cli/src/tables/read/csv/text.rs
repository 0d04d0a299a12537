//! The text of a file, range by range. Ranges of a plain file are read when they are used, into memory that is reused:
//! a whole text would take as much memory as it is long, and time for the kernel to map its pages.

use std::io;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use memchr::{memchr, memchr_iter};

use super::Data;

/// Bytes that are looked at for the end of a line.
const NEAR: usize = 4 << 10;
/// Bytes that lines are counted in.
const BLOCK: usize = 1 << 20;

pub(super) struct Text<'a> {
    data: &'a Data,
    length: usize,
    /// Memory of ranges that were looked at.
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

    /// What is found in a range, all of which must be there.
    pub(super) fn look<T>(&self, range: Range<usize>, find: impl FnOnce(&[u8]) -> T) -> io::Result<T> {
        let rooms = || self.rooms.lock().unwrap_or_else(PoisonError::into_inner);
        let mut buffer = rooms().pop().unwrap_or_default();
        let found = self.data.range_in(range.start as u64, range.len(), &mut buffer).map(find);
        // Memory of a range with a long row is not kept.
        if buffer.capacity() <= 2 * super::MOST {
            rooms().push(buffer);
        }
        found
    }

    /// Behind the first line end from a place on.
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

    /// The number of the line in which a place is, from 1.
    pub(super) fn line(&self, place: usize) -> io::Result<u64> {
        let end = place.min(self.length);
        let lines = (0..end)
            .step_by(BLOCK)
            .map(|start| self.look(start..end.min(start + BLOCK), |bytes| memchr_iter(b'\n', bytes).count() as u64));
        Ok(lines.sum::<io::Result<u64>>()? + 1)
    }
}
