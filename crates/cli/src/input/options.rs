//! How files are read, if their content does not determine it.

use clap::ValueEnum;

use koel::KeyType;

use super::{Input, letters};
use crate::failure::{Failure, Result};
use crate::number::Type;
use crate::options::names;
use crate::tables::{TableReading, TextReading};

/// How files are read.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Input")]
pub struct ReadOptions {
    /// Letters of a k-mer, 1 to 32 [default: 16]
    ///
    /// The keys are the k-mers of FASTA or FASTQ files. They have 64 bits if K is above 16, and otherwise 32.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=koel::layout::kmers::MOST as i64))]
    pub kmer: Option<u32>,
    /// Use the lesser of k-mer and reverse complement
    ///
    /// Both strands then have the same keys.
    #[arg(long)]
    pub canonical_kmers: bool,
    /// Column of the keys, or of their two halves
    ///
    /// The file is then a table of named columns: Parquet, Arrow IPC, CSV, TSV, NDJSON or .npy. Two columns of 32 bits,
    /// separated by a comma, are the upper and the lower half of a 64-bit key.
    #[arg(long, value_name = "NAME,..", value_parser = names::names)]
    #[arg(conflicts_with_all = ["kmer", "canonical_kmers", "other_letters"])]
    pub key: Option<Vec<names::List<String>>>,
    /// Column of the values [default: row numbers]
    #[arg(long, value_name = "NAME", requires = "key")]
    pub value: Option<String>,
    /// Drop rows whose key or value is null
    ///
    /// Without this option they are an error.
    #[arg(long, requires = "key")]
    pub skip_nulls: bool,
    #[command(flatten)]
    pub text: TextReading,
    /// Keys are k-mers of `kmer` letters in any format: text may contain letters as well as numbers. This is not an
    /// option on the command line: `koel lookup` sets it, and `kmer`, for tables of k-mers.
    #[arg(skip)]
    pub letters: bool,
    /// As `letters`, for `koel build`, where numbers must be such k-mers.
    #[arg(skip)]
    pub are_kmers: bool,
    /// First row of text is a header: auto, yes, no
    ///
    /// Whether the first row of CSV or TSV names the columns. With named columns (--key, --on, --by) the default is
    /// `yes`, and `auto` means: if all of it is text, not a number, date or boolean. For rows without names the default
    /// is `auto`: if nothing in it looks like a key and rows follow.
    #[arg(long, value_name = "WHEN", hide_possible_values = true)]
    pub header: Option<Header>,
    /// Type of keys: u32, i32, u64 or i64
    ///
    /// The default is the type in .npy, Parquet and Arrow files, and for text the narrowest type that holds all keys.
    #[arg(long, value_name = "TYPE", hide_possible_values = true)]
    pub keys: Option<Type>,
    /// The option that names key columns of any type, for commands that have such an option.
    #[arg(skip)]
    pub names_key: Option<&'static str>,
    /// Whether input that can be read only once is written to a temporary file instead of being kept in memory.
    #[arg(skip)]
    pub spool: bool,
    /// The type of values; set by commands that have values.
    #[arg(skip)]
    pub values: Option<Type>,
    /// Whether values may be doubles; set by commands that accept them.
    #[arg(skip)]
    pub doubles: bool,
    /// Invalid letters: error, skip [default: error]
    ///
    /// What to do with letters of FASTA or FASTQ that are not a code of DNA or RNA: report an error, or skip them as N
    /// is skipped, and count them.
    #[arg(long, value_name = "RULE", hide_possible_values = true)]
    pub other_letters: Option<OtherLetters>,
}

/// Whether the first row of text is a header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Header {
    /// If nothing in it looks like a key and rows follow.
    #[default]
    Auto,
    /// Whatever it holds.
    Yes,
    /// It is a row like any other.
    No,
}

/// What becomes of letters that no sequence of DNA or RNA has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OtherLetters {
    /// The file is refused.
    #[default]
    Error,
    /// No key spans them.
    Skip,
}

impl ReadOptions {
    /// The number of letters of a k-mer.
    pub fn k(&self) -> u32 {
        self.kmer.unwrap_or(letters::MOST_NARROW)
    }

    /// These options for tables of named columns.
    pub(crate) fn of_tables(&self, spool: bool) -> TableReading {
        TableReading { header: self.header, text: self.text.clone(), spool }
    }

    /// What the keys of FASTA and FASTQ represent.
    pub fn key_type_of_kmers(&self) -> KeyType {
        let k = self.k();
        if self.canonical_kmers { KeyType::CanonicalKmers { k } } else { KeyType::Kmers { k } }
    }

    /// The type of keys that are k-mers of this length.
    pub(super) fn type_of_kmers(&self) -> Type {
        if self.k() > letters::MOST_NARROW { Type::U64 } else { Type::U32 }
    }

    /// These options for files of k-mers other than sequences, such as those that `koel unique --kmer --counts` writes.
    pub(crate) fn of_kmers(mut self) -> Result<ReadOptions> {
        if self.keys.is_some() {
            return Err(Failure::Input("--keys is for numbers, and with --kmer keys are k-mers: omit it".into()));
        }
        (self.kmer, self.keys) = (Some(self.k()), Some(self.type_of_kmers()));
        (self.letters, self.are_kmers) = (true, true);
        Ok(self)
    }

    /// These options, with this type of values.
    pub fn with_values(&self, values: Option<Type>) -> ReadOptions {
        ReadOptions { values, ..self.clone() }
    }

    /// These options, with this type of values, or with doubles if a file has some.
    pub fn with_any_values(&self, values: Option<Type>) -> ReadOptions {
        ReadOptions { doubles: true, ..self.with_values(values) }
    }

    /// These options, for a command whose option `names_key` names key columns of any type.
    pub(crate) fn naming(mut self, names_key: &'static str) -> ReadOptions {
        self.names_key = Some(names_key);
        self
    }

    /// The number of letters of keys in text, if keys are letters.
    pub(crate) fn k_of_text(&self) -> Option<u32> {
        self.kmer.filter(|_| self.letters)
    }

    /// Refuses --value if values are not used.
    pub(crate) fn check_value(&self, is_wanted: bool) -> Result<()> {
        match &self.value {
            Some(value) if !is_wanted => {
                Err(Failure::Input(format!("--value {value}: values are not used here: omit it")))
            }
            _ => Ok(()),
        }
    }

    /// Refuses an option that numbers rows if some of them are dropped.
    pub(crate) fn check_rows_kept(&self, option: &str, is_given: bool) -> Result<()> {
        if is_given && self.skip_nulls {
            let why = "the rows that are left would be numbered, and not those of the file";
            return Err(Failure::Input(format!("{option} and --skip-nulls: {why}: omit one of them")));
        }
        Ok(())
    }

    /// Refuses options that do not apply to any of these files.
    pub fn check(&self, inputs: &[&Input<'_>]) -> Result<()> {
        let none = |is: &dyn Fn(&Input<'_>) -> bool| !inputs.iter().any(|input| is(input));
        let no_sequences = none(&|input| input.format.has_sequences());
        let no_text = none(&|input| input.format.is_text());
        let all_sequences = inputs.iter().all(|input| input.format.has_sequences());
        let sequences = "FASTA and FASTQ";
        let stray = [
            ("--kmer", sequences, self.kmer.is_some() && no_sequences && !self.letters),
            ("--canonical-kmers", sequences, self.canonical_kmers && no_sequences && !self.letters),
            ("--other-letters", sequences, self.other_letters.is_some() && no_sequences),
            ("--header", "CSV and TSV", self.header.is_some() && no_text && self.key.is_none()),
        ];
        match self.text.given().next() {
            Some(option) if self.key.is_none() => {
                return Err(Failure::Input(format!(
                    "{option} is for tables of named columns: name the key by --key, or by --on or --by where there is that"
                )));
            }
            _ => {}
        }
        let of_numbers =
            [("--key", self.key.is_some()), ("--keys", self.keys.is_some()), ("--values", self.values.is_some())];
        if let (Some(input), true, Some((option, _))) =
            (inputs.first(), all_sequences, of_numbers.iter().find(|(_, given)| *given))
        {
            let format = input.format.name();
            return Err(input.name.fail(format!("{option} is for numbers, and this is {format}: omit it")));
        }
        match (inputs.first(), stray.iter().find(|(.., means_nothing)| *means_nothing)) {
            (Some(input), Some((option, whose, _))) => {
                Err(input.name.fail(format!("{option} is for {whose} files, and this is neither: omit it")))
            }
            _ => Ok(()),
        }
    }
}
