//! Figures 8 to 11 and 14: the equations of Section 6, compared with built tables.

use koel::backend::Runs;
use koel::device::Any;
use koel::scheme::horton::model;
use koel::scheme::{HortonFamily, Limits, Request};
use koel::table::{Buckets, Stats};
use koel::workload::Workload;
use koel::{Bucketized, Horton, Insertion, Load, Scheme};

use super::{FUNCTIONS, TAGS, functions};
use crate::figure::{Axis, Figure};
use crate::paper::bench::{Bench, Pairs};
use koel_cli::failure::Result;

/// Slots of a bucket, in the paper's figures.
const SLOTS: [u32; 5] = [1, 2, 4, 8, 16];
/// Loads at which tables are built.
const LOADS: [f64; 11] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95];

/// Figure 8, with a part for each load: the number of keys per home bucket. The homes are those of Horton tables, with
/// both families, and the paper's other functions modulo the number of buckets.
pub(super) fn homes(bench: &Bench<'_>) -> Result<Vec<Figure>> {
    let n = bench.size(1 << 22);
    let keys = Workload::new(n, bench.seed()).keys();
    let mut figures = Vec::new();
    for (id, load) in [("8-0.75", 0.75), ("8-0.95", 0.95)] {
        let (x, y) = (Axis::linear("keys of a home", ""), Axis::linear("share of buckets", "%"));
        let title = format!("homes of {n} keys, buckets of 8, load {load}");
        let mut figure = Figure::new((id, "Figure 8"), title, "host", x, y);
        figure.note("the text does not say which two load factors the paper drew");
        let slots = Load::new(load)?.slots_for(n.into());
        let request = Request { slots, pairs: n.into(), seed: bench.seed(), attempt: 0 };
        for (family, label) in [(HortonFamily::Mixer, "mixer"), (HortonFamily::Jenkins, "Jenkins")] {
            let plan = Horton::classic(8).family(family).plan(request)?;
            let functions = plan.functions();
            histogram(&mut figure, label, &keys, plan.buckets(), |key| functions.home(key).0);
        }
        let buckets = Horton::classic(8).plan(request)?.buckets().max(1);
        for (label, function) in functions::NAMED {
            histogram(&mut figure, label, &keys, buckets, |key| function(key) % buckets);
        }
        for keys in 0..=24 {
            figure.model("Equation 3", keys.into(), 100.0 * model::share_with(8, load, keys));
        }
        figures.push(figure);
    }
    Ok(figures)
}

/// The share of buckets by the number of keys whose home they are.
fn histogram(figure: &mut Figure, label: &str, keys: &[u32], buckets: u32, home: impl Fn(u32) -> u32) {
    let mut of_bucket = vec![0u32; buckets as usize];
    keys.iter().for_each(|&key| of_bucket[home(key) as usize] += 1);
    let most = of_bucket.iter().copied().max().unwrap_or(0);
    let mut with = vec![0u32; most as usize + 1];
    of_bucket.iter().for_each(|&keys| with[keys as usize] += 1);
    for (keys, &with) in with.iter().enumerate().filter(|(_, with)| **with > 0) {
        figure.point(label, keys as f64, 100.0 * f64::from(with) / f64::from(buckets));
    }
}

/// Figures 9 to 11, over the load.
pub(super) fn over_load(bench: &Bench<'_>) -> Result<Vec<Figure>> {
    let n = bench.size(1 << 18);
    let x = || Axis::linear("load", "");
    let buckets = || Axis::linear("buckets", "");
    let title = |what: &str| format!("{what}, {n} pairs");
    let entries = title("storage that remap entries take");
    let mut entries = bench.figure(("9", "Figure 9"), &entries, x(), Axis::linear("storage", "%"));
    let mut hits = bench.figure(("10", "Figure 10"), &title("buckets a lookup that hits reads"), x(), buckets());
    let mut misses = bench.figure(("11", "Figure 11"), &title("buckets a lookup that misses reads"), x(), buckets());
    for load in (1..=20).map(|twentieths| f64::from(twentieths) / 20.0) {
        // Beyond this bound no such table exists.
        for slots in SLOTS.into_iter().filter(|&slots| load <= model::load_bound(slots)) {
            let label = format!("S = {slots}");
            entries.model(&label, load, 100.0 * model::entry_storage(slots, load));
            hits.model(&label, load, model::positive_cost(slots, load));
            misses.model(&label, load, model::negative_cost(slots, load, TAGS));
        }
        // One of the 2^8 tags marks a free entry.
        if load <= model::load_bound(8) {
            misses.model("S = 8, explicit tags of 8 bits", load, model::negative_cost(8, load, 255));
        }
        hits.model("BCHT", load, f64::from(FUNCTIONS + 1) / 2.0);
        misses.model("BCHT", load, FUNCTIONS.into());
    }
    hits.note("BCHT: bucketized cuckoo tables of two functions, 8 slots; the baseline is load-balancing");
    let pairs = bench.random(n, Limits::NONE)?;
    for load in LOADS {
        for slots in [4, 8, 16] {
            let label = format!("S = {slots}");
            match walked(bench, Horton::canonical(slots), load, &pairs)? {
                Ok(stats) => {
                    entries.point(&label, load, 100.0 * type_b_share(&stats) / f64::from(slots));
                    hits.point(&label, load, stats.reads_per_hit);
                    misses.point(&label, load, stats.reads_per_miss);
                }
                Err(reason) => entries.note(format!("{label}, load {load}: {reason}")),
            }
        }
        for insertion in [Insertion::LoadBalancing, Insertion::FirstFit] {
            let label = format!("BCHT, {}", insertion.name());
            match walked(bench, Bucketized::classic(FUNCTIONS, 8).insertion(insertion), load, &pairs)? {
                Ok(stats) => {
                    hits.point(&label, load, stats.reads_per_hit);
                    misses.point(&label, load, stats.reads_per_miss);
                }
                Err(reason) => hits.note(format!("{label}, load {load}: {reason}")),
            }
        }
    }
    Ok(vec![entries, hits, misses])
}

/// Figure 14: the three models compared with a table of 8 MiB, or of the requested number of slots if that is smaller.
pub(super) fn validation(bench: &Bench<'_>) -> Result<Vec<Figure>> {
    let slots = bench.size(1 << 20).min(1 << 20);
    let title = |what: &str| format!("{what}, a table of {slots} slots");
    let x = || Axis::linear("load", "");
    let storage = Axis::linear("storage", "%");
    let mut entries = bench.figure(("14a", "Figure 14a"), &title("remap entries"), x(), storage);
    let buckets = || Axis::linear("buckets", "");
    let mut hits = bench.figure(("14b", "Figure 14b"), &title("lookups that hit"), x(), buckets());
    let mut misses = bench.figure(("14c", "Figure 14c"), &title("lookups that miss"), x(), buckets());
    entries.note("the text does not say which of its models is which part of the figure");
    for load in LOADS {
        let pairs = bench.random((f64::from(slots) * load) as u32, Limits::NONE)?;
        entries.model("Equation 4", load, 100.0 * model::entry_storage(8, load));
        hits.model("Equation 7", load, model::positive_cost(8, load));
        misses.model("Equation 9", load, model::negative_cost(8, load, TAGS));
        for (label, scheme) in [("classic", Horton::classic(8)), ("canonical", Horton::canonical(8))] {
            match walked(bench, scheme, load, &pairs)? {
                Ok(stats) => {
                    entries.point(label, load, 100.0 * type_b_share(&stats) / 8.0);
                    hits.point(label, load, stats.reads_per_hit);
                    misses.point(label, load, stats.reads_per_miss);
                }
                Err(reason) => entries.note(format!("{label}, load {load}: {reason}")),
            }
        }
    }
    Ok(vec![entries, hits, misses])
}

/// The share of Type B buckets in a table with bucket types.
fn type_b_share(stats: &Stats) -> f64 {
    let of = |name: &str| stats.buckets.iter().find(|b| b.name == name).map_or(0, Buckets::count) as f64;
    of("B") / (of("A") + of("B")).max(1.0)
}

/// The counts of a table.
fn walked<S: Scheme<Key = u32, Value = u32>>(
    bench: &Bench<'_>,
    scheme: S,
    load: f64,
    pairs: &Pairs,
) -> Result<std::result::Result<Stats, String>>
where
    Any: Runs<S>,
{
    Ok(match bench.table(scheme, Some(load), pairs)? {
        Ok(table) => Ok(table.stats()?),
        Err(reason) => Err(reason),
    })
}
