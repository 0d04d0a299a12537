//! Windows of K letters of FASTA and FASTQ sequences: each window is a key, and its place is the value.
//!
//! ```text
//! key    the letters, canonical on request: koel::layout::kmers
//! value  the place of the window's first letter, counted from 0 across all records of all files; 0 if only keys are
//!        wanted, so that the length of files is not limited
//! ```
//!
//! A window never spans two records. It contains neither letters for several bases (N, R, Y, ..) nor gaps: these are
//! counted as places, and their number is reported. Other letters are not DNA or RNA, but perhaps protein: they are an
//! error, or treated as N if an option says so. Files of records without a key are an error too.

use koel::layout::kmers::{Base, Strands, Window, is_ambiguous};
use koel::layout::sequences::Sequences;

use super::{Feed, Name, Named, OtherLetters, ReadOptions, Want};
use crate::failure::{Failure, Result};
use crate::number::{Type, Words};

/// The last K letters, and the feed that receives their keys.
pub(super) struct Windows<'a, 's> {
    feed: &'a mut Feed<'s>,
    /// Rows that were not passed on yet.
    keys: Words,
    values: Words,
    file: &'a Name,
    window: Window,
    want: Want,
    others: OtherLetters,
    records: u64,
    /// How often each letter was skipped; upper and lower case are counted together.
    skipped: [u64; 256],
}

/// The most rows that are buffered.
const ROWS: usize = 1 << 16;

impl<'a, 's> Windows<'a, 's> {
    /// The windows of a file, whose places follow those of the files before.
    pub(super) fn new(file: &'a Name, options: &ReadOptions, want: Want, feed: &'a mut Feed<'s>) -> Result<Self> {
        feed.begin(file, Named { keys: Some(options.type_of_kmers()), values: Some(Type::U32), kmers: None })?;
        let strands = if options.canonical_kmers { Strands::Both } else { Strands::Given };
        Ok(Windows {
            feed,
            keys: Words::with_capacity(ROWS),
            values: Words::with_capacity(ROWS),
            file,
            window: Window::new(options.k(), strands)?,
            want,
            others: options.other_letters.unwrap_or_default(),
            records: 0,
            skipped: [0; 256],
        })
    }

    /// Passes on the buffered rows.
    pub(super) fn flush(&mut self) -> Result<()> {
        let rows = || Words::with_capacity(ROWS);
        self.feed.push(std::mem::replace(&mut self.keys, rows()), std::mem::replace(&mut self.values, rows()))
    }

    /// Returns a sentence on what was skipped, if anything was.
    pub(super) fn report(self) -> Option<String> {
        let letters = (0..=u8::MAX).zip(&self.skipped).filter(|&(_, &times)| times > 0);
        let letters: Vec<_> = letters.map(|(letter, times)| format!("{times} {}", letter.escape_ascii())).collect();
        if self.records == 0 {
            return Some("it has no record, and therefore no keys".into());
        }
        (!letters.is_empty()).then(|| format!("skipped {}: no key spans them", letters.join(", ")))
    }
}

impl Sequences for Windows<'_, '_> {
    type Error = Failure;

    fn record(&mut self) -> Result<()> {
        self.window.clear();
        self.records += 1;
        self.feed.records += 1;
        Ok(())
    }

    #[inline]
    fn letter(&mut self, letter: u8, line: u64) -> Result<()> {
        self.feed.letters += 1;
        let Some(base) = Base::of(letter) else {
            check(letter, self.others).map_err(|reason| self.file.at(line, reason))?;
            self.skipped[usize::from(letter.to_ascii_uppercase())] += 1;
            self.window.clear();
            return Ok(());
        };
        let key = self.window.push(base);
        self.feed.longest = self.feed.longest.max(self.window.letters());
        let Some(key) = key else { return Ok(()) };
        let place = self.feed.letters - u64::from(self.window.k());
        let value = value(place, self.want).map_err(|reason| self.file.at(line, reason))?;
        self.keys.push(key);
        self.values.push(value.into());
        if self.keys.len() == ROWS { self.flush() } else { Ok(()) }
    }
}

/// The value of a window at this place.
fn value(place: u64, want: Want) -> std::result::Result<u32, &'static str> {
    match want {
        Want::Keys => Ok(0),
        Want::Pairs => u32::try_from(place).map_err(|_| "there are more than 4294967296 letters"),
    }
}

/// Refuses letters that must not be skipped.
fn check(letter: u8, others: OtherLetters) -> std::result::Result<(), String> {
    let shown = letter.escape_ascii();
    match letter.to_ascii_uppercase() {
        letter if is_ambiguous(letter) => Ok(()),
        b'A'..=b'Z' | b'*' | b'.' if others == OtherLetters::Skip => Ok(()),
        b'A'..=b'Z' | b'*' | b'.' => Err(format!(
            "`{shown}` is not a letter of DNA or RNA (is this protein?): give sequences of A, C, G, T or U, or skip other \
             letters with --other-letters skip"
        )),
        _ => Err(format!("`{shown}` is not a letter of a sequence")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{pairs, read_with, zipped};
    use super::super::{Input, OtherLetters, Pairs, ReadOptions, Want, letters};
    use super::value;
    use crate::number::Number;

    fn kmers(text: &str, k: u32) -> Result<Vec<(Number, Number)>, String> {
        pairs("x.fa", text.as_bytes(), Some(k))
    }

    /// Returns what was skipped in a text, and how many keys remain.
    fn skipped(text: &str, k: u32, others: OtherLetters) -> Result<(Option<String>, usize), String> {
        let options = ReadOptions { kmer: Some(k), other_letters: Some(others), ..ReadOptions::default() };
        let mut pairs = Pairs::default();
        let said = read_with("x.fa", text.as_bytes(), &options, &mut pairs)?;
        Ok((said, pairs.rows() as usize))
    }

    #[test]
    fn windows_stay_inside_records_and_known_letters() {
        // ACG = 000110 = 6, CGT = 011011 = 27
        assert_eq!(kmers(">r one\nACGT\n", 3), Ok(vec![(6, 0), (27, 1)]));
        assert_eq!(kmers(">r\nac\r\ngt\r\n", 3), Ok(vec![(6, 0), (27, 1)]), "lines are joined, case is ignored");
        assert_eq!(kmers(">r\nACGNACG\n", 3), Ok(vec![(6, 0), (6, 4)]), "N takes a place and breaks windows");
        assert_eq!(kmers(">a\nAC\n>b\nGACG\n", 3), Ok(vec![(33, 2), (6, 3)]), "records break windows, places go on");
        assert_eq!(kmers(">r\nA\nC", 1), Ok(vec![(0, 0), (1, 1)]));
        let fastq = b"\xef\xbb\xbf@r\nACGT\n+\nIIII\n@s\nACG\n+\nIII\n";
        assert_eq!(pairs("x.fastq", fastq, Some(3)), Ok(vec![(6, 0), (27, 1), (6, 4)]), "and in FASTQ");
        assert_eq!(kmers(">r\nTTTTTTTTTTTTTTTT", 16), Ok(vec![(u32::MAX.into(), 0)]));
        let long = ">r\nTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTA";
        let most = Number::from(u64::MAX);
        assert_eq!(kmers(long, 32), Ok(vec![(most, 0), (most - 3, 1)]), "64 bits, of which the oldest go");
        assert_eq!(kmers(long, 17).map(|rows| rows[16]), Ok(((1 << 34) - 4, 16)));
        assert_eq!(kmers(">r\nACGU\nacgu", 4), kmers(">r\nACGT\nacgt", 4), "RNA is read as DNA");
    }

    #[test]
    fn canonical_windows_are_the_lesser_of_both_strands() {
        // Pseudo-random letters, with an N that cuts windows.
        let drawn = (0..200u32).map(|i| b"ACGT"[(i.wrapping_mul(0x9e37_79b9) >> 27) as usize & 3]);
        let mut text: Vec<u8> = drawn.collect();
        text[77] = b'N';
        for k in [1, 2, 5, 16, 17, 31, 32] {
            let options = ReadOptions { kmer: Some(k), canonical_kmers: true, ..ReadOptions::default() };
            let mut read = Pairs::default();
            read_with("x.fa", &[b">r\n", &text[..]].concat(), &options, &mut read).expect("DNA");
            let expected = text.windows(k as usize).zip(0..).filter(|(window, _)| !window.contains(&b'N'));
            let expected = expected.map(|(window, place)| {
                let other: Vec<u8> = window
                    .iter()
                    .rev()
                    .map(|letter| b"TGCA"[b"ACGT".iter().position(|l| l == letter).expect("a base")])
                    .collect();
                let [key, other] = [window, &other].map(|window| letters::kmer(window, k).expect("bases"));
                (Number::from(key.min(other)), place)
            });
            assert_eq!(zipped(&read), expected.collect::<Vec<_>>(), "{k}");
        }
    }

    #[test]
    fn places_matter_where_values_are_wanted() {
        let options = ReadOptions { kmer: Some(3), ..ReadOptions::default() };
        let mut pairs = Pairs::default();
        let read = Input::of(&b">r\nACGT\n"[..], "x.fa".as_ref());
        assert!(read.and_then(|input| input.scan(&options, Want::Keys, &mut pairs)).is_ok());
        assert_eq!(zipped(&pairs), [(6, 0), (27, 0)]);
        // Reading the letters themselves would take minutes.
        let most = u64::from(u32::MAX);
        assert_eq!(value(most, Want::Pairs), Ok(u32::MAX));
        assert!(value(most + 1, Want::Pairs).is_err_and(|reason| reason.contains("more than 4294967296")));
        assert_eq!(value(most + 1, Want::Keys), Ok(0));
    }

    #[test]
    fn letters_of_no_dna_are_an_error_or_counted() {
        let protein = ">p\nMKTAYIAKQR\nQISFVKSHFS\n";
        let error = kmers(protein, 3).expect_err("protein");
        assert!(error.starts_with("x.fa, line 2: `I`") && error.contains("--other-letters skip"), "{error}");
        let error = skipped(protein, 3, OtherLetters::Skip).expect_err("protein, skipped, leaves no key");
        assert!(error.contains("the longest run of A, C, G, T and U has 2 letters"), "{error}");
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
            assert!(error.contains("no key") && error.contains("a key has 3"), "{error}");
        }
        for text in ["", "\n", ";comment\n"] {
            let none = skipped(text, 3, OtherLetters::Error).expect(text);
            assert!(none.0.is_some_and(|said| said.contains("no record")) && none.1 == 0);
        }
    }
}
