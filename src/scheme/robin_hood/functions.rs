//! The hash functions of a plan: the start of each key's list, and its steps.
//!
//! ```text
//! m slots, a prime;   x = key, or mix(key);   quotient = x / m,  r = x mod m
//! home  = r            coherent, random           place at age i = (home + o_i) mod m,  o_1 = 0
//!       = c0 + r c1    paper-random (c1 has an inverse, because m is prime)
//! o_i   = reduce(mix'(i), m)   coherent, random: one fixed random walk for all keys
//!       = (i - 1) c2           paper-random
//! inverse: home = (place - o_i) mod m,  r of home,  x = quotient m + r,  key of x
//! ```
//!
//! No step divides ([`crate::scheme::divisor`]), and all of them work on several keys at once ([`Lane`]).
//!
//! A list may contain a slot twice, because two ages may have the same offset. That is harmless, but a class of keys
//! with one home can have no more pairs than its list has distinct slots ([`Functions::seats`]).

use super::prime::power;
use super::{RobinHoodPlan, Sequence};
use crate::scheme::constants::Constants;
use crate::scheme::divisor::{Divisor, Factor};
use crate::scheme::hash::{self, Lane, MixKeys, wrapped};

/// One more than the greatest age that fits a cell.
const AGES: usize = 64;

/// The lists of one plan, with all constants precomputed.
#[derive(Clone, Debug)]
pub struct Functions {
    /// The probe sequence.
    pub sequence: Sequence,
    /// m.
    pub slots: u32,
    /// Division by m.
    pub by_slots: Divisor,
    /// The mixer of keys (random).
    pub keys: MixKeys,
    /// The mixer of ages (coherent, random).
    pub walk: MixKeys,
    /// c0 (paper-random).
    pub start: u32,
    /// c1 (paper-random).
    pub spread: Factor,
    /// The inverse of c1 modulo m (paper-random).
    pub gather: Factor,
    /// c2 (paper-random).
    pub step: Factor,
    /// `o_i` for each age, so that it is computed once.
    pub offsets: [u32; AGES],
}

impl Functions {
    pub(super) fn new(plan: &RobinHoodPlan) -> Self {
        let mut stream = Constants::of(plan, &[]);
        let keys = stream.next_mix_keys();
        Functions::drawn(plan.sequence(), plan.slots, keys, &mut stream)
    }

    /// The lists of a table with this mixer of keys. The other constants are the next ones of the attempt's stream.
    pub(super) fn drawn(sequence: Sequence, slots: u32, keys: MixKeys, stream: &mut Constants) -> Self {
        let slots = slots.max(2);
        let walk = stream.next_mix_keys();
        let mut draw = |least: u32| least + hash::reduce(stream.next_u32(), slots - least);
        let (start, spread, step) = (draw(0), draw(1), draw(1));
        let factor = |times| Factor::new(times, slots);
        let mut functions = Functions {
            sequence,
            slots,
            by_slots: Divisor::new(slots),
            keys,
            walk,
            start,
            spread: factor(spread),
            // By Fermat: spread^(m - 1) = 1 modulo the prime m.
            gather: factor(power(spread, slots - 2, slots)),
            step: factor(step),
            offsets: [0; AGES],
        };
        functions.offsets = std::array::from_fn(|age| functions.offset_of(age as u32));
        functions
    }

    /// Computes `o_i`, which depends on the age and the constants only.
    pub fn offset_of(&self, age: u32) -> u32 {
        match (self.sequence, age) {
            (_, 0 | 1) => 0,
            (Sequence::PaperRandom, _) => self.step.product(age - 1, self.slots),
            _ => hash::reduce(hash::mix(age, self.walk), self.slots),
        }
    }

    /// `o_i` for an age up to 63, from the table.
    #[inline(always)]
    pub fn offset(&self, age: u32) -> u32 {
        self.offsets[age as usize % AGES]
    }

    /// Home and quotient of a key.
    #[inline(always)]
    pub fn split<L: Lane>(&self, key: L) -> (L, L) {
        let mixed = if self.sequence == Sequence::Random { hash::mix(key, self.keys) } else { key };
        let (quotient, rest) = self.by_slots.divide(mixed);
        (self.home_of(rest), quotient)
    }

    /// The home of a key, from the remainder of its division by m.
    #[inline(always)]
    pub fn home_of<L: Lane>(&self, rest: L) -> L {
        if self.sequence != Sequence::PaperRandom {
            return rest;
        }
        let slots = L::splat(self.slots);
        wrapped(self.spread.product(rest, self.slots).plus(L::splat(self.start)), slots)
    }

    /// The remainder of the keys with this home.
    #[inline(always)]
    pub fn rest_of(&self, home: u32) -> u32 {
        if self.sequence != Sequence::PaperRandom {
            return home;
        }
        let from_start = wrapped(home.wrapping_add(self.slots - self.start), self.slots);
        self.gather.product(from_start, self.slots)
    }

    /// The place of a home at an age.
    #[inline(always)]
    pub fn place<L: Lane>(&self, home: L, age: u32) -> L {
        wrapped(home.plus(L::splat(self.offset(age))), L::splat(self.slots))
    }

    /// The home that has this place at this age.
    #[inline(always)]
    pub fn home(&self, place: u32, age: u32) -> u32 {
        wrapped(place.wrapping_add(self.slots - self.offset(age)), self.slots)
    }

    /// The key with this home and quotient. Arbitrary for invalid arguments, but never panics.
    #[inline(always)]
    pub fn key(&self, home: u32, quotient: u32) -> u32 {
        let x = quotient.wrapping_mul(self.slots);
        match self.sequence {
            Sequence::Coherent => x.wrapping_add(home),
            Sequence::Random => hash::unmix(x.wrapping_add(home), self.keys),
            Sequence::PaperRandom => x.wrapping_add(self.rest_of(home)),
        }
    }

    /// The number of distinct slots of a list up to this age: the most keys of one home.
    pub fn seats(&self, last_age: u32) -> u64 {
        let mut offsets: Vec<u32> = (1..=last_age).map(|age| self.offset(age)).collect();
        offsets.sort_unstable();
        offsets.dedup();
        offsets.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheme::robin_hood::MOST_SLOTS;
    use crate::scheme::{Request, RobinHood, Scheme};
    use quickcheck::quickcheck;
    use wide::u32x8;

    fn functions(sequence: Sequence, slots: u64, seed: u64) -> Functions {
        let scheme = RobinHood::canonical().sequence(sequence);
        Functions::new(&scheme.plan(Request { slots, pairs: 0, seed, attempt: 0 }).expect("a plan"))
    }

    /// The same place, computed with wide integers and division.
    fn naive_place(f: &Functions, key: u32, age: u32) -> (u64, u64) {
        let m = u64::from(f.slots);
        let x = if f.sequence == Sequence::Random { hash::mix(key, f.keys) } else { key };
        let (quotient, rest) = (u64::from(x) / m, u64::from(x) % m);
        let steps = u64::from(age - 1);
        let place = match f.sequence {
            Sequence::PaperRandom => {
                (u64::from(f.start) + rest * u64::from(f.spread.times) + steps * u64::from(f.step.times)) % m
            }
            _ if age == 1 => rest,
            _ => (rest + u64::from(hash::reduce(hash::mix(age, f.walk), f.slots))) % m,
        };
        (place, quotient)
    }

    fn agrees(sequence: Sequence, slots: u64, seed: u64, key: u32) -> bool {
        let f = functions(sequence, slots, seed);
        let keys = u32x8::new(std::array::from_fn(|lane| key.wrapping_add((lane as u32).wrapping_mul(seed as u32))));
        let (homes, quotients) = f.split(keys);
        (1..=62).all(|age| {
            let places = f.place(homes, age).to_array();
            keys.to_array().into_iter().enumerate().all(|(lane, key)| {
                let (home, quotient) = f.split(key);
                let place = f.place(home, age);
                (homes.to_array()[lane], quotients.to_array()[lane], places[lane]) == (home, quotient, place)
                    && (u64::from(place), u64::from(quotient)) == naive_place(&f, key, age)
                    && f.home(place, age) == home
                    && f.key(home, quotient) == key
            })
        })
    }

    quickcheck! {
        fn lists_are_what_the_formulas_say_and_can_be_taken_back(slots: u32, seed: u64, key: u32) -> bool {
            let slots = u64::from(slots >> (1 + seed % 25)).min(MOST_SLOTS);
            Sequence::ALL.into_iter().all(|sequence| agrees(sequence, slots, seed, key))
        }
    }

    #[test]
    fn extremes_round_trip() {
        for slots in [0, 67, 1000, MOST_SLOTS] {
            for sequence in Sequence::ALL {
                for key in [0, 1, u32::MAX, 1 << 31, 67 * 64_103_988] {
                    assert!(agrees(sequence, slots, 3, key), "{sequence:?}, {slots} slots, {key}");
                }
            }
        }
    }

    /// Coherence: neighbouring keys have neighbouring places at every age, except at the ends of the table.
    #[test]
    fn neighbouring_keys_have_neighbouring_places() {
        let f = functions(Sequence::Coherent, 100_000, 5);
        for age in 1..=62 {
            let place = |key: u32| f.place(f.split(key).0, age);
            let apart = (5_000..6_000).filter(|&key| place(key + 1) != place(key) + 1).count();
            assert!(apart <= 1, "age {age}");
        }
        let seats = |slots, sequence| functions(sequence, slots, 5).seats(62);
        assert_eq!((seats(67, Sequence::PaperRandom), seats(1 << 20, Sequence::Coherent)), (62, 62));
        assert!((30..55).contains(&seats(67, Sequence::Coherent)), "62 draws of 67 slots: some occur twice");
    }
}
