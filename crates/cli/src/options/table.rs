//! Options of the only table that a command builds, for every structure that may contain it.

use clap::Args;

use koel::join::JoinBuilder;
use koel::scheme::bucketized::Layout;
use koel::scheme::signpost::Posted;
use koel::sharded::{ShardedMultiBuilder, ShardedSetBuilder};
use koel::table::{Contents, TableBuilder};
use koel::{
    AnyScheme, AnySchemeOf, Bucketized, CompactingBuilder, CompactingTable, Cpu, HashSet, HashTable, Kind,
    MultiBuilder, MultiTable, RobinHood, Runs, Scheme, SetBuilder, ShardedBuilder, Signpost,
};

use super::{SchemeOptions, SizeOptions, kind, scheme_name};
use crate::failure::{Failure, Result};
use crate::scheme;
use crate::structure::Structure;

/// The methods that the builders of all structures have.
pub trait Builder: Sized {
    fn with_load(self, load: f64) -> Self;
    fn with_capacity(self, pairs: u64) -> Self;
    fn with_slots(self, slots: u64) -> Self;
    fn with_seed(self, seed: u64) -> Self;
}

macro_rules! builders {
    ($($builder:ident),*) => {$(
        impl<S: Scheme> Builder for $builder<S> {
            fn with_load(self, load: f64) -> Self {
                self.load_factor(load)
            }
            fn with_capacity(self, pairs: u64) -> Self {
                self.capacity(words(pairs))
            }
            fn with_slots(self, slots: u64) -> Self {
                self.slots(words(slots))
            }
            fn with_seed(self, seed: u64) -> Self {
                self.seed(seed)
            }
        }
    )*};
}
builders!(
    TableBuilder,
    SetBuilder,
    CompactingBuilder,
    MultiBuilder,
    JoinBuilder,
    ShardedBuilder,
    ShardedSetBuilder,
    ShardedMultiBuilder
);

/// Converts a count to `usize`. A count that this machine cannot address is too large for a table as well.
fn words(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// The default scheme, which is the library's.
pub fn usual(contents: Contents) -> &'static str {
    fn of<S: Scheme, T: Structure<Cpu, S>>(contents: Contents) -> &'static str
    where
        Cpu: Runs<S>,
    {
        debug_assert_eq!(T::CONTENTS, contents);
        S::NAME
    }
    match contents {
        Contents::Set => of::<_, HashSet<Cpu>>(contents),
        Contents::Compact => of::<_, CompactingTable<Cpu>>(contents),
        Contents::Multi => of::<_, MultiTable<Cpu>>(contents),
        _ => of::<_, HashTable<Cpu>>(Contents::Map),
    }
}

/// The help of `--scheme`, with the default.
pub fn scheme_help(what: &str) -> String {
    match (usual(Contents::Map), usual(Contents::Set)) {
        (map, set) if map == set => format!("{what} [default: {map}]"),
        (map, set) => format!("{what} [default: {map}; sets: {set}]"),
    }
}

/// The long help of `--scheme`: `summary`, and the names.
pub fn schemes(summary: &str) -> String {
    format!("{summary}\n\nThe schemes are {}.", scheme::NAMES.join(", "))
}

/// Scheme, parameters, size and seed of one table, for commands that build one.
#[derive(Args, Clone)]
#[command(next_help_heading = "Table")]
pub struct TableOptions {
    #[arg(long, value_name = "NAME", value_parser = scheme_name(), hide_possible_values = true)]
    #[arg(help = scheme_help("Hash table scheme"), long_help = schemes(&scheme_help("Hash table scheme")))]
    scheme: Option<String>,
    /// canonical or classic
    ///
    /// Canonical tables have the same bytes on every device. Classic tables are built as in the papers: threads race
    /// for slots.
    #[arg(long, default_value = "canonical", value_parser = kind(), hide_possible_values = true)]
    #[arg(hide_short_help = true)]
    pub kind: Kind,
    #[command(flatten)]
    size: SizeOptions,
    /// Seed of the table, or `random` [default: fixed]
    ///
    /// All constants of the hash functions follow from it. `random` draws a seed that no one can predict. The default
    /// is a fixed seed.
    #[arg(long, value_parser = seed)]
    pub seed: Option<u64>,
    #[command(flatten)]
    pub parameters: SchemeOptions,
}

/// The schemes that tables of 64-bit keys or values can have.
pub enum Wide {
    Bucketized(Bucketized),
    RobinHood(RobinHood),
    Signpost(Signpost),
}

impl Wide {
    const NAMES: [&str; 3] = [Bucketized::NAME, RobinHood::NAME, Signpost::NAME];

    /// The scheme of tables with these keys and values.
    pub fn of<K, V>(&self) -> AnySchemeOf<K, V>
    where
        (K, V): Layout + Posted,
    {
        match self {
            Wide::Bucketized(scheme) => scheme.of::<K, V>().into(),
            Wide::RobinHood(scheme) => scheme.of::<K, V>().into(),
            Wide::Signpost(scheme) => scheme.of::<K, V>().into(),
        }
    }
}

impl TableOptions {
    /// The requested scheme, or the default for these contents.
    pub fn scheme(&self, contents: Contents) -> Result<AnyScheme> {
        self.size.check()?;
        scheme::named(self.scheme.as_deref().unwrap_or(usual(contents)), self.kind, &self.parameters)
    }

    /// The scheme of tables of 64-bit keys or values. Refuses options that these tables do not have.
    pub fn wide(&self) -> Result<Wide> {
        self.size.check()?;
        let wide = "tables of 64-bit keys or values";
        let narrow = "or, if all numbers fit 32 bits, give --keys u32 or --values u32";
        let name = self.scheme.as_deref().unwrap_or(Bucketized::NAME);
        if !Wide::NAMES.contains(&name) {
            let names = Wide::NAMES.join(", ");
            return Err(Failure::Input(format!(
                "--scheme {name}: {wide} have one of the schemes {names}: give one, {narrow}"
            )));
        }
        if self.kind == Kind::Classic {
            return Err(Failure::Input(format!("--kind classic: {wide} are canonical: omit it, {narrow}")));
        }
        if name == RobinHood::NAME
            && let AnyScheme::RobinHood(scheme) = scheme::named(name, self.kind, &self.parameters)?
        {
            scheme.of::<u64, u64>().check()?;
            return Ok(Wide::RobinHood(scheme));
        }
        match (name, self.parameters.given().first()) {
            (_, Some(given)) => Err(Failure::Input(format!("--{given} does not apply to {wide}: omit it, {narrow}"))),
            (Signpost::NAME, None) => Ok(Wide::Signpost(Signpost::new())),
            _ => Ok(Wide::Bucketized(Bucketized::default())),
        }
    }

    /// As `wide`, for structures whose tables store ids or positions as values. They are compiled for one scheme only.
    pub fn wide_numbers(&self) -> Result<Bucketized> {
        match self.wide()? {
            Wide::Bucketized(scheme) => Ok(scheme),
            other => {
                let name = if matches!(other, Wide::Signpost(_)) { Signpost::NAME } else { RobinHood::NAME };
                let advice = "it supports --table map and set only: omit it";
                Err(Failure::Input(format!("--scheme {name}: for 64-bit keys {advice}")))
            }
        }
    }

    /// Refuses a scheme that cannot store these contents, before a large file is read.
    pub fn check(&self, contents: Contents) -> Result<()> {
        let scheme = self.scheme(contents)?;
        // Compacting tables can also be built from a set, whose scheme has no values.
        let is_set = matches!(scheme, AnyScheme::CuckooSet(_));
        let numbers = contents == Contents::Multi || contents == Contents::Compact && !is_set;
        if numbers && scheme.limits().value_bits == 0 {
            let advice = "and this table needs values: give another --scheme";
            return Err(Failure::Input(format!(
                "{} tables with these options store keys only, {advice}",
                scheme.name()
            )));
        }
        Ok(())
    }

    /// Whether this scheme was requested.
    pub fn is_of(&self, name: &str) -> bool {
        self.scheme.as_deref() == Some(name)
    }

    /// A builder with this size and seed.
    pub fn apply<T: Builder>(&self, builder: T) -> T {
        let builder = self.size.apply(builder);
        match self.seed {
            Some(seed) => builder.with_seed(seed),
            None => builder,
        }
    }
}

/// Parses `--seed`. A random seed is drawn once, here, so that all builds of a command have the same seed.
fn seed(text: &str) -> std::result::Result<u64, String> {
    match text {
        "random" => koel::random_seed().map_err(|error| error.to_string()),
        _ => text.parse().map_err(|_| format!("`{text}` is not a seed: give a number below 2^64, or `random`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_a_number_or_drawn() {
        assert_eq!(seed("18446744073709551615"), Ok(u64::MAX));
        assert_ne!(seed("random"), seed("random"));
        for text in ["", "-1", "18446744073709551616", "Random", "0x5"] {
            assert!(seed(text).is_err(), "{text}");
        }
    }
}
