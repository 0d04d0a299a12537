//! Options that several commands share, and what they mean.

mod device;
pub(crate) mod names;
mod parameters;
mod table;
mod values;

use clap::Args;

use koel::{Kind, Load, Scheme};

use super::failure::{Failure, Result};
use super::scheme;

pub use device::{OneDevice, SomeDevices, TableDevices, Threads, ids, one_device, several_devices};
pub use parameters::{Extent, SchemeOptions};
pub use table::{Builder, TableOptions, Wide, scheme_help, schemes, usual};
pub use values::{AnyValuesOption, ValuesOption};
pub use values::{
    by_name, contents, count, duplicates, id_order, join_kind, kind, memory, named_rows_file, pair_count, rows_file,
    scheme_name, scheme_or_all, shards, table_file,
};

/// The size of a table.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Table")]
pub struct SizeOptions {
    /// Load factor, above 0 and up to 1 [default: by scheme]
    ///
    /// The number of pairs per slot. The default depends on the scheme.
    #[arg(long)]
    pub load: Option<f64>,
    /// Pairs to size the table for, e.g. 5e6 or 2^20
    ///
    /// The table has enough slots for this number of pairs at the load factor. The default is the number of pairs that
    /// are stored.
    #[arg(long, hide_short_help = true, value_name = "PAIRS", value_parser = count)]
    pub capacity: Option<u64>,
    /// Number of slots, e.g. 2^20
    ///
    /// Excludes --load and --capacity.
    #[arg(long, hide_short_help = true, value_name = "SLOTS", value_parser = count)]
    #[arg(conflicts_with_all = ["load", "capacity"])]
    pub slots: Option<u64>,
}

impl SizeOptions {
    /// Refuses a load outside its range.
    pub fn check(&self) -> Result<()> {
        self.load.map(Load::new).transpose()?;
        Ok(())
    }

    /// Whether the size does not depend on the number of pairs.
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

    /// The number of slots for `pairs` pairs, computed independently of the builder.
    pub fn slots<S: Scheme>(&self, scheme: &S, pairs: u64) -> Result<u64> {
        let load = self.load.map_or(Ok(scheme.default_load()), Load::new)?;
        Ok(self.slots.unwrap_or_else(|| load.slots_for(self.capacity.unwrap_or(pairs))))
    }
}

const SCHEMES: &str = "Schemes, comma-separated, or `all`";

/// Which schemes, as a list.
#[derive(Args, Clone)]
#[command(next_help_heading = "Table")]
pub struct SchemeList {
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "all", value_parser = scheme_or_all())]
    #[arg(hide_possible_values = true, help = SCHEMES, long_help = schemes(SCHEMES))]
    scheme: Vec<String>,
    /// canonical, classic or all
    ///
    /// Canonical tables have the same bytes on every device. Classic tables are built as in the papers: threads race
    /// for slots.
    #[arg(long, default_value = "all", value_parser = ["canonical", "classic", "all"], hide_possible_values = true)]
    kind: String,
}

impl SchemeList {
    /// A list with other defaults.
    pub fn new(scheme: &[String], kind: &str) -> SchemeList {
        SchemeList { scheme: scheme.to_vec(), kind: kind.into() }
    }

    /// Every requested combination of scheme and kind that exists.
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

    /// The options that apply to this scheme and kind. If several schemes are requested, each gets the options that
    /// apply to it.
    ///
    /// # Errors
    /// If an option does not apply to any of them.
    pub fn options_for(&self, name: &str, kind: Kind, options: &SchemeOptions) -> Result<SchemeOptions> {
        let all = self.combinations()?;
        if all.len() == 1 {
            return Ok(options.clone());
        }
        let accepts = |name: &str, kind, option| scheme::accepts(name, kind, &options.only(&[option]));
        let given = options.given();
        if let Some(other) = given.iter().find(|&&option| !all.iter().any(|&(name, kind)| accepts(name, kind, option)))
        {
            return Err(Failure::Input(format!("--{other} does not apply to the requested tables: omit it")));
        }
        let taken: Vec<_> = given.into_iter().filter(|&option| accepts(name, kind, option)).collect();
        Ok(options.only(&taken))
    }
}
