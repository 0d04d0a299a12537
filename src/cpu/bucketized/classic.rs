//! The paper's own table: its build is serial, so one thread places the pairs by the reference's rule.
//!
//! ```text
//! for i in 0..pairs:   prefetch the buckets of pair i + 32
//!                      place pair i by `scheme/bucketized/classic.rs`; stop if there is no free slot
//! ```
//!
//! A breadth-first search for a free slot moves pairs through several buckets, and relies on the words that it read.
//! Several threads would need locks, and the paper builds its table with one thread. The key that marks empty slots is
//! not stored in the image: its value is stored in [`Placed::outside`].

use wide::u32x8;

use super::bucket::Cell;
use super::lookup::Buckets;
use crate::backend::Placed;
use crate::cpu::block::{Lists, Pairs, fetch};
use crate::cpu::lanes::Lanes;
use crate::scheme::bucketized::{BucketizedPlan, Functions, LookupMode, classic};
use crate::scheme::cuckoo::classic::{EMPTY_KEY, key};
use crate::scheme::{Placing, Plan};

/// The number of pairs whose buckets are prefetched ahead.
const AHEAD: usize = 32;

/// The lists of a classic table with buckets of S words.
pub(super) struct Classic<'a, const S: usize> {
    functions: &'a Functions,
    mode: LookupMode,
}

impl<'a, const S: usize> Classic<'a, S> {
    pub(super) fn new(plan: &BucketizedPlan, functions: &'a Functions) -> Self {
        Classic { functions, mode: plan.lookup_mode() }
    }
}

impl<const S: usize> Lists for Classic<'_, S> {
    const STRIDE: usize = S;

    #[inline(always)]
    fn aim(&self, age: u32, keys: u32x8) -> (u32x8, u32x8) {
        (self.functions.location(age as usize - 1, keys), keys)
    }

    /// An empty slot is not a hit, not even for the marker itself. A free slot does not end a search, because the pair
    /// may have been stored before that slot became free.
    #[inline(always)]
    fn judge(&self, _: u32) -> impl Fn(u32, u64) -> (bool, bool) {
        |wanted, word| ((key(word) == wanted) & (wanted != EMPTY_KEY), false)
    }

    fn last_age(&self) -> u32 {
        self.functions.count
    }
}

impl<const S: usize> Buckets<S> for Classic<'_, S> {
    const NEVER: Option<u32> = Some(EMPTY_KEY);

    #[inline(always)]
    fn aim_one(&self, age: u32, key: u32) -> (u32, u32) {
        (self.functions.location(age as usize - 1, key), key)
    }

    fn find_rest<C: Cell>(&self, _: impl Lanes, _: &[C], _: u32) -> Option<(usize, u64)> {
        None
    }

    fn at_once(&self) -> bool {
        self.mode == LookupMode::LatencyOptimized
    }
}

/// Adds pairs to an image, in order.
pub(super) fn place<const S: usize>(
    plan: &BucketizedPlan,
    functions: &Functions,
    image: &mut [u64],
    pairs: Pairs<'_>,
) -> Placed {
    let lists = Classic::<S>::new(plan, functions);
    let mut placed = Placed::default();
    let mut stands_outside = plan.outside().is_some();
    for (i, (&key, &value)) in pairs.keys.iter().zip(pairs.values).enumerate() {
        if let Some(&ahead) = pairs.keys.get(i + AHEAD) {
            functions.locations(ahead).for_each(|bucket| fetch(&lists, image, &[bucket]));
        }
        let copy = if key == EMPTY_KEY {
            // The greatest value is kept, so that the result does not depend on the order.
            placed.outside = placed.outside.max(Some(value));
            std::mem::replace(&mut stands_outside, true)
        } else {
            match classic::place(plan, functions, image, key, value) {
                Placing::Placed => false,
                Placing::Duplicate(_) => true,
                Placing::Unplaced => {
                    placed.unplaced += 1;
                    return placed;
                }
            }
        };
        if copy {
            placed.duplicates += 1;
            placed.least_duplicate = Some(placed.least_duplicate.map_or(key, |least| least.min(key)));
        }
    }
    placed
}
