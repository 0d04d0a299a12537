//! The hash functions.
//!
//! ```text
//! x = mixed(key);  home and remainder = split(x)
//! guest bucket of (home, tag, R) = home moved within its part by d(tag, R)
//! d(tag, R) = 1 + high half of mix(16 tag + R) * (buckets of the part - 1)
//! ```
//!
//! A part is 2^P buckets whose numbers differ in the lowest P bits; the last one may have fewer. d does not depend on
//! the home, so a guest's word and bucket determine its home: the age implies R, the remainder implies the tag. Guests
//! stay in the part, so all accesses for the keys of one home are to nearby memory, at no measured cost to lookups
//! (docs/canonical-layout.md).

use super::SignpostPlan;
use super::post::{Fields, Posts};
use crate::scheme::bucketized::wide::{Layout, LineFunctions, SlotKey};
use crate::scheme::constants::Constants;
use crate::scheme::hash::{MixKeys, mix, reduce};

/// The functions of one attempt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SignpostFunctions<K: SlotKey> {
    /// The mixer of keys.
    pub mixer: K::Mixer,
    /// The mixer of tags and functions.
    pub steps: MixKeys,
    /// The number of buckets of the table.
    pub buckets: u32,
    /// The base-2 logarithm of a part's buckets.
    pub part_bits: u32,
    /// The bit fields of words.
    pub fields: Fields,
    /// The place of entries.
    pub posts: Posts,
    /// The functions of the stash.
    pub stash: LineFunctions<K>,
}

impl<K: SlotKey> SignpostFunctions<K> {
    /// The functions of a plan, with the constants of its attempt.
    pub fn new<L: Layout<Key = K>>(plan: &SignpostPlan<L>) -> Self {
        let buckets = plan.buckets();
        let mut stream = Constants::of(plan, &[SignpostPlan::<L>::ID, buckets]);
        let mixer = K::next_mixer(&mut stream);
        let steps = stream.next_mix_keys();
        let stash = LineFunctions::drawn::<L>(&mut stream, plan.stash_buckets());
        let (fields, posts) = (Fields::of::<L>(buckets), Posts::of::<L>(buckets));
        SignpostFunctions { mixer, steps, buckets, part_bits: L::PART_BITS, fields, posts, stash }
    }

    /// Home and remainder of a key.
    #[inline(always)]
    pub fn home(&self, key: K) -> (u32, K) {
        let (home, low) = key.mixed(self.mixer).split(self.buckets);
        (home, K::low(low.into() >> self.fields.post_bits))
    }

    /// The key with this home and remainder.
    #[inline(always)]
    pub fn key_of(&self, home: u32, remainder: K) -> K {
        K::join(home, K::low(remainder.into() << self.fields.post_bits), self.buckets).unmixed(self.mixer)
    }

    /// Functions whose bucket 1 is a key's home. Their other buckets are not used.
    #[cfg(feature = "opencl")]
    pub(crate) fn homes(&self) -> LineFunctions<K> {
        let mut homes = LineFunctions { mixer: self.mixer, ..self.stash };
        homes.steps.buckets = self.buckets;
        homes
    }

    /// The first bucket and the number of buckets of the part that contains a bucket.
    #[inline(always)]
    pub fn part(&self, bucket: u32) -> (u32, u32) {
        let start = bucket >> self.part_bits << self.part_bits;
        (start, (self.buckets - start).min(1 << self.part_bits))
    }

    /// The distance of a tag's guests from their homes under a function, in a part of this many buckets, at least two.
    #[inline(always)]
    pub fn step(&self, tag: u32, function: u32, width: u32) -> u32 {
        let mixed = mix(tag << 4 | function, self.steps);
        1 + reduce(mixed, width - 1)
    }

    /// The bucket to which a function leads a tag's key; `None` if the home is the only bucket of its part.
    #[inline(always)]
    pub fn guest(&self, home: u32, tag: u32, function: u32) -> Option<u32> {
        let (start, width) = self.part(home);
        (width > 1).then(|| {
            let to = home - start + self.step(tag, function, width);
            start + if to < width { to } else { to - width }
        })
    }

    /// The home of a tag's key that a function has led to this bucket.
    #[inline(always)]
    pub fn home_of(&self, bucket: u32, tag: u32, function: u32) -> Option<u32> {
        let (start, width) = self.part(bucket);
        (width > 1).then(|| {
            let (at, step) = (bucket - start, self.step(tag, function, width));
            start + if at >= step { at - step } else { at + width - step }
        })
    }

    /// The home and the key of a pair, from its word and its bucket.
    pub fn pair_in(&self, bucket: u32, word: u64) -> Option<(u32, K)> {
        let (age, remainder) = (self.fields.age::<K>(word), self.fields.remainder::<K>(word));
        let home = match age {
            1 => bucket,
            _ => self.home_of(bucket, self.fields.tag(remainder), age.checked_sub(1)?)?,
        };
        self.fields.is_pair::<K>(word).then(|| (home, self.key_of(home, remainder)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::post::FUNCTIONS;
    use super::super::{Narrow, NarrowSet};
    use super::*;
    use crate::backend::Word;
    use quickcheck::quickcheck;

    fn round_trips<L: Layout>(key: u64, buckets: u32, function: u32) -> bool {
        let functions = SignpostPlan::<L>::new(buckets, 7, 0).functions();
        let key = L::Key::low(key);
        let (home, remainder) = functions.home(key);
        let word = functions.fields.word(1, remainder);
        let tag = functions.fields.tag(remainder);
        let away = functions.guest(home, tag, function);
        let guest = functions.fields.word(function + 1, remainder);
        home < buckets
            && functions.pair_in(home, word) == Some((home, key))
            && away.is_none_or(|bucket| {
                bucket != home && bucket < buckets && functions.pair_in(bucket, guest) == Some((home, key))
            })
    }

    quickcheck! {
        fn keys_are_restored_from_homes_and_guest_buckets(key: u64, buckets: u32, function: u32, small: bool) -> bool {
            let buckets = 16 + if small { buckets % 6000 } else { buckets % (1 << 26) };
            let function = 1 + function % FUNCTIONS;
            round_trips::<(u64, u64)>(key, buckets, function)
                && round_trips::<(u64, u32)>(key, buckets, function)
                && round_trips::<(u32, u64)>(key, buckets, function)
                && round_trips::<(u64, ())>(key, buckets, function)
                && round_trips::<Narrow>(key, buckets, function)
                && round_trips::<NarrowSet>(key, buckets, function)
        }
    }
}
