//! The reason why an attempt failed: a bucket with too many keys, or one whose functions cannot separate its keys.

use super::{BUCKET_PAIRS, FksPlan, Functions, SUBTABLES};
use crate::memory;
use crate::scheme::{Crowd, Plan};

/// The fullest bucket, if it has more keys than the maximum; otherwise the first bucket in which, under every seed
/// number, more than three keys share all three slots. Random keys do not cause that, but keys can be chosen that
/// defeat Sahu's twenty seeds. If there is no memory to search for a crowd, none is reported.
pub(super) fn crowd(plan: &FksPlan, keys: &[u32]) -> Option<Crowd> {
    let functions = plan.functions();
    let inside = || keys.iter().copied().filter(|&key| Some(key) != plan.outside_key());
    // Counts first: an overfull bucket is the usual reason, and only its number is reported.
    let mut ends = memory::zeroed::<u32>(functions.buckets as usize).ok()?;
    inside().for_each(|key| ends[functions.bucket(key) as usize] += 1);
    // The first of the fullest ones.
    let keys = ends.iter().copied().max()?;
    let number = ends.iter().position(|&count| count == keys)?;
    if keys > BUCKET_PAIRS {
        let which = format!("in bucket {number} of {} under the first-level function", functions.buckets);
        return Some(Crowd { which, keys: keys.into(), most: BUCKET_PAIRS.into() });
    }
    // Counts become the starts of the buckets and, while keys are written there, their ends.
    let mut total = 0;
    for end in &mut ends {
        total += std::mem::replace(end, total);
    }
    let mut shuffled = memory::zeroed(total as usize).ok()?;
    for key in inside() {
        let end = &mut ends[functions.bucket(key) as usize];
        shuffled[*end as usize] = key;
        *end += 1;
    }
    let mut begin = 0;
    ends.iter().enumerate().find_map(|(number, &end)| {
        let keys = &shuffled[std::mem::replace(&mut begin, end as usize)..end as usize];
        let seeds = functions.seeds();
        let mut sharing = 0;
        let defeated = |seed| {
            sharing = most_sharing(&functions, seed, keys);
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

/// The greatest number of keys of a bucket that have the same slot in every sub-table.
fn most_sharing(functions: &Functions, seed: u32, keys: &[u32]) -> usize {
    let slots_of =
        |&key: &u32| -> [u32; SUBTABLES as usize] { std::array::from_fn(|i| functions.location(i as u32, seed, key)) };
    let mut slots: Vec<_> = keys.iter().map(slots_of).collect();
    slots.sort_unstable();
    slots.chunk_by(PartialEq::eq).map(<[_]>::len).max().unwrap_or(0)
}
