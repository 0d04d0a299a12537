//! Refuses text with a line longer than the longest row while it is decompressed or read from a pipe. Otherwise the
//! whole line would first be stored in memory or in a temporary file.

use std::io::{self, Read};

use super::csv::TOO_LONG;
use super::text::LONGEST;

/// A reader of text.
pub(super) struct Lines<R> {
    reader: R,
    /// Bytes since the last line end.
    line: usize,
}

impl<R: Read> Lines<R> {
    pub(super) fn of(reader: R) -> Lines<R> {
        Lines { reader, line: 0 }
    }
}

impl<R: Read> Read for Lines<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.reader.read(buffer)?;
        self.line = memchr::memrchr(b'\n', &buffer[..length]).map_or(self.line + length, |end| length - end - 1);
        if self.line > LONGEST {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, TOO_LONG));
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
    }
}
