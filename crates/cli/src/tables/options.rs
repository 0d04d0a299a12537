//! Options for reading tables, if the file does not determine them.

use clap::ValueEnum;

use crate::failure::Result;
use crate::input::Header;
use crate::options::names;

use super::kinds::Kind;
use super::read::{Source, wanted};

/// How tables are read.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Input")]
pub(crate) struct TableReading {
    /// First row of text is a header: auto, yes, no
    ///
    /// Whether the first row of CSV or TSV names the columns. `auto`: if all of it is text, not a number, date or
    /// boolean. Without names, columns are called column_1, column_2 and so on. The default is `yes`.
    #[arg(long, value_name = "WHEN", hide_possible_values = true)]
    pub(crate) header: Option<Header>,
    #[command(flatten)]
    pub(crate) text: TextReading,
    /// Whether input that can be read only once, such as stdin and decompressed files, is stored in a temporary file
    /// instead of in memory.
    #[arg(skip)]
    pub(crate) spool: bool,
}

/// How CSV is read, besides its first row.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Input")]
pub struct TextReading {
    /// Delimiter of CSV: one character, or `tab`
    ///
    /// The default is a tab in .tsv and .tab files, and if the first line has tabs and no comma; otherwise a comma.
    #[arg(long, value_name = "CHAR", value_parser = delimiter)]
    pub(crate) delimiter: Option<u8>,
    /// Types of columns [default: detected]
    ///
    /// As name=type,..: int32, int64, uint32, uint64, float64, utf8, bool, date32, timestamp, timestamp_utc,
    /// decimal(p,s), or an SQL name, such as bigint or text (int is int32, and float is float64). The default in CSV is
    /// a type that fits all rows of the file, or text if float64 would change a number. Columns of other formats are
    /// converted; a value that the type does not hold exactly is an error, except that float64 rounds. Of two files,
    /// the option applies to both.
    #[arg(long, value_name = "NAME=TYPE,..", value_parser = types)]
    pub(crate) types: Option<Types>,
    /// Quotes of CSV: double, none [default: double]
    ///
    /// What encloses fields that contain delimiters or line ends: double quotes, or none, so that quotes are text like
    /// any other.
    #[arg(long, value_name = "QUOTE", hide_possible_values = true)]
    pub(crate) quote: Option<Quote>,
    /// Text that is a null in CSV, e.g. NA
    ///
    /// Like an empty field, unless it is in quotes. Give the option once for each text, e.g. NULL and NA.
    #[arg(long = "null-value", value_name = "TEXT")]
    pub(crate) null_values: Vec<String>,
    /// Bytes of text that a thread parses at a time, if a test sets them.
    #[arg(skip)]
    pub piece: Option<usize>,
}

/// The quotes that may enclose fields of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Quote {
    Double,
    None,
}

impl TextReading {
    /// The names of these options that are given.
    pub(crate) fn given(&self) -> impl Iterator<Item = &'static str> {
        let all = [
            ("--delimiter", self.delimiter.is_some()),
            ("--types", self.types.is_some()),
            ("--quote", self.quote.is_some()),
            ("--null-value", !self.null_values.is_empty()),
        ];
        all.into_iter().filter(|(_, is_given)| *is_given).map(|(option, _)| option)
    }
}

impl TableReading {
    /// Refuses options that do not apply to any of these files.
    pub(crate) fn check(&self, sources: &[&Source]) -> Result<()> {
        let Some(first) = sources.first() else { return Ok(()) };
        let named = self.text.types.iter().flat_map(|types| &types.0);
        let is_there = |name: &str| sources.iter().any(|source| source.columns().contains(&name));
        if let Some((name, _)) = named.into_iter().find(|(name, _)| !is_there(name)) {
            let source = sources.iter().find(|source| source.is_text()).unwrap_or(first);
            return Err(wanted::missing(source.name(), &source.columns(), name));
        }
        let of_text = self.text.given().filter(|&option| option != "--types");
        match self.header.map(|_| "--header").into_iter().chain(of_text).next() {
            Some(option) if !sources.iter().any(|source| source.is_text()) => {
                Err(first.name().fail(format!("{option} is for CSV and TSV, and this is {}: omit it", first.format())))
            }
            _ => Ok(()),
        }
    }
}

/// Parses a byte that separates columns.
fn delimiter(text: &str) -> std::result::Result<u8, String> {
    match text.as_bytes() {
        b"tab" | b"\\t" => Ok(b'\t'),
        [byte] if !byte.is_ascii_alphanumeric() && !b"\"\r\n.-+_".contains(byte) => Ok(*byte),
        _ => Err("this cannot separate columns: give one character like , or ; or |, or tab".into()),
    }
}

/// Columns and their types.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Types(pub(super) Vec<(String, Kind)>);

/// Parses columns and their types, separated by commas.
fn types(text: &str) -> std::result::Result<Types, String> {
    let mut types: Vec<(String, Kind)> = Vec::new();
    let mut pieces = names::split(text, &[])?.into_iter();
    while let Some(piece) = pieces.next() {
        let named = piece
            .rsplit_once('=')
            .ok_or_else(|| format!("`{piece}` is not the type of a column: write it as name=type, like id=int64"));
        let (name, kind) = named?;
        let (name, mut kind) = (names::name(name)?, kind.to_owned());
        // A comma in parentheses is part of the type.
        while kind.contains('(')
            && !kind.contains(')')
            && let Some(more) = pieces.next()
        {
            kind = format!("{kind},{more}");
        }
        if types.iter().any(|(there, _)| *there == name) {
            return Err(format!("{name} has two types: give it one"));
        }
        types.push((name, Kind::named(&kind)?));
    }
    Ok(Types(types))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_taken_apart() {
        let expected = vec![("a".into(), Kind::Int64), ("b=c".into(), Kind::Decimal(10, 2)), ("d".into(), Kind::Utf8)];
        assert_eq!(types("a=int64,b=c=decimal(10,2),d=utf8"), Ok(Types(expected)));
        assert_eq!(types("\"a, b\"=decimal(3, 1)"), Ok(Types(vec![("a, b".into(), Kind::Decimal(3, 1))])));
        let sql = ["a=STRING", "b=Float64", "c=LargeUtf8", "d=bigint", "e=Decimal128(3, 1)", "f=Date"];
        let expected = [Kind::Utf8, Kind::Float64, Kind::Utf8, Kind::Int64, Kind::Decimal(3, 1), Kind::Date32];
        let found = types(&sql.join(",")).map(|types| types.0.into_iter().map(|(_, kind)| kind).collect());
        assert_eq!(found, Ok(expected.to_vec()));
        for (text, part) in [("a", "name=type"), ("a=words", "int64"), ("a=utf8,a=bool", "two types")] {
            assert!(types(text).is_err_and(|error| error.contains(part)), "{text}");
        }
        assert!(types("a=decimal(39,2)").is_err() && types("a=decimal(5,6)").is_err());
    }

    #[test]
    fn delimiters_are_single_characters() {
        assert_eq!([";", "tab", "\\t", "|"].map(delimiter), [Ok(b';'), Ok(b'\t'), Ok(b'\t'), Ok(b'|')]);
        for text in ["", "ab", "\"", "\n", "a", "5", "\u{e9}"] {
            assert!(delimiter(text).is_err(), "{text}");
        }
    }
}
