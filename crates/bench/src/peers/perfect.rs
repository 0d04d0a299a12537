//! A perfect hash of the keys (ptr_hash), and an array of pairs, each at the hash of its key.
//!
//! A query is hashed, which reads a byte, and compared with the pair at its place, which reads a line. Both reads are
//! prefetched: the bytes by ptr_hash's stream, the lines here, also a few dozen queries ahead.
//!
//! The variant of ptr_hash is the one with the fastest lookups; it has slightly more places than keys. All threads hash
//! its keys, but one thread builds it; `+parts` is the same function in parts, which all threads build and whose
//! lookups are slightly slower.

use prefetch_index::prefetch_index;
use ptr_hash::bucket_fn::Linear;
use ptr_hash::hash::FastIntHash;
use ptr_hash::{PtrHash, PtrHashParams};

use super::{On, timed};
use crate::measure::{Row, Setup};
use koel_cli::failure::{Failure, Result};
use koel_cli::out;

/// How many queries ahead bytes, and then lines, are prefetched. A quarter faster on Zen 5 than the 32 that ptr_hash
/// recommends; 128 is not faster.
const AHEAD: usize = 64;

/// ptr_hash's function. The last two parameters are whether it has one part, and whether it is minimal, with as many
/// places as keys.
type Places<const ONE_PART: bool> = PtrHash<u32, Linear, Vec<u32>, FastIntHash, Vec<u8>, ONE_PART, false>;

struct Table<const ONE_PART: bool> {
    places: Places<ONE_PART>,
    /// Keys in the upper halves, values in the lower ones.
    pairs: Vec<u64>,
}

/// Returns no rows if there are no keys, because there is no first place, or if ptr_hash finds no function for them.
pub(super) fn measure(on: On<'_>) -> Result<Vec<Row>> {
    if on.setup.data.keys.is_empty() {
        return Ok(Vec::new());
    }
    let parts = [
        timed(on, "ptr_hash", || build::<true>(on.setup), look_up),
        timed(on, "ptr_hash+parts", || build::<false>(on.setup), look_up),
    ];
    let mut rows = Vec::new();
    for part in parts {
        match part {
            Err(Failure::Input(reason)) => out::note(&reason),
            part => rows.extend(part?),
        }
    }
    Ok(rows)
}

fn build<const ONE_PART: bool>(setup: &Setup<'_>) -> Result<Table<ONE_PART>> {
    let (keys, values) = (&setup.data.keys, &setup.data.values);
    let places = Places::try_new(keys, PtrHashParams::default_fast())
        .ok_or_else(|| Failure::Input("ptr_hash has found no function for these keys, and is left out".into()))?;
    let pair = |key: u32, value: u32| u64::from(key) << 32 | u64::from(value);
    // A place without a key contains the first pair, whose key is never looked up there.
    let first = keys.first().zip(values.first()).map_or(0, |(&key, &value)| pair(key, value));
    let mut pairs = vec![first; places.max_index()];
    let mut ahead = Ahead::new();
    let mut left = keys.iter().zip(values);
    let mut put = |pairs: &mut Vec<u64>, at: usize| {
        if let Some((&key, &value)) = left.next() {
            pairs[at] = pair(key, value);
        }
    };
    places.index_stream::<AHEAD, _>(keys).for_each(|place| {
        if let Some(at) = ahead.next(&pairs, place) {
            put(&mut pairs, at);
        }
    });
    ahead.rest().for_each(|at| put(&mut pairs, at));
    Ok(Table { places, pairs })
}

fn look_up<const ONE_PART: bool>(table: &Table<ONE_PART>, queries: &[u32], values: &mut [u32], found: &mut [u32]) {
    let (mut ahead, mut number, mut bits) = (Ahead::new(), 0, 0);
    let mut answer = |at: usize| {
        let pair = table.pairs[at];
        let hit = (pair >> 32) as u32 == queries[number];
        values[number] = pair as u32 & u32::from(hit).wrapping_neg();
        bits |= u32::from(hit) << (number % 32);
        if number % 32 == 31 || number + 1 == queries.len() {
            found[number / 32] = bits;
            bits = 0;
        }
        number += 1;
    };
    table.places.index_stream::<AHEAD, _>(queries).for_each(|place| {
        if let Some(at) = ahead.next(&table.pairs, place) {
            answer(at);
        }
    });
    ahead.rest().for_each(answer);
}

/// Places whose lines are being prefetched.
struct Ahead {
    places: [usize; AHEAD],
    count: usize,
}

impl Ahead {
    fn new() -> Self {
        Ahead { places: [0; AHEAD], count: 0 }
    }

    /// Prefetches the line of a place, and returns the place that was prefetched [`AHEAD`] calls ago.
    #[inline(always)]
    fn next(&mut self, pairs: &[u64], place: usize) -> Option<usize> {
        prefetch_index(pairs, place);
        let at = std::mem::replace(&mut self.places[self.count % AHEAD], place);
        self.count += 1;
        (self.count > AHEAD).then_some(at)
    }

    /// The places that have not been returned yet, in order.
    fn rest(&self) -> impl Iterator<Item = usize> + '_ {
        (self.count.saturating_sub(AHEAD)..self.count).map(|i| self.places[i % AHEAD])
    }
}
