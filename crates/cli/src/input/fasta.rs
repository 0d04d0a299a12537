//! FASTA: every window of K letters is a key, its place the value.
//!
//! ```text
//! key    A C G T = 0 1 2 3, the first letter most significant; upper and lower case are one
//! value  where the window's first letter stands, counted from 0 through all records
//! ```
//!
//! A window never crosses a record's border or another letter (N, say), but those letters count as places.

use std::io::BufRead;

use super::{Name, Sink};
use crate::failure::Result;

/// Where in the text a byte stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    LineStart,
    Header,
    Sequence,
}

/// Reads windows of `k` letters, `1..=16`, into a sink.
pub(super) fn read(mut reader: impl BufRead, name: &Name, k: u32, sink: &mut impl Sink) -> Result<()> {
    let mask = u32::MAX >> (32 - 2 * k);
    let (mut place, mut line, mut records) = (Place::LineStart, 1u64, 0u64);
    let (mut key, mut letters, mut position) = (0u32, 0u32, 0u64);
    loop {
        let chunk = reader.fill_buf().map_err(|error| name.io(&error))?;
        if chunk.is_empty() {
            return Ok(());
        }
        for &byte in chunk {
            match (byte, place) {
                (b'\n', _) => {
                    place = Place::LineStart;
                    line += 1;
                }
                // Alone it ends a line too, as it once did on one system; before a line feed that makes no difference.
                (b'\r', _) => place = Place::LineStart,
                (_, Place::Header) => {}
                (b'>', Place::LineStart) => {
                    (place, letters) = (Place::Header, 0);
                    records += 1;
                }
                (b';', Place::LineStart) => place = Place::Header,
                (byte, _) if byte.is_ascii_whitespace() => {}
                _ if records == 0 => {
                    return Err(name.at(line, "a FASTA file begins with a line `>name`; this one does not"));
                }
                (byte, _) => {
                    place = Place::Sequence;
                    let base = match byte.to_ascii_uppercase() {
                        b'A' => Some(0),
                        b'C' => Some(1),
                        b'G' => Some(2),
                        b'T' => Some(3),
                        b'B'..=b'Z' | b'-' | b'*' | b'.' => None,
                        _ => {
                            let shown = byte.escape_ascii();
                            return Err(name.at(line, format!("`{shown}` is no letter of a sequence")));
                        }
                    };
                    position += 1;
                    letters = if base.is_some() { (letters + 1).min(k) } else { 0 };
                    key = (key << 2 | base.unwrap_or(0)) & mask;
                    if letters == k {
                        let first = u32::try_from(position - u64::from(k));
                        sink.push(key, first.map_err(|_| name.at(line, "there are more than 4294967296 letters"))?)?;
                    }
                }
            }
        }
        let read = chunk.len();
        reader.consume(read);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::pairs;

    fn kmers(text: &str, k: u32) -> Result<Vec<(u32, u32)>, String> {
        pairs("x.fa", text.as_bytes(), Some(k))
    }

    #[test]
    fn windows_stay_inside_records_and_known_letters() {
        // ACG = 000110 = 6, CGT = 011011 = 27
        assert_eq!(kmers(">r one\nACGT\n", 3), Ok(vec![(6, 0), (27, 1)]));
        assert_eq!(kmers(">r\nac\r\ngt\r\n", 3), Ok(vec![(6, 0), (27, 1)]), "lines are joined, case is ignored");
        assert_eq!(kmers(">r\nACGNACG\n", 3), Ok(vec![(6, 0), (6, 4)]), "N takes a place and breaks windows");
        assert_eq!(kmers(">a\nAC\n>b\nGACG\n", 3), Ok(vec![(33, 2), (6, 3)]), "records break windows, places go on");
        assert_eq!(kmers(">r\nA\nC", 1), Ok(vec![(0, 0), (1, 1)]));
        assert_eq!(kmers(">r\nTTTTTTTTTTTTTTTT", 16), Ok(vec![(u32::MAX, 0)]));
        assert_eq!(kmers("", 3), Ok(vec![]));
        assert_eq!(kmers(">r\nAC\n", 3), Ok(vec![]), "shorter than a window");
    }

    #[test]
    fn what_is_no_sequence_is_refused_with_its_line() {
        assert!(kmers("ACGT\n", 3).is_err_and(|error| error.contains("line 1")));
        assert!(kmers(">r\nACGT\nAC1\n", 3).is_err_and(|error| error.contains("line 3")));
        assert!(kmers("@read\nACGT\n", 3).is_err(), "FASTQ");
    }
}
