//! Options that several commands share, and what they mean.

mod table;

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{PathBufValueParser, PossibleValuesParser, TypedValueParser};

use koel::device::{Any, choose};
use koel::table::Contents;
use koel::{
    Aggregate, Duplicates, IdOrder, Insertion, JoinKind, Kind, Load, LookupMode, Reinsertion, Scheme, Sequence,
};

use super::failure::{Failure, Result};
use super::output::form_of;
use super::scheme;

pub use table::{Builder, TableOptions, scheme_help, usual};

/// Parameters of schemes; each scheme takes those that it has. `-h` leaves them out.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Parameters of schemes, as in the papers")]
pub struct SchemeOptions {
    /// Places for each key: cuckoo and cuckoo_set 2 to 5, classic bucketized 2 to 4 [default: 4; 2]
    #[arg(long, hide_short_help = true, value_name = "H")]
    pub functions: Option<u32>,
    /// Slots of a bucket, for bucketized and horton: 4, 8 or 16 [default: 8]
    #[arg(long, hide_short_help = true, value_name = "S")]
    pub bucket_slots: Option<u32>,
    /// Hash functions; all but `mixer` are the papers', for classic tables: `linear` and `xor` cuckoo's, `jenkins`
    /// horton's,
    /// `sahu` fks's [default: mixer]
    #[arg(long, hide_short_help = true, value_name = "FAMILY", value_parser = ["mixer", "linear", "xor", "jenkins", "sahu"])]
    pub hash: Option<String>,
    /// Where evicted pairs go, for classic cuckoo and cuckoo_set [default: skip-same-slot]
    #[arg(long, hide_short_help = true, value_name = "RULE", value_parser = reinsertion())]
    pub reinsertion: Option<Reinsertion>,
    /// Which bucket takes a new pair, for classic bucketized [default: load-balancing]
    #[arg(long, hide_short_help = true, value_name = "POLICY", value_parser = insertion())]
    pub insertion: Option<Insertion>,
    /// One bucket after the other, or all at once, for classic bucketized [default: bandwidth-optimized]
    #[arg(long, hide_short_help = true, value_name = "MODE", value_parser = lookup_mode())]
    pub lookup_mode: Option<LookupMode>,
    /// Buckets that are visited in search of room for one pair, for classic bucketized [default: 4096]
    #[arg(long, hide_short_help = true, value_name = "BUCKETS")]
    pub reach: Option<u32>,
    /// Remap entries of a bucket, for horton [default: 21]
    #[arg(long, hide_short_help = true, value_name = "COUNT")]
    pub tags: Option<u32>,
    /// Bits of a remap entry, for horton: 2 to 4 [default: 3]
    #[arg(long, hide_short_help = true, value_name = "BITS")]
    pub bits: Option<u32>,
    /// Moves in a row that may make room for a pair, for classic horton: 1 to 8 [default: 5]
    #[arg(long, hide_short_help = true, value_name = "MOVES")]
    pub height: Option<u32>,
    /// Rounds of a bucket under one seed number, for classic fks: 1 to 1000 [default: 100]
    #[arg(long, hide_short_help = true, value_name = "ROUNDS")]
    pub iterations: Option<u32>,
    /// The places of a key, for robin_hood [default: coherent]
    #[arg(long, hide_short_help = true, value_name = "SEQUENCE", value_parser = sequence())]
    pub sequence: Option<Sequence>,
    /// Bits of the maximum ages, for robin_hood: 0 for none, 2, 3 or 4 [default: canonical 0, classic 4]
    #[arg(long, hide_short_help = true, value_name = "BITS")]
    pub max_ages: Option<u32>,
    /// Keys of 28 bits without values (all of them 0), for classic robin_hood
    #[arg(long, hide_short_help = true)]
    pub keys_alone: bool,
    /// The domain whose cells are the keys, row by row, for perfect: the WIDTH of a plane, or WIDTHxHEIGHT of the
    /// layers of a volume [default: 65536]
    #[arg(long, hide_short_help = true, value_name = "EXTENT", value_parser = extent)]
    pub extent: Option<Extent>,
}

/// The extents of a domain but the last, which keys of 32 bits leave over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    pub width: u32,
    pub height: Option<u32>,
}

/// `--extent`.
fn extent(text: &str) -> std::result::Result<Extent, String> {
    let advice =
        || format!("`{text}` is no extent: give a width like 2048, or the width and height of a layer like 256x256");
    let number = |text: &str| count(text).ok().and_then(|cells| u32::try_from(cells).ok()).ok_or_else(advice);
    let (width, height) = text.split_once('x').map_or((text, None), |(width, height)| (width, Some(height)));
    Ok(Extent { width: number(width)?, height: height.map(number).transpose()? })
}

impl SchemeOptions {
    /// The names of the options that are given.
    pub fn given(&self) -> Vec<&'static str> {
        let given = [
            ("functions", self.functions.is_some()),
            ("bucket-slots", self.bucket_slots.is_some()),
            ("hash", self.hash.is_some()),
            ("reinsertion", self.reinsertion.is_some()),
            ("insertion", self.insertion.is_some()),
            ("lookup-mode", self.lookup_mode.is_some()),
            ("reach", self.reach.is_some()),
            ("tags", self.tags.is_some()),
            ("bits", self.bits.is_some()),
            ("height", self.height.is_some()),
            ("iterations", self.iterations.is_some()),
            ("extent", self.extent.is_some()),
            ("sequence", self.sequence.is_some()),
            ("max-ages", self.max_ages.is_some()),
            ("keys-alone", self.keys_alone),
        ];
        given.into_iter().filter(|(_, given)| *given).map(|(name, _)| name).collect()
    }

    /// The options without those that are not in `taken`.
    fn only(&self, taken: &[&str]) -> SchemeOptions {
        let takes = |name| taken.contains(&name);
        SchemeOptions {
            functions: self.functions.filter(|_| takes("functions")),
            bucket_slots: self.bucket_slots.filter(|_| takes("bucket-slots")),
            hash: self.hash.clone().filter(|_| takes("hash")),
            reinsertion: self.reinsertion.filter(|_| takes("reinsertion")),
            insertion: self.insertion.filter(|_| takes("insertion")),
            lookup_mode: self.lookup_mode.filter(|_| takes("lookup-mode")),
            reach: self.reach.filter(|_| takes("reach")),
            tags: self.tags.filter(|_| takes("tags")),
            bits: self.bits.filter(|_| takes("bits")),
            height: self.height.filter(|_| takes("height")),
            iterations: self.iterations.filter(|_| takes("iterations")),
            extent: self.extent.filter(|_| takes("extent")),
            sequence: self.sequence.filter(|_| takes("sequence")),
            max_ages: self.max_ages.filter(|_| takes("max-ages")),
            keys_alone: self.keys_alone && takes("keys-alone"),
        }
    }
}

/// Slots, one way or the other.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Table")]
pub struct SizeOptions {
    /// Pairs per slot, above 0 and up to 1 [default: what suits the scheme]
    #[arg(long)]
    pub load: Option<f64>,
    /// Room for so many pairs at the load, e.g. 5e6 or 2^20 [default: for those that there are]
    #[arg(long, value_name = "PAIRS", value_parser = count)]
    pub capacity: Option<u64>,
    /// So many slots, e.g. 2^20; excludes --load and --capacity
    #[arg(long, value_name = "SLOTS", value_parser = count, conflicts_with_all = ["load", "capacity"])]
    pub slots: Option<u64>,
}

impl SizeOptions {
    /// Refuses a load outside its range.
    pub fn check(&self) -> Result<()> {
        self.load.map(Load::new).transpose()?;
        Ok(())
    }

    /// Whether the size is no matter of how many pairs there are.
    pub fn is_fixed(&self) -> bool {
        self.capacity.is_some() || self.slots.is_some()
    }

    /// A builder with this size.
    pub fn apply<T: Builder>(&self, mut builder: T) -> T {
        if let Some(load) = self.load {
            builder = builder.with_load(load);
        }
        if let Some(pairs) = self.capacity {
            builder = builder.with_capacity(pairs);
        }
        if let Some(slots) = self.slots {
            builder = builder.with_slots(slots);
        }
        builder
    }

    /// The slots for so many pairs, worked out here once more and not by the builder.
    pub fn slots<S: Scheme>(&self, scheme: &S, pairs: u64) -> Result<u64> {
        let load = self.load.map_or(Ok(scheme.default_load()), Load::new)?;
        Ok(self.slots.unwrap_or_else(|| load.slots_for(self.capacity.unwrap_or(pairs))))
    }
}

/// Which schemes, as a list.
#[derive(Args, Clone)]
#[command(next_help_heading = "Table")]
pub struct SchemeList {
    /// Schemes, separated by commas, or `all`
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "all", value_parser = scheme_or_all())]
    scheme: Vec<String>,
    /// How the bytes come about: the same on every device, the papers' own race, or both
    #[arg(long, default_value = "all", value_parser = ["canonical", "classic", "all"])]
    kind: String,
}

impl SchemeList {
    /// A list of its own defaults.
    pub fn new(scheme: &[String], kind: &str) -> SchemeList {
        SchemeList { scheme: scheme.to_vec(), kind: kind.into() }
    }

    /// Every scheme and kind that is asked for and exists.
    pub fn combinations(&self) -> Result<Vec<(&'static str, Kind)>> {
        let mut found = Vec::new();
        for &name in scheme::NAMES {
            if self.scheme.iter().any(|wanted| wanted == name || wanted == "all") {
                let kinds = scheme::kinds(name).iter().filter(|kind| self.kind == "all" || self.kind == kind.name());
                found.extend(kinds.map(|&kind| (name, kind)));
            }
        }
        if found.is_empty() {
            let schemes = self.scheme.join(",");
            return Err(Failure::Input(format!("{schemes} cannot be built as {}: give --kind all", self.kind)));
        }
        Ok(found)
    }

    /// The options for one scheme and kind: where several are asked for, each takes those that it has and can do with.
    ///
    /// # Errors
    /// If an option is for none of them.
    pub fn options_for(&self, name: &str, kind: Kind, options: &SchemeOptions) -> Result<SchemeOptions> {
        let all = self.combinations()?;
        if all.len() == 1 {
            return Ok(options.clone());
        }
        let accepts = |name: &str, kind, option| scheme::accepts(name, kind, &options.only(&[option]));
        let given = options.given();
        if let Some(other) = given.iter().find(|&&option| !all.iter().any(|&(name, kind)| accepts(name, kind, option)))
        {
            return Err(Failure::Input(format!("--{other} means nothing to the tables asked for: leave it out")));
        }
        let taken: Vec<_> = given.into_iter().filter(|&option| accepts(name, kind, option)).collect();
        Ok(options.only(&taken))
    }
}

/// The number of threads.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Device")]
pub struct Threads {
    /// Threads of the CPU [default: all]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
}

impl Threads {
    /// Gives all parallel work of this process so many threads; the CPU device runs on the same ones. They are started
    /// here, because rayon panics where it cannot start them at their first use.
    pub fn apply(&self) -> Result<()> {
        let threads = self.threads.map_or(0, usize::from);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build_global();
        let which = self.threads.map_or("the".into(), |threads| threads.to_string());
        pool.map_err(|error| Failure::Input(format!("starting {which} threads: {error}; give fewer by --threads")))
    }
}

/// Where a command works that uses one device.
#[derive(Args, Clone)]
#[command(next_help_heading = "Device")]
pub struct OneDevice {
    /// auto, cpu, opencl:N or opencl:NAME; auto is the best GPU that OpenCL has, or else the CPU, and for inputs of less
    /// than 1 MiB always the CPU
    #[arg(long, default_value = "auto")]
    device: String,
    #[command(flatten)]
    threads: Threads,
}

impl OneDevice {
    /// The device for work on these inputs.
    pub fn open(&self, inputs: &[&Path]) -> Result<Any> {
        self.threads.apply()?;
        one_device_for(&self.device, inputs)
    }
}

/// Inputs below this are worked on before a driver of OpenCL is even loaded, which takes 0.2 s and 80 MB.
const WORTH_A_DRIVER: u64 = 1 << 20;

/// The one device of that name for work on these inputs.
pub fn one_device_for(name: &str, inputs: &[&Path]) -> Result<Any> {
    one_device(if name == "auto" && are_small(inputs) { "cpu" } else { name })
}

/// Whether all of these are plain files, and small ones: of a pipe nobody knows.
fn are_small(inputs: &[&Path]) -> bool {
    let bytes =
        inputs.iter().map(|path| std::fs::metadata(path).ok().filter(|file| file.is_file()).map(|file| file.len()));
    bytes.sum::<Option<u64>>().is_some_and(|bytes| bytes < WORTH_A_DRIVER)
}

/// The one device of that name, for commands that use one.
pub fn one_device(name: &str) -> Result<Any> {
    let mut found = choose(name, None)?;
    match found.len() {
        0 => Err(Failure::Input(format!("no device for {name}: `koel devices` lists what there is"))),
        _ if name == "all" => Err(Failure::Input("this command uses one device: give auto, cpu or opencl:0".into())),
        _ => Ok(found.swap_remove(0)),
    }
}

/// A number with the short forms that people use for sizes: 1000000, 1_000_000, 5e6, 2^20, 1.5M, 16Mi.
pub fn count(text: &str) -> std::result::Result<u64, String> {
    let advice = || format!("`{text}` is no count: give one like 1000000, 5e6, 2^20, 16M (millions) or 16Mi (2^20s)");
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

/// A decimal number times a factor, if that is a whole number.
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

/// `--duplicates`.
pub fn duplicates() -> impl TypedValueParser<Value = Duplicates> {
    PossibleValuesParser::new(["error", "first", "last"]).map(|name| match name.as_str() {
        "first" => Duplicates::KeepFirst,
        "last" => Duplicates::KeepLast,
        _ => Duplicates::Error,
    })
}

/// `--kind` where it is one.
pub fn kind() -> impl TypedValueParser<Value = Kind> {
    one_of(&Kind::ALL, Kind::name)
}

/// `--scheme` where it is one.
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

/// A file that rows are written to, in a form that its name stands for.
pub fn rows_file() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new()
        .try_map(|path| of_rows(file(path, "rows go to stdout where none is given: leave it out")?))
}

/// A file for rows that never go to stdout.
pub fn named_rows_file() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| of_rows(file(path, NAME_IT)?))
}

/// A table's file, under any name but those of other formats.
pub fn table_file() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| of_table(file(path, NAME_IT)?))
}

const NAME_IT: &str = "this is written to a file: give its name";

fn file(path: PathBuf, advice: &str) -> std::result::Result<PathBuf, String> {
    if path.as_os_str() == "-" { Err(format!("`-` is no file, and {advice}")) } else { Ok(path) }
}

/// Extensions that promise something else than a table.
const OTHER_FORMATS: [&str; 24] = [
    "csv", "tsv", "tab", "txt", "npy", "npz", "fa", "fasta", "fna", "fq", "fastq", "parquet", "arrow", "feather",
    "json", "jsonl", "ndjson", "xls", "xlsx", "gz", "bz2", "xz", "zst", "zip",
];

fn of_table(path: PathBuf) -> std::result::Result<PathBuf, String> {
    let extension = path.extension().unwrap_or_default().display().to_string();
    if OTHER_FORMATS.contains(&extension.to_ascii_lowercase().as_str()) {
        return Err(format!("a table is no .{extension} file: give a name like table.koel"));
    }
    Ok(path)
}

fn of_rows(path: PathBuf) -> std::result::Result<PathBuf, String> {
    if form_of(&path).is_some() {
        return Ok(path);
    }
    let extension = path.extension().unwrap_or_default().display().to_string();
    Err(format!(
        ".{extension} is not written: give .csv, .txt or none (commas), .tsv or .tab (tabs), or .npy (an array)"
    ))
}

/// `--ids`.
pub fn id_order() -> impl TypedValueParser<Value = IdOrder> {
    one_of(&IdOrder::ALL, IdOrder::name)
}

/// `--agg`, one of it.
pub fn aggregate() -> impl TypedValueParser<Value = Aggregate> {
    one_of(&Aggregate::ALL, Aggregate::name)
}

/// `--how`.
pub fn join_kind() -> impl TypedValueParser<Value = JoinKind> {
    one_of(&JoinKind::ALL, JoinKind::name)
}

fn reinsertion() -> impl TypedValueParser<Value = Reinsertion> {
    one_of(&Reinsertion::ALL, Reinsertion::name)
}

fn insertion() -> impl TypedValueParser<Value = Insertion> {
    one_of(&Insertion::ALL, Insertion::name)
}

fn sequence() -> impl TypedValueParser<Value = Sequence> {
    one_of(&Sequence::ALL, Sequence::name)
}

fn lookup_mode() -> impl TypedValueParser<Value = LookupMode> {
    one_of(&LookupMode::ALL, LookupMode::name)
}

/// A parser of the names of these values.
fn one_of<T: Copy + Send + Sync + 'static>(
    all: &'static [T],
    name_of: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    // clap lets no other name through.
    PossibleValuesParser::new(all.iter().map(|&value| name_of(value)))
        .map(move |name| all.iter().copied().find(|&value| name_of(value) == name).unwrap_or(all[0]))
}

/// The value of that name, where schemes differ in the names that they know.
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

    #[test]
    fn a_driver_is_worth_its_while_for_large_files_and_for_pipes() {
        let folder = tempfile::tempdir().expect("a folder");
        let (small, large) = (folder.path().join("small"), folder.path().join("large"));
        std::fs::write(&small, "1,2").expect("a file");
        std::fs::write(&large, vec![b'1'; WORTH_A_DRIVER as usize - 3]).expect("a file");
        assert!(are_small(&[]) && are_small(&[&small]) && are_small(&[&small, &small]) && are_small(&[&large]));
        assert!(!are_small(&[&small, &large]));
        for other in [Path::new("-"), &folder.path().join("missing"), folder.path()] {
            assert!(!are_small(&[&small, other]), "{other:?}");
        }
    }

    #[test]
    fn extents_are_a_width_or_a_width_and_a_height() {
        assert_eq!(extent("2048"), Ok(Extent { width: 2048, height: None }));
        assert_eq!(extent("2^8x100"), Ok(Extent { width: 256, height: Some(100) }));
        for text in ["", "x", "5x", "x5", "1x2x3", "-1", "2^32"] {
            assert!(extent(text).is_err(), "{text}");
        }
    }
}
