//! Looking at a table from outside: the audit of every invariant, and statistics by really walking it.
//!
//! Both read the image to this machine and run the scheme's one-key-at-a-time functions there, in parallel: the point
//! is that they share nothing with the kernels that built it.

use rayon::prelude::*;

use super::HashTable;
use crate::backend::Runs;
use crate::error::Result;
use crate::spec::hash::SplitMix64;
use crate::spec::{Audit, Plan, Scheme, Violation};

/// Slots that one task of an audit looks at.
const SLOTS_A_TASK: u64 = 1 << 16;
/// Absent keys that are walked to count the reads of a miss.
const MISSES: usize = 1 << 16;

/// What a table looks like inside.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// Pairs.
    pub pairs: u64,
    /// Slots.
    pub slots: u64,
    /// Bytes of the image.
    pub bytes: u64,
    /// Builds that were started again.
    pub restarts: u32,
    /// `ages[a]`: pairs that stand at age a, that is, were placed by their a-th proposal (classic: by function a).
    pub ages: Vec<u64>,
    /// Slots read by a lookup that hits, on average over all keys.
    pub reads_per_hit: f64,
    /// Slots read by a lookup that misses, on average over 65,536 random absent keys.
    pub reads_per_miss: f64,
}

impl<B: Runs<S>, S: Scheme> HashTable<B, S> {
    /// Checks every invariant of the image: each pair in a place of its key, no better place left to a weaker pair
    /// (canonical), no key twice, as many pairs as the table says.
    ///
    /// Cost: the image is read to this machine, and every pair is looked at by all threads.
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
        Ok(audit_image::<S>(&self.plan, &image, self.in_image)?)
    }

    /// Counts ages and reads by walking the table.
    ///
    /// Cost: as [`audit`](Self::audit).
    ///
    /// ```
    /// use koel::{Cpu, Cuckoo, HashTable};
    /// let keys: Vec<u32> = (0..1000).collect();
    /// let table = HashTable::builder(Cuckoo::canonical(4)).build(&Cpu::new(), &keys, &keys)?;
    /// let stats = table.stats()?;
    /// assert_eq!(stats.ages.iter().sum::<u64>(), 1000);
    /// assert!(stats.reads_per_hit < 4.0);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// What the device reports.
    pub fn stats(&self) -> Result<Stats> {
        let image = self.host_image("stats")?;
        let plan = &self.plan;
        let (ages, hit_reads) = (0..plan.slots())
            .into_par_iter()
            .fold(Tally::default, |mut tally, slot| {
                if let Some((key, _)) = S::pair(plan, &image, slot) {
                    tally.add(S::age(plan, &image, slot) as usize, S::reads(plan, &image, key));
                }
                tally
            })
            .reduce(Tally::default, Tally::join)
            .finish();
        let mut stream = SplitMix64::new(!plan.seed());
        let absent: Vec<u32> =
            (0..MISSES).map(|_| stream.next_u32()).filter(|&key| S::find(plan, &image, key).is_none()).collect();
        let miss_reads: u64 = absent.par_iter().map(|&key| u64::from(S::reads(plan, &image, key))).sum();
        Ok(Stats {
            pairs: self.len(),
            slots: plan.slots(),
            bytes: 8 * plan.words(),
            restarts: plan.attempt(),
            ages,
            reads_per_hit: mean(hit_reads, self.in_image),
            reads_per_miss: mean(miss_reads, absent.len() as u64),
        })
    }

    fn host_image(&self, stage: &'static str) -> Result<Vec<u64>> {
        let image = self.backend.download(&self.image)?;
        self.backend.ledger().host(stage, self.in_image as usize);
        Ok(image)
    }
}

/// Audits an image in parallel; the violation reported is the first in slot order, whatever the schedule.
pub(super) fn audit_image<S: Scheme>(
    plan: &S::Plan,
    image: &[u64],
    pairs: u64,
) -> std::result::Result<Audit, Violation> {
    if image.len() as u64 != plan.words() {
        return Err(Violation::Length { expected: plan.words(), found: image.len() as u64 });
    }
    let parts: Vec<_> = (0..plan.slots().div_ceil(SLOTS_A_TASK))
        .into_par_iter()
        .map(|part| S::audit(plan, image, part * SLOTS_A_TASK..plan.slots().min((part + 1) * SLOTS_A_TASK)))
        .collect();
    let audit = parts.into_iter().try_fold(Audit::default(), |sum, part| part.map(|part| sum.join(part)))?;
    if audit.pairs != pairs {
        return Err(Violation::Count { expected: pairs, found: audit.pairs });
    }
    Ok(audit)
}

fn mean(sum: u64, count: u64) -> f64 {
    if count == 0 { 0.0 } else { sum as f64 / count as f64 }
}

/// Pairs by age, and the reads that find them.
#[derive(Default)]
struct Tally {
    ages: Vec<u64>,
    reads: u64,
}

impl Tally {
    fn add(&mut self, age: usize, reads: u32) {
        if self.ages.len() <= age {
            self.ages.resize(age + 1, 0);
        }
        self.ages[age] += 1;
        self.reads += u64::from(reads);
    }

    fn join(mut self, other: Tally) -> Tally {
        self.ages.resize(self.ages.len().max(other.ages.len()), 0);
        other.ages.iter().enumerate().for_each(|(age, count)| self.ages[age] += count);
        self.reads += other.reads;
        self
    }

    fn finish(self) -> (Vec<u64>, u64) {
        (self.ages, self.reads)
    }
}
