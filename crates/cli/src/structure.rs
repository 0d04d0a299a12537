//! The structures that a file can contain, as commands see them: a table, and the columns stored with it.

use std::path::Path;

use serde_json::{Value, json};

use koel::backend::Runs;
use koel::scheme::{Audit, Plan};
use koel::table::{Contents, FileInfo, Stats};
use koel::{
    CompactingTable, Digest, HashSet, HashTable, KeyType, MultiTable, Scheme, Sharded, ShardedMulti, ShardedSet,
};

use super::failure::Failure;
use super::number::{Type, Word};
use super::scheme::Described;
use super::text;

/// What keys represent, as JSON.
pub fn key_type_json(key_type: KeyType) -> serde_json::Value {
    match key_type {
        KeyType::Numbers | KeyType::Signed => json!({ "type": "numbers" }),
        KeyType::Kmers { k } => json!({ "type": "kmers", "k": k, "canonical": false }),
        KeyType::CanonicalKmers { k } => json!({ "type": "kmers", "k": k, "canonical": true }),
        KeyType::Cells(layout) => json!({ "type": "cells", "layout": layout.to_string() }),
        other => json!({ "type": other.to_string() }),
    }
}

/// The operations that all structures have.
pub trait Structure<B: Runs<S>, S: Scheme>: Sized {
    /// The contents of its table.
    const CONTENTS: Contents;
    fn open(device: &B, path: &Path) -> koel::Result<Self>;
    fn save(&self, path: &Path) -> koel::Result<Digest>;
    fn digest(&self) -> koel::Result<Digest>;
    fn audit(&self) -> koel::Result<Audit>;
    /// The tables of its keys: one, or one per shard.
    fn tables(&self) -> Vec<&HashTable<B, S>>;

    /// The table of its keys; the first shard of a sharded table.
    fn table(&self) -> &HashTable<B, S> {
        self.tables()[0]
    }
    /// Statistics of its tables.
    fn stats(&self) -> koel::Result<Stats> {
        self.table().stats()
    }
    /// The pairs of each shard, if the table is sharded.
    fn pairs_by_shard(&self) -> Option<Vec<u64>> {
        None
    }
    /// The number of pairs; the number of keys if there are no values.
    fn pairs(&self) -> u64 {
        self.tables().iter().map(|table| table.len() as u64).sum()
    }
    /// The largest number of values of a key.
    fn most_values(&self) -> koel::Result<u64> {
        Ok(self.pairs().min(1))
    }
    /// Bytes on the device: the table's image and the columns stored with it.
    fn bytes(&self) -> u64 {
        8 * self.tables().iter().map(|table| table.plan().words()).sum::<u64>()
    }
    /// The noun for what [`pairs`](Structure::pairs) counts.
    const COUNTED: &'static str = "key";
    /// Describes the contents in words.
    fn held(&self) -> String {
        text::counted(self.pairs(), Self::COUNTED)
    }
}

macro_rules! structure {
    ($structure:ident$(<$V:ident>)?, $contents:ident $(, $number:ty)? { $($more:item)* }) => {
        structure!($structure$(<$V>)?, $contents $(, $number)?, |device| device, { $($more)* });
    };
    ($structure:ident$(<$V:ident>)?, $contents:ident $(, $number:ty)?, |$device:ident| $on:expr, { $($more:item)* }) => {
        impl<B: Runs<S>, S: Scheme$(<Value = $number>)?$(, $V: Word)?> Structure<B, S> for $structure<B, S$(, $V)?> {
            const CONTENTS: Contents = Contents::$contents;
            fn open($device: &B, path: &Path) -> koel::Result<Self> {
                $structure::open($on, path)
            }
            fn save(&self, path: &Path) -> koel::Result<Digest> {
                $structure::save(self, path)
            }
            fn digest(&self) -> koel::Result<Digest> {
                $structure::digest(self)
            }
            fn audit(&self) -> koel::Result<Audit> {
                $structure::audit(self)
            }
            $($more)*
        }
    };
}

structure!(HashTable, Map {
    const COUNTED: &'static str = "pair";
    fn tables(&self) -> Vec<&HashTable<B, S>> {
        vec![self]
    }
});
structure!(Sharded, Map, |device| std::slice::from_ref(device), {
    const COUNTED: &'static str = "pair";
    fn tables(&self) -> Vec<&HashTable<B, S>> {
        self.shards().iter().collect()
    }
    fn stats(&self) -> koel::Result<Stats> {
        Sharded::stats(self)
    }
    fn pairs_by_shard(&self) -> Option<Vec<u64>> {
        Some(self.shards().iter().map(|shard| shard.len() as u64).collect())
    }
});
structure!(HashSet, Set {
    fn tables(&self) -> Vec<&HashTable<B, S>> {
        vec![self.table()]
    }
});
structure!(ShardedSet, Set, |device| std::slice::from_ref(device), {
    fn tables(&self) -> Vec<&HashTable<B, S>> {
        self.table().shards().iter().collect()
    }
    fn stats(&self) -> koel::Result<Stats> {
        self.table().stats()
    }
    fn pairs_by_shard(&self) -> Option<Vec<u64>> {
        Some(self.table().shards().iter().map(|shard| shard.len() as u64).collect())
    }
});
structure!(CompactingTable, Compact, u32 {
    fn tables(&self) -> Vec<&HashTable<B, S>> {
        vec![self.table()]
    }
    fn bytes(&self) -> u64 {
        8 * self.table().plan().words() + size_of::<S::Key>() as u64 * self.pairs()
    }
});
structure!(MultiTable<V>, Multi, u32 {
    const COUNTED: &'static str = "pair";
    fn tables(&self) -> Vec<&HashTable<B, S>> {
        vec![self.table()]
    }
    fn pairs(&self) -> u64 {
        self.len() as u64
    }
    fn bytes(&self) -> u64 {
        8 * self.table().plan().words() + (4 * (self.keys_len() + 1) + size_of::<V>() * self.len()) as u64
    }
    fn most_values(&self) -> koel::Result<u64> {
        let starts = self.starts()?;
        Ok(starts.windows(2).map(|run| u64::from(run[1].saturating_sub(run[0]))).max().unwrap_or(0))
    }
    fn held(&self) -> String {
        format!("{} of {}", text::counted(self.pairs(), Self::COUNTED), text::counted(self.keys_len() as u64, "key"))
    }
});

structure!(ShardedMulti<V>, Multi, u32, |device| std::slice::from_ref(device), {
    const COUNTED: &'static str = "pair";
    fn tables(&self) -> Vec<&HashTable<B, S>> {
        self.shards().iter().map(MultiTable::table).collect()
    }
    fn stats(&self) -> koel::Result<Stats> {
        ShardedMulti::stats(self)
    }
    fn pairs_by_shard(&self) -> Option<Vec<u64>> {
        Some(self.shards().iter().map(|shard| shard.len() as u64).collect())
    }
    fn pairs(&self) -> u64 {
        self.len() as u64
    }
    fn bytes(&self) -> u64 {
        self.shards().iter().map(Structure::<B, S>::bytes).sum()
    }
    fn most_values(&self) -> koel::Result<u64> {
        self.shards().iter().try_fold(0, |most, shard| Ok(most.max(Structure::<B, S>::most_values(shard)?)))
    }
    fn held(&self) -> String {
        format!("{} of {}", text::counted(self.pairs(), Self::COUNTED), text::counted(self.keys_len() as u64, "key"))
    }
});

/// What commands report about a structure. It does not depend on the scheme, so that printing is compiled once.
pub struct About {
    pub contents: Contents,
    pub scheme: &'static str,
    /// For a sharded table, the parameters that all shards share.
    pub parameters: Vec<(&'static str, Value)>,
    /// The pairs of each shard, if the table is sharded.
    pub by_shard: Option<Vec<u64>>,
    /// Describes the contents in words.
    pub held: String,
    /// The noun for what `pairs` counts.
    pub counted: &'static str,
    pub pairs: u64,
    pub keys: u64,
    pub slots: u64,
    pub load: f64,
    pub seed: u64,
    pub restarts: u32,
    /// Bytes on the device, and how many of them are the table's image.
    pub bytes: u64,
    pub image_bytes: u64,
    /// Pairs stored outside of an image.
    pub outside: u64,
}

impl About {
    pub fn of<B: Runs<S>, S: Described, T: Structure<B, S>>(structure: &T) -> About {
        let (table, tables) = (structure.table(), structure.tables());
        let sum = |of: fn(&HashTable<B, S>) -> u64| tables.iter().map(|table| of(table)).sum::<u64>();
        let (keys, slots) = (sum(|table| table.len() as u64), sum(|table| table.slots() as u64));
        let mut parameters = S::describe(table.plan());
        for other in tables.iter().skip(1) {
            let others = S::describe(other.plan());
            parameters.retain(|parameter| others.contains(parameter));
        }
        About {
            contents: T::CONTENTS,
            scheme: table.scheme().name(),
            parameters,
            by_shard: structure.pairs_by_shard(),
            held: structure.held(),
            counted: T::COUNTED,
            pairs: structure.pairs(),
            keys,
            slots,
            load: (keys as f64 / slots as f64).min(1.0),
            seed: table.plan().seed(),
            restarts: tables.iter().map(|table| table.restarts()).sum(),
            bytes: structure.bytes(),
            image_bytes: sum(|table| 8 * table.plan().words()),
            outside: sum(|table| table.plan().outside().is_some().into()),
        }
    }

    /// Converts the report on the first shard to a report on a sharded table.
    pub fn begin_shards(mut self) -> About {
        self.by_shard = Some(vec![self.pairs]);
        self
    }

    /// Adds a shard. The shards need not be in memory at the same time.
    pub fn add_shard(&mut self, shard: &About) {
        self.parameters.retain(|parameter| shard.parameters.contains(parameter));
        self.by_shard.get_or_insert_default().push(shard.pairs);
        for (sum, of) in [
            (&mut self.pairs, shard.pairs),
            (&mut self.keys, shard.keys),
            (&mut self.slots, shard.slots),
            (&mut self.bytes, shard.bytes),
            (&mut self.image_bytes, shard.image_bytes),
            (&mut self.outside, shard.outside),
        ] {
            *sum += of;
        }
        self.restarts += shard.restarts;
        self.load = (self.keys as f64 / self.slots as f64).min(1.0);
        self.held = text::counted(self.pairs, self.counted);
    }

    /// A line about the shards; empty if the table is not sharded.
    pub fn shards_said(&self) -> String {
        let Some(pairs) = &self.by_shard else { return String::new() };
        let [least, most] = [pairs.iter().min(), pairs.iter().max()].map(|pairs| pairs.copied().unwrap_or(0));
        let least = if least == most { String::new() } else { format!("{} to ", text::grouped(least)) };
        format!("shards    {}, of {least}{}\n", text::grouped(pairs.len() as u64), text::counted(most, "pair"))
    }
}

/// The types of keys and values in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Types {
    pub key_type: KeyType,
    pub keys: Type,
    /// `None` for sets and for compacting tables, which assign the ids themselves.
    pub values: Option<Type>,
}

impl Types {
    /// The types in a table file.
    pub fn of(info: &FileInfo) -> Types {
        let values = Type::of_values(info.value_type, info.value_bits);
        let has_values = matches!(info.contents, Contents::Map | Contents::Multi) && info.value_bits > 0;
        let keys = Type::of_keys(info.key_type, info.key_bits);
        Types { key_type: info.key_type, keys, values: has_values.then_some(values) }
    }

    /// Describes the type of the keys in words.
    pub fn keys_said(&self) -> String {
        match self.key_type {
            KeyType::Numbers | KeyType::Signed => numbers(self.keys),
            other => other.to_string(),
        }
    }

    /// A line about the type of the values; empty if it is the usual one.
    pub fn values_said(&self) -> String {
        self.values
            .filter(|&kind| kind != Type::U32)
            .map_or(String::new(), |kind| format!("values    {}\n", numbers(kind)))
    }

    /// The types as JSON.
    pub fn json(&self) -> Value {
        json!({ "keys": self.keys.name(), "values": self.values.map(Type::name) })
    }
}

/// Describes numbers of this type in words.
fn numbers(kind: Type) -> String {
    if kind == Type::U32 { "numbers".into() } else { format!("numbers ({})", kind.name()) }
}

/// Evaluates the body with `$S` as the scheme of a file's map, given the widths of its keys and values.
macro_rules! of_map {
    ($info:expr, |$S:ident| $body:expr) => {
        match ($info.key_bits, $info.value_bits) {
            (32, 32) => $crate::structure::of_map!(@ koel::AnyScheme, $S, $body),
            (64, 64) => $crate::structure::of_map!(@ koel::AnySchemeOf<u64, u64>, $S, $body),
            (64, 32) => $crate::structure::of_map!(@ koel::AnySchemeOf<u64, u32>, $S, $body),
            (32, 64) => $crate::structure::of_map!(@ koel::AnySchemeOf<u32, u64>, $S, $body),
            _ => Err($crate::structure::unknown_widths($info)),
        }
    };
    (@ $scheme:ty, $S:ident, $body:expr) => {{
        type $S = $scheme;
        $body
    }};
}
pub(crate) use of_map;

/// As `of_map`, for sets, which do not have values, except unused ones in 32-bit layouts.
macro_rules! of_set {
    ($info:expr, |$S:ident| $body:expr) => {
        match ($info.key_bits, $info.value_bits) {
            (32, 32) => $crate::structure::of_map!(@ koel::AnyScheme, $S, $body),
            (64, 0) => $crate::structure::of_map!(@ koel::AnySchemeOf<u64, ()>, $S, $body),
            (32, 0) => $crate::structure::of_map!(@ koel::scheme::SignpostOf<u32, ()>, $S, $body),
            _ => Err($crate::structure::unknown_widths($info)),
        }
    };
}
pub(crate) use of_set;

/// As `of_map`, for compacting tables, which assign the ids themselves.
macro_rules! of_numbering_table {
    ($info:expr, |$S:ident| $body:expr) => {
        match ($info.key_bits, $info.value_bits) {
            (32, 32) => $crate::structure::of_map!(@ koel::AnyScheme, $S, $body),
            (64, 32) => $crate::structure::of_map!(@ koel::scheme::BucketizedOf<u64, u32>, $S, $body),
            _ => Err($crate::structure::unknown_widths($info)),
        }
    };
}
pub(crate) use of_numbering_table;

/// As `of_map`, for multivalue tables; `$V` is the type of their values. The table of their keys stores assigned
/// numbers too.
macro_rules! of_multi_table {
    ($info:expr, |$S:ident, $V:ident| $body:expr) => {
        match ($info.key_bits, $info.value_bits) {
            (32, 32) => $crate::structure::of_multi_table!(@ $V, u32, $crate::structure::of_map!(@ koel::AnyScheme, $S, $body)),
            (32, 64) => $crate::structure::of_multi_table!(@ $V, u64, $crate::structure::of_map!(@ koel::AnyScheme, $S, $body)),
            (64, 32) => $crate::structure::of_multi_table!(@ $V, u32, $crate::structure::of_map!(@ koel::scheme::BucketizedOf<u64, u32>, $S, $body)),
            (64, 64) => $crate::structure::of_multi_table!(@ $V, u64, $crate::structure::of_map!(@ koel::scheme::BucketizedOf<u64, u32>, $S, $body)),
            _ => Err($crate::structure::unknown_widths($info)),
        }
    };
    (@ $V:ident, $value:ty, $body:expr) => {{
        type $V = $value;
        $body
    }};
}
pub(crate) use of_multi_table;

/// The error for a table with widths that this structure does not support.
pub fn unknown_widths(info: &FileInfo) -> Failure {
    let (name, keys, values) = (info.contents.name(), info.key_bits, info.value_bits);
    let what = format!("a {name} of keys of {keys} bits and values of {values}");
    Failure::Input(format!("{what} is unknown to this version: use a newer koel"))
}

/// The error for contents that this command does not support.
pub fn unknown(contents: Contents) -> Failure {
    Failure::Input(format!("tables of type {} are unknown to this version: use a newer koel", contents.name()))
}
