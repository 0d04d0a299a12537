//! The values that options take: counts, names, files.

use std::path::PathBuf;

use clap::builder::{PathBufValueParser, PossibleValue, PossibleValuesParser, RangedU64ValueParser, TypedValueParser};

use koel::table::Contents;
use koel::{Duplicates, IdOrder, JoinKind, Kind};

use crate::failure::{Failure, Result};
use crate::number::Type;
use crate::scheme;
use crate::tables::write::form_of;

/// `--values`, of commands that read values.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
#[command(next_help_heading = "Input")]
pub struct ValuesOption {
    /// Type of values: u32, i32, u64 or i64
    ///
    /// The default is the type in .npy, Parquet and Arrow files, and for text the narrowest type that holds all values.
    #[arg(long, value_name = "TYPE", hide_possible_values = true)]
    pub values: Option<Type>,
}

/// `--values`, for commands that accept doubles.
#[derive(clap::Args, Clone, Copy, Debug, Default)]
#[command(next_help_heading = "Input")]
pub struct AnyValuesOption {
    /// Type of values: u32, i32, u64, i64 or f64
    ///
    /// The default is the type in .npy, Parquet and Arrow files, and for text the narrowest integer type that holds all
    /// values.
    #[arg(long, value_name = "TYPE", value_parser = type_of_values(), hide_possible_values = true)]
    pub values: Option<Type>,
}

/// Parses a number, including the usual short forms of sizes: 1000000, 1_000_000, 5e6, 2^20, 1.5M, 16Mi.
pub fn count(text: &str) -> std::result::Result<u64, String> {
    let advice =
        || format!("`{text}` is not a count: give one like 1000000, 5e6, 2^20, 16M (millions) or 16Mi (2^20s)");
    let plain = text.replace('_', "");
    if let Some((base, exponent)) = plain.split_once('^') {
        let (base, exponent) = (base.parse::<u64>().map_err(|_| advice())?, exponent.parse().map_err(|_| advice())?);
        return base.checked_pow(exponent).ok_or_else(advice);
    }
    const UNITS: [(&str, u64); 6] =
        [("Ki", 1 << 10), ("Mi", 1 << 20), ("Gi", 1 << 30), ("K", 1000), ("M", 1_000_000), ("G", 1_000_000_000)];
    let unit = UNITS.iter().find_map(|&(name, factor)| plain.strip_suffix(name).map(|digits| (digits, factor)));
    let (digits, factor) = match plain.split_once(['e', 'E']) {
        Some((digits, exponent)) => {
            let factor = exponent.parse().ok().and_then(|exponent| 10u64.checked_pow(exponent));
            (digits, factor.ok_or_else(advice)?)
        }
        None => unit.unwrap_or((&plain, 1)),
    };
    scaled(digits, factor).ok_or_else(advice)
}

/// The least memory limit of a command.
const LEAST_MEMORY: u64 = 64 << 20;

/// Parses a number of bytes: a count, with an optional B at the end.
pub fn memory(text: &str) -> std::result::Result<u64, String> {
    let bytes = count(text.strip_suffix('B').unwrap_or(text));
    match bytes.map_err(|_| format!("`{text}` is not a size of memory: give one like 300M, 4G or 16Gi"))? {
        bytes if bytes >= LEAST_MEMORY => Ok(bytes),
        _ => Err(format!("a memory limit is at least {}Mi", LEAST_MEMORY >> 20)),
    }
}

/// A decimal number times a factor; `None` if the product is not an integer.
fn scaled(digits: &str, factor: u64) -> Option<u64> {
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let parts = 10u64.checked_pow(fraction.len().try_into().ok()?)?;
    let part = fraction.parse::<u64>().ok()?.checked_mul(factor)?;
    let whole = whole.parse::<u64>().ok()?.checked_mul(factor)?;
    part.is_multiple_of(parts).then(|| whole.checked_add(part / parts))?
}

/// A number of distinct keys.
pub fn pair_count(text: &str) -> std::result::Result<u32, String> {
    let most = || format!("{text} is too many: there are 4294967296 keys of 32 bits, and misses need some of them");
    u32::try_from(count(text)?).map_err(|_| most())
}

/// `--shards`.
pub fn shards() -> impl TypedValueParser<Value = usize> {
    RangedU64ValueParser::<usize>::new().range(1..=4096)
}

/// `--duplicates`.
pub fn duplicates() -> impl TypedValueParser<Value = Duplicates> {
    PossibleValuesParser::new(["error", "first", "last"]).map(|name| match name.as_str() {
        "first" => Duplicates::KeepFirst,
        "last" => Duplicates::KeepLast,
        _ => Duplicates::Error,
    })
}

/// `--kind`, for one table.
pub fn kind() -> impl TypedValueParser<Value = Kind> {
    one_of(&Kind::ALL, Kind::name)
}

/// `--scheme`, for one table.
pub fn scheme_name() -> impl TypedValueParser<Value = String> {
    PossibleValuesParser::new(scheme::NAMES.iter().copied())
}

/// One of a list of schemes.
pub fn scheme_or_all() -> impl TypedValueParser<Value = String> {
    PossibleValuesParser::new(scheme::NAMES.iter().copied().chain(["all"]))
}

/// `--table`.
pub fn contents() -> impl TypedValueParser<Value = Contents> {
    one_of(&Contents::ALL, Contents::name)
}

/// `--ids`.
pub fn id_order() -> impl TypedValueParser<Value = IdOrder> {
    one_of(&IdOrder::ALL, IdOrder::name)
}

/// `--values`, for commands that accept doubles.
fn type_of_values() -> impl TypedValueParser<Value = Type> {
    one_of(&[Type::U32, Type::I32, Type::U64, Type::I64, Type::F64], Type::name)
}

/// `--how`.
pub fn join_kind() -> impl TypedValueParser<Value = JoinKind> {
    let names = JoinKind::ALL.map(|kind| {
        // The term of SQL.
        let value = PossibleValue::new(kind.name());
        if kind == JoinKind::Full { value.alias("outer") } else { value }
    });
    PossibleValuesParser::new(names).map(|name| {
        let name = if name == "outer" { JoinKind::Full.name() } else { &name };
        JoinKind::ALL.into_iter().find(|kind| kind.name() == name).unwrap_or_default()
    })
}

/// A file to which rows are written, in the format of its extension.
pub fn rows_file() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| of_rows(file(path, "without this option rows go to stdout: omit it")?))
}

/// A file for rows that never go to stdout.
pub fn named_rows_file() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| of_rows(file(path, NAME_IT)?))
}

/// A table file, with any extension except those of other formats.
pub fn table_file() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| of_table(file(path, NAME_IT)?))
}

const NAME_IT: &str = "this option does not support stdin or stdout: name a file";

fn file(path: PathBuf, advice: &str) -> std::result::Result<PathBuf, String> {
    if path.as_os_str() == "-" { Err(format!("`-` is not a file; {advice}")) } else { Ok(path) }
}

/// Extensions of formats other than table files.
const OTHER_FORMATS: [&str; 24] = [
    "csv", "tsv", "tab", "txt", "npy", "npz", "fa", "fasta", "fna", "fq", "fastq", "parquet", "arrow", "feather",
    "json", "jsonl", "ndjson", "xls", "xlsx", "gz", "bz2", "xz", "zst", "zip",
];

fn of_table(path: PathBuf) -> std::result::Result<PathBuf, String> {
    let extension = path.extension().unwrap_or_default().display().to_string();
    if OTHER_FORMATS.contains(&extension.to_ascii_lowercase().as_str()) {
        return Err(format!("a table is not a .{extension} file: give a name like table.koel"));
    }
    Ok(path)
}

fn of_rows(path: PathBuf) -> std::result::Result<PathBuf, String> {
    if form_of(&path).is_some() {
        return Ok(path);
    }
    let extension = path.extension().unwrap_or_default().display().to_string();
    Err(format!(
        ".{extension} is not supported here: give .csv, .txt or none (commas), .tsv or .tab (tabs), .ndjson, these also \
         with .gz or .zst, .parquet, .arrow, .arrows, or .npy (an array)"
    ))
}

/// A parser of the names of these values.
pub(super) fn one_of<T: Copy + Send + Sync + 'static>(
    all: &'static [T],
    name_of: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    // clap rejects all other names.
    PossibleValuesParser::new(all.iter().map(|&value| name_of(value)))
        .map(move |name| all.iter().copied().find(|&value| name_of(value) == name).unwrap_or(all[0]))
}

/// The value with this name, for names that depend on the scheme.
pub fn by_name<T: Copy>(what: &str, all: &[T], name_of: fn(T) -> &'static str, name: &str) -> Result<T> {
    all.iter().copied().find(|&value| name_of(value) == name).ok_or_else(|| {
        let names: Vec<_> = all.iter().map(|&value| name_of(value)).collect();
        Failure::Input(format!("--{what} {name} is not for this scheme: give {}", names.join(" or ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_in_bytes_with_or_without_their_letter() {
        assert_eq!(memory("300M"), Ok(300_000_000));
        assert_eq!(memory("4GB"), Ok(4_000_000_000));
        assert_eq!(memory("1.5GiB"), Ok(3 << 29));
        assert!(memory("10M").is_err_and(|error| error.contains("64Mi")));
        assert!(memory("much").is_err_and(|error| error.contains("16Gi")) && memory("B").is_err());
    }

    #[test]
    fn counts_take_the_short_forms() {
        for (text, number) in [
            ("0", 0),
            ("1_000", 1000),
            ("2^20", 1 << 20),
            ("16M", 16_000_000),
            ("16Mi", 16 << 20),
            ("3K", 3000),
            ("5e6", 5_000_000),
            ("1.25E3", 1250),
            ("1.5M", 1_500_000),
            ("0.5Ki", 512),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(count(text), Ok(number));
        }
        for text in [
            "",
            "-1",
            "M",
            "2^64",
            "2^",
            "1.5",
            "99999999999G",
            "x",
            "e6",
            "5e",
            "5e-1",
            "1e20",
            "1.2345K",
            ".5M",
            "1.M",
            "+1",
        ] {
            assert!(count(text).is_err(), "{text}");
        }
        assert!(pair_count("2^32").is_err());
    }
}
