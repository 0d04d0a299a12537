//! Inspection of a table: the audit of every invariant, and statistics from walking the table.
//!
//! Both read the image to the host and run the one-key-at-a-time functions of the scheme there, in parallel. They share
//! no code with the kernels that built the table.

use std::ops::{Add, Range};

use super::{HashTable, salt};
use crate::backend::{Runs, Word};
use crate::error::Result;
use crate::memory;
use crate::parallel::{fold, fold_with};
use crate::scheme::hash::SplitMix64;
use crate::scheme::{Audit, Model, Plan, Scheme, Violation};
use crate::threads;

/// Tasks of an audit.
const PARTS: u64 = 64;
/// The number of buckets, or absent keys, that a thread processes at a time.
const AT_ONCE: usize = 1 << 10;
/// A multiple of the cells of every bucket: 1, 4, 5, 8 and 16.
const WHOLE_BUCKETS: u64 = 80;
/// Absent keys that are looked up to count the reads of a miss.
const MISSES: usize = 1 << 16;

/// Statistics of a table.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// The number of pairs.
    pub pairs: u64,
    /// The number of slots.
    pub slots: u64,
    /// Slots lost to removed pairs, until the table is compacted.
    pub tombstones: u64,
    /// Bytes of the image.
    pub bytes: u64,
    /// The number of restarted builds.
    pub restarts: u32,
    /// `ages[a]`: the number of pairs of age a, that is, placed by their a-th proposal (classic: by function a).
    pub ages: Vec<u64>,
    /// `keys_by_reads[r]`: keys that a lookup finds in the r-th bucket it reads.
    pub keys_by_reads: Vec<u64>,
    /// Buckets read by a lookup that hits, on average over all keys. A scheme of single slots has buckets of one.
    pub reads_per_hit: f64,
    /// Buckets read by a lookup that misses, on average over 65,536 random absent keys.
    pub reads_per_miss: f64,
    /// Bytes of a bucket: what each read fetches.
    pub bucket_bytes: u64,
    /// The buckets, type by type.
    pub buckets: Vec<Buckets>,
    /// The prediction of the paper's model, if there is one.
    pub model: Option<Model>,
}

impl Stats {
    /// The statistics of a sharded table, from those of its shards.
    pub(crate) fn of_shards(shards: &[Stats]) -> Stats {
        let sum = |of: fn(&Stats) -> u64| shards.iter().map(of).sum::<u64>();
        let counts = |of: fn(&Stats) -> &[u64]| {
            let mut all = Vec::new();
            shards.iter().for_each(|shard| add(&mut all, of(shard)));
            all
        };
        let keys_by_reads = counts(|shard| &shard.keys_by_reads);
        let mut buckets: Vec<Buckets> = Vec::new();
        for more in shards.iter().flat_map(|shard| &shard.buckets) {
            match buckets.iter_mut().find(|all| all.name == more.name) {
                Some(all) => add(&mut all.by_pairs, &more.by_pairs),
                None => buckets.push(more.clone()),
            }
        }
        Stats {
            pairs: sum(|shard| shard.pairs),
            slots: sum(|shard| shard.slots),
            tombstones: sum(|shard| shard.tombstones),
            bytes: sum(|shard| shard.bytes),
            restarts: shards.iter().map(|shard| shard.restarts).sum(),
            ages: counts(|shard| &shard.ages),
            reads_per_hit: mean(reads(&keys_by_reads), keys_by_reads.iter().sum()),
            keys_by_reads,
            reads_per_miss: shards.iter().map(|shard| shard.reads_per_miss).sum::<f64>() / shards.len().max(1) as f64,
            bucket_bytes: shards.iter().map(|shard| shard.bucket_bytes).max().unwrap_or(0),
            buckets,
            model: model_of_shards(shards),
        }
    }
}

/// Hits are weighted by pairs, misses and buckets equally.
fn model_of_shards(shards: &[Stats]) -> Option<Model> {
    let models: Vec<Model> = shards.iter().map(|shard| shard.model).collect::<Option<_>>()?;
    let pairs: u64 = shards.iter().map(|shard| shard.pairs).sum();
    let of_hits = models.iter().zip(shards).map(|(model, shard)| model.reads_per_hit * shard.pairs as f64);
    let even = |sum: f64| sum / models.len().max(1) as f64;
    let type_b: Option<f64> = models.iter().map(|model| model.type_b_share).sum();
    Some(Model {
        reads_per_hit: of_hits.sum::<f64>() / pairs.max(1) as f64,
        reads_per_miss: even(models.iter().map(|model| model.reads_per_miss).sum()),
        type_b_share: type_b.map(even),
    })
}

/// The reads to look up each key once.
fn reads(keys_by_reads: &[u64]) -> u64 {
    keys_by_reads.iter().zip(0..).map(|(&keys, reads)| keys * reads).sum()
}

impl std::fmt::Display for Stats {
    /// A summary in a few lines; `koel info` prints more.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let load = self.pairs as f64 / self.slots.max(1) as f64;
        writeln!(f, "{} pairs in {} slots (load {load:.3}), {} bytes", self.pairs, self.slots, self.bytes)?;
        writeln!(f, "{} restarts, {} tombstones", self.restarts, self.tombstones)?;
        let (hit, miss, bytes) = (self.reads_per_hit, self.reads_per_miss, self.bucket_bytes);
        writeln!(f, "{hit:.3} reads of {bytes} bytes per hit, {miss:.3} per miss")?;
        write!(f, "pairs by age:")?;
        self.ages.iter().try_for_each(|pairs| write!(f, " {pairs}"))
    }
}

/// Buckets of one type.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Buckets {
    /// The type's name; empty if there is only one type.
    pub name: &'static str,
    /// `by_pairs[p]`: buckets with p pairs.
    pub by_pairs: Vec<u64>,
}

impl Buckets {
    /// The number of buckets.
    pub fn count(&self) -> u64 {
        self.by_pairs.iter().sum()
    }
}

impl<B: Runs<S>, S: Scheme> HashTable<B, S> {
    /// Checks every invariant of the image: each pair is in a place of its key, no weaker pair has a better place
    /// (canonical), no key occurs twice, the number of pairs is that of the table, and the salt is that of the keys
    /// ([`Plan::salt`]; canonical tables without tombstones).
    ///
    /// For a canonical Horton table, part of the order is not checked: an entry does not record in which round of
    /// offers it was set, so a weaker pair is accepted in a place where only the round decides.
    ///
    /// Cost: the image is read to the host, and all threads check every pair.
    ///
    /// ```
    /// use koel::{Cpu, Cuckoo, HashTable};
    /// let table = HashTable::builder(Cuckoo::default()).build(&Cpu::new(), &[5, 6], &[1, 2])?;
    /// assert_eq!(table.audit()?.pairs, 2);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`crate::Error::Damaged`] with the first violation in slot order, or what the device reports.
    pub fn audit(&self) -> Result<Audit> {
        let image = self.host_image("audit")?;
        Ok(audit_image::<S>(self.plan(), &image, self.image.pairs, self.image.tombstones)??)
    }

    /// Counts ages, reads and buckets by walking the table.
    ///
    /// Cost: as [`audit`](Self::audit).
    ///
    /// ```
    /// use koel::{Cpu, Cuckoo, HashTable};
    /// let keys: Vec<u32> = (0..1000).collect();
    /// let table = HashTable::builder(Cuckoo::canonical(4)).build(&Cpu::new(), &keys, &keys)?;
    /// let stats = table.stats()?;
    /// assert!(stats.to_string().starts_with("1000 pairs in 1250 slots (load 0.800), 10000 bytes"));
    /// assert_eq!(stats.ages.iter().sum::<u64>(), 1000);
    /// assert!(stats.reads_per_hit < 4.0);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// What the device reports.
    pub fn stats(&self) -> Result<Stats> {
        let image = self.host_image("stats")?;
        let plan = self.plan();
        let size = u64::from(plan.bucket_slots().max(1));
        let of_buckets = |_, buckets: Range<usize>| {
            let mut tally = Tally::default();
            buckets.for_each(|bucket| tally.add::<S>(plan, &image, bucket as u64, size));
            tally
        };
        let tally = fold(0..(plan.cells() / size) as usize, AT_ONCE, of_buckets, Tally::join);
        let mut stream = SplitMix64::new(!plan.seed());
        let mut absent = memory::reserved(MISSES)?;
        let mut some_key = || S::Key::low(stream.next_u64() >> (u64::BITS - S::Key::BITS));
        absent.extend((0..MISSES).map(|_| some_key()).filter(|&key| S::find(plan, &image, key).is_none()));
        let reads_of = |_, keys: &[S::Key]| keys.iter().map(|&key| u64::from(S::reads(plan, &image, key))).sum();
        let miss_reads: u64 = fold(&absent[..], AT_ONCE, reads_of, u64::add);
        let names = S::bucket_types(plan).iter().copied().chain(std::iter::repeat(""));
        Ok(Stats {
            pairs: self.len() as u64,
            slots: plan.slots(),
            tombstones: self.image.tombstones,
            bytes: 8 * plan.words(),
            restarts: plan.attempt(),
            ages: tally.ages,
            reads_per_hit: mean(reads(&tally.reads), self.image.pairs),
            keys_by_reads: tally.reads,
            reads_per_miss: mean(miss_reads, absent.len() as u64),
            bucket_bytes: plan.bucket_bytes(),
            buckets: tally.buckets.into_iter().zip(names).map(|(by_pairs, name)| Buckets { name, by_pairs }).collect(),
            model: S::model(plan, self.len() as u64),
        })
    }

    fn host_image(&self, stage: &'static str) -> Result<Vec<u64>> {
        threads::ready()?;
        let image = self.backend.download(self.image())?;
        self.backend.ledger().host(stage, self.image.pairs as usize);
        Ok(image)
    }
}

/// Audits an image in parallel. The reported violation is the first in the order of cells, whatever the schedule.
/// Errors concern the host, not the image.
pub(super) fn audit_image<S: Scheme>(
    plan: &S::Plan,
    image: &[u64],
    pairs: u64,
    tombstones: u64,
) -> Result<std::result::Result<Audit, Violation>> {
    threads::ready()?;
    let audit = || {
        let audit = audited::<S>(plan, image)?;
        for (what, expected, found) in [("pairs", pairs, audit.pairs), ("tombstones", tombstones, audit.tombstones)] {
            if expected != found {
                return Err(Violation::Count { what, expected, found });
            }
        }
        Ok(audit)
    };
    Ok(match audit() {
        Ok(_) if !salt::is_of_keys::<S>(plan, image, pairs, tombstones)? => Err(Violation::Salt),
        outcome => outcome,
    })
}

fn audited<S: Scheme>(plan: &S::Plan, image: &[u64]) -> std::result::Result<Audit, Violation> {
    if image.len() as u64 != plan.words() {
        return Err(Violation::Length { expected: plan.words(), found: image.len() as u64 });
    }
    // Whole buckets, and few parts, because some schemes examine the whole image before they begin.
    let cells = plan.cells();
    let part = cells.div_ceil(PARTS).next_multiple_of(WHOLE_BUCKETS);
    let audit_part = |i: usize| S::audit(plan, image, cells.min(i as u64 * part)..cells.min((i as u64 + 1) * part));
    let join = |a: std::result::Result<Audit, _>, b: std::result::Result<Audit, _>| Ok(a?.join(b?));
    fold_with(0..PARTS as usize, 1, || (), |(), i, _| audit_part(i), join).unwrap_or(Ok(Audit::default()))
}

fn mean(sum: u64, count: u64) -> f64 {
    if count == 0 { 0.0 } else { sum as f64 / count as f64 }
}

/// The counts of a walk over the buckets.
#[derive(Default)]
struct Tally {
    ages: Vec<u64>,
    reads: Vec<u64>,
    /// By type and by number of pairs.
    buckets: Vec<Vec<u64>>,
}

impl Tally {
    fn add<S: Scheme>(&mut self, plan: &S::Plan, image: &[u64], bucket: u64, size: u64) {
        let mut pairs = 0;
        for cell in bucket * size..(bucket + 1) * size {
            if let Some((key, _)) = S::pair(plan, image, cell) {
                pairs += 1;
                count(&mut self.ages, S::age(plan, image, cell) as usize);
                count(&mut self.reads, S::reads(plan, image, key) as usize);
            }
        }
        let kind = S::bucket_type(plan, image, bucket);
        if self.buckets.len() <= kind {
            self.buckets.resize(kind + 1, Vec::new());
        }
        count(&mut self.buckets[kind], pairs);
    }

    fn join(mut self, other: Tally) -> Tally {
        add(&mut self.ages, &other.ages);
        add(&mut self.reads, &other.reads);
        self.buckets.resize(self.buckets.len().max(other.buckets.len()), Vec::new());
        other.buckets.iter().enumerate().for_each(|(kind, counts)| add(&mut self.buckets[kind], counts));
        self
    }
}

/// Increments the count at `at`.
fn count(counts: &mut Vec<u64>, at: usize) {
    if counts.len() <= at {
        counts.resize(at + 1, 0);
    }
    counts[at] += 1;
}

/// Adds the counts of `other`, one by one.
fn add(counts: &mut Vec<u64>, other: &[u64]) {
    counts.resize(counts.len().max(other.len()), 0);
    counts.iter_mut().zip(other).for_each(|(sum, more)| *sum += more);
}
