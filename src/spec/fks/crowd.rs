//! What stood in the way of an attempt: a bucket of too many keys, or one whose functions cannot tell its keys apart.

use super::{BUCKET_PAIRS, FksPlan, Functions, SUBTABLES, dealt};
use crate::spec::{Crowd, Plan};

/// The fullest bucket, if it holds more than it may; else the first bucket in which, under every seed number, some keys
/// share all three slots and are more than three. Random keys never do; Sahu's twenty seeds can be defeated on purpose.
pub(super) fn crowd(plan: &FksPlan, keys: &[u32]) -> Option<Crowd> {
    let functions = plan.functions();
    let inside = keys.iter().filter(|&&key| Some(key) != plan.outside_key()).map(|&key| (key, 0));
    let buckets = dealt(&functions, inside);
    // Of the fullest ones the first.
    let keys = buckets.iter().map(Vec::len).max()?;
    let number = buckets.iter().position(|pairs| pairs.len() == keys)?;
    if keys > BUCKET_PAIRS as usize {
        let which = format!("in bucket {number} of {} under the first-level function", functions.buckets);
        return Some(Crowd { which, keys: keys as u64, most: BUCKET_PAIRS.into() });
    }
    buckets.iter().enumerate().find_map(|(number, pairs)| {
        let seeds = functions.seeds();
        let mut sharing = 0;
        let defeated = |seed| {
            sharing = most_sharing(&functions, seed, pairs);
            sharing > SUBTABLES as usize
        };
        let all_are = (0..seeds).all(defeated);
        let which = || {
            let buckets = functions.buckets;
            format!("in bucket {number} of {buckets} and share all of their slots under the last of its {seeds} seeds")
        };
        all_are.then(|| Crowd { which: which(), keys: sharing as u64, most: SUBTABLES.into() })
    })
}

/// The most keys of a bucket that have the same slot in every sub-table.
fn most_sharing(functions: &Functions, seed: u32, pairs: &[(u32, u32)]) -> usize {
    let slots_of = |&(key, _): &(u32, u32)| -> [u32; SUBTABLES as usize] {
        std::array::from_fn(|i| functions.location(i as u32, seed, key))
    };
    let mut slots: Vec<_> = pairs.iter().map(slots_of).collect();
    slots.sort_unstable();
    slots.chunk_by(PartialEq::eq).map(<[_]>::len).max().unwrap_or(0)
}
