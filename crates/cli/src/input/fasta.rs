//! FASTA: records of a line `>name` and lines of letters, as many as there are until the next.
//!
//! Lines that begin with `;` are comments, and blank space is nothing. What becomes of the letters: `window.rs`.

use std::io::BufRead;

use super::Name;
use super::window::Sequences;
use crate::failure::Result;

/// Where in the text a byte stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    LineStart,
    /// The name of a record, up to the first blank.
    Name,
    /// The rest of its line, or a comment.
    Ignored,
    Sequence,
}

/// Hands on the records of a text.
pub(super) fn read(mut reader: impl BufRead, file: &Name, sequences: &mut impl Sequences) -> Result<()> {
    let (mut place, mut line, mut is_begun) = (Place::LineStart, 1u64, false);
    loop {
        let chunk = reader.fill_buf().map_err(|error| file.io(&error))?;
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
                (_, Place::Ignored) => {}
                (byte, Place::Name) if byte.is_ascii_whitespace() => place = Place::Ignored,
                (byte, Place::Name) => sequences.name(byte, line)?,
                (b'>', Place::LineStart) => {
                    sequences.record()?;
                    (place, is_begun) = (Place::Name, true);
                }
                (b';', Place::LineStart) => place = Place::Ignored,
                (byte, _) if byte.is_ascii_whitespace() => {}
                _ if !is_begun => {
                    return Err(file.at(line, "a FASTA file begins with a line `>name`; this one does not"));
                }
                (byte, _) => {
                    place = Place::Sequence;
                    sequences.letter(byte, line)?;
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

    #[test]
    fn what_is_no_sequence_is_refused_with_its_line() {
        let kmers = |text: &str| pairs("x.fa", text.as_bytes(), Some(3));
        assert!(kmers("ACGT\n").is_err_and(|error| error.contains("line 1")));
        assert!(kmers(">r\nACGT\nAC1\n").is_err_and(|error| error.contains("line 3")));
        assert_eq!(kmers(";x\n> \n;y\n A CG\n;z\nT\n"), Ok(vec![(6, 0), (27, 1)]), "comments and blanks");
    }
}
