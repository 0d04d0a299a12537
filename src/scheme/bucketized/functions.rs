//! The hash functions of a bucketized table.
//!
//! ```text
//! canonical   x = mix_0(key);  bucket 1 and remainder = split(x)                         (`slot.rs`)
//!             bucket 2 = bucket 1 moved within its part by 1 + a hash of (remainder, part)
//!             bucket 3 = bucket 1 moved within the table by 1 + a hash of (remainder)
//!             inverse: subtract the same, so one mixer and one remainder serve all three
//! classic     bucket i = reduce(mix_i(key)), f independent functions
//! ```
//!
//! A **part** consists of [`PART_SLOTS`] consecutive slots; the last part may be shorter. Bucket 2 is in the same part
//! as bucket 1, so a build can place nearly all pairs of a part in memory that contains only this part. Bucket 3 may be
//! anywhere in the table, so that a full part does not make the build fail. In a part or table with a single bucket,
//! buckets 2 and 3 are bucket 1; the rule still works, because ages increase.

use super::BucketizedPlan;
use crate::scheme::constants::Constants;
use crate::scheme::hash::{GOLDEN, Lane, MixKeys, mix, reduce, unmix, wrapped};
use crate::scheme::{Bucketized, Scheme, slot};

/// The slots of a part: 16 KiB, half of the local memory that every supported device has.
pub(crate) const PART_SLOTS: u32 = 2048;

/// The maximum number of functions of a table.
pub(crate) const MAX_FUNCTIONS: usize = 4;

/// The functions of one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Functions {
    /// The number of buckets of a key.
    pub count: u32,
    /// The number of buckets of the table.
    pub buckets: u32,
    /// The number of slots of a bucket.
    pub bucket_slots: u32,
    /// The base-2 logarithm of the buckets of a part (canonical).
    pub part_bits: u32,
    /// One mixer per function (canonical: of the key, of remainder and part, of the remainder).
    pub keys: [MixKeys; MAX_FUNCTIONS],
}

impl Functions {
    /// The functions of a plan, with the constants of its attempt.
    pub fn new(plan: &BucketizedPlan) -> Self {
        let numbers = [Bucketized::ID, plan.kind, plan.functions, plan.bucket_slots, plan.buckets];
        let mut stream = Constants::of(plan, &numbers);
        let bucket_slots = plan.bucket_slots.max(1);
        Functions {
            count: plan.functions,
            buckets: plan.buckets,
            bucket_slots,
            part_bits: (PART_SLOTS / bucket_slots).ilog2(),
            keys: std::array::from_fn(|_| stream.next_mix_keys()),
        }
    }

    // ---- canonical

    /// The function that a proposal of this age uses; age 0 counts as 1.
    #[inline(always)]
    pub fn turn(&self, age: u32) -> usize {
        (age.max(1) as usize - 1) % 3
    }

    /// Bucket 1 and the remainder of a key.
    #[inline(always)]
    pub fn home<L: Lane>(&self, key: L) -> (L, L) {
        slot::split(mix(key, self.keys[0]), self.buckets)
    }

    /// The bucket of function `turn` for a key with this home.
    #[inline(always)]
    pub fn bucket<L: Lane>(&self, turn: usize, home: L, remainder: L) -> L {
        match turn {
            0 => home,
            1 => {
                let (start, width) = self.part(home);
                start.plus(wrapped(home.minus(start).plus(self.step_in_part(home, width, remainder)), width))
            }
            _ => wrapped(home.plus(self.step_anywhere(remainder)), L::splat(self.buckets)),
        }
    }

    /// Bucket 1 of a key that function `turn` maps to `bucket`: the inverse of [`Functions::bucket`].
    #[inline(always)]
    pub fn home_of(&self, turn: usize, bucket: u32, remainder: u32) -> u32 {
        // Of a difference and the difference plus the range, the lesser is the one that did not wrap.
        let back =
            |from: u32, step: u32, range: u32| from.wrapping_sub(step).min(from.wrapping_sub(step).wrapping_add(range));
        match turn {
            0 => bucket,
            1 => {
                let (start, width) = self.part(bucket);
                start.wrapping_add(back(bucket.wrapping_sub(start), self.step_in_part(bucket, width, remainder), width))
            }
            _ => back(bucket, self.step_anywhere(remainder), self.buckets),
        }
    }

    /// The key with this remainder that is stored in `bucket` by function `turn`.
    #[inline(always)]
    pub fn key_at(&self, turn: usize, bucket: u32, remainder: u32) -> u32 {
        unmix(slot::join(self.home_of(turn, bucket, remainder), remainder, self.buckets), self.keys[0])
    }

    /// The first bucket and the number of buckets of the part that contains a bucket. The last part may be narrower.
    #[inline(always)]
    fn part<L: Lane>(&self, bucket: L) -> (L, L) {
        let start = bucket.minus(self.offset(bucket));
        (start, L::splat(self.buckets).minus(start).lesser(L::splat(1 << self.part_bits)))
    }

    /// The number of a bucket within its part.
    #[inline(always)]
    fn offset<L: Lane>(&self, bucket: L) -> L {
        bucket.low_bits(self.part_bits)
    }

    /// The distance from bucket 1 to bucket 2, around the part; at least 1.
    #[inline(always)]
    fn step_in_part<L: Lane>(&self, bucket: L, width: L, remainder: L) -> L {
        // The first bucket of a part identifies it as well as its number does.
        let start = bucket.minus(self.offset(bucket));
        // The product spreads the numbers of parts.
        let mixed = mix(remainder.plus(start.times(L::splat(GOLDEN))), self.keys[1]);
        L::splat(1).plus(mixed.halves(width.minus(L::splat(1))).0)
    }

    /// The distance from bucket 1 to bucket 3, around the table; at least 1.
    #[inline(always)]
    fn step_anywhere<L: Lane>(&self, remainder: L) -> L {
        L::splat(1).plus(reduce(mix(remainder, self.keys[2]), self.buckets.wrapping_sub(1)))
    }

    // ---- classic

    /// The bucket of function `i` (from 0).
    #[inline(always)]
    pub fn location<L: Lane>(&self, i: usize, key: L) -> L {
        reduce(mix(key, self.keys[i]), self.buckets)
    }

    /// The buckets of a key, function by function.
    pub fn locations(&self, key: u32) -> impl Iterator<Item = u32> + '_ {
        (0..self.count as usize).map(move |i| self.location(i, key))
    }

    /// The candidate that is preferred if several have equally many free slots: a hash of the key, independent of its
    /// buckets.
    #[inline(always)]
    pub fn first_choice(&self, key: u32) -> u32 {
        reduce(mix(!key, self.keys[0]), self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheme::Request;
    use quickcheck::quickcheck;
    use wide::u32x8;

    fn functions(bucket_slots: u32, buckets: u32) -> Functions {
        let slots = u64::from(buckets) * u64::from(bucket_slots);
        let request = Request { slots, pairs: 1, seed: 5, attempt: 0 };
        Bucketized::canonical(bucket_slots).plan(request).expect("a plan").functions()
    }

    #[test]
    fn every_key_is_restored_from_each_of_its_buckets() {
        // Widths of the last part: a whole one, one bucket, and between.
        for (bucket_slots, buckets) in [(4, 16), (8, 257), (8, 512), (16, 128 * 3 + 77), (4, 1 << 20), (8, 0x0fff_ffff)]
        {
            let f = functions(bucket_slots, buckets);
            let part = PART_SLOTS / bucket_slots;
            for key in (0..4000u32).map(|i| i.wrapping_mul(0x9e37_79b1)) {
                let (home, remainder) = f.home(key);
                assert!(home < buckets);
                for turn in 0..3 {
                    let bucket = f.bucket(turn, home, remainder);
                    assert!(bucket < buckets);
                    assert_eq!(f.key_at(turn, bucket, remainder), key, "function {turn} of {buckets} buckets");
                }
                assert_eq!(f.bucket(1, home, remainder) / part, home / part, "bucket 2 stays in the part");
            }
        }
    }

    #[test]
    fn further_buckets_differ_if_there_are_several() {
        let f = functions(8, 512);
        for key in 0..4000u32 {
            let (home, remainder) = f.home(key);
            assert_ne!(f.bucket(1, home, remainder), home);
            assert_ne!(f.bucket(2, home, remainder), home);
        }
    }

    quickcheck! {
        fn lanes_agree(key: u32, buckets: u32, wide_bucket: bool) -> bool {
            let f = functions(if wide_bucket { 16 } else { 4 }, buckets % (1 << 26) + 16);
            let keys = u32x8::new(std::array::from_fn(|i| key.wrapping_add(i as u32)));
            let (homes, remainders) = f.home(keys);
            (0..8).all(|i| {
                let (home, remainder) = f.home(key.wrapping_add(i as u32));
                let same = |turn| f.bucket(turn, homes, remainders).to_array()[i] == f.bucket(turn, home, remainder);
                (homes.to_array()[i], remainders.to_array()[i]) == (home, remainder) && (0..3).all(same)
            })
        }

        fn nonsense_never_leads_out_of_bounds(turn: u32, bucket: u32, remainder: u32, buckets: u32) -> bool {
            let f = functions(8, buckets % 5000 + 16);
            let _ = f.key_at(f.turn(turn), bucket, remainder);
            f.home_of(f.turn(turn), bucket % f.buckets, remainder) < f.buckets
        }
    }
}
