//! FASTA: each record is a line `>name`, followed by lines of letters up to the next record.
//!
//! Lines that begin with `;` are comments, and blanks are ignored.

use std::io::BufRead;

use super::{Sequences, Unread};

/// The part of the text to which a byte belongs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    LineStart,
    /// The name of a record, up to the first blank.
    Name,
    /// The rest of the name's line, or a comment.
    Ignored,
    Sequence,
}

/// Reads FASTA.
///
/// # Errors
/// [`Unread`] if the file has letters outside of a record or cannot be read, or if `sequences` returns an error.
pub fn read<S: Sequences>(mut reader: impl BufRead, sequences: &mut S) -> Result<(), Unread<S::Error>> {
    let (mut place, mut line, mut is_begun) = (Place::LineStart, 1u64, false);
    loop {
        let chunk = reader.fill_buf()?;
        if chunk.is_empty() {
            return Ok(());
        }
        for &byte in chunk {
            match (byte, place) {
                (b'\n', _) => {
                    place = Place::LineStart;
                    line += 1;
                }
                // A lone carriage return ends a line (classic Mac OS); before a line feed this makes no difference.
                (b'\r', _) => place = Place::LineStart,
                (_, Place::Ignored) => {}
                (byte, Place::Name) if byte.is_ascii_whitespace() => place = Place::Ignored,
                (byte, Place::Name) => sequences.name(byte, line).map_err(Unread::Stopped)?,
                (b'>', Place::LineStart) => {
                    sequences.record().map_err(Unread::Stopped)?;
                    (place, is_begun) = (Place::Name, true);
                }
                (b';', Place::LineStart) => place = Place::Ignored,
                (byte, _) if byte.is_ascii_whitespace() => {}
                _ if !is_begun => {
                    return Err(Unread::at(line, "a FASTA file begins with a line `>name`; this one does not"));
                }
                (byte, _) => {
                    place = Place::Sequence;
                    sequences.letter(byte, line).map_err(Unread::Stopped)?;
                }
            }
        }
        let read = chunk.len();
        reader.consume(read);
        sequences.progress().map_err(Unread::Stopped)?;
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Texts, texts};
    use super::read;

    fn fasta(text: &str) -> Texts {
        texts(|sequences| read(text.as_bytes(), sequences))
    }

    #[test]
    fn records_are_read_with_any_line_endings() {
        let both = Ok(vec![("a".into(), "ACGT".into()), ("b".into(), "GG".into())]);
        for text in [">a\nACGT\n>b\nGG\n", ";x\n>a first\nAC\n; y\n G T\n>b\r\nG\r\n\r\nG", ">a\rACGT\r>b\rGG\r"] {
            assert_eq!(fasta(text), both, "{text:?}");
        }
        assert_eq!(fasta(""), Ok(vec![]));
        assert_eq!(fasta(">\n>c"), Ok(vec![(String::new(), String::new()), ("c".into(), String::new())]));
    }

    #[test]
    fn letters_before_the_first_record_are_refused_with_their_line() {
        let error = fasta(";x\nACGT\n").expect_err("no record");
        assert!(error.starts_with("line 2: a FASTA file begins with"), "{error}");
        assert_eq!(fasta(">a\nAC\nA!\n"), Err("stopped at line 3".into()));
    }
}
