//! Refuses text with a line longer than the longest row while it is decompressed or read from a pipe: otherwise all of
//! it would be in memory or in a temporary file first.

use std::io::{self, Read};

use super::csv::TOO_LONG;
use super::text::LONGEST;
use super::{SIGNATURE, may_be_text};

/// A reader of what may be text.
pub(super) struct Lines<R> {
    reader: R,
    /// The first bytes, as many as show whether this may be text.
    head: Vec<u8>,
    /// Bytes since the last line end; none if this is not text.
    line: Option<usize>,
}

impl<R: Read> Lines<R> {
    pub(super) fn of(reader: R) -> Lines<R> {
        Lines { reader, head: Vec::with_capacity(SIGNATURE), line: Some(0) }
    }
}

impl<R: Read> Read for Lines<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.reader.read(buffer)?;
        let bytes = &buffer[..length];
        // A read of a pipe may return fewer bytes than show the format.
        if self.head.len() < SIGNATURE {
            let missing = SIGNATURE - self.head.len();
            self.head.extend_from_slice(&bytes[..missing.min(length)]);
            if self.head.len() == SIGNATURE && !may_be_text(&self.head) {
                self.line = None;
            }
        }
        if let Some(line) = &mut self.line {
            *line = memchr::memrchr(b'\n', bytes).map_or(*line + length, |end| length - end - 1);
            if *line > LONGEST {
                return Err(io::Error::new(io::ErrorKind::FileTooLarge, TOO_LONG));
            }
        }
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_of_text_are_refused() {
        let read = |begin: &[u8], length: u64, end: &[u8]| {
            let reader = begin.chain(io::repeat(b'x').take(length)).chain(end);
            io::copy(&mut Lines::of(reader), &mut io::sink()).map_err(|error| error.kind())
        };
        let most = LONGEST as u64;
        assert_eq!(read(b"a,b,column,d\n", most, b"\nx\n"), Ok(most + 16));
        assert_eq!(read(b"a,b,column,d\n", most + 1, b"\nx\n"), Err(io::ErrorKind::FileTooLarge));
        assert_eq!(read(b"PAR1 and more", most + 1, b"\n"), Ok(most + 15));
        // A pipe whose writer began with a few bytes.
        for first in ["a", "a,b\nc", "PAR1", "PAR1 a", "\n\n\n\n\n\n\n"] {
            let rest = io::repeat(b'x').take(most + 9);
            let found = io::copy(&mut Lines::of(first.as_bytes().chain(rest)), &mut io::sink());
            let found = found.map_err(|error| error.kind());
            let is_text = !first.starts_with("PAR1");
            let expected = if is_text { Err(io::ErrorKind::FileTooLarge) } else { Ok(most + 9 + first.len() as u64) };
            assert_eq!(found, expected, "{first:?}");
        }
    }
}
