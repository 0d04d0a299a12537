//! FASTQ: each record has a name, letters, and one quality character per letter. Quality is checked and ignored.
//!
//! ```text
//! @name description                 a line
//! ACGTN..                           lines, up to one that begins with +
//! +                                 a line whose rest is the name again, or empty
//! IIII#..                           lines, until there are as many characters as letters
//! ```
//!
//! A line of quality may begin with `@` or `+`, so the end of the quality is found by counting its characters. Letters
//! and quality may have any number of lines, and blank lines are ignored. For each record, only its line number and the
//! numbers of letters and of quality characters are stored.

use std::io::BufRead;

use super::{Sequences, Unread};

/// The part of the text to which a byte belongs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// No record: the last one has ended, or none has begun.
    Between,
    /// The name, up to the first blank.
    Name,
    /// The rest of the name's line.
    Title,
    /// A line of letters, at its start.
    LineStart,
    Sequence,
    /// The line `+`.
    Plus,
    Quality,
}

/// The record that is being read.
#[derive(Default)]
struct Record {
    /// The line on which the record begins.
    line: u64,
    letters: u64,
    /// The number of quality characters so far.
    quality: u64,
}

/// Reads FASTQ.
///
/// # Errors
/// [`Unread`] if the file is damaged or cannot be read, or if `sequences` returns an error.
pub fn read<S: Sequences>(mut reader: impl BufRead, sequences: &mut S) -> Result<(), Unread<S::Error>> {
    let (mut place, mut line) = (Place::Between, 1u64);
    let mut record = Record::default();
    loop {
        let chunk = reader.fill_buf()?;
        if chunk.is_empty() {
            return record.ended(place).map_err(|reason| Unread::at(line, reason));
        }
        for &byte in chunk {
            // As in FASTA, a carriage return ends a line whether or not a line feed follows.
            let is_end = matches!(byte, b'\n' | b'\r');
            place = match place {
                Place::Name | Place::Title if is_end => Place::LineStart,
                Place::Name if byte.is_ascii_whitespace() => Place::Title,
                Place::Name => {
                    sequences.name(byte, line).map_err(Unread::Stopped)?;
                    Place::Name
                }
                Place::Title => Place::Title,
                Place::LineStart | Place::Sequence if is_end => Place::LineStart,
                Place::LineStart if byte == b'+' => Place::Plus,
                Place::LineStart if byte == b'@' => return Err(Unread::at(line, record.lacks_plus())),
                Place::Between | Place::LineStart | Place::Sequence if byte.is_ascii_whitespace() => place,
                Place::LineStart | Place::Sequence => {
                    sequences.letter(byte, line).map_err(Unread::Stopped)?;
                    record.letters += 1;
                    Place::Sequence
                }
                Place::Plus if !is_end => Place::Plus,
                Place::Plus | Place::Quality if is_end => {
                    if record.quality == record.letters {
                        Place::Between
                    } else {
                        Place::Quality
                    }
                }
                Place::Plus | Place::Quality => {
                    record.quality += 1;
                    record.check(byte).map_err(|reason| Unread::at(line, reason))?;
                    Place::Quality
                }
                Place::Between if byte == b'@' => {
                    record = Record { line, ..Record::default() };
                    sequences.record().map_err(Unread::Stopped)?;
                    Place::Name
                }
                Place::Between => return Err(Unread::at(line, record.not_followed())),
            };
            line += u64::from(byte == b'\n');
        }
        let read = chunk.len();
        reader.consume(read);
        sequences.progress().map_err(Unread::Stopped)?;
    }
}

impl Record {
    /// Rejects an invalid quality character, or one that exceeds the number of letters.
    fn check(&self, character: u8) -> Result<(), String> {
        let Record { line, letters, .. } = self;
        if !character.is_ascii_graphic() {
            let shown = character.escape_ascii();
            return Err(format!("`{shown}` is not a quality character: those are `!` to `~`"));
        }
        if self.quality > *letters {
            let advice = "it must have as many characters as the sequence has letters";
            return Err(format!(
                "the quality of the record of line {line} is longer than its {letters} letters: {advice}"
            ));
        }
        Ok(())
    }

    /// The message for a record that begins before the quality of this one.
    fn lacks_plus(&self) -> String {
        let advice = "a line `+` and the quality belong before the next `@name`";
        format!("the record of line {} has no quality: {advice}", self.line)
    }

    /// The message for text after this record that does not begin a record.
    fn not_followed(&self) -> String {
        let Record { line, letters, .. } = self;
        if *line == 0 {
            return "a FASTQ file begins with a line `@name`; this one does not".into();
        }
        let advice = "a line `@name` must follow";
        format!("the record of line {line} has all {letters} characters of its quality: {advice}")
    }

    /// Returns an error with the reason if the text may not end here.
    fn ended(&self, place: Place) -> Result<(), String> {
        let Record { line, letters, quality } = self;
        match place {
            Place::Between => Ok(()),
            Place::Plus | Place::Quality if quality == letters => Ok(()),
            Place::Plus | Place::Quality => Err(format!(
                "the file ends within the record of line {line}: its quality has {quality} characters, and its sequence \
                 {letters} letters: is the file cut short?"
            )),
            _ => Err(format!(
                "the file ends within the record of line {line}, before its line `+`: is the file cut short?"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Texts, texts};
    use super::read;

    fn fastq(text: &str) -> Texts {
        texts(|sequences| read(text.as_bytes(), sequences))
    }

    #[test]
    fn records_are_read_with_any_line_endings() {
        let both = [("a", "ACGT"), ("b", "GACG")].map(|(name, letters)| (name.into(), letters.into())).to_vec();
        for text in [
            "@a\nACGT\n+\nIIII\n@b\nGACG\n+\nIIII\n",
            "@a x\nACGT\n+a x\n@+@+\n@b\nGACG\n+\n+@@@",
            "@a\r\nAC\r\nGT\r\n+\r\nII\r\n@I\r\n@b\r\nGA\r\nCG\r\n+\r\n+I\r\n\r\nII\r\n",
            "\n @a\nACGT\n+\nI\nI\nI\nI\n\n\n@b\nGACG\n+\nIIII\n",
            "@a\rACGT\r+\rIIII\r@b\rGACG\r+\rIIII",
        ] {
            assert_eq!(fastq(text), Ok(both.clone()), "{text:?}");
        }
        assert_eq!(fastq(""), Ok(vec![]));
        assert_eq!(fastq("@empty\n\n+\n\n@none\n+").map(|records| records.len()), Ok(2));
    }

    #[test]
    fn damaged_records_are_refused_with_their_line() {
        for (text, line, part) in [
            ("@a\nACGT\n", 3, "the record of line 1, before its line `+`"),
            ("@a\nACGT", 2, "before its line `+`"),
            ("@a", 1, "before its line `+`"),
            ("@a\nACGT\n+\nIII\n", 5, "has 3 characters, and its sequence 4 letters"),
            ("@a\nACGT\n+\n", 4, "has 0 characters"),
            ("@a\nACGT\n+", 3, "has 0 characters"),
            ("@a\nACGT\n+\nIIIII\n", 4, "longer than its 4 letters"),
            ("@a\nACGT\n+\nIII\n@b\nACGT\n+\nIIII\n", 5, "the quality of the record of line 1 is longer"),
            ("@a\nACGT\n+\nII\n@b\nACGT\n+\nIIII\n", 6, "has all 4 characters of its quality"),
            ("@a\nACGT\n@b\nACGT\n+\nIIII\n", 3, "the record of line 1 has no quality"),
            ("@a\nACGT\n+\nIIII\nACGT\n", 5, "a line `@name` must follow"),
            ("@a\nACGT\n+\nII I\n", 4, "not a quality character"),
            ("1,2\n", 1, "a FASTQ file begins with"),
        ] {
            let error = fastq(text).expect_err(text);
            assert!(error.starts_with(&format!("line {line}: ")) && error.contains(part), "{text:?}: {error}");
        }
        assert_eq!(fastq("@a\nAC!T\n+\nIIII\n"), Err("stopped at line 2".into()));
    }
}
