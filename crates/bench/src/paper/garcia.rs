//! Garcia et al. 2011, Sections 3.1, 4.1 and 4.2: ages, random keys, and pictures whose keys have neighbours.
//!
//! The tables are classic ones, with the paper's words; the random sequence is koel's own, which reaches the same loads
//! (`docs/papers.md`). The pictures are synthetic, and have as many cells per defined cell as the paper's.
//!
//! ```text
//! garcia/hits.rs        Figure 8: reads that hit a simulated cache
//! garcia/machine.rs     the order in which multiprocessors read        garcia/cache.rs     a cache
//! ```

mod cache;
mod hits;
mod machine;

use std::sync::Arc;

use koel::backend::Runs;
use koel::device::Any;
use koel::scheme::Limits;
use koel::scheme::hash::{SplitMix64, reduce};
use koel::workload::Picture;
use koel::{Cuckoo, Fks, HashFamily, RobinHood, Scheme, Sequence};

use super::Experiment;
use super::bench::{Bench, Pairs, Random, millions, milliseconds};
use crate::data::{Cells, Order};
use crate::figure::{Axis, Figure};
use koel_cli::failure::Result;

pub(super) const EXPERIMENTS: &[Experiment] = &[
    Experiment::on_device(&["3"], ages),
    Experiment::on_device(&["3-maximum"], greatest_ages),
    Experiment::on_device(&["average-age"], average_age),
    Experiment::on_device(&["5-insertion", "5-retrieval"], random_keys),
    Experiment::on_device(&["6-random", "7-random"], random_picture),
    Experiment::on_device(&["6-image", "7-image"], image),
    Experiment::here(&["8", "9-requests"], hits::figures),
    Experiment::on_device(&["10"], orders),
];

const SEQUENCES: [(&str, Sequence); 2] = [("h_coh", Sequence::Coherent), ("h_rand", Sequence::Random)];
/// The bits that the paper's ages of 4 bits leave for values.
const NARROW: Limits = Limits { value_bits: 28, ..Limits::NONE };
const LOADS: [f64; 8] = [0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.99];
/// The share of defined cells among the paper's 8K x 8K cells: those of the fish, and random ones.
const FISH: f64 = 20.5e6 / 67_108_864.0;
const SPARSE: f64 = 1e6 / 67_108_864.0;

/// Keys from a universe sixteen times as large as their number.
fn sixteenth(n: u32) -> Limits {
    Limits { key_bits: (n.max(2).ilog2() + 4).min(u32::BITS), ..NARROW }
}

/// Figure 3: the ages of keys, with and without the rule that the older key stays.
fn ages(bench: &Bench<'_>) -> Result<Vec<Figure>> {
    let n = bench.size(1 << 20);
    let pairs = bench.random(n, sixteenth(n))?;
    let (x, y) = (Axis::linear("age", ""), Axis::log("share of keys", "%"));
    let title = format!("ages of {n} random keys at load 0.8");
    let mut figure = bench.figure(("3", "Figure 3"), &title, x, y);
    let curve = |figure: &mut Figure, label: &str, ages: &[u64]| {
        for (age, &keys) in ages.iter().enumerate().skip(1).filter(|(_, keys)| **keys > 0) {
            figure.point(label, age as f64, 100.0 * keys as f64 / f64::from(n));
        }
    };
    curve(&mut figure, "open addressing", &open_addressing(&pairs.keys, (f64::from(n) / 0.8) as u32, bench.seed()));
    for (label, sequence) in SEQUENCES {
        // Without maximum ages the cells store the ages.
        let scheme = RobinHood::classic().sequence(sequence).max_ages(0);
        match bench.table(scheme, Some(0.8), &pairs)? {
            Ok(table) => curve(&mut figure, label, &table.stats()?.ages),
            Err(reason) => figure.note(format!("{label}: {reason}")),
        }
    }
    figure.note("open addressing: pair after pair, each place of a key drawn anew; on the host");
    Ok(vec![figure])
}

/// The number of keys at each age if each key takes the first free place of its list of random places.
fn open_addressing(keys: &[u32], slots: u32, seed: u64) -> Vec<u64> {
    let (mut taken, mut ages) = (vec![false; slots as usize], Vec::new());
    for &key in keys {
        // A separate list for each key, generated as far as needed.
        let mut list = SplitMix64::new(seed ^ u64::from(key) << 32);
        let mut age = 1;
        while std::mem::replace(&mut taken[reduce(list.next_u32(), slots) as usize], true) {
            age += 1;
        }
        if ages.len() <= age {
            ages.resize(age + 1, 0);
        }
        ages[age] += 1;
    }
    ages
}

/// Section 3.1: the maximum age over the number of keys.
fn greatest_ages(bench: &Bench<'_>) -> Result<Vec<Figure>> {
    let (x, y) = (Axis::log("keys", ""), Axis::linear("greatest age", ""));
    let mut figure = bench.figure(("3-maximum", "Section 3.1"), "the greatest age", x, y);
    figure.note("log2 log2 n: the expected order of growth, which has a factor that the paper does not give");
    for n in bench.sizes(1 << 10, 4, 1 << 20) {
        let pairs = bench.random(n, sixteenth(n))?;
        let ages = open_addressing(&pairs.keys, (f64::from(n) / 0.8) as u32, bench.seed());
        figure.point("open addressing, load 0.8", n.into(), ages.len() as f64 - 1.0);
        for load in [0.8, 0.99] {
            let scheme = RobinHood::canonical().sequence(Sequence::Random);
            let label = format!("h_rand, load {load}");
            match bench.table(scheme, Some(load), &pairs)? {
                Ok(table) => figure.point(label, n.into(), table.stats()?.ages.len() as f64 - 1.0),
                Err(reason) => figure.note(format!("{label}, {n} keys: {reason}")),
            }
        }
        figure.model("log2 log2 n", n.into(), f64::from(n).log2().log2());
    }
    Ok(vec![figure])
}

/// Section 3.1: the reads of a hit if its search began at the average age, which the paper did not pursue.
fn average_age(bench: &Bench<'_>) -> Result<Vec<Figure>> {
    let n = bench.size(1 << 20);
    let pairs = bench.random(n, sixteenth(n))?;
    let (x, y) = (Axis::linear("load", ""), Axis::linear("places a hit", ""));
    let title = format!("hits that begin at the average age, {n} random keys");
    let mut figure = bench.figure(("average-age", "Section 3.1"), &title, x, y);
    figure.note("from the average: the nearest age first, and of two the lesser; counted by the ages of all keys");
    for load in LOADS {
        for (label, sequence) in SEQUENCES {
            match bench.table(RobinHood::canonical().sequence(sequence), Some(load), &pairs)? {
                Ok(table) => {
                    let ages = table.stats()?.ages;
                    figure.point(format!("{label}, from the first"), load, mean(&ages, |age| age));
                    let order = from_average(&ages);
                    figure.point(format!("{label}, from the average"), load, mean(&ages, |age| order[age]));
                    figure.point(format!("{label}, greatest age"), load, ages.len() as f64 - 1.0);
                }
                Err(reason) => figure.note(format!("{label}, load {load}: {reason}")),
            }
        }
    }
    Ok(vec![figure])
}

/// The mean over all keys of a cost that depends on their age.
fn mean(ages: &[u64], of: impl Fn(usize) -> usize) -> f64 {
    let cost: u64 = ages.iter().enumerate().map(|(age, &keys)| of(age) as u64 * keys).sum();
    cost as f64 / ages.iter().sum::<u64>().max(1) as f64
}

/// The position at which each age, from 1, is read in a search that begins at the average age.
fn from_average(ages: &[u64]) -> Vec<usize> {
    let middle = mean(ages, |age| age);
    let mut order: Vec<usize> = (1..ages.len()).collect();
    order.sort_by(|&a, &b| (a as f64 - middle).abs().total_cmp(&(b as f64 - middle).abs()));
    let mut ranks = vec![0; ages.len()];
    order.into_iter().zip(1..).for_each(|(age, rank)| ranks[age] = rank);
    ranks
}

/// Figure 5: random keys.
fn random_keys(bench: &Bench<'_>) -> Result<Vec<Figure>> {
    let axes = |y| (Axis::log("keys", ""), Axis::linear(y, "M/s"));
    let (x, y) = axes("insertion rate");
    let mut insertion = bench.figure(("5-insertion", "Figure 5, top"), "insertion of random keys", x, y);
    let (x, y) = axes("retrieval rate");
    let mut retrieval = bench.figure(("5-retrieval", "Figure 5, bottom"), "retrieval of random keys", x, y);
    insertion.note("at load 0.8 but where another is named; two-level tables cannot be filled so far, and are at 0.71");
    for n in bench.sizes(1 << 12, 4, 1 << 22) {
        let pairs = bench.random(n, NARROW)?;
        let mut both = Both { bench, pairs: &pairs, left: &mut insertion, right: &mut retrieval };
        for (label, sequence) in SEQUENCES {
            both.rates(label, RobinHood::classic().sequence(sequence), Some(0.8))?;
        }
        both.rates("h_coh, load 0.99", RobinHood::classic(), Some(0.99))?;
        both.rates("Alcantara 2011", Cuckoo::classic(4).family(HashFamily::Linear), Some(0.8))?;
        both.rates("Alcantara 2009", Fks::classic(), None)?;
    }
    Ok(vec![insertion, retrieval])
}

/// The left figure shows builds, the right one lookups.
struct Both<'a, P> {
    bench: &'a Bench<'a>,
    pairs: &'a P,
    left: &'a mut Figure,
    right: &'a mut Figure,
}

impl Both<'_, Random> {
    fn rates<S: Scheme<Key = u32, Value = u32>>(&mut self, label: &str, scheme: S, load: Option<f64>) -> Result<()>
    where
        Any: Runs<S>,
    {
        let n = self.pairs.keys.len();
        match self.bench.build(scheme, load, self.pairs)? {
            Ok(built) => {
                self.left.point(label, n as f64, millions(n, built.time));
                let time = self.bench.lookup(&built.table, self.pairs, 100)?;
                self.right.point(label, n as f64, millions(n, time));
            }
            Err(reason) => self.left.note(format!("{label}, {n} keys: {reason}")),
        }
        Ok(())
    }
}

/// A picture with keys in some order.
struct Domain {
    pairs: Pairs,
    /// Every cell, defined or not, in the order of the keys.
    cells: Vec<u32>,
}

/// Which cells of a picture are defined.
#[derive(Clone, Copy)]
enum Shapes {
    Blobs,
    Random,
}

/// The side of a square in which `defined` cells are the share that the fish has.
fn side(defined: u32) -> u32 {
    (f64::from(defined) / FISH).sqrt().ceil() as u32
}

fn domain(bench: &Bench<'_>, shapes: Shapes, side: u32, defined: u32, order: Order) -> Result<Domain> {
    bench.progress.say(format!("a picture of {side} x {side}"));
    let picture = match shapes {
        Shapes::Blobs => Picture::blobs(side, side, defined, bench.seed())?,
        Shapes::Random => Picture::random(side, side, defined, bench.seed())?,
    };
    let cells = Arc::new(Cells::new(picture, order, bench.seed(), NARROW)?);
    let (keys, all) = (cells.keys(true), cells.keys(false));
    Ok(Domain { pairs: bench.pairs(keys, move |key| cells.answer(key))?, cells: all })
}

/// The upper halves of Figures 6 and 7.
fn random_picture(bench: &Bench<'_>) -> Result<Vec<Figure>> {
    let side = side(bench.size(1 << 19));
    let defined = (SPARSE * f64::from(side).powi(2)).round() as u32;
    let ids = [("6-random", "Figure 6, top"), ("7-random", "Figure 7, top")];
    over_load(bench, ids, &domain(bench, Shapes::Random, side, defined, Order::Row)?, "random")
}

/// The lower halves of Figures 6 and 7.
fn image(bench: &Bench<'_>) -> Result<Vec<Figure>> {
    let defined = bench.size(1 << 19);
    let ids = [("6-image", "Figure 6, bottom"), ("7-image", "Figure 7, bottom")];
    over_load(bench, ids, &domain(bench, Shapes::Blobs, side(defined), defined, Order::Row)?, "in blobs")
}

/// Construction from the defined cells and access to all cells, row by row, over the load.
fn over_load(
    bench: &Bench<'_>,
    [construction, access]: [(&'static str, &'static str); 2],
    domain: &Domain,
    shapes: &str,
) -> Result<Vec<Figure>> {
    let (cells, defined) = (domain.cells.len(), domain.pairs.keys.len());
    let axes = |y| (Axis::linear("load", ""), Axis::linear(y, "ms"));
    let title = |what: &str| format!("{what}, {cells} cells of which {defined} are defined, {shapes}");
    let (x, y) = axes("construction time");
    let mut built = bench.figure(construction, &title("construction"), x, y);
    let (x, y) = axes("access time");
    let mut queried = bench.figure(access, &title("access to all cells"), x, y);
    for load in LOADS {
        let mut both = Both { bench, pairs: domain, left: &mut built, right: &mut queried };
        for (label, sequence) in SEQUENCES {
            both.times(label, load, RobinHood::classic().sequence(sequence))?;
        }
        both.times("Alcantara 2011", load, Cuckoo::classic(4).family(HashFamily::Linear))?;
        // At higher loads, hardly any first-level function keeps all buckets below their capacity, so attempts take too
        // long.
        if load <= 0.7 {
            both.times("Alcantara 2009", load, Fks::classic())?;
        }
    }
    built.note("Alcantara 2009 is built up to load 0.7, Alcantara 2011 while its functions find places");
    Ok(vec![built, queried])
}

impl Both<'_, Domain> {
    fn times<S: Scheme<Key = u32, Value = u32>>(&mut self, label: &str, load: f64, scheme: S) -> Result<()>
    where
        Any: Runs<S>,
    {
        match self.bench.build(scheme, Some(load), &self.pairs.pairs)? {
            Ok(built) => {
                self.left.point(label, load, milliseconds(built.time));
                let time = self.bench.time_lookups(&built.table, &self.pairs.pairs, &self.pairs.cells)?;
                self.right.point(label, load, milliseconds(time));
            }
            Err(reason) => self.left.note(format!("{label}, load {load}: {reason}")),
        }
        Ok(())
    }
}

/// Figure 10, whose first place is Figure 9: the order of keys and queries, at load 0.85.
fn orders(bench: &Bench<'_>) -> Result<Vec<Figure>> {
    let defined = bench.size(1 << 19);
    let side = side(defined);
    let orders = [Order::Row, Order::Morton, Order::Bitrev, Order::Shuffled];
    let names = ["row-major", "Morton", "bit-reversed Morton", "row-major, queried at random"];
    let x = Axis::named("order of cells", &names);
    let title = format!("access to all of {side} x {side} cells, {defined} defined, load 0.85");
    let mut figure = bench.figure(("10", "Figures 9 and 10"), &title, x, Axis::linear("access time", "ms"));
    for (at, order) in orders.into_iter().enumerate() {
        let domain = domain(bench, Shapes::Blobs, side, defined, order)?;
        for (label, sequence) in SEQUENCES {
            match bench.table(RobinHood::classic().sequence(sequence), Some(0.85), &domain.pairs)? {
                Ok(table) => {
                    let time = bench.time_lookups(&table, &domain.pairs, &domain.cells)?;
                    figure.point(label, at as f64, milliseconds(time));
                }
                Err(reason) => figure.note(format!("{label}, {}: {reason}", names[at])),
            }
        }
    }
    figure.note("all cells are queried, defined or not, in the order of the keys; for the last order, at random");
    Ok(vec![figure])
}

#[cfg(test)]
mod tests {
    use koel::scheme::hash::mix;

    use super::*;

    #[test]
    fn a_search_from_the_average_goes_to_both_sides() {
        // No keys have age 0; the mean is 2.75.
        let ages = [0, 1, 2, 3, 2, 0];
        assert!((mean(&ages, |age| age) - 2.75).abs() < 1e-9);
        assert_eq!(from_average(&ages), [0, 4, 2, 1, 3, 5]);
        assert!((mean(&ages, |age| from_average(&ages)[age]) - (4.0 + 4.0 + 3.0 + 6.0) / 8.0).abs() < 1e-9);
        // At equal distances the lesser age is first.
        assert_eq!(from_average(&[0, 1, 0, 1]), [0, 2, 1, 3]);
        assert!(from_average(&[]).is_empty());
    }

    /// At load d a place is taken with probability up to d, so ages are geometric and their mean is -ln(1 - d) / d.
    #[test]
    fn open_addressing_ages_as_it_should() {
        let keys: Vec<u32> = (0..80_000).map(|i| mix(i, SplitMix64::new(1).next_mix_keys())).collect();
        let ages = open_addressing(&keys, 100_000, 1);
        assert_eq!(ages.iter().sum::<u64>(), 80_000);
        let mean = ages.iter().zip(0..).map(|(&keys, age)| keys * age).sum::<u64>() as f64 / 80_000.0;
        assert!((mean / (-(0.2f64.ln()) / 0.8) - 1.0).abs() < 0.02, "{mean}");
        assert!((25..90).contains(&ages.len()), "{}: the paper has 46 for a million keys", ages.len());
    }
}
