//! Maps places to the records of the files that a table was built from.
//!
//! A place counts the letters of all sequences of all files, as in `window.rs`. So if a table's files are read once
//! more, in the same order, the record of each value can be found. For each record, its start and its name are stored;
//! the name ends at the first blank, as in `samtools faidx`.

use std::path::PathBuf;

use koel::layout::sequences::Sequences;

use super::Inputs;
use crate::failure::{Failure, Result};
use crate::number::Number;
use crate::progress;

/// The most bytes of a record's name.
const LONGEST: usize = 1 << 16;

/// All records, in order.
pub struct Places {
    /// The names, concatenated.
    names: Vec<u8>,
    records: Vec<Begin>,
    letters: u64,
    /// The number of letters of a window.
    k: u32,
    /// The name of the files in messages.
    shown: String,
}

/// The start of a record, and of its name in the concatenated names.
struct Begin {
    letters: u64,
    name: usize,
}

impl Places {
    /// Reads the records of some files, for windows of `k` letters.
    pub fn read(files: &[PathBuf], k: u32) -> Result<Places> {
        let inputs = Inputs::open(files)?;
        let shown = inputs.shown();
        let mut places = Places { names: Vec::new(), records: Vec::new(), letters: 0, k, shown };
        if !inputs.has_sequences() {
            return Err(Failure::Input(format!("--places {}: give the FASTA or FASTQ of the table", places.shown)));
        }
        for input in inputs.0 {
            input
                .records(&mut places)
                .and_then(|()| places.whole_names())
                .map_err(|failure| Failure::Input(format!("--places: {failure}")))?;
            progress::end_of_bytes();
        }
        Ok(places)
    }

    /// Refuses a name longer than the limit.
    fn whole_names(&self) -> Result<()> {
        let ends = self.records.iter().skip(1).map(|record| record.name).chain([self.names.len()]);
        let longest = self.records.iter().zip(ends).map(|(record, end)| end - record.name).max();
        match longest.filter(|&longest| longest > LONGEST) {
            Some(_) => Err(Failure::Input(format!(
                "{}: a record's name is longer than {LONGEST} bytes: shorten it, or omit --places",
                self.shown
            ))),
            None => Ok(()),
        }
    }

    /// Returns the name of the record that contains the window at this place, and the offset of the window in the
    /// record.
    ///
    /// # Errors
    /// If no window begins at this place, or the name is not UTF-8.
    pub fn at(&self, place: Number) -> Result<(&str, u64)> {
        let found = u64::try_from(place).ok().and_then(|place| {
            let behind = self.records.partition_point(|record| record.letters <= place);
            let i = behind.checked_sub(1)?;
            let (begin, next) = (&self.records[i], self.records.get(behind));
            let (end, name_end) = next.map_or((self.letters, self.names.len()), |next| (next.letters, next.name));
            let fits = place + u64::from(self.k) <= end;
            fits.then(|| (&self.names[begin.name..name_end], place - begin.letters))
        });
        let (name, offset) = found.ok_or_else(|| {
            Failure::Input(format!(
                "--places: no k-mer of {} letters begins at the value {place} in {}: these are not the files that the \
                 table was built from, or not in their order",
                self.k, self.shown
            ))
        })?;
        let advice = "save the file as UTF-8, or omit --places";
        let not_text = || Failure::Input(format!("--places {}: a record's name is not UTF-8: {advice}", self.shown));
        Ok((std::str::from_utf8(name).map_err(|_| not_text())?, offset))
    }
}

impl Sequences for Places {
    type Error = Failure;

    fn record(&mut self) -> Result<()> {
        self.records.push(Begin { letters: self.letters, name: self.names.len() });
        Ok(())
    }

    fn name(&mut self, byte: u8, _: u64) -> Result<()> {
        self.names.push(byte);
        Ok(())
    }

    fn letter(&mut self, _: u8, _: u64) -> Result<()> {
        self.letters += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_in_the_record_that_holds_their_window() {
        let folder = tempfile::tempdir().expect("a folder");
        let paths = ["a.fa", "b.fq"].map(|name| folder.path().join(name));
        std::fs::write(&paths[0], ">one first\nACG\nT\n>empty\n>two\nACGNA\n").expect("a file");
        std::fs::write(&paths[1], "@three,x\nACGT\n+\nIIII\n").expect("a file");
        let places = Places::read(&paths, 3).unwrap_or_else(|failure| panic!("{failure}"));
        let at = |place: Number| places.at(place).map(|(name, offset)| (name.to_owned(), offset));
        for (place, name, offset) in
            [(0, "one", 0), (1, "one", 1), (4, "two", 0), (9, "three,x", 0), (10, "three,x", 1)]
        {
            assert!(at(place).is_ok_and(|found| found == (name.to_owned(), offset)), "{place}");
        }
        // Windows of three letters do not begin at the last two of a record.
        for place in [-1, 2, 3, 7, 8, 11, 12, 13, Number::MAX] {
            assert!(at(place).is_err_and(|failure| failure.to_string().contains("not the files")), "{place}");
        }
        assert!(Places::read(&[folder.path().join("none.fa")], 3).is_err());
    }
}
