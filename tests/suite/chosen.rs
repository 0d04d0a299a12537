//! Keys chosen by an attacker who knows the seed: for each of several attempts a crowd, that is, more keys than the
//! places that all of them share. An attacker can compute constants that depend only on the seed, and invert mixers,
//! which are bijections.
#![allow(unreachable_pub, reason = "a module of a program")]

use std::collections::BTreeSet;
use std::ops::Range;

use koel::scheme::cuckoo::Functions;
use koel::scheme::hash::{mix, reduce, unmix};
use koel::scheme::{FIRST_SALTED, Request};
use koel::{AnyScheme, Bucketized, Cuckoo, CuckooSet, Fks, HashTable, Horton, Quadratic, Scheme, TableBuilder};
use rayon::prelude::*;

use crate::common::reference;

/// The known seed.
pub const SEED: u64 = 14;

/// A scheme, and keys that fail attempts 0 to 7 of [`SEED`] in a table of this many slots.
pub struct Attack {
    pub scheme: AnyScheme,
    pub slots: u64,
    pub keys: Vec<u32>,
}

impl Attack {
    /// `crowd` returns, for an attempt's plan, more keys than fit into their places. The sentinel key is added.
    pub fn new<S>(scheme: S, slots: u64, crowd: impl Fn(&S::Plan) -> Vec<u32> + Sync) -> Self
    where
        S: Scheme<Key = u32, Value = u32> + Into<AnyScheme>,
    {
        let mut keys = chosen(&scheme, slots, SEED, 0..FIRST_SALTED, crowd);
        keys.push(u32::MAX);
        let pairs = || keys.iter().map(|&key| (key, 0));
        for attempt in 0..FIRST_SALTED {
            let plan = plan_of(&scheme, slots, SEED, attempt);
            assert!(reference::<S>(&plan, pairs()).is_none(), "{scheme:?}: attempt {attempt} succeeds");
        }
        Attack { scheme: scheme.into(), slots, keys }
    }

    pub fn builder(&self) -> TableBuilder<AnyScheme> {
        HashTable::builder(self.scheme.clone()).seed(SEED).slots(self.slots as usize)
    }

    /// Values for these keys; different factors give different values.
    pub fn values(&self, keys: &[u32], factor: u32) -> Vec<u32> {
        let greatest = self.scheme.limits().greatest_value();
        keys.iter().map(|&key| (key ^ 5).wrapping_mul(factor) & greatest).collect()
    }
}

/// Keys with a crowd for each of these attempts, in an arbitrary order.
pub fn chosen<S: Scheme<Key = u32, Value = u32>>(
    scheme: &S,
    slots: u64,
    seed: u64,
    attempts: Range<u32>,
    crowd: impl Fn(&S::Plan) -> Vec<u32> + Sync,
) -> Vec<u32> {
    let crowds = attempts.into_par_iter().flat_map_iter(|attempt| crowd(&plan_of(scheme, slots, seed, attempt)));
    let keys: BTreeSet<u32> = crowds.collect();
    let mut keys: Vec<u32> = keys.into_iter().collect();
    keys.sort_unstable_by_key(|key| key.reverse_bits());
    keys
}

pub fn plan_of<S: Scheme<Key = u32, Value = u32>>(scheme: &S, slots: u64, seed: u64, attempt: u32) -> S::Plan {
    scheme.plan(Request { slots, pairs: slots / 2, seed, attempt }).expect("a plan")
}

/// H + 1 keys whose H slots are all among the first H.
pub fn cuckoo_crowd(functions: &Functions) -> Vec<u32> {
    let (count, slots) = (functions.count, functions.slots);
    let is_low = |key: u32| (1..count as usize).all(|i| reduce(mix(key, functions.keys[i]), slots) < count);
    // The keys that the first function maps to these slots are the inverses of the smallest mixed keys.
    let low = (u64::from(count) << 32) / u64::from(slots);
    let keys = (0..low as u32).map(|image| unmix(image, functions.keys[0])).filter(|&key| is_low(key));
    keys.take(count as usize + 1).collect()
}

/// The first keys that satisfy this condition.
pub fn first(count: usize, holds: impl Fn(u32) -> bool) -> Vec<u32> {
    (0..u32::MAX).filter(|&key| holds(key)).take(count).collect()
}

pub fn cuckoo(scheme: Cuckoo, slots: u64) -> Attack {
    Attack::new(scheme, slots, |plan| cuckoo_crowd(&plan.functions()))
}

pub fn cuckoo_set(scheme: CuckooSet, slots: u64) -> Attack {
    Attack::new(scheme, slots, |plan| cuckoo_crowd(&plan.cuckoo().functions()))
}

pub fn bucketized_canonical() -> Attack {
    Attack::new(Bucketized::canonical(4), 128, |plan| {
        let functions = plan.functions();
        // Nine keys for two buckets of four.
        first(9, |key| {
            let (home, remainder) = functions.home(key);
            (0..3).all(|turn| functions.bucket(turn, home, remainder) < 2)
        })
    })
}

pub fn bucketized_classic() -> Attack {
    Attack::new(Bucketized::classic(2, 8), 256, |plan| {
        let functions = plan.functions();
        first(17, |key| functions.locations(key).all(|bucket| bucket < 2))
    })
}

pub fn horton_canonical() -> Attack {
    Attack::new(Horton::canonical(8), 1024, |plan| {
        let functions = plan.functions();
        first(65, |key| functions.home(key).0 == 3)
    })
}

pub fn horton_classic() -> Attack {
    Attack::new(Horton::classic(8), 512, |plan| {
        let functions = plan.functions();
        // They share a remap entry, which redirects them to one bucket with eight slots; seven stay.
        first(17, |key| functions.home(key) == (3, 4))
    })
}

pub fn fks(scheme: Fks) -> Attack {
    Attack::new(scheme, 11 * 576, |plan| {
        let functions = plan.functions();
        first(513, |key| functions.bucket(key) == 3)
    })
}

pub fn quadratic() -> Attack {
    Attack::new(Quadratic, 20, |plan| {
        let meet = |key: &u32| reference::<Quadratic>(plan, [(0, 0), (*key, 0)]).is_none();
        std::iter::once(0).chain((1..).find(meet)).collect()
    })
}
