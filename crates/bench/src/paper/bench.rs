//! Shared by experiments: sizes, pairs on a device, and builds and lookups of them, each timed and checked.

use std::ops::Deref;
use std::time::Duration;

use rayon::prelude::*;

use koel::backend::{DeviceBuffer, HashBackend, Kernels, Probe, Runs, StageTime, bitmap_words};
use koel::device::Any;
use koel::scheme::hash::{MixKeys, SplitMix64};
use koel::scheme::{Limits, Plan};
use koel::table::TableBuilder;
use koel::workload::Workload;
use koel::{HashTable, Scheme};

use crate::data::shuffled;
use crate::device::is_of_the_table;
use crate::figure::{Axis, Figure};
use crate::timer::Timer;
use crate::{Args, stages, wrong};
use koel_cli::answers::{self, POISON};
use koel_cli::failure::Result;
use koel_cli::progress::Progress;

/// One device, and the options.
pub(super) struct Bench<'a> {
    pub(super) args: &'a Args,
    pub(super) device: &'a Any,
    pub(super) progress: &'a Progress,
    n: Option<u32>,
}

/// The right answer to a query.
type Answer = Box<dyn Fn(u32) -> Option<u32> + Send + Sync>;

/// Distinct keys with values, on the host and on the device.
pub(super) struct Pairs {
    pub(super) keys: Vec<u32>,
    pub(super) values: Vec<u32>,
    there: (<Any as HashBackend>::Buffer<u32>, <Any as HashBackend>::Buffer<u32>),
    answer: Answer,
    order: MixKeys,
}

/// Random pairs, and keys for queries that miss.
pub(super) struct Random {
    pairs: Pairs,
    workload: Workload,
}

/// A table, and the time of its build.
pub(super) struct Built<S: Scheme<Key = u32, Value = u32>> {
    pub(super) table: HashTable<Any, S>,
    pub(super) time: Duration,
}

impl<'a> Bench<'a> {
    pub(super) fn new(args: &'a Args, device: &'a Any, progress: &'a Progress, n: Option<u32>) -> Bench<'a> {
        Bench { args, device, progress, n }
    }

    /// The requested size, or the default.
    pub(super) fn size(&self, usual: u32) -> u32 {
        self.n.unwrap_or(usual)
    }

    /// `least` and its products with powers of a factor, up to the size.
    pub(super) fn sizes(&self, least: u32, factor: u32, usual: u32) -> Vec<u32> {
        let most = self.size(usual);
        let steps = std::iter::successors(Some(least.min(most)), |n| n.checked_mul(factor));
        steps.take_while(|&n| n <= most).collect()
    }

    pub(super) fn seed(&self) -> u64 {
        self.args.data.seed
    }

    pub(super) fn timer(&self) -> Timer<'_> {
        Timer { device: self.device, repeats: self.args.repeats }
    }

    /// A figure that is measured on this device.
    pub(super) fn figure(&self, place: (&'static str, &'static str), title: &str, x: Axis, y: Axis) -> Figure {
        Figure::new(place, title, &self.device.info().id, x, y)
    }

    /// `n` random pairs within these limits.
    pub(super) fn random(&self, n: u32, limits: Limits) -> Result<Random> {
        let workload = Workload::new(n, self.seed()).within(limits)?;
        let answers = workload.clone();
        let pairs = self.pairs(workload.keys(), move |query| answers.answer(query))?;
        Ok(Random { pairs, workload })
    }

    /// Pairs of these keys and the values that `answer` returns for them.
    pub(super) fn pairs(
        &self,
        keys: Vec<u32>,
        answer: impl Fn(u32) -> Option<u32> + Send + Sync + 'static,
    ) -> Result<Pairs> {
        let values: Vec<u32> = keys.par_iter().map(|&key| answer(key).unwrap_or(0)).collect();
        let there = (self.device.upload(&keys)?, self.device.upload(&values)?);
        let order = SplitMix64::new(self.seed() ^ 0x0a5c).next_mix_keys();
        Ok(Pairs { keys, values, there, answer: Box::new(answer), order })
    }

    /// Builds a table of pairs at a load, or at its scheme's default load, and looks up every pair.
    ///
    /// # Errors
    /// Returns an inner error with the reason if there is no such table.
    pub(super) fn table<S: Scheme<Key = u32, Value = u32>>(
        &self,
        scheme: S,
        load: Option<f64>,
        pairs: &Pairs,
    ) -> Result<std::result::Result<HashTable<Any, S>, String>>
    where
        Any: Runs<S>,
    {
        let (kind, n) = (scheme.kind(), pairs.keys.len());
        self.progress.say(format!("{} {kind}, {n} pairs, {}", scheme.name(), self.device.info().id));
        let table = match self.builder(scheme, load).build_on(self.device, &pairs.there.0, &pairs.there.1) {
            Ok(table) => table,
            Err(error) if is_of_the_table(&error) => return Ok(Err(error.to_string())),
            Err(error) => return Err(error.into()),
        };
        let (mut got, mut found) = answers::poisoned(n);
        table.get_into(&pairs.keys, &mut got, &mut found)?;
        answers::check(&pairs.keys, &got, &found, |i| pairs.values.get(i).copied())
            .map_err(|reason| wrong("a lookup of every key", reason))?;
        Ok(Ok(table))
    }

    /// Builds a table as [`table`](Self::table) does, and times the build.
    ///
    /// # Errors
    /// As [`table`](Self::table).
    pub(super) fn build<S: Scheme<Key = u32, Value = u32>>(
        &self,
        scheme: S,
        load: Option<f64>,
        pairs: &Pairs,
    ) -> Result<std::result::Result<Built<S>, String>>
    where
        Any: Runs<S>,
    {
        // The first build also compiles kernels.
        if let Err(reason) = self.table(scheme.clone(), load, pairs)? {
            return Ok(Err(reason));
        }
        let there = (&pairs.there.0, &pairs.there.1);
        let (table, time) = self.timer().build(&self.builder(scheme, load), there)?;
        Ok(Ok(Built { table, time }))
    }

    /// The time of each stage of a build; the pairs are known to form a table.
    pub(super) fn stages<S: Scheme<Key = u32, Value = u32>>(&self, scheme: S, pairs: &Pairs) -> Result<Vec<StageTime>>
    where
        Any: Runs<S>,
    {
        let builder = self.builder(scheme, None);
        let mut runs = Vec::new();
        for _ in 0..self.args.repeats {
            self.device.finish()?;
            runs.push(self.device.stages(|| builder.build_on(self.device, &pairs.there.0, &pairs.there.1))?.1);
        }
        Ok(stages::medians(&runs).0)
    }

    fn builder<S: Scheme<Key = u32, Value = u32>>(&self, scheme: S, load: Option<f64>) -> TableBuilder<S> {
        let builder = HashTable::builder(scheme).seed(self.seed());
        match load {
            Some(load) => builder.load_factor(load),
            None => builder,
        }
    }

    /// The time of a pass that finds each key of a table and writes its value; then every pair is looked up.
    pub(super) fn assign<S: Scheme<Key = u32, Value = u32>>(
        &self,
        table: &HashTable<Any, S>,
        pairs: &Pairs,
    ) -> Result<Duration>
    where
        Any: Runs<S>,
    {
        let (device, plan, (keys, values)) = (self.device, table.plan(), &pairs.there);
        let mut image = device.filled(table.image().len(), 0u64)?;
        device.copy(table.image(), 0, &mut image, 0, table.image().len())?;
        let time = self.timer().median(|| {
            device.finish()?;
            Ok(device.timed(|| Kernels::<S>::assign(device, plan, &mut image, keys, values))?.1)
        })?;
        let mut got = device.filled(keys.len(), POISON)?;
        let mut found = device.filled(bitmap_words(keys.len()), POISON)?;
        Kernels::<S>::lookup(device, plan, &image, keys, &mut got, &mut found)?;
        // The sentinel pair, which is stored outside the image, is skipped.
        let outside = plan.outside();
        let right = |i: usize| outside.filter(|(key, _)| *key == pairs.keys[i]).map_or(pairs.values[i], |pair| pair.1);
        answers::check(&pairs.keys, &device.download(&got)?, &device.download(&found)?, |i| Some(right(i)))
            .map_err(|reason| wrong("a lookup after a pass for the values", reason))?;
        Ok(time)
    }

    /// The time of lookups with `hits` hits per hundred, with as many queries as pairs.
    pub(super) fn lookup<S: Scheme<Key = u32, Value = u32>>(
        &self,
        table: &HashTable<Any, S>,
        pairs: &Random,
        hits: u32,
    ) -> Result<Duration>
    where
        Any: Runs<S>,
    {
        self.time_lookups(table, pairs, &pairs.queries(hits))
    }

    /// The time of lookups of these queries.
    pub(super) fn time_lookups<S: Scheme<Key = u32, Value = u32>>(
        &self,
        table: &HashTable<Any, S>,
        pairs: &Pairs,
        queries: &[u32],
    ) -> Result<Duration>
    where
        Any: Runs<S>,
    {
        self.timer().lookup(table, queries, |i| (pairs.answer)(queries[i]))
    }

    /// The time of a radix sort of the pairs.
    pub(super) fn sort(&self, pairs: &Pairs) -> Result<Duration> {
        let (keys, values) = &pairs.there;
        let (sorted, _) = self.device.sort_pairs(keys, values)?;
        if !self.device.download(&sorted)?.is_sorted() {
            return Err(wrong("a radix sort", "keys do not ascend".into()));
        }
        self.timer().median(|| Ok(self.device.timed(|| self.device.sort_pairs(keys, values))?.1))
    }
}

impl Pairs {
    /// Each key once, in random order.
    pub(super) fn each_once(&self) -> Vec<u32> {
        shuffled(self.keys.len() as u32, self.order, |i| self.keys[i as usize])
    }
}

impl Deref for Random {
    type Target = Pairs;

    fn deref(&self) -> &Pairs {
        &self.pairs
    }
}

impl Random {
    /// As many queries as pairs, of which `hits` per hundred hit. For 100: each key once, in random order.
    pub(super) fn queries(&self, hits: u32) -> Vec<u32> {
        if hits < 100 { self.workload.queries(self.keys.len(), hits) } else { self.each_once() }
    }

    /// `count` queries, of which `hits` per hundred hit, drawn with replacement.
    pub(super) fn drawn(&self, count: usize, hits: u32) -> Vec<u32> {
        self.workload.queries(count, hits)
    }
}

/// Millions per second.
pub(super) fn millions(count: usize, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64().max(1e-9) / 1e6
}

/// A time in milliseconds.
pub(super) fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64().max(1e-9) * 1e3
}
