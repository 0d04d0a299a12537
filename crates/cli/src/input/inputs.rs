//! Several files, read as if they were one: rows and places are numbered across files.
//!
//! Each CSV file may have its own header. FASTA and FASTQ files can be mixed; sequences and numbers cannot, because the
//! keys of sequences are k-mers.

use std::path::{Path, PathBuf};

use super::{Feed, Input, Name, Pairs, ReadOptions, Sink, Want};
use crate::failure::{Failure, Result};
use crate::number::Type;
use crate::{out, progress};

/// One or more files, in order, whose formats are known.
pub struct Inputs<'a>(pub(super) Vec<Input<'a>>);

impl<'a> Inputs<'a> {
    /// Opens all files, and reads only their first bytes.
    pub fn open(paths: &[impl AsRef<Path>]) -> Result<Inputs<'static>> {
        let inputs = paths.iter().map(|path| Input::open(path.as_ref())).collect::<Result<Vec<_>>>()?;
        if let Some(first) = inputs.first()
            && let Some(other) = inputs.iter().find(|input| input.has_sequences() != first.has_sequences())
        {
            let (other_is, first_is) = (other.format.name(), first.format.name());
            return Err(other.name.fail(format!(
                "this is {other_is}, and {} is {first_is}: sequences and numbers cannot be mixed: read them separately",
                first.name.shown()
            )));
        }
        Ok(Inputs(inputs))
    }

    /// Returns an error for options that apply to none of the files of `all`.
    pub fn check(all: &[&Inputs<'_>], options: &ReadOptions) -> Result<()> {
        options.check(&all.iter().flat_map(|inputs| &inputs.0).collect::<Vec<_>>())
    }

    /// Whether the files are FASTA or FASTQ, whose keys are k-mers.
    pub fn has_sequences(&self) -> bool {
        self.0.iter().any(Input::has_sequences)
    }

    /// The number of letters of a key, if keys are k-mers of sequences.
    pub fn letters(&self, options: &ReadOptions) -> Option<u32> {
        self.has_sequences().then(|| options.k())
    }

    /// The name of the first file.
    pub(crate) fn name(&self) -> &Name {
        &self.0[0].name
    }

    /// A short name of the files for messages.
    pub fn shown(&self) -> String {
        let first = self.0.first().map_or(String::new(), |first| first.name.shown());
        match self.0.len() {
            0 | 1 => first,
            2 => format!("{first} and 1 more file"),
            files => format!("{first} and {} more files", files - 1),
        }
    }

    /// Reads all files into memory, or into a temporary file. Reports the types on stderr if text needs types other
    /// than u32.
    pub fn pairs(self, options: &ReadOptions, want: Want, is_in_file: bool) -> Result<Pairs> {
        let shown = self.shown();
        let mut pairs = Pairs::new(want, is_in_file);
        let options = ReadOptions { spool: is_in_file, ..options.clone() };
        self.into_sink(&options, want, &mut pairs, true)?;
        note_types(&shown, pairs.found_types());
        Ok(pairs)
    }

    /// Reads all files into a sink, in order, and reports on stderr what was skipped in each.
    pub fn read(self, options: &ReadOptions, want: Want, sink: &mut dyn Sink) -> Result<()> {
        self.into_sink(options, want, sink, false)
    }

    /// As `read`; if `says_which`, the progress line shows which file is read.
    fn into_sink(self, options: &ReadOptions, want: Want, sink: &mut dyn Sink, says_which: bool) -> Result<()> {
        let (shown, k) = (self.shown(), options.k());
        let mut feed = Feed::new(sink);
        let mut notes = Vec::new();
        for input in self.0 {
            let name = input.name.shown();
            if says_which {
                progress::say(format!("reading {name}"));
            }
            let skipped = input.rows(options, want, &mut feed)?;
            notes.extend(skipped.map(|skipped| format!("{name}: {skipped}")));
            progress::end_of_bytes();
        }
        if let Some(reason) = feed.no_key(k) {
            // What was skipped is usually the reason.
            notes.insert(0, format!("{shown}: {reason}"));
            return Err(Failure::Input(notes.join("; ")));
        }
        notes.iter().for_each(|note| progress::note(note));
        Ok(())
    }
}

/// Reports the types of keys and values on stderr if they were derived from the numbers and are not u32.
fn note_types(shown: &str, found: [Option<Type>; 2]) {
    let said = ["keys", "values"].into_iter().zip(found);
    let said = said.filter_map(|(what, kind)| kind.filter(|&kind| kind != Type::U32).map(|kind| (what, kind.name())));
    let said: Vec<_> = said.map(|(what, kind)| format!("{what} are {kind}")).collect();
    if !said.is_empty() && !out::is_quiet() {
        progress::note(&format!("{shown}: {}, the narrowest type that holds them", said.join(", ")));
    }
}

/// The paths of files, for functions that take several kinds of paths.
pub fn paths(files: &[PathBuf]) -> Vec<&Path> {
    files.iter().map(PathBuf::as_path).collect()
}
