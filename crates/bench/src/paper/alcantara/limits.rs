//! Sections 4.2 and 4.3.1.1: the number of slots that a pair tries, the least number of slots with which tables can be
//! built, and how often a build must be restarted.

use koel::backend::Runs;
use koel::device::Any;
use koel::scheme::cuckoo::{classic, model};
use koel::scheme::{Limits, Plan, Request};
use koel::{Cuckoo, HashTable, Load, Scheme};

use super::SMALLEST;
use crate::device::is_of_the_table;
use crate::figure::{Axis, Figure};
use crate::paper::bench::{Bench, Pairs};
use crate::wrong;
use koel_cli::failure::Result;

/// Slots per pair.
const SPACES: [f64; 10] = [1.02, 1.05, 1.1, 1.15, 1.25, 1.42, 1.7, 2.1, 3.0, 4.5];
/// The number of builds over which a restart rate is averaged.
const BUILDS: u64 = 100;
/// A size is feasible if builds with [`SEEDS`] seeds succeed, each within [`ATTEMPTS`] attempts.
const SEEDS: u64 = 3;
const ATTEMPTS: u32 = 4;

/// The paper's insertion, one pair at a time, with its iterations counted.
pub(super) fn iterations(bench: &Bench<'_>) -> Result<Vec<Figure>> {
    let n = bench.size(1 << 17);
    let keys = koel::workload::Workload::new(n, bench.seed()).keys();
    let (x, y) = (Axis::linear("slots a pair", ""), Axis::linear("iterations a pair", ""));
    let place = ("iterations", "Sections 4.2 and 4.5.3");
    let title = format!("slots that insertions try, {n} pairs");
    let mut figure = Figure::new(place, title, "host, one thread", x, y);
    figure.note("means, and medians over the pairs; the model is -m ln(1 - N/m) / N");
    for space in SPACES {
        let slots = Load::new(1.0 / space)?.slots_for(n.into());
        figure.model("model", space, model::attempts(n.into(), slots as f64) / f64::from(n));
        for (functions, _) in SMALLEST.into_iter().filter(|&(_, smallest)| space >= smallest) {
            bench.progress.say(format!("iterations of {functions} functions in {space} N"));
            match tries(&Cuckoo::classic(functions), slots, bench.seed(), &keys)? {
                Some(mut tries) => {
                    let sum: u64 = tries.iter().map(|&tries| u64::from(tries)).sum();
                    figure.point(format!("H = {functions}"), space, sum as f64 / f64::from(n));
                    let middle = tries.len() / 2;
                    let median = *tries.select_nth_unstable(middle).1;
                    figure.point(format!("H = {functions}, median"), space, median.into());
                }
                None => figure.note(format!("H = {functions} in {space} N: a chain was cut in each attempt")),
            }
        }
    }
    Ok(vec![figure])
}

/// The number of slots that each pair tried, in the first attempt that placed all.
fn tries(scheme: &Cuckoo, slots: u64, seed: u64, keys: &[u32]) -> Result<Option<Vec<u32>>> {
    for attempt in 0..ATTEMPTS {
        let plan = scheme.plan(Request { slots, pairs: keys.len() as u64, seed, attempt })?;
        let mut image = vec![plan.empty_word(); plan.words() as usize];
        let mut place = |key: &u32| match classic::place_counted(&plan, &mut image, *key, 0) {
            (koel::scheme::Placing::Unplaced, _) => None,
            // The sentinel key, which is stored outside the image, does not try any slot.
            (_, tried) => Some(tried),
        };
        if let Some(tries) = keys.iter().map(&mut place).collect() {
            return Ok(Some(tries));
        }
    }
    Ok(None)
}

/// The smallest feasible tables, in hundredths of a slot per pair.
pub(super) fn smallest(bench: &Bench<'_>) -> Result<Vec<Figure>> {
    let n = bench.size(1 << 17);
    let pairs = bench.random(n, Limits::NONE)?;
    let (x, y) = (Axis::linear("functions", ""), Axis::linear("slots a pair", ""));
    let title = format!("the smallest tables, {n} pairs");
    let mut figure = bench.figure(("smallest-space", "Section 4.3.1.1"), &title, x, y);
    figure.note(format!(
        "the least hundredth of a slot a pair in which {SEEDS} seeds each build a table within {ATTEMPTS} attempts"
    ));
    figure.note("thresholds: of Dietzfelbinger et al., for random functions");
    for ((functions, practical), threshold) in SMALLEST.into_iter().zip(classic::THRESHOLDS) {
        figure.model("paper", functions.into(), practical);
        figure.model("threshold", functions.into(), 1.0 / threshold);
        for (label, scheme) in [("classic", Cuckoo::classic(functions)), ("canonical", Cuckoo::canonical(functions))] {
            let least = (100.0 / threshold).floor() as u32;
            // From the threshold up in growing steps, and then back by bisection.
            let (mut too_small, mut step) = (least.max(100), 1);
            let most = 2 * least;
            let mut enough = None;
            while too_small < most {
                let space = too_small + step;
                if can_be_had(bench, &scheme, &pairs, space)? {
                    enough = Some(space);
                    break;
                }
                (too_small, step) = (space, 2 * step);
            }
            let Some(mut enough) = enough else {
                figure.note(format!("{label}, H = {functions}: not in {most} hundredths either"));
                continue;
            };
            while enough - too_small > 1 {
                let middle = u32::midpoint(too_small, enough);
                if can_be_had(bench, &scheme, &pairs, middle)? { enough = middle } else { too_small = middle }
            }
            figure.point(label, functions.into(), f64::from(enough) / 100.0);
        }
    }
    Ok(vec![figure])
}

/// Whether a table with `hundredths` / 100 slots per pair can be built with every seed.
fn can_be_had(bench: &Bench<'_>, scheme: &Cuckoo, pairs: &Pairs, hundredths: u32) -> Result<bool> {
    let load = (100.0 / f64::from(hundredths)).min(1.0);
    bench.progress.say(format!("a table of {hundredths} hundredths of a slot a pair"));
    for seed in 0..SEEDS {
        if restarts_of(bench, scheme, pairs, load, bench.seed() + seed, ATTEMPTS)?.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The number of restarts of one build; `None` if every attempt failed.
fn restarts_of<S: Scheme<Key = u32, Value = u32>>(
    bench: &Bench<'_>,
    scheme: &S,
    pairs: &Pairs,
    load: f64,
    seed: u64,
    attempts: u32,
) -> Result<Option<u32>>
where
    Any: Runs<S>,
{
    let builder = HashTable::builder(scheme.clone()).seed(seed).load_factor(load).attempts(attempts);
    match builder.build(bench.device, &pairs.keys, &pairs.values) {
        Ok(table) if table.len() == pairs.keys.len() => Ok(Some(table.restarts())),
        Ok(table) => Err(wrong("a build", format!("{} pairs of {}", table.len(), pairs.keys.len()))),
        Err(error) if is_of_the_table(&error) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The share of attempts that failed.
pub(super) fn restarts(bench: &Bench<'_>) -> Result<Vec<Figure>> {
    let n = bench.size(1 << 16);
    let pairs = bench.random(n, Limits::NONE)?;
    let (x, y) = (Axis::linear("functions", ""), Axis::linear("attempts that failed", "%"));
    let title = format!("restarts, {n} pairs");
    let mut figure = bench.figure(("restarts", "Section 4.3.1.1"), &title, x, y);
    figure.note(format!("of all attempts of {BUILDS} builds of classic tables, each with a seed of its own"));
    figure.note("paper: 32 million pairs, four functions, 1.25 N");
    figure.model("paper, 1.25 N", 4.0, 0.56);
    for (functions, practical) in SMALLEST {
        let spaces = [(practical, "the paper's smallest"), (1.25, "1.25 N"), (2.5, "2.5 N")];
        for (space, label) in spaces.into_iter().filter(|(space, _)| *space >= practical) {
            bench.progress.say(format!("restarts of {functions} functions in {space} N"));
            let mut failed = Vec::new();
            for seed in 0..BUILDS {
                let (scheme, seed) = (Cuckoo::classic(functions), bench.seed() + seed);
                failed.extend(restarts_of(bench, &scheme, &pairs, 1.0 / space, seed, 2 * ATTEMPTS)?);
            }
            let none = BUILDS - failed.len() as u64;
            if none > 0 {
                figure.note(format!(
                    "H = {functions} in {space} N: {none} of {BUILDS} builds failed {} times and were given up",
                    2 * ATTEMPTS
                ));
            }
            let again =
                failed.iter().map(|&restarts| u64::from(restarts)).sum::<u64>() + none * u64::from(2 * ATTEMPTS);
            let attempts = again + failed.len() as u64;
            figure.point(label, functions.into(), 100.0 * again as f64 / attempts.max(1) as f64);
        }
    }
    figure.note("chains of at most 7 lg N swaps in 1.25 N with four functions; longer ones nearer to the threshold");
    Ok(vec![figure])
}
