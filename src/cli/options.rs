//! Options that several commands share, and what they mean.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use koel::backend::{Any, choose};
use koel::table::TableBuilder;
use koel::{Duplicates, HashFamily, Kind, Load, Reinsertion, Scheme};

use super::failure::{Failure, Result};
use super::scheme;

/// Parameters of schemes; each scheme takes those that it has.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Table")]
pub(crate) struct SchemeOptions {
    /// Places for each key, 2 to 5 [default: 4]
    #[arg(long, value_name = "H")]
    pub(crate) functions: Option<u32>,
    /// Hash functions; `linear` and `xor` are the papers', for classic tables [default: mixer]
    #[arg(long, value_name = "FAMILY", value_parser = family())]
    pub(crate) hash: Option<HashFamily>,
    /// Where evicted pairs go, for classic tables [default: skip-same-slot]
    #[arg(long, value_name = "RULE", value_parser = reinsertion())]
    pub(crate) reinsertion: Option<Reinsertion>,
}

/// Slots, one way or the other.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Table")]
pub(crate) struct SizeOptions {
    /// Pairs per slot, above 0 and up to 1 [default: what suits the scheme]
    #[arg(long, conflicts_with = "capacity")]
    pub(crate) load: Option<f64>,
    /// Slots, e.g. 2^20; excludes --load
    #[arg(long, value_name = "SLOTS", value_parser = count)]
    pub(crate) capacity: Option<u64>,
}

impl SizeOptions {
    /// Refuses a load that none is.
    pub(crate) fn check(&self) -> Result<()> {
        self.load.map(Load::new).transpose()?;
        Ok(())
    }

    /// A builder with this size.
    pub(crate) fn apply<S: Scheme>(&self, mut builder: TableBuilder<S>) -> TableBuilder<S> {
        if let Some(load) = self.load {
            builder = builder.load_factor(load);
        }
        if let Some(slots) = self.capacity {
            builder = builder.capacity(slots);
        }
        builder
    }

    /// The slots for so many pairs, worked out here once more and not by the builder.
    pub(crate) fn slots<S: Scheme>(&self, scheme: &S, pairs: u64) -> Result<u64> {
        Ok(match (self.capacity, self.load) {
            (Some(slots), _) => slots,
            (None, Some(load)) => Load::new(load)?.slots_for(pairs),
            (None, None) => scheme.default_load().slots_for(pairs),
        })
    }
}

/// Which schemes, as a list.
#[derive(Args, Clone)]
#[command(next_help_heading = "Table")]
pub(crate) struct SchemeList {
    /// Schemes, separated by commas, or `all`
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "all", value_parser = scheme_or_all())]
    scheme: Vec<String>,
    /// How the bytes come about: the same on every device, the papers' own race, or both
    #[arg(long, default_value = "all", value_parser = ["canonical", "classic", "all"])]
    kind: String,
}

impl SchemeList {
    /// A list of its own defaults.
    pub(crate) fn new(scheme: &[String], kind: &str) -> SchemeList {
        SchemeList { scheme: scheme.to_vec(), kind: kind.into() }
    }

    /// Every scheme and kind that is asked for and exists.
    pub(crate) fn combinations(&self) -> Result<Vec<(&'static str, Kind)>> {
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

    /// The options for one kind: with both kinds asked for, one that only classic tables have passes canonical ones by.
    pub(crate) fn options_for(&self, kind: Kind, options: &SchemeOptions) -> SchemeOptions {
        let mut options = options.clone();
        if self.kind == "all" && kind == Kind::Canonical {
            options.reinsertion = None;
            options.hash = None;
        }
        options
    }
}

/// The number of threads.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Device")]
pub(crate) struct Threads {
    /// Threads of the CPU [default: all]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
}

impl Threads {
    /// Gives all parallel work of this process so many threads; the CPU device runs on the same ones.
    pub(crate) fn apply(&self) -> Result<()> {
        let Some(threads) = self.threads else { return Ok(()) };
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.into()).build_global();
        pool.map_err(|error| Failure::Input(format!("starting {threads} threads: {error}; give fewer")))
    }
}

/// The one device of that name, for commands that use one.
pub(crate) fn one_device(name: &str) -> Result<Any> {
    let mut found = choose(name, None)?;
    match found.len() {
        0 => Err(Failure::Input(format!("no device for {name}: `koel devices` lists what there is"))),
        _ if name == "all" => Err(Failure::Input("this command uses one device: give auto, cpu or opencl:0".into())),
        _ => Ok(found.swap_remove(0)),
    }
}

/// A number with the short forms that people use for sizes: 1000000, 1_000_000, 2^20, 16M, 16Mi.
pub(crate) fn count(text: &str) -> std::result::Result<u64, String> {
    let advice = || format!("`{text}` is no count: give one like 1000000, 2^20, 16M (millions) or 16Mi (2^20s)");
    let plain = text.replace('_', "");
    if let Some((base, exponent)) = plain.split_once('^') {
        let (base, exponent) = (base.parse::<u64>().map_err(|_| advice())?, exponent.parse().map_err(|_| advice())?);
        return base.checked_pow(exponent).ok_or_else(advice);
    }
    const UNITS: [(&str, u64); 6] =
        [("Ki", 1 << 10), ("Mi", 1 << 20), ("Gi", 1 << 30), ("K", 1000), ("M", 1_000_000), ("G", 1_000_000_000)];
    let unit = UNITS.iter().find_map(|&(name, factor)| plain.strip_suffix(name).map(|digits| (digits, factor)));
    let (digits, factor) = unit.unwrap_or((&plain, 1));
    digits.parse::<u64>().ok().and_then(|number| number.checked_mul(factor)).ok_or_else(advice)
}

/// A number of distinct keys.
pub(crate) fn pair_count(text: &str) -> std::result::Result<u32, String> {
    let most = || format!("{text} is too many: there are 4294967296 keys of 32 bits, and misses need some of them");
    u32::try_from(count(text)?).map_err(|_| most())
}

/// `--duplicates`.
pub(crate) fn duplicates() -> impl TypedValueParser<Value = Duplicates> {
    PossibleValuesParser::new(["error", "first", "last"]).map(|name| match name.as_str() {
        "first" => Duplicates::KeepFirst,
        "last" => Duplicates::KeepLast,
        _ => Duplicates::Error,
    })
}

/// `--kind` where it is one.
pub(crate) fn kind() -> impl TypedValueParser<Value = Kind> {
    PossibleValuesParser::new(Kind::ALL.map(Kind::name)).map(|name| by_name(&Kind::ALL, Kind::name, &name))
}

/// `--scheme` where it is one.
pub(crate) fn scheme_name() -> impl TypedValueParser<Value = String> {
    PossibleValuesParser::new(scheme::NAMES.iter().copied())
}

/// One of a list of schemes.
pub(crate) fn scheme_or_all() -> impl TypedValueParser<Value = String> {
    PossibleValuesParser::new(scheme::NAMES.iter().copied().chain(["all"]))
}

fn family() -> impl TypedValueParser<Value = HashFamily> {
    PossibleValuesParser::new(HashFamily::ALL.map(HashFamily::name))
        .map(|name| by_name(&HashFamily::ALL, HashFamily::name, &name))
}

fn reinsertion() -> impl TypedValueParser<Value = Reinsertion> {
    PossibleValuesParser::new(Reinsertion::ALL.map(Reinsertion::name))
        .map(|name| by_name(&Reinsertion::ALL, Reinsertion::name, &name))
}

/// The value of that name; clap has let no other name through.
fn by_name<T: Copy>(all: &[T], name_of: fn(T) -> &'static str, name: &str) -> T {
    all.iter().copied().find(|&value| name_of(value) == name).unwrap_or(all[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_take_the_short_forms() {
        for (text, number) in
            [("0", 0), ("1_000", 1000), ("2^20", 1 << 20), ("16M", 16_000_000), ("16Mi", 16 << 20), ("3K", 3000)]
        {
            assert_eq!(count(text), Ok(number));
        }
        for text in ["", "-1", "M", "2^64", "2^", "1.5M", "99999999999G", "x"] {
            assert!(count(text).is_err(), "{text}");
        }
        assert!(pair_count("2^32").is_err());
    }
}
