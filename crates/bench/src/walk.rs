//! The reads of lookups, counted by walking a table, compared with the paper's model.

use serde_json::{Value, json};

use koel::backend::{HashBackend, Runs};
use koel::device::Any;
use koel::table::{Buckets, Stats};
use koel::{HashTable, Scheme};

use koel_cli::failure::Result;

/// The counts of one table.
pub(super) struct Walked {
    device: String,
    table: String,
    n: u32,
    load: f64,
    stats: Stats,
}

/// The share of Type B buckets in a table with bucket types.
pub(super) fn type_b_share(stats: &Stats) -> f64 {
    let of = |name: &str| stats.buckets.iter().find(|b| b.name == name).map_or(0, Buckets::count) as f64;
    of("B") / (of("A") + of("B")).max(1.0)
}

/// A count and its model.
type Reference = (&'static str, f64, Option<f64>);

impl Walked {
    pub(super) fn of<S: Scheme<Key = u32, Value = u32>>(table: &HashTable<Any, S>, n: u32) -> Result<Walked>
    where
        Any: Runs<S>,
    {
        let kind = koel::scheme::Plan::kind(table.plan());
        Ok(Walked {
            device: table.backend().info().id.clone(),
            table: format!("{} {kind}", table.scheme().name()),
            n,
            load: table.load_factor(),
            stats: table.stats()?,
        })
    }

    /// Reads per hit and per miss, and the share of Type B buckets if there are types.
    fn counts(&self) -> Vec<Reference> {
        let Stats { reads_per_hit, reads_per_miss, model, .. } = self.stats;
        let mut counts = vec![
            ("reads a hit", reads_per_hit, model.map(|m| m.reads_per_hit)),
            ("reads a miss", reads_per_miss, model.map(|m| m.reads_per_miss)),
        ];
        if let Some(share) = model.and_then(|model| model.type_b_share) {
            counts.push(("Type B buckets", type_b_share(&self.stats), Some(share)));
        }
        counts
    }

    /// The relative difference between a count and its model; for reads, of the excess over the one read of every
    /// lookup.
    fn distance((what, counted, model): &Reference) -> Option<f64> {
        let base = if what.starts_with("reads") { 1.0 } else { 0.0 };
        model.map(|model| (counted - base) / (model - base) - 1.0)
    }

    pub(super) fn line(&self) -> String {
        let shown = |beside: &Reference| {
            let (what, counted, model) = *beside;
            let by_model = model.zip(Walked::distance(beside));
            let by_model = by_model.map(|(model, d)| format!(" (model {model:.4}, {:+.1}%)", 100.0 * d));
            format!("{what} {counted:.4}{}", by_model.unwrap_or_default())
        };
        let counts: Vec<_> = self.counts().iter().map(shown).collect();
        format!("{}, n = {}, load {:.3}, on {}: {}", self.table, self.n, self.load, self.device, counts.join("; "))
    }

    pub(super) fn json(&self) -> Value {
        let counts = self.counts().into_iter().map(|beside| {
            json!({ "what": beside.0, "counted": beside.1, "model": beside.2, "distance": Walked::distance(&beside) })
        });
        json!({
            "device": self.device, "table": self.table, "n": self.n, "load": self.load,
            "bytes_per_read": self.stats.bucket_bytes, "counts": counts.collect::<Vec<_>>(),
        })
    }
}
