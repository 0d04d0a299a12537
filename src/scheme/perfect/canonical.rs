//! Lookups, and the rule that chooses offsets in its simplest form: one offset after the other, each tested point by
//! point. `build.rs` finds the same offsets 64 at a time.
//!
//! ```text
//! group the points by their cell of the offset table
//! for each cell, those with more points first, of equals the one with the lesser number:
//!     offset = the first of these that leads all its points to free slots:
//!         the offsets of the neighbouring cells that have one;  then row by row, from the first of those offsets on
//!         (from a random one if there was none), each row cyclically from the same x
//!     no such offset, or too many were tried: the attempt has failed
//! cells without points have offset 0
//! ```
//!
//! **The limit of tries.** An offset in those rows that is tried for a cell with k points counts k times. The limit for
//! all cells together is 4096, or 2 M if that is more, for each point of the set, so the size bounds the time of an
//! attempt. Regular sets with hundreds of points per cell exceed it until R allows packing them; other sets need tens
//! of tries per point, and a full table some hundreds.
//!
//! The order of the input is not used, and the points of a cell are tried together, so the bytes are a function of the
//! set.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;

use super::{Functions, PerfectPlan, half};
use crate::scheme::cuckoo::classic::{EMPTY, EMPTY_KEY, entry, key, pair};
use crate::scheme::{Audit, Placing, Plan, Violation};

/// The value of a key. The sentinel key is not looked up in the image: its pair is stored in the plan.
pub(crate) fn find(plan: &PerfectPlan, image: &[u64], wanted: u32) -> Option<u32> {
    if wanted == EMPTY_KEY {
        return plan.outside().map(|(_, value)| value);
    }
    let word = *image.get(plan.functions().location(image, wanted) as usize)?;
    (key(word) == wanted).then_some(word as u32)
}

/// Builds an image of these pairs. The sentinel key counts as a duplicate: it does not have a slot.
pub(crate) fn place(functions: &Functions, image: &mut [u64], pairs: &[(u32, u32)]) -> Placing {
    image[..functions.slots as usize].fill(EMPTY);
    image[functions.slots as usize..].fill(0);
    let mut least_duplicate = None;
    let mut cells: BTreeMap<u32, BTreeMap<u32, u32>> = BTreeMap::new();
    for &(key, value) in pairs {
        let points = cells.entry(functions.home(key).0).or_default();
        if key == EMPTY_KEY || points.contains_key(&key) {
            least_duplicate = Some(least_duplicate.map_or(key, |least: u32| least.min(key)));
        }
        if key != EMPTY_KEY {
            points.entry(key).and_modify(|there| *there = value.max(*there)).or_insert(value);
        }
    }
    let mut cells: Vec<_> = cells.into_iter().filter(|(_, points)| !points.is_empty()).collect();
    cells.sort_by_key(|(cell, points)| (Reverse(points.len()), *cell));
    let mut offsets = BTreeMap::new();
    let mut left = functions.may_try(cells.iter().map(|(_, points)| points.len() as u64).sum());
    for (cell, points) in &cells {
        let bases: Vec<u32> = points.keys().map(|&key| functions.home(key).1).collect();
        let Some(offset) = first_offset(functions, image, &offsets, *cell, &bases, &mut left) else {
            return Placing::Unplaced;
        };
        offsets.insert(*cell, offset);
        image[functions.offset_word(*cell)] |= u64::from(offset) << (32 * (cell % 2));
        for ((&key, &value), &base) in points.iter().zip(&bases) {
            image[functions.slot(base, offset) as usize] = entry(key, value);
        }
    }
    least_duplicate.map_or(Placing::Placed, Placing::Duplicate)
}

/// The first offset that leads these points to different free slots.
fn first_offset(
    functions: &Functions,
    image: &[u64],
    offsets: &BTreeMap<u32, u32>,
    cell: u32,
    bases: &[u32],
    left: &mut u64,
) -> Option<u32> {
    let mut sorted = bases.to_vec();
    sorted.sort_unstable();
    if sorted.windows(2).any(|two| two[0] == two[1]) {
        return None;
    }
    let fits = |&offset: &u32| bases.iter().all(|&base| image[functions.slot(base, offset) as usize] == EMPTY);
    let near: Vec<u32> = functions.neighbours(cell).filter_map(|next| offsets.get(&next).copied()).collect();
    if let Some(offset) = near.iter().copied().find(fits) {
        return Some(offset);
    }
    let (mut row, x) = functions.row_of(near.first().copied().unwrap_or_else(|| functions.drawn(cell)));
    let side = functions.side.n;
    for _ in 0..functions.rows() {
        for x in (x..side).chain(0..x) {
            *left = left.checked_sub(bases.len() as u64)?;
            let offset = functions.offset_at(row, x);
            if fits(&offset) {
                return Some(offset);
            }
        }
        row = functions.next_row(row);
    }
    None
}

/// Checks that every pair is in the slot that a lookup reads, and every offset is below M in each axis. Offsets are not
/// cells; they are distributed over the slots, so that ranges that cover all slots cover them too.
///
/// Not checked: whether an offset is the first that is possible, and offsets of cells without points. Only a build
/// checks them.
pub(crate) fn audit(functions: &Functions, image: &[u64], range: Range<u64>) -> Result<Audit, Violation> {
    let mut audit = Audit::default();
    let slots = u64::from(functions.slots);
    let offset_words = (image.len() as u64).saturating_sub(slots);
    let share = |slot: u64| slots + offset_words * slot / slots;
    for slot in range.clone() {
        let word = image[slot as usize];
        let Some((key, _)) = pair(word) else {
            if word != EMPTY {
                return Err(Violation::Word { slot, word });
            }
            continue;
        };
        if u64::from(functions.location(image, key)) != slot {
            return Err(Violation::Misplaced { slot, key: key.into() });
        }
        audit.pairs += 1;
        audit.greatest_age = 1;
    }
    for at in share(range.start)..share(range.end) {
        let word = image[at as usize];
        let first = 2 * (at - slots) as u32;
        let is_sound = |cell: u32| {
            let offset = half(word, cell);
            if cell < functions.cells { functions.is_offset(offset) } else { offset == 0 }
        };
        if !is_sound(first) || !is_sound(first + 1) {
            return Err(Violation::Word { slot: at, word });
        }
    }
    Ok(audit)
}
