//! The Horton table as a scheme: checks parameters, creates and reads plans, and forwards each call to its kind.

use std::ops::Range;

use super::tokens::EMPTY_KEY;
use super::{Functions, Horton, HortonFamily, HortonPlan, MAX_HEIGHT, audit, bucket, canonical, classic, model};
use crate::error::{Error, Result};
use crate::scheme::{Audit, Kind, Load, Model, Placing, Plan, Request, Salt, Scheme, Updates, Violation};

/// The minimum number of buckets: one more than the most secondary functions, which lead to distinct buckets.
pub(crate) const MIN_BUCKETS: u32 = 16;
/// The maximum number of buckets: sums of two bucket numbers must fit 32 bits.
pub(crate) const MAX_BUCKETS: u32 = 1 << 31;

/// The number of buckets of the stash of a canonical table: a share that depends on the slots of a stash bucket, and
/// four more for tiny tables, which vary most (`canonical.rs` has the figures).
pub fn stash_buckets(buckets: u32, bucket_slots: u32) -> u32 {
    match bucket_slots {
        0..=4 => buckets / 16 + 4,
        5..=8 => buckets / 64 + 4,
        _ => buckets / 128 + 4,
    }
}

impl Scheme for Horton {
    const NAME: &'static str = "horton";
    const ID: u32 = 3;
    const KINDS: &'static [Kind] = &Kind::ALL;
    type Key = u32;
    type Value = u32;
    type Plan = HortonPlan;

    fn host_built(&self) -> bool {
        self.kind() == Kind::Classic
    }

    fn updates(&self) -> Updates {
        match self.kind() {
            Kind::Canonical => Updates::Rebuild,
            Kind::Classic => Updates::InPlace,
        }
    }

    fn of_kind(kind: Kind) -> Self {
        match kind {
            Kind::Canonical => Horton::canonical(8),
            Kind::Classic => Horton::classic(8),
        }
    }

    fn kind(&self) -> Kind {
        self.kind
    }

    fn check(&self) -> Result<()> {
        if ![4, 8, 16].contains(&self.bucket_slots) {
            return Err(Error::parameter("slots of a bucket", self.bucket_slots, "a Horton table has 4, 8 or 16"));
        }
        if !(2..=4).contains(&self.bits) {
            return Err(Error::parameter(
                "bits of a remap entry",
                self.bits,
                "use 2 to 4 (4 with at most 16 remap entries)",
            ));
        }
        if !(2..=32).contains(&self.tags) || self.tags * self.bits > 64 {
            let advice = "use 2 to 32, and at most as many as fit in 64 bits (21 of 3 bits, 32 of 2, 16 of 4)";
            return Err(Error::parameter("remap entries", self.tags, advice));
        }
        if self.kind == Kind::Canonical && self.family != HortonFamily::Mixer {
            let advice = "canonical tables need `mixer`; the paper's functions are for classic ones";
            return Err(Error::parameter("hash family", self.family.name(), advice));
        }
        if !(1..=MAX_HEIGHT).contains(&self.height) {
            return Err(Error::parameter("height", self.height, "an insertion looks 1 to 8 moves deep"));
        }
        Ok(())
    }

    /// The loads that the paper's widths allow, with a margin. Lower with few or narrow entries, which leave tokens
    /// without a place.
    fn default_load(&self) -> Load {
        match (self.tags, self.bits) {
            (..8, _) => return Load::from_millionths(300_000),
            (_, ..3) => return Load::from_millionths(450_000),
            (..16, _) => return Load::from_millionths(600_000),
            _ => {}
        }
        Load::from_millionths(match self.bucket_slots {
            // In insertion order, items that share an entry do not find four free slots together (`classic.rs`).
            0..=4 if self.kind == Kind::Classic => 600_000,
            0..=4 => 850_000,
            5..=8 => 900_000,
            _ => 930_000,
        })
    }

    fn plan(&self, request: Request) -> Result<HortonPlan> {
        self.check()?;
        let buckets = request.slots.div_ceil(u64::from(self.bucket_slots));
        if buckets > u64::from(MAX_BUCKETS) {
            return Err(Error::TooLarge {
                what: "slots of a Horton table",
                requested: request.slots,
                most: u64::from(MAX_BUCKETS) * u64::from(self.bucket_slots),
            });
        }
        let buckets = (buckets as u32).max(MIN_BUCKETS);
        // Parameters of one kind must not make two plans of the other kind differ.
        let (stash_buckets, height) = match self.kind {
            Kind::Canonical => (stash_buckets(buckets, self.bucket_slots), 0),
            Kind::Classic => (0, self.height),
        };
        Ok(HortonPlan {
            kind: self.kind.code(),
            bucket_slots: self.bucket_slots,
            buckets,
            stash_buckets,
            tags: self.tags,
            bits: self.bits,
            family: self.family as u32,
            height,
            attempt: request.attempt,
            outside: 0,
            outside_value: 0,
            reserved: 0,
            seed: request.seed,
            salt: Salt::NONE,
        })
    }

    fn from_plan(plan: &HortonPlan) -> Self {
        let HortonPlan { bucket_slots, tags, bits, .. } = *plan;
        let height = match plan.kind() {
            Kind::Canonical => Horton::default().height,
            Kind::Classic => plan.height,
        };
        Horton { kind: plan.kind(), bucket_slots, tags, bits, family: plan.family(), height }
    }

    fn find(plan: &HortonPlan, image: &[u64], key: u32) -> Option<u32> {
        if key == EMPTY_KEY {
            return plan.outside().map(|(_, value)| value);
        }
        let at = bucket::search(&plan.functions(), image, key).1?;
        image.get(at).map(|&word| word as u32)
    }

    /// The sentinel key takes no reads, because it is stored in the plan.
    fn reads(plan: &HortonPlan, image: &[u64], key: u32) -> u32 {
        if key == EMPTY_KEY { 0 } else { bucket::search(&plan.functions(), image, key).0 }
    }

    fn pair(plan: &HortonPlan, image: &[u64], at: u64) -> Option<(u32, u32)> {
        Some(bucket::pair_at(&plan.functions(), image, at)?.1)
    }

    /// 1 at home, 1 + i through R_i, `2^bits` in the stash.
    fn age(plan: &HortonPlan, image: &[u64], at: u64) -> u32 {
        let functions = plan.functions();
        bucket::pair_at(&functions, image, at)
            .map_or(0, |(bucket, (key, _))| bucket::age(&functions, image, bucket, key))
    }

    fn place(plan: &HortonPlan, image: &mut [u64], pairs: &[(u32, u32)]) -> Placing {
        let functions = plan.functions();
        match plan.kind() {
            Kind::Canonical => canonical::place(&functions, image, pairs),
            Kind::Classic => classic::place(&functions, plan.height(), image, pairs).0,
        }
    }

    fn remove(plan: &HortonPlan, image: &mut [u64], keys: &[u32]) -> u64 {
        match plan.kind() {
            Kind::Canonical => 0,
            Kind::Classic => classic::remove(&plan.functions(), image, keys),
        }
    }

    fn audit(plan: &HortonPlan, image: &[u64], words: Range<u64>) -> std::result::Result<Audit, Violation> {
        let functions = plan.functions();
        match plan.kind() {
            Kind::Canonical => audit::canonical(&functions, image, words),
            Kind::Classic => audit::classic(&functions, image, words),
        }
    }

    /// If the table is built one partition at a time: the pairs a second time in parts, with a margin for uneven parts,
    /// and before that in coarse regions; a word for each slot that may be free; and 18 bytes per bucket (OpenCL; the
    /// CPU takes less).
    fn scratch_bytes(plan: &HortonPlan, pairs: u64) -> u64 {
        match plan.kind() {
            Kind::Canonical => {
                let of_buckets = 18 * u64::from(plan.buckets()) + 4 * u64::from(plan.stash_buckets());
                pairs.saturating_mul(20).saturating_add(8 * plan.slots()).saturating_add(of_buckets)
            }
            Kind::Classic => 0,
        }
    }

    fn bucket_types(_: &Self::Plan) -> &'static [&'static str] {
        &["A", "B", "stash"]
    }

    fn bucket_type(plan: &HortonPlan, image: &[u64], bucket: u64) -> usize {
        let functions: Functions = plan.functions();
        match u32::try_from(bucket) {
            Ok(bucket) if bucket < functions.buckets => bucket::is_type_b(&functions, image, bucket).into(),
            _ => 2,
        }
    }

    /// Equations 7 and 9.
    fn model(plan: &HortonPlan, pairs: u64) -> Option<Model> {
        let load = pairs as f64 / plan.slots().max(1) as f64;
        Some(Model {
            reads_per_hit: model::positive_cost(plan.bucket_slots, load),
            reads_per_miss: model::negative_cost(plan.bucket_slots, load, plan.tags),
            type_b_share: Some(model::type_b_share(plan.bucket_slots, load)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan_of(scheme: &Horton, slots: u64) -> HortonPlan {
        scheme.plan(Request { slots, pairs: slots / 2, seed: 1, attempt: 2 }).expect("a plan")
    }

    #[test]
    fn parameters_out_of_range_are_refused() {
        for slots in [0, 1, 2, 3, 5, 32, u32::MAX] {
            assert!(Horton::canonical(slots).check().is_err());
        }
        for (tags, bits) in [(1, 3), (22, 3), (33, 2), (17, 4), (21, 1), (8, 5), (u32::MAX, 3), (3, u32::MAX), (0, 2)] {
            assert!(Horton::canonical(8).tags(tags).bits(bits).check().is_err(), "{tags} {bits}");
        }
        for (tags, bits) in [(2, 2), (32, 2), (21, 3), (16, 4)] {
            assert!(Horton::classic(8).tags(tags).bits(bits).check().is_ok());
        }
        assert!(Horton::canonical(8).family(HortonFamily::Jenkins).check().is_err());
        assert!(Horton::classic(8).family(HortonFamily::Jenkins).check().is_ok());
        assert!(Horton::classic(8).height(0).check().is_err());
        assert!(Horton::classic(8).height(MAX_HEIGHT + 1).check().is_err());
        let most = u64::from(MAX_BUCKETS) * 8;
        let request = |slots| Request { slots, pairs: 1, seed: 0, attempt: 0 };
        assert!(Horton::canonical(8).plan(request(most)).is_ok());
        assert!(matches!(Horton::canonical(8).plan(request(most + 1)), Err(Error::TooLarge { .. })));
        assert!(matches!(Horton::canonical(8).plan(request(u64::MAX)), Err(Error::TooLarge { .. })));
    }

    #[test]
    fn sizes_are_whole_buckets_and_the_stash_follows_them() {
        let plan = plan_of(&Horton::canonical(8), 1001);
        assert_eq!((plan.slots(), plan.buckets(), plan.bucket_slots()), (1008, 126, 8));
        assert_eq!(plan.words(), 1008 + u64::from(plan.stash_buckets()) * 8);
        assert_eq!(plan_of(&Horton::classic(8), 1001).words(), 1008);
        assert_eq!(plan_of(&Horton::classic(4), 1).slots(), 64);
        assert_eq!(plan_of(&Horton::canonical(8), 100).stored().len(), 56);
        let functions = |scheme: Horton| plan_of(&scheme, 100).function_count();
        assert_eq!((functions(Horton::canonical(8)), functions(Horton::classic(8))), (6, 7));
        assert_eq!(functions(Horton::classic(8).tags(16).bits(4)), 15);
    }

    #[test]
    fn a_stored_plan_gives_its_parameters_back() {
        let schemes = [
            Horton::canonical(4),
            Horton::canonical(16).tags(16).bits(4),
            Horton::classic(8).family(HortonFamily::Jenkins).height(2),
        ];
        for scheme in schemes {
            assert_eq!(Horton::from_plan(&plan_of(&scheme, 1000)), scheme);
            let outside = plan_of(&scheme, 1000).with_outside(Some(5));
            assert_eq!(Horton::from_plan(&outside), scheme);
            assert_eq!(outside.outside(), Some((u32::MAX, 5)));
        }
        let (good, classic) = (plan_of(&Horton::canonical(8), 1000), plan_of(&Horton::classic(8), 1000));
        for bad in [
            HortonPlan { kind: 9, ..good },
            HortonPlan { kind: 1, ..good },
            HortonPlan { bucket_slots: 5, ..good },
            HortonPlan { bucket_slots: 0, ..good },
            HortonPlan { buckets: 15, ..good },
            HortonPlan { buckets: 0, ..good },
            HortonPlan { buckets: u32::MAX, ..good },
            HortonPlan { stash_buckets: 1, ..good },
            HortonPlan { tags: 40, ..good },
            HortonPlan { bits: 31, ..good },
            HortonPlan { family: 1, ..good },
            HortonPlan { family: 7, ..good },
            HortonPlan { height: 3, ..good },
            HortonPlan { outside: 2, ..good },
            HortonPlan { outside_value: 1, ..good },
            HortonPlan { reserved: 1, ..good },
            HortonPlan { stash_buckets: 1, ..classic },
            HortonPlan { height: 0, ..classic },
            HortonPlan { height: 99, ..classic },
        ] {
            assert!(bad.checked().is_err(), "{bad:?}");
        }
    }
}
