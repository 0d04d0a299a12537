//! Reading an image: searching for a key, decoding a cell, and the audit.
//!
//! ```text
//! search(key)   home line: found if a word has age 1 and the key's remainder
//!               otherwise by the entry of the key's tag:
//!                   0   absent
//!                   R   found if a word of age R + 1 in the guest bucket has the remainder, otherwise absent
//!                   14  as in a canonical bucketized table: the stash
//! ```
//!
//! Ages are compared together with the remainders. The remainders of one bucket have few values, so guests that were
//! placed by other functions often have equal remainders.

use std::ops::Range;

use super::SignpostPlan;
use super::functions::SignpostFunctions;
use super::post::{self, FUNCTIONS, Posts, STASH};
use crate::scheme::bucketized::wide::{Layout, canonical, lines, pair};
use crate::scheme::slot::EMPTY;
use crate::scheme::{Audit, Plan, Violation};

/// A plan and its image, split into sections.
pub(crate) struct Reader<'a, L: Layout> {
    plan: SignpostPlan<L>,
    functions: SignpostFunctions<L::Key>,
    lines: &'a [[u64; 8]],
    behind: &'a [u64],
    stash: &'a [u64],
}

impl<'a, L: Layout> Reader<'a, L> {
    /// Reads an image whose length matches the plan.
    pub(crate) fn new(plan: &SignpostPlan<L>, image: &'a [u64]) -> Self {
        let (stash, behind) = plan.sections();
        Reader {
            plan: *plan,
            functions: plan.functions(),
            lines: lines(image.get(..stash).unwrap_or_default()),
            stash: image.get(stash..behind).unwrap_or_default(),
            behind: image.get(behind..).unwrap_or_default(),
        }
    }

    /// The entry of a tag.
    fn entry(&self, bucket: u32, tag: u32) -> u32 {
        if self.functions.posts == Posts::Behind {
            let (word, shift) = post::behind::<L>(bucket, tag);
            return self.behind.get(word).map_or(0, |word| (word >> shift) as u32 & 15);
        }
        self.lines.get(bucket as usize).map_or(0, |line| post::entry_in::<L>(self.functions.posts, line, tag))
    }

    /// The word of a slot, without entries.
    fn word(&self, bucket: u32, slot: usize) -> u64 {
        let of_pair = self.functions.fields.of_pair::<L::Key>();
        self.lines.get(bucket as usize).map_or(EMPTY, |line| L::word(line, slot) & of_pair)
    }

    /// The slot of a bucket that contains a word.
    fn slot_of(&self, bucket: u32, word: u64) -> Option<usize> {
        (0..L::SLOTS).find(|&slot| self.word(bucket, slot) == word)
    }

    /// The number of lines read, and the cell of the key. Entries after the lines are not counted.
    pub(crate) fn search(&self, key: L::Key) -> (u32, Option<u64>) {
        let (functions, fields) = (&self.functions, self.functions.fields);
        let (home, remainder) = functions.home(key);
        let cell = |bucket: u32, slot| u64::from(bucket) * L::SLOTS as u64 + slot as u64;
        if let Some(slot) = self.slot_of(home, fields.word(1, remainder)) {
            return (1, Some(cell(home, slot)));
        }
        let tag = fields.tag(remainder);
        match self.entry(home, tag) {
            entry @ 1..=FUNCTIONS => {
                let Some(bucket) = functions.guest(home, tag, entry) else { return (1, None) };
                let slot = self.slot_of(bucket, fields.word(entry + 1, remainder));
                (2, slot.map(|slot| cell(bucket, slot)))
            }
            STASH => {
                let (reads, place) = canonical::search::<L>(&functions.stash, self.stash, key);
                let first = self.lines.len() as u32;
                (1 + reads, place.map(|(bucket, slot)| cell(first + bucket as u32, slot)))
            }
            _ => (1, None),
        }
    }

    /// The bucket of a cell, whether it is in the stash, and the slot.
    fn place(&self, cell: u64) -> (u32, bool, usize) {
        let (bucket, slot) = ((cell / L::SLOTS as u64) as usize, (cell % L::SLOTS as u64) as usize);
        match bucket.checked_sub(self.lines.len()) {
            Some(of_stash) => (of_stash as u32, true, slot),
            None => (bucket as u32, false, slot),
        }
    }

    /// The pair in a cell.
    pub(crate) fn pair(&self, cell: u64) -> Option<(L::Key, L::Value)> {
        let (bucket, in_stash, slot) = self.place(cell);
        if in_stash {
            return canonical::pair_in::<L>(&self.functions.stash, self.stash, bucket as usize, slot);
        }
        let line = self.lines.get(bucket as usize)?;
        let (_, key) = self.functions.pair_in(bucket, self.word(bucket, slot))?;
        Some((key, L::value(line, slot)))
    }

    /// 1 at home, R + 1 by function R, and 15 in the stash.
    pub(crate) fn age(&self, cell: u64) -> u32 {
        let (bucket, in_stash, slot) = self.place(cell);
        if in_stash {
            return if self.pair(cell).is_some() { STASH + 1 } else { 0 };
        }
        let word = self.word(bucket, slot);
        if self.functions.fields.is_pair::<L::Key>(word) { self.functions.fields.age::<L::Key>(word) } else { 0 }
    }

    /// Checks that lookups find all pairs in these cells, that every signpost leads to a pair, and that unused bits are
    /// not set. Does not check that the greatest offers were kept, or which keys had to go to the stash.
    ///
    /// # Errors
    /// The first violation.
    pub(crate) fn audit(&self, cells: Range<u64>) -> Result<Audit, Violation> {
        let slots = L::SLOTS as u64;
        let mut audit = Audit::default();
        for bucket in cells.start / slots..cells.end.div_ceil(slots) {
            let (at, in_stash, _) = self.place(bucket * slots);
            audit = audit.join(if in_stash { self.audit_stash(at)? } else { self.audit_line(at)? });
        }
        if cells.end == (self.lines.len() + self.stash.len() / 8) as u64 * slots {
            self.audit_size()?;
        }
        let first = post::behind::<L>(self.lines.len() as u32, 0);
        let rest = self.behind.get(first.0..).unwrap_or_default();
        if rest.iter().enumerate().any(|(i, &word)| (if i == 0 { word >> first.1 } else { word }) != 0) {
            return Err(Violation::Bucket {
                bucket: self.lines.len() as u64,
                reason: "the bytes after the signposts are not 0",
            });
        }
        Ok(audit)
    }

    /// Checks that the size of the stash is the one that its keys require.
    fn audit_size(&self) -> Result<(), Violation> {
        let stash = self.functions.stash.steps.buckets;
        let pairs = lines(self.stash).iter().flat_map(|line| (0..L::SLOTS).map(|slot| L::word(line, slot)));
        let keys = pairs.filter(|&word| word != EMPTY).count() as u64;
        if self.plan.with_stash(keys).stash_buckets() != stash {
            return Err(Violation::Bucket {
                bucket: self.lines.len() as u64,
                reason: "the size of the stash does not match its keys",
            });
        }
        Ok(())
    }

    fn audit_line(&self, bucket: u32) -> Result<Audit, Violation> {
        let (functions, fields) = (&self.functions, self.functions.fields);
        let broken = |reason| Err(Violation::Bucket { bucket: bucket.into(), reason });
        let cell = |slot: usize| u64::from(bucket) * L::SLOTS as u64 + slot as u64;
        let line = &self.lines[bucket as usize];
        let mut audit = Audit::default();
        let words: Vec<u64> = (0..L::SLOTS).map(|slot| self.word(bucket, slot)).collect();
        if !words.is_sorted_by(|a, b| a > b || (*a == EMPTY && *b == EMPTY)) {
            return Err(Violation::Unsorted { bucket: bucket.into() });
        }
        for (slot, &word) in words.iter().enumerate() {
            let Some((home, key)) = functions.pair_in(bucket, word) else {
                if word != EMPTY || L::value(line, slot) != L::Value::default() {
                    return Err(Violation::Word { slot: cell(slot), word });
                }
                continue;
            };
            let age = fields.age::<L::Key>(word);
            let (wanted, remainder) = functions.home(key);
            let led = age == 1 || self.entry(home, fields.tag(remainder)) == age - 1;
            if wanted != home || fields.word(age, remainder) != word || !led {
                return Err(Violation::Misplaced { slot: cell(slot), key: key.into() });
            }
            if let Some(other) = self.search(key).1.filter(|&other| other != cell(slot)) {
                return Err(Violation::Twice { slot: cell(slot), other, key: key.into() });
            }
            audit.pairs += 1;
            audit.greatest_age = audit.greatest_age.max(age);
        }
        let natives = words.iter().filter(|&&word| fields.age::<L::Key>(word) == 1).count();
        for tag in 0..1 << fields.tag_bits {
            let entry = self.entry(bucket, tag);
            if entry == 0 {
                continue;
            }
            if natives < L::SLOTS {
                return broken("it has signposts, and free slots for the keys that they redirect");
            }
            let Some(guest) = functions.guest(bucket, tag, entry).filter(|_| entry <= FUNCTIONS) else {
                if entry != STASH {
                    return broken("a signpost has the number of no function");
                }
                continue;
            };
            // One key has left by it, the least of its tag.
            let gone: Vec<L::Key> = (0..L::SLOTS)
                .map(|slot| self.word(guest, slot))
                .filter(|&word| fields.age::<L::Key>(word) == entry + 1)
                .map(|word| fields.remainder::<L::Key>(word))
                .filter(|&remainder| fields.tag(remainder) == tag)
                .collect();
            let [gone] = gone[..] else { return broken("a signpost redirects no key, or several keys") };
            let stay = words.iter().map(|&word| fields.remainder::<L::Key>(word));
            if stay.filter(|&remainder| fields.tag(remainder) == tag).any(|remainder| remainder <= gone) {
                return broken("a signpost redirects a key other than the least of its tag");
            }
        }
        if functions.posts != Posts::Spare && L::spare(line) != 0 {
            return broken("its spare bytes are not 0");
        }
        Ok(audit)
    }

    fn audit_stash(&self, bucket: u32) -> Result<Audit, Violation> {
        let slots = L::SLOTS as u64;
        let cells = u64::from(bucket) * slots..(u64::from(bucket) + 1) * slots;
        let mut audit = canonical::audit::<L>(&self.functions.stash, self.stash, cells)?;
        let first = self.lines.len() as u64 + u64::from(bucket);
        for slot in 0..slots {
            let Some((key, _)) = self.pair(first * slots + slot) else { continue };
            let cell = first * slots + slot;
            match self.search(key).1 {
                None => return Err(Violation::Misplaced { slot: cell, key: key.into() }),
                Some(other) if other != cell => return Err(Violation::Twice { slot: cell, other, key: key.into() }),
                Some(_) => audit.greatest_age = STASH + 1,
            }
        }
        if audit.tombstones > 0 {
            return Err(Violation::Bucket { bucket: first, reason: "a stash has no tombstones" });
        }
        Ok(audit)
    }
}

/// The value of a key.
pub(crate) fn find<L: Layout>(plan: &SignpostPlan<L>, image: &[u64], key: L::Key) -> Option<L::Value> {
    let reader = Reader::new(plan, image);
    let cell = reader.search(key).1?;
    let (bucket, in_stash, slot) = reader.place(cell);
    let lines = if in_stash { lines(reader.stash) } else { reader.lines };
    Some(pair::<L>(lines.get(bucket as usize)?, slot).1)
}
