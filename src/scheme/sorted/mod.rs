//! The sorted array: the baseline that hash tables are measured against (Alcantara 2011, Section 4.5.1).
//!
//! ```text
//! image = [key][value] of all pairs, ascending by key; words after the last pair are 0
//! place = sort;   find = binary search (`search.rs`)
//! ```
//!
//! The plan contains the number of pairs, so there is no marker for empty words, and every key is valid. There are no
//! constants and no attempts: a build succeeds if there are enough slots. The default load is 1.
//!
//! The image is canonical, because a set has one ascending order. A batch rebuilds it; values are overwritten in place.
//!
//! A lookup reads about log2(pairs) words; this is not a search tree with a cache-friendly layout.
//!
//! Pairs of 64-bit keys or values do not fit into a word, and are stored in two columns (`wide/`).

mod plan;
pub(crate) mod search;
pub(crate) mod wide;

pub use plan::SortedPlan;
pub use wide::{ColumnsPlan, SortedOf};

use std::ops::Range;

use self::search::{find, key, steps, word};
use super::{Audit, Kind, Load, Placing, Plan, Request, Scheme, Updates, Violation};
use crate::error::{Error, Result};

/// A sorted array of pairs, searched by bisection. It has no parameters.
///
/// ```
/// use koel::{Cpu, HashTable, Sorted};
/// let table = HashTable::builder(Sorted).build(&Cpu::new(), &[9, 0, 7], &[1, 2, 3])?;
/// assert_eq!(table.to_pairs()?, [(0, 2), (7, 3), (9, 1)]);
/// # Ok::<(), koel::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Sorted;

/// The words that contain pairs. The number in the plan is limited by the length of the image.
fn pairs<'a>(plan: &SortedPlan, image: &'a [u64]) -> &'a [u64] {
    &image[..image.len().min(plan.pairs as usize)]
}

impl Scheme for Sorted {
    const NAME: &'static str = "sorted";
    const ID: u32 = 6;
    const KINDS: &'static [Kind] = &[Kind::Canonical];
    type Key = u32;
    type Value = u32;
    type Plan = SortedPlan;

    fn updates(&self) -> Updates {
        Updates::Rebuild
    }

    fn of_kind(_: Kind) -> Self {
        Sorted
    }

    fn default_load(&self) -> Load {
        Load::from_millionths(1_000_000)
    }

    /// If there are more pairs than slots, the plan has as many as there are slots: duplicates are detected later.
    fn plan(&self, request: Request) -> Result<SortedPlan> {
        let slots = u32::try_from(request.slots).map_err(|_| Error::TooLarge {
            what: "slots of a sorted table",
            requested: request.slots,
            most: u64::from(u32::MAX),
        })?;
        let slots = slots.max(1);
        Ok(SortedPlan {
            kind: Kind::Canonical.code(),
            slots,
            pairs: u32::try_from(request.pairs).map_or(slots, |pairs| pairs.min(slots)),
            reserved: 0,
            seed: request.seed,
        })
    }

    fn from_plan(_: &SortedPlan) -> Self {
        Sorted
    }

    fn find(plan: &SortedPlan, image: &[u64], key: u32) -> Option<u32> {
        let words = pairs(plan, image);
        find(words, key).map(|at| words[at] as u32)
    }

    /// One word per step and the last word, for every key.
    fn reads(plan: &SortedPlan, image: &[u64], _: u32) -> u32 {
        let words = pairs(plan, image);
        if words.is_empty() { 0 } else { steps(words.len()) + 1 }
    }

    fn pair(plan: &SortedPlan, image: &[u64], at: u64) -> Option<(u32, u32)> {
        let word = *pairs(plan, image).get(usize::try_from(at).ok()?)?;
        Some((key(word), word as u32))
    }

    /// The image must not be used if the number of pairs is not that of the plan, or if there are duplicates, which are
    /// adjacent.
    fn place(plan: &SortedPlan, image: &mut [u64], pairs: &[(u32, u32)]) -> Placing {
        if pairs.len() != plan.pairs as usize || pairs.len() > image.len() {
            return Placing::Unplaced;
        }
        let mut sorted = pairs.to_vec();
        sorted.sort_by_key(|&(key, _)| key);
        image.fill(plan.empty_word());
        image.iter_mut().zip(&sorted).for_each(|(to, &(key, value))| *to = word(key, value));
        let least = sorted.array_windows().find(|[(first, _), (second, _)]| first == second);
        least.map_or(Placing::Placed, |[(key, _), _]| Placing::Duplicate(*key))
    }

    /// Checks that keys are strictly ascending, and that zeros follow.
    fn audit(plan: &SortedPlan, image: &[u64], words: Range<u64>) -> std::result::Result<Audit, Violation> {
        let mut audit = Audit::default();
        for slot in words {
            let at = slot as usize;
            let word = image[at];
            if slot >= u64::from(plan.pairs) {
                if word != plan.empty_word() {
                    return Err(Violation::Word { slot, word });
                }
                continue;
            }
            if let Some(&before) = at.checked_sub(1).and_then(|before| image.get(before)) {
                if key(before) == key(word) {
                    return Err(Violation::Twice { slot, other: slot - 1, key: key(word).into() });
                }
                if key(before) > key(word) {
                    return Err(Violation::Unsorted { bucket: slot });
                }
            }
            audit.pairs += 1;
            audit.greatest_age = 1;
        }
        Ok(audit)
    }

    /// The OpenCL sort needs the pairs twice; 256 counts for every tile of 4096 pairs and twice as many for each of at
    /// most 1024 chunks of tiles; and totals. The CPU sorts in the image, and needs at most 8 bytes per pair if many
    /// keys share their leading bits.
    fn scratch_bytes(plan: &SortedPlan, _: u64) -> u64 {
        let pairs = u64::from(plan.pairs);
        16 * pairs + counts_bytes(pairs)
    }
}

/// Bytes of the counts of the OpenCL sort of this many pairs.
pub(crate) fn counts_bytes(pairs: u64) -> u64 {
    let tiles = pairs.div_ceil(4096);
    1024 * (tiles + 2 * tiles.min(1024) + 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(slots: u64, pairs: u64) -> SortedPlan {
        Sorted.plan(Request { slots, pairs, seed: 3, attempt: 2 }).expect("a plan")
    }

    fn built(slots: u64, pairs: &[(u32, u32)]) -> (SortedPlan, Vec<u64>, Placing) {
        let plan = plan(slots, pairs.len() as u64);
        let mut image = vec![plan.empty_word(); plan.words() as usize];
        let placing = Sorted::place(&plan, &mut image, pairs);
        (plan, image, placing)
    }

    fn audit(plan: &SortedPlan, image: &[u64]) -> std::result::Result<Audit, Violation> {
        Sorted::audit(plan, image, 0..plan.words())
    }

    #[test]
    fn pairs_ascend_and_are_found() {
        let pairs = [(7, 1), (u32::MAX, 0), (0, u32::MAX), (8, 8), (0x8000_0000, 5)];
        for slots in [5, 6, 100] {
            let (plan, image, placing) = built(slots, &pairs);
            assert_eq!(placing, Placing::Placed);
            let keys: Vec<u32> = (0..slots).filter_map(|at| Sorted::pair(&plan, &image, at)).map(|p| p.0).collect();
            assert_eq!(keys, [0, 7, 8, 0x8000_0000, u32::MAX]);
            assert!(pairs.iter().all(|&(key, value)| Sorted::find(&plan, &image, key) == Some(value)));
            assert!([1, 6, 9, u32::MAX - 1].iter().all(|&key| Sorted::find(&plan, &image, key).is_none()));
            assert_eq!(audit(&plan, &image), Ok(Audit { pairs: 5, tombstones: 0, greatest_age: 1 }));
            assert_eq!(Sorted::reads(&plan, &image, 3), 4);
        }
    }

    #[test]
    fn empty_tables_have_a_slot() {
        let (plan, image, placing) = built(0, &[]);
        assert_eq!((plan.slots(), plan.pairs(), placing), (1, 0, Placing::Placed));
        // The word that fills the slot is also that of the pair (0, 0), which the table does not contain.
        assert_eq!((Sorted::find(&plan, &image, 0), Sorted::reads(&plan, &image, 0)), (None, 0));
        assert_eq!((Sorted::pair(&plan, &image, 0), Sorted::age(&plan, &image, 0)), (None, 0));
        let (plan, image, _) = built(2, &[(0, 0)]);
        assert_eq!((Sorted::find(&plan, &image, 0), Sorted::pair(&plan, &image, 1)), (Some(0), None));
    }

    #[test]
    fn the_least_duplicate_is_reported_and_too_many_pairs_are_refused() {
        assert_eq!(built(9, &[(5, 1), (3, 1), (5, 2), (3, 1), (9, 9)]).2, Placing::Duplicate(3));
        assert_eq!(built(2, &[(5, 1), (3, 1), (7, 2)]).2, Placing::Unplaced);
        let plan = plan(9, 3);
        assert_eq!(Sorted::place(&plan, &mut [0; 9], &[(1, 1)]), Placing::Unplaced, "not as the plan says");
    }

    #[test]
    fn the_audit_detects_every_kind_of_damage() {
        let (plan, image, _) = built(10, &[(7, 1), (3, 2), (9, 3), (12, 4)]);
        let damaged = |changes: &[(usize, u64)]| {
            let mut copy = image.clone();
            changes.iter().for_each(|&(at, word)| copy[at] = word);
            audit(&plan, &copy)
        };
        assert!(damaged(&[]).is_ok());
        assert_eq!(damaged(&[(4, 1)]), Err(Violation::Word { slot: 4, word: 1 }));
        assert_eq!(damaged(&[(2, word(7, 9))]), Err(Violation::Twice { slot: 2, other: 1, key: 7 }));
        assert_eq!(damaged(&[(3, word(1, 9))]), Err(Violation::Unsorted { bucket: 3 }));
        // Audits of parts check the order across the border between them.
        let mut copy = image;
        copy.swap(1, 2);
        assert_eq!(Sorted::audit(&plan, &copy, 2..10), Err(Violation::Unsorted { bucket: 2 }));
    }

    #[test]
    fn a_stored_plan_gives_its_parameters_back() {
        let good = plan(1000, 700);
        assert_eq!(good.checked(), Ok(good));
        assert_eq!((size_of::<SortedPlan>(), good.attempt(), good.seed()), (24, 0, 3));
        for bad in [
            SortedPlan { kind: 1, ..good },
            SortedPlan { kind: 9, ..good },
            SortedPlan { pairs: 1001, ..good },
            SortedPlan { slots: 0, ..good },
            SortedPlan { slots: 0, pairs: 0, ..good },
            SortedPlan { reserved: 1, ..good },
        ] {
            assert!(bad.checked().is_err(), "{bad:?}");
        }
        assert_eq!(plan(1000, u64::MAX).pairs(), 1000);
        let vast = Request { slots: 1 << 32, pairs: 1, seed: 0, attempt: 0 };
        assert!(matches!(Sorted.plan(vast), Err(Error::TooLarge { .. })));
    }
}
