//! The bucketized cuckoo table (BCHT): a key belongs to one of a few buckets of 4, 8 or 16 slots.
//!
//! A bucket of 8 slots is one line of 64 bytes, and a device fetches a whole line in the time of one word. A hit
//! therefore costs little more than one random access. Loads reach 99%, because the number of keys per slot varies less
//! over eight slots.
//!
//! ```text
//! canonical  every pair is offered to its buckets in turn; a bucket keeps its S greatest words    (`canonical.rs`)
//! classic    Breslow et al. 2016, Section 3: load-balancing or first-fit, and a breadth-first search for a free slot
//!                                                                                                (`classic.rs`)
//! ```
//!
//! `params.rs` has the parameters, `plan.rs` the stored integers and `functions.rs` the hash functions. This file
//! implements the scheme.

pub(crate) mod canonical;
pub(crate) mod classic;
mod functions;
mod params;
mod plan;
pub(crate) mod wide;

pub use functions::Functions;
pub(crate) use functions::{MAX_FUNCTIONS, PART_SLOTS};
pub use params::{Bucketized, Insertion, LookupMode};
pub use plan::BucketizedPlan;
pub use wide::{BucketizedOf, Column, Layout, LinePlan};

use std::ops::Range;

use super::cuckoo::classic as slots_of_pairs;
use super::{Audit, Kind, Load, Placing, Plan, Request, Salt, Scheme, Updates, Violation, slot};
use crate::error::{Error, Result};

/// The supported numbers of slots of a bucket.
pub const BUCKET_SLOTS: [u32; 3] = [4, 8, 16];

/// The greatest reach, which bounds the memory and the time for one pair.
const MOST_REACH: u32 = 1 << 16;

/// The maximum number of buckets: 2^32 keys need no more.
pub(super) const MOST_BUCKETS: u64 = 1 << 30;

impl Scheme for Bucketized {
    const NAME: &'static str = "bucketized";
    const ID: u32 = 2;
    const KINDS: &'static [Kind] = &Kind::ALL;
    type Key = u32;
    type Value = u32;
    type Plan = BucketizedPlan;

    fn updates(&self) -> Updates {
        match self.kind() {
            Kind::Canonical => Updates::Tombstones,
            Kind::Classic => Updates::InPlace,
        }
    }

    /// The greatest loads measured in `docs/canonical-layout.md`, at which all tables were built at the first attempt.
    fn gives_up_above(&self) -> Option<Load> {
        let most = if self.bucket_slots == 4 { 980_000 } else { 990_000 };
        (self.kind == Kind::Canonical).then_some(Load::from_millionths(most))
    }

    fn of_kind(kind: Kind) -> Self {
        match kind {
            Kind::Canonical => Bucketized::canonical(8),
            Kind::Classic => Bucketized::classic(2, 8),
        }
    }

    fn kind(&self) -> Kind {
        self.kind
    }

    fn check(&self) -> Result<()> {
        if !BUCKET_SLOTS.contains(&self.bucket_slots) {
            return Err(Error::parameter("bucket size", self.bucket_slots, "a bucket has 4, 8 or 16 slots"));
        }
        match self.kind {
            Kind::Canonical if self.functions != 3 => {
                Err(Error::parameter("functions", self.functions, "a canonical bucketized table has 3"))
            }
            Kind::Classic if !(2..=MAX_FUNCTIONS as u32).contains(&self.functions) => {
                Err(Error::parameter("functions", self.functions, "a classic bucketized table has 2 to 4"))
            }
            Kind::Classic if !(1..=MOST_REACH).contains(&self.reach) => {
                Err(Error::parameter("reach", self.reach, "a search for a free slot visits 1 to 65536 buckets"))
            }
            _ => Ok(()),
        }
    }

    fn default_load(&self) -> Load {
        Load::from_millionths(match self.bucket_slots {
            4 => 850_000,
            8 => 900_000,
            _ => 930_000,
        })
    }

    fn plan(&self, request: Request) -> Result<BucketizedPlan> {
        self.check()?;
        let least = match self.kind {
            Kind::Canonical => u64::from(slot::MIN_BUCKETS),
            Kind::Classic => 1,
        };
        let buckets = request.slots.div_ceil(u64::from(self.bucket_slots)).max(least);
        if buckets > MOST_BUCKETS {
            return Err(Error::TooLarge {
                what: "slots of a bucketized table",
                requested: request.slots,
                most: MOST_BUCKETS * u64::from(self.bucket_slots),
            });
        }
        // Parameters of classic tables must not make two canonical plans differ.
        let (insertion, mode, reach) = match self.kind {
            Kind::Canonical => (0, 0, 0),
            Kind::Classic => (self.insertion as u32, self.mode as u32, self.reach),
        };
        Ok(BucketizedPlan {
            kind: self.kind.code(),
            bucket_slots: self.bucket_slots,
            buckets: buckets as u32,
            functions: self.functions,
            insertion,
            mode,
            reach,
            attempt: request.attempt,
            outside: 0,
            outside_value: 0,
            seed: request.seed,
            salt: Salt::NONE,
        })
    }

    fn from_plan(plan: &BucketizedPlan) -> Self {
        let BucketizedPlan { bucket_slots, functions, reach, .. } = *plan;
        let (insertion, mode) = (plan.insertion(), plan.lookup_mode());
        Bucketized { kind: plan.kind(), bucket_slots, functions, insertion, mode, reach }
    }

    /// If the table is built one partition at a time: on OpenCL, the pairs a second time, in coarse regions; on the
    /// CPU, the space in which each thread places a part, to which the number of threads is adapted; and a list of the
    /// pairs that leave their part.
    fn scratch_bytes(plan: &BucketizedPlan, pairs: u64) -> u64 {
        match plan.kind() {
            Kind::Canonical => pairs.saturating_mul(10),
            Kind::Classic => 0,
        }
    }

    fn find(plan: &BucketizedPlan, image: &[u64], key: u32) -> Option<u32> {
        let functions = plan.functions();
        match plan.kind() {
            Kind::Canonical => canonical::search(plan, &functions, image, key).1.map(|(_, word)| slot::value(word)),
            Kind::Classic => match plan.outside() {
                Some((outside, value)) if outside == key => Some(value),
                _ => classic::search(plan, &functions, image, key).1.map(|at| image[at as usize] as u32),
            },
        }
    }

    fn reads(plan: &BucketizedPlan, image: &[u64], key: u32) -> u32 {
        match plan.kind() {
            Kind::Canonical => canonical::search(plan, &plan.functions(), image, key).0,
            Kind::Classic => classic::search(plan, &plan.functions(), image, key).0,
        }
    }

    fn pair(plan: &BucketizedPlan, image: &[u64], at: u64) -> Option<(u32, u32)> {
        let word = *image.get(at as usize)?;
        let bucket = (at / u64::from(plan.bucket_slots)) as u32;
        match plan.kind() {
            Kind::Canonical => canonical::pair(&plan.functions(), bucket, word),
            Kind::Classic => slots_of_pairs::pair(word),
        }
    }

    fn age(plan: &BucketizedPlan, image: &[u64], at: u64) -> u32 {
        let Some(&word) = image.get(at as usize) else { return 0 };
        match plan.kind() {
            Kind::Canonical if !slot::is_pair(word) => 0,
            Kind::Canonical => slot::age(word),
            Kind::Classic => classic::age(&plan.functions(), (at / u64::from(plan.bucket_slots)) as u32, word),
        }
    }

    fn place(plan: &BucketizedPlan, image: &mut [u64], pairs: &[(u32, u32)]) -> Placing {
        let functions = plan.functions();
        let placing = Placing::of_each(pairs, |key, value| match plan.kind() {
            Kind::Canonical => canonical::place(plan, &functions, image, key, value),
            Kind::Classic => classic::place(plan, &functions, image, key, value),
        });
        if plan.kind() == Kind::Canonical && !pairs.is_empty() {
            canonical::sort(plan, image);
        }
        placing
    }

    fn remove(plan: &BucketizedPlan, image: &mut [u64], keys: &[u32]) -> u64 {
        let functions = plan.functions();
        let mut remove = |&key: &u32| match plan.kind() {
            Kind::Canonical => canonical::remove(plan, &functions, image, key),
            Kind::Classic => classic::remove(plan, &functions, image, key),
        };
        keys.iter().copied().filter(|key| remove(key)).count() as u64
    }

    fn audit(plan: &BucketizedPlan, image: &[u64], words: Range<u64>) -> std::result::Result<Audit, Violation> {
        match plan.kind() {
            Kind::Canonical => canonical::audit(plan, &plan.functions(), image, words),
            Kind::Classic => classic::audit(plan, &plan.functions(), image, words),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan_of(scheme: &Bucketized, slots: u64) -> BucketizedPlan {
        scheme.plan(Request { slots, pairs: slots / 2, seed: 1, attempt: 0 }).expect("a plan")
    }

    #[test]
    fn parameters_out_of_range_are_refused() {
        for slots in [0, 1, 2, 7, 32, u32::MAX] {
            assert!(Bucketized::canonical(slots).check().is_err());
        }
        for functions in [0, 1, 5] {
            assert!(Bucketized::classic(functions, 8).check().is_err());
        }
        for reach in [0, MOST_REACH + 1, u32::MAX] {
            assert!(Bucketized::classic(2, 8).reach(reach).check().is_err());
        }
        let too_many = Request { slots: u64::MAX, pairs: 1, seed: 0, attempt: 0 };
        assert!(matches!(Bucketized::canonical(8).plan(too_many), Err(Error::TooLarge { .. })));
    }

    #[test]
    fn a_stored_plan_gives_its_parameters_back() {
        let first_fit =
            Bucketized::classic(3, 16).insertion(Insertion::FirstFit).lookup_mode(LookupMode::LatencyOptimized);
        for scheme in [Bucketized::canonical(4), first_fit.reach(77)] {
            assert_eq!(Bucketized::from_plan(&plan_of(&scheme, 1000)), scheme);
        }
        let good = plan_of(&Bucketized::canonical(8), 1000);
        for bad in [
            BucketizedPlan { kind: 9, ..good },
            BucketizedPlan { bucket_slots: 0, ..good },
            BucketizedPlan { bucket_slots: 5, ..good },
            BucketizedPlan { functions: 2, ..good },
            BucketizedPlan { insertion: 1, ..good },
            BucketizedPlan { mode: 9, ..good },
            BucketizedPlan { buckets: 3, ..good },
            BucketizedPlan { buckets: u32::MAX, ..good },
            BucketizedPlan { reach: 5, ..good },
            BucketizedPlan { outside: 1, ..good },
        ] {
            assert!(bad.checked().is_err(), "{bad:?}");
        }
    }
}
