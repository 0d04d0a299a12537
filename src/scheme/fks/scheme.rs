//! The two-level table as a scheme: checks parameters, creates and reads plans, and forwards each call to its kind.

use std::ops::Range;

use super::{
    BUCKET_PAIRS, BUCKET_SLOTS, Fks, FksFamily, FksPlan, MAX_BUCKETS, MAX_ITERATIONS, SAHU_PRIME, canonical, classic,
    crowd,
};
use crate::error::{Error, Result};
use crate::scheme::{Audit, Crowd, Kind, Load, Placing, Plan, Request, Salt, Scheme, Updates, Violation, slot};

/// The greatest mean number of keys of a bucket: two deviations below the maximum, so one bucket in 44 exceeds it.
const MOST_ON_AVERAGE: u32 = 468;
const _: () = assert!(4 * MOST_ON_AVERAGE <= (BUCKET_PAIRS - MOST_ON_AVERAGE).pow(2));
const _: () = assert!(4 * (MOST_ON_AVERAGE + 1) > (BUCKET_PAIRS - MOST_ON_AVERAGE - 1).pow(2));
/// Among this many buckets with that mean, more than 20 are expected to overflow, whatever the constants are.
const MANY: u32 = 1000;

/// Rejects numbers of pairs that Sahu's g distributes too unevenly. It has p residues, so some buckets get `ceil(p /
/// B)` of them and others one less; with hundreds of thousands of buckets that is 3 against 2, or 2 against 1. Loads
/// that would be too high even with equal shares are not rejected here: their attempts fail, as with mixers.
fn check_shares(pairs: u64, buckets: u32) -> Result<()> {
    let (greater, share) = (SAHU_PRIME % buckets, SAHU_PRIME.div_ceil(buckets));
    let most = u64::from(MOST_ON_AVERAGE) * u64::from(SAHU_PRIME) / u64::from(share);
    if greater >= MANY && pairs > most && pairs <= u64::from(MOST_ON_AVERAGE) * u64::from(buckets) {
        let what = "pairs for this number of buckets with Sahu's functions modulo p (use the family `mixer`)";
        return Err(Error::TooLarge { what, requested: pairs, most });
    }
    Ok(())
}

impl Scheme for Fks {
    const NAME: &'static str = "fks";
    const ID: u32 = 5;
    const KINDS: &'static [Kind] = &Kind::ALL;
    type Key = u32;
    type Value = u32;
    type Plan = FksPlan;

    fn updates(&self) -> Updates {
        Updates::Rebuild
    }

    fn of_kind(kind: Kind) -> Self {
        match kind {
            Kind::Canonical => Fks::canonical(),
            Kind::Classic => Fks::classic(),
        }
    }

    fn kind(&self) -> Kind {
        self.kind
    }

    fn check(&self) -> Result<()> {
        if self.kind == Kind::Canonical && self.family != FksFamily::Mixer {
            let advice = "canonical tables need `mixer`, which can be inverted; Sahu's functions are for classic ones";
            return Err(Error::parameter("hash family", self.family.name(), advice));
        }
        if !(1..=MAX_ITERATIONS).contains(&self.iterations) {
            return Err(Error::parameter("iterations", self.iterations, "use 1 to 1000"));
        }
        Ok(())
    }

    /// The poster's 409 pairs per bucket on average: `512 - 409` is five deviations of such a bucket.
    fn default_load(&self) -> Load {
        Load::from_millionths(710_000)
    }

    fn plan(&self, request: Request) -> Result<FksPlan> {
        self.check()?;
        let (what, most) = match self.family {
            FksFamily::Mixer => ("slots of a two-level table", MAX_BUCKETS),
            FksFamily::Sahu => ("slots with Sahu's functions modulo p (take the family `mixer`)", SAHU_PRIME),
        };
        let buckets = request.slots.div_ceil(BUCKET_SLOTS.into()).max(1);
        let buckets = u32::try_from(buckets).ok().filter(|&buckets| buckets <= most).ok_or(Error::TooLarge {
            what,
            requested: request.slots,
            most: u64::from(most) * u64::from(BUCKET_SLOTS),
        })?;
        if self.family == FksFamily::Sahu {
            check_shares(request.pairs, buckets)?;
        }
        // Parameters of classic builds must not make two canonical plans differ.
        let iterations = if self.kind == Kind::Canonical { 0 } else { self.iterations };
        Ok(FksPlan {
            kind: self.kind.code(),
            family: self.family as u32,
            buckets,
            iterations,
            attempt: request.attempt,
            outside: 0,
            outside_value: 0,
            reserved: 0,
            seed: request.seed,
            salt: Salt::NONE,
        })
    }

    fn from_plan(plan: &FksPlan) -> Self {
        let iterations = match plan.kind() {
            Kind::Canonical => Fks::default().iterations,
            Kind::Classic => plan.iterations,
        };
        Fks { kind: plan.kind(), family: plan.family(), iterations }
    }

    fn find(plan: &FksPlan, image: &[u64], key: u32) -> Option<u32> {
        match plan.kind() {
            Kind::Canonical => canonical::search(&plan.functions(), image, key).1,
            Kind::Classic => classic::search(plan, image, key).1,
        }
    }

    /// Counts slots. The bucket's seed number, a byte of a small array, is not counted.
    fn reads(plan: &FksPlan, image: &[u64], key: u32) -> u32 {
        match plan.kind() {
            Kind::Canonical => canonical::search(&plan.functions(), image, key).0,
            Kind::Classic => classic::search(plan, image, key).0,
        }
    }

    fn pair(plan: &FksPlan, image: &[u64], at: u64) -> Option<(u32, u32)> {
        let functions = plan.functions();
        match plan.kind() {
            Kind::Canonical => canonical::pair_at(&functions, image, at),
            Kind::Classic => functions.position(at).and_then(|_| classic::pair(*image.get(at as usize)?)),
        }
    }

    fn age(plan: &FksPlan, image: &[u64], at: u64) -> u32 {
        let functions = plan.functions();
        match plan.kind() {
            Kind::Canonical => canonical::pair_at(&functions, image, at).map_or(0, |_| slot::age(image[at as usize])),
            Kind::Classic => classic::age(&functions, image, at),
        }
    }

    fn place(plan: &FksPlan, image: &mut [u64], pairs: &[(u32, u32)]) -> Placing {
        match plan.kind() {
            Kind::Canonical => canonical::place(&plan.functions(), image, pairs),
            Kind::Classic => classic::place(plan, image, pairs),
        }
    }

    fn audit(plan: &FksPlan, image: &[u64], words: Range<u64>) -> std::result::Result<Audit, Violation> {
        match plan.kind() {
            Kind::Canonical => canonical::audit(&plan.functions(), image, words),
            Kind::Classic => classic::audit(&plan.functions(), image, words),
        }
    }

    /// The partitioned pairs, each pair's rank in its bucket, and for each bucket its count and its start.
    fn scratch_bytes(plan: &FksPlan, pairs: u64) -> u64 {
        pairs.saturating_mul(12).saturating_add(16 * u64::from(plan.buckets))
    }

    fn bucket_types(_: &Self::Plan) -> &'static [&'static str] {
        &["slots", "seeds"]
    }

    fn bucket_type(plan: &FksPlan, _: &[u64], word: u64) -> usize {
        usize::from(word >= plan.slots())
    }

    fn names_crowds(&self) -> bool {
        true
    }

    fn crowd(plan: &FksPlan, keys: &[u32]) -> Option<Crowd> {
        crowd::crowd(plan, keys)
    }
}
