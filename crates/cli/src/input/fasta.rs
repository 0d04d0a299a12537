//! FASTA of DNA or RNA: every window of K letters is a key, its place the value.
//!
//! ```text
//! key    A C G T = 0 1 2 3, the first letter most significant; U is T; upper and lower case are one
//! value  where the window's first letter stands, counted from 0 through all records; 0 where keys alone are wanted, of
//!        files of any length
//! ```
//!
//! A window never crosses a record's border. Nor does it cross a letter that stands for several bases (N, R, Y, ..) or
//! for a gap: those count as places, and how many there were is told. Other letters are no DNA or RNA, but protein, say:
//! they are an error, or treated as N where that is asked for. So is a file of records without a key.

use std::io::BufRead;

use super::letters::{code, is_ambiguous};
use super::{Batch, Name, Named, OtherLetters, ReadOptions, Want};
use crate::failure::Result;
use crate::number::Type;

/// Where in the text a byte stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    LineStart,
    Header,
    Sequence,
}

/// Reads windows of `k` letters, `1..=32`, into a sink. A sentence says what was skipped.
pub(super) fn read(
    mut reader: impl BufRead,
    name: &Name,
    options: &ReadOptions,
    want: Want,
    sink: &mut Batch<'_>,
) -> Result<Option<String>> {
    let (k, others) = (options.k(), options.other_letters.unwrap_or_default());
    sink.begin(Named { keys: Some(options.type_of_kmers()), values: Some(Type::U32) })?;
    let mask = u64::MAX >> (64 - 2 * k);
    let (mut place, mut line, mut records) = (Place::LineStart, 1u64, 0u64);
    let (mut key, mut letters, mut position) = (0u64, 0u32, 0u64);
    let mut seen = Seen::default();
    loop {
        let chunk = reader.fill_buf().map_err(|error| name.io(&error))?;
        if chunk.is_empty() {
            return seen.told(name, k, records);
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
                    position += 1;
                    let Some(base) = code(byte) else {
                        check(byte, others).map_err(|reason| name.at(line, reason))?;
                        seen.skipped[usize::from(byte.to_ascii_uppercase())] += 1;
                        letters = 0;
                        continue;
                    };
                    letters = (letters + 1).min(k);
                    seen.longest = seen.longest.max(letters);
                    key = (key << 2 | base) & mask;
                    if letters == k {
                        let value = value(position - u64::from(k), want).map_err(|reason| name.at(line, reason))?;
                        sink.push(key.into(), value.into())?;
                    }
                }
            }
        }
        let read = chunk.len();
        reader.consume(read);
    }
}

/// The value of a window that begins at this place.
fn value(place: u64, want: Want) -> std::result::Result<u32, &'static str> {
    match want {
        Want::Keys => Ok(0),
        Want::Pairs => u32::try_from(place).map_err(|_| "there are more than 4294967296 letters"),
    }
}

/// Refuses what cannot be skipped.
fn check(letter: u8, others: OtherLetters) -> std::result::Result<(), String> {
    let shown = letter.escape_ascii();
    match letter.to_ascii_uppercase() {
        letter if is_ambiguous(letter) => Ok(()),
        b'A'..=b'Z' | b'*' | b'.' if others == OtherLetters::Skip => Ok(()),
        b'A'..=b'Z' | b'*' | b'.' => Err(format!(
            "`{shown}` is no letter of DNA or RNA (is this protein?): give sequences of A, C, G, T or U, or skip other \
             letters with --other-letters skip"
        )),
        _ => Err(format!("`{shown}` is no letter of a sequence")),
    }
}

/// What a file held besides keys.
struct Seen {
    /// How often each letter was skipped, upper and lower case as one.
    skipped: [u64; 256],
    /// Letters in a row, up to a window's.
    longest: u32,
}

impl Default for Seen {
    fn default() -> Seen {
        Seen { skipped: [0; 256], longest: 0 }
    }
}

impl Seen {
    /// A sentence on what was skipped.
    ///
    /// # Errors
    /// If there are records and none of them has a window.
    fn told(&self, name: &Name, k: u32, records: u64) -> Result<Option<String>> {
        let letters = (0..=u8::MAX).zip(&self.skipped).filter(|&(_, &times)| times > 0);
        let letters: Vec<_> = letters.map(|(letter, times)| format!("{times} {}", letter.escape_ascii())).collect();
        let skipped = if letters.is_empty() { String::new() } else { format!("skipped {}", letters.join(", ")) };
        if records == 0 {
            return Ok(Some("there is no record in it, and so no key".into()));
        }
        if self.longest < k {
            let longest = self.longest;
            let besides = if skipped.is_empty() { skipped } else { format!("; {skipped}") };
            return Err(name.fail(format!(
                "no key: at most {longest} of A, C, G, T and U stand in a row, and a key takes {k} (--kmer){besides}"
            )));
        }
        Ok(Some(format!("{skipped}: no key spans them")).filter(|_| !skipped.is_empty()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{pairs, read_with, zipped};
    use super::super::{Input, OtherLetters, Pairs, ReadOptions, Want};
    use super::value;
    use crate::number::Number;

    fn kmers(text: &str, k: u32) -> Result<Vec<(Number, Number)>, String> {
        pairs("x.fa", text.as_bytes(), Some(k))
    }

    /// What was skipped of a text, and how many keys are left.
    fn skipped(text: &str, k: u32, others: OtherLetters) -> Result<(Option<String>, usize), String> {
        let options = ReadOptions { kmer: Some(k), other_letters: Some(others), ..ReadOptions::default() };
        let mut pairs = Pairs::default();
        let said = read_with("x.fa", text.as_bytes(), &options, &mut pairs)?;
        Ok((said, pairs.keys.len()))
    }

    #[test]
    fn windows_stay_inside_records_and_known_letters() {
        // ACG = 000110 = 6, CGT = 011011 = 27
        assert_eq!(kmers(">r one\nACGT\n", 3), Ok(vec![(6, 0), (27, 1)]));
        assert_eq!(kmers(">r\nac\r\ngt\r\n", 3), Ok(vec![(6, 0), (27, 1)]), "lines are joined, case is ignored");
        assert_eq!(kmers(">r\nACGNACG\n", 3), Ok(vec![(6, 0), (6, 4)]), "N takes a place and breaks windows");
        assert_eq!(kmers(">a\nAC\n>b\nGACG\n", 3), Ok(vec![(33, 2), (6, 3)]), "records break windows, places go on");
        assert_eq!(kmers(">r\nA\nC", 1), Ok(vec![(0, 0), (1, 1)]));
        assert_eq!(kmers(">r\nTTTTTTTTTTTTTTTT", 16), Ok(vec![(u32::MAX.into(), 0)]));
        let long = ">r\nTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTA";
        let most = Number::from(u64::MAX);
        assert_eq!(kmers(long, 32), Ok(vec![(most, 0), (most - 3, 1)]), "64 bits, of which the oldest go");
        assert_eq!(kmers(long, 17).map(|rows| rows[16]), Ok(((1 << 34) - 4, 16)));
        assert_eq!(kmers(">r\nACGU\nacgu", 4), kmers(">r\nACGT\nacgt", 4), "RNA is read as DNA");
    }

    #[test]
    fn places_matter_where_values_are_wanted() {
        let options = ReadOptions { kmer: Some(3), ..ReadOptions::default() };
        let mut pairs = Pairs::default();
        let read = Input::of(&b">r\nACGT\n"[..], "x.fa".as_ref());
        assert!(read.and_then(|input| input.scan(&options, Want::Keys, &mut pairs)).is_ok());
        assert_eq!(zipped(&pairs), [(6, 0), (27, 0)]);
        // The letters themselves would take minutes.
        let most = u64::from(u32::MAX);
        assert_eq!(value(most, Want::Pairs), Ok(u32::MAX));
        assert!(value(most + 1, Want::Pairs).is_err_and(|reason| reason.contains("more than 4294967296")));
        assert_eq!(value(most + 1, Want::Keys), Ok(0));
    }

    #[test]
    fn what_is_no_sequence_is_refused_with_its_line() {
        assert!(kmers("ACGT\n", 3).is_err_and(|error| error.contains("line 1")));
        assert!(kmers(">r\nACGT\nAC1\n", 3).is_err_and(|error| error.contains("line 3")));
        assert!(kmers("@read\nACGT\n", 3).is_err(), "FASTQ");
    }

    #[test]
    fn letters_of_no_dna_are_an_error_or_counted() {
        let protein = ">p\nMKTAYIAKQR\nQISFVKSHFS\n";
        let error = kmers(protein, 3).expect_err("protein");
        assert!(error.starts_with("x.fa, line 2: `I`") && error.contains("--other-letters skip"), "{error}");
        let error = skipped(protein, 3, OtherLetters::Skip).expect_err("protein, skipped, leaves no key");
        assert!(error.contains("at most 2 of A, C, G, T and U"), "{error}");
        let said = |text: &str| Some(text.to_owned());
        let genome = ">r\nACGTnnNNACGR-acg\n";
        assert_eq!(
            skipped(genome, 3, OtherLetters::Error),
            Ok((said("skipped 1 -, 4 N, 1 R: no key spans them"), 4)),
            "codes of several bases are no error"
        );
        assert_eq!(
            skipped(">r\nACGEE*ACG\n", 3, OtherLetters::Skip),
            Ok((said("skipped 1 *, 2 E: no key spans them"), 2))
        );
        assert_eq!(skipped(">r\nACG\n", 3, OtherLetters::Error), Ok((None, 1)));
        assert!(skipped(">r\nAC1\n", 2, OtherLetters::Skip).is_err(), "digits are no letters");
    }

    #[test]
    fn no_key_is_no_silence() {
        for text in [">r\nAC\n", ">r\n", ">a\nAC\n>b\nGT\n", ">r\nNNNN\n", ">r\nACNAC\n"] {
            let error = kmers(text, 3).expect_err(text);
            assert!(error.contains("no key") && error.contains("takes 3"), "{error}");
        }
        for text in ["", "\n", ";comment\n"] {
            let none = skipped(text, 3, OtherLetters::Error).expect(text);
            assert!(none.0.is_some_and(|said| said.contains("no record")) && none.1 == 0);
        }
    }
}
