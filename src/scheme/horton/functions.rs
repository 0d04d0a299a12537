//! The hash functions of a Horton table: the home bucket and tag of a key, the secondary bucket of a remap entry, the
//! stash bucket.
//!
//! ```text
//! mixer     x = mix(key, primary);   home = high half of x * buckets
//!                                    tag  = high half of (low half of x * buckets) * tags
//!           R_i(home, tag):          h = mix(home * tags + tag + i * GOLDEN, remap);  q = (buckets - 1) / F
//!                                    (home + 1 + (i - 1) * q + reduce(h, q)) mod buckets
//!           stash bucket             reduce(mix(key, stash), stash_buckets)
//! jenkins   home = J6(key) mod buckets,  tag = J7(key) mod tags,  k = home * tags + tag
//!           R_i = (J6(k) + KT[k mod 8] * i) mod buckets, or the next bucket that is neither home nor an earlier R_j
//! ```
//!
//! R_i depends only on the bucket and the tag of the key (Equation 1). Keys that share a remap entry therefore share
//! their secondary bucket, and one entry serves them all.
//!
//! **Strata.** R_i - home is in `1 + (i-1) q .. 1 + i q`, and all of these ranges are within `1 .. buckets`, so R_1 ..
//! R_F are F different buckets other than the home. Jenkins' functions as printed guarantee neither, hence the step to
//! the next bucket.

use super::{HortonFamily, HortonPlan, tokens};
use crate::scheme::constants::Constants;
use crate::scheme::hash::{self, GOLDEN, Lane, MixKeys};
use crate::scheme::{Horton, Scheme};

/// Equation 2's table of eight primes, which the paper does not print. These are spread over four decades, each about
/// four times the previous one, so that entries whose first buckets are equal have different next ones. A prime has no
/// common factor with most table sizes, so its multiples up to 15 rarely lead to the same bucket; if they do, the next
/// bucket is used.
pub(crate) const KT: [u32; 8] = [97, 389, 1_543, 6_151, 24_593, 98_317, 393_241, 1_572_869];
/// The maximum number of secondary functions of a table.
pub(crate) const MAX_FUNCTIONS: usize = 15;

/// The functions of one plan, with all constants precomputed, and the sizes they need.
#[derive(Clone, Debug)]
pub struct Functions {
    /// Constants of home and tag, of the remap functions, and of the stash. For Jenkins' functions: the numbers that
    /// are XOR-ed into the input of J6 for the home, of J6 for the remap functions, and of J7 for the tag, each as
    /// `before`.
    pub keys: [MixKeys; 3],
    /// Buckets of the table, without the stash.
    pub buckets: u32,
    /// Buckets of the stash; 0 in classic tables.
    pub stash_buckets: u32,
    /// S, the slots of a bucket.
    pub slots: u32,
    /// Remap entries of a Type B bucket.
    pub tags: u32,
    /// Bits of a remap entry.
    pub bits: u32,
    /// F, the secondary functions.
    pub count: u32,
    /// q, the buckets of a stratum.
    pub stratum: u32,
    family: HortonFamily,
}

impl Functions {
    pub(super) fn new(plan: &HortonPlan) -> Self {
        let family = plan.family();
        let HortonPlan { kind, bucket_slots, tags, bits, buckets, .. } = *plan;
        let numbers = [Horton::ID, kind, plan.family, bucket_slots, tags, bits, buckets];
        let mut stream = Constants::of(plan, &numbers);
        let keys = std::array::from_fn(|_| match family {
            HortonFamily::Mixer => stream.next_mix_keys(),
            // The printed functions do not have a seed; they are exactly the first attempt of seed 0.
            HortonFamily::Jenkins if plan.seed == 0 && plan.attempt == 0 => MixKeys::default(),
            HortonFamily::Jenkins => MixKeys::new(stream.next_u32(), 1, 0),
        });
        let count = plan.function_count();
        Functions {
            keys,
            buckets: plan.buckets,
            stash_buckets: plan.stash_buckets,
            slots: plan.bucket_slots,
            tags: plan.tags,
            bits: plan.bits,
            count,
            stratum: plan.buckets.saturating_sub(1) / count,
            family,
        }
    }

    /// The entry that means "in the stash". In classic tables, which have no stash, a code that no entry can have.
    #[inline(always)]
    pub fn stash_code(&self) -> u32 {
        if self.stash_buckets == 0 { u32::MAX } else { tokens::stash_code(self.bits) }
    }

    /// Home bucket and tag by the mixers.
    #[inline(always)]
    pub fn mixed_home<L: Lane>(&self, key: L) -> (L, L) {
        let (home, low) = hash::mix(key, self.keys[0]).halves(L::splat(self.buckets));
        (home, low.halves(L::splat(self.tags)).0)
    }

    /// The bucket R_i (i from 1) of an entry, by the mixers.
    #[inline(always)]
    pub fn mixed_remap<L: Lane>(&self, home: L, tag: L, i: L) -> L {
        let input = home.times(L::splat(self.tags)).plus(tag).plus(i.times(L::splat(GOLDEN)));
        let within = hash::reduce(hash::mix(input, self.keys[1]), self.stratum);
        let before = i.minus(L::splat(1)).times(L::splat(self.stratum));
        hash::wrapped(home.plus(L::splat(1)).plus(before).plus(within), L::splat(self.buckets))
    }

    /// The stash bucket of a key, from 0.
    #[inline(always)]
    pub fn stash<L: Lane>(&self, key: L) -> L {
        hash::reduce(hash::mix(key, self.keys[2]), self.stash_buckets)
    }

    /// Home bucket and tag of a key.
    #[inline(always)]
    pub fn home(&self, key: u32) -> (u32, u32) {
        match self.family {
            HortonFamily::Mixer => self.mixed_home(key),
            HortonFamily::Jenkins => {
                (jenkins6(key ^ self.keys[0].before) % self.buckets, jenkins7(key ^ self.keys[2].before) % self.tags)
            }
        }
    }

    /// The bucket R_i (`1 ..= F`) of the entry of this tag in this bucket.
    #[inline(always)]
    pub fn remap(&self, home: u32, tag: u32, i: u32) -> u32 {
        match self.family {
            HortonFamily::Mixer => self.mixed_remap(home, tag, i),
            HortonFamily::Jenkins => self.printed_remap(home, tag, i),
        }
    }

    /// Equations 1 and 2. If the printed sum is the home or an earlier R_j, the next bucket that is neither.
    fn printed_remap(&self, home: u32, tag: u32, i: u32) -> u32 {
        let input = home.wrapping_mul(self.tags).wrapping_add(tag);
        let (first, step) = (jenkins6(input ^ self.keys[1].before), KT[input as usize % KT.len()]);
        // Slot 0 is the home. With at least 16 buckets and at most 15 functions, one is always free.
        let mut taken = [home; MAX_FUNCTIONS + 1];
        for j in 1..=(i as usize).min(MAX_FUNCTIONS) {
            let mut at = first.wrapping_add(step.wrapping_mul(j as u32)) % self.buckets;
            while taken[..j].contains(&at) {
                at = (at + 1) % self.buckets;
            }
            taken[j] = at;
        }
        taken[(i as usize).min(MAX_FUNCTIONS)]
    }

    /// The bucket of the whole image, stash included, to which an entry leads a key; `None` for 0 and invalid codes.
    #[inline(always)]
    pub fn led(&self, key: u32, home: u32, tag: u32, code: u32) -> Option<u32> {
        if code == self.stash_code() {
            return Some(self.buckets + self.stash(key));
        }
        (1..=self.count).contains(&code).then(|| self.remap(home, tag, code))
    }
}

/// Jenkins' 32-bit integer function of six shifts (burtleburtle.net/bob/hash/integer.html).
#[inline(always)]
pub(crate) fn jenkins6(key: u32) -> u32 {
    let a = key.wrapping_add(0x7ed5_5d16).wrapping_add(key << 12);
    let a = (a ^ 0xc761_c23c) ^ (a >> 19);
    let a = a.wrapping_add(0x1656_67b1).wrapping_add(a << 5);
    let a = a.wrapping_add(0xd3a2_646c) ^ (a << 9);
    let a = a.wrapping_add(0xfd70_46c5).wrapping_add(a << 3);
    (a ^ 0xb55a_4f09) ^ (a >> 16)
}

/// Jenkins' 32-bit integer function of seven shifts, from the same page.
#[inline(always)]
pub(crate) fn jenkins7(key: u32) -> u32 {
    let a = key.wrapping_sub(key << 6);
    let a = a ^ (a >> 17);
    let a = a.wrapping_sub(a << 9);
    let a = a ^ (a << 4);
    let a = a.wrapping_sub(a << 3);
    let a = a ^ (a << 10);
    a ^ (a >> 15)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::scheme::Request;
    use quickcheck::quickcheck;
    use wide::u32x8;

    fn functions(scheme: &Horton, buckets: u64, seed: u64) -> Functions {
        let slots = buckets * u64::from(scheme.bucket_slots);
        scheme.plan(Request { slots, pairs: 0, seed, attempt: 0 }).expect("a plan").functions()
    }

    /// Computed by a C program of the formulas on Jenkins' page, compiled by gcc, because no published outputs were
    /// found.
    #[test]
    fn jenkins_functions_equal_the_c_code() {
        for (key, six, seven) in [
            (0x0000_0000, 0x6b4e_d927, 0x0000_0000),
            (0x0000_0001, 0xb486_81b6, 0xc2b7_3583),
            (0x0000_0002, 0xe267_b84c, 0xe90f_1258),
            (0x0000_002a, 0xc343_bb70, 0xeaef_1d00),
            (0x1234_5678, 0x027c_5489, 0x2976_c9a2),
            (0xdead_beef, 0x7ff0_eada, 0x217a_06c4),
            (0xffff_ffff, 0xfe64_c182, 0xd586_6458),
        ] {
            assert_eq!((jenkins6(key), jenkins7(key)), (six, seven));
        }
    }

    #[test]
    fn the_first_attempt_of_seed_0_is_the_printed_equations() {
        let printed = functions(&Horton::classic(8).family(HortonFamily::Jenkins), 1009, 0);
        assert_eq!(printed.home(12345), (jenkins6(12345) % 1009, jenkins7(12345) % 21));
        let k = 77 * 21 + 4u32;
        let equation = |i: u32| (jenkins6(k).wrapping_add(KT[k as usize % 8] * i)) % 1009;
        assert_eq!(printed.remap(77, 4, 1), equation(1));
        assert_eq!(printed.remap(77, 4, 7), equation(7));
        let seeded = functions(&Horton::classic(8).family(HortonFamily::Jenkins), 1009, 1);
        assert!((0..100).any(|key| seeded.home(key) != printed.home(key)));
    }

    #[test]
    fn secondary_buckets_differ_from_each_other_and_from_the_home() {
        let schemes = [
            Horton::canonical(8),
            Horton::classic(4).tags(16).bits(4),
            Horton::classic(8).family(HortonFamily::Jenkins).tags(16).bits(4),
            Horton::canonical(16).tags(32).bits(2),
        ];
        for scheme in schemes {
            for buckets in 16..40 {
                let functions = functions(&scheme, buckets, buckets);
                for home in 0..functions.buckets {
                    for tag in 0..functions.tags {
                        let all: HashSet<_> = (1..=functions.count).map(|i| functions.remap(home, tag, i)).collect();
                        assert_eq!(all.len(), functions.count as usize);
                        assert!(!all.contains(&home) && all.iter().all(|&at| at < functions.buckets));
                    }
                }
            }
        }
    }

    #[test]
    fn the_largest_table_does_not_overflow() {
        let functions = functions(&Horton::canonical(8), 1 << 31, 3);
        for home in [0, 1, (1 << 31) - 2, (1 << 31) - 1] {
            for i in 1..=functions.count {
                let offset = (u64::from(functions.remap(home, 20, i)) + (1 << 31) - u64::from(home)) % (1 << 31);
                let q = u64::from(functions.stratum);
                assert!((1 + u64::from(i - 1) * q..1 + u64::from(i) * q).contains(&offset));
            }
        }
        assert!((0..1000).all(|key: u32| functions.stash(key) < functions.stash_buckets));
    }

    quickcheck! {
        fn lanes_agree_with_scalars(key: u32, home: u32, seed: u64) -> bool {
            let functions = functions(&Horton::canonical(8), 1000, seed);
            let (home, i) = (home % 1000, key % 6 + 1);
            let (homes, tags) = functions.mixed_home(u32x8::splat(key));
            let (one_home, tag) = functions.home(key);
            one_home < 1000 && tag < 21
                && homes == u32x8::splat(one_home) && tags == u32x8::splat(tag)
                && functions.mixed_remap(u32x8::splat(home), u32x8::splat(tag), u32x8::splat(i))
                    == u32x8::splat(functions.remap(home, tag, i))
                && functions.stash(u32x8::splat(key)) == u32x8::splat(functions.stash(key))
        }
    }
}
