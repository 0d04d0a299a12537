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
pub use table::{Builder, TableOptions, Wide, scheme_help, usual};
pub use values::{AnyValuesOption, ValuesOption};
pub use values::{
    aggregate, by_name, contents, count, duplicates, id_order, join_kind, kind, memory, named_rows_file, pair_count,
    rows_file, scheme_name, scheme_or_all, shards, table_file,
};

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
