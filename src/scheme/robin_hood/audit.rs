//! The validity of an image, cell by cell.
//!
//! ```text
//! each pair      is stored where its list leads at its age;  every earlier place has a stronger cell, with another key;
//!                its age is at most the bound of its home
//! each place     its code is at most what the ages of the keys of this home require
//! the rest       tombstones where they are allowed; nothing after the last cell and the last code
//! ```
//!
//! A duplicate would be found at the earlier place of the other one, so only earlier places are checked. Whether a code
//! is required can be checked at the few places where a key that requires it would be stored: the places of this home
//! at the ages that this code allows and the next lower code does not. A tombstone there is accepted, because it may
//! have been the key.
//!
//! If codes have replaced the ages, the audit is incomplete: a pair's age is then the first at which its list reaches
//! this place, and whether the earlier places were stronger is unknown.

use std::ops::Range;

use super::Rule;
use super::cell::{EMPTY, TOMBSTONE};
use super::max_ages::{Levels, MaxAges};
use crate::scheme::{Audit, Violation};

const TOO_LOW: &str = "its maximum age is below the age of a key whose home it is";
const TOO_HIGH: &str = "its maximum age is above what the keys whose home it is need";

impl Rule {
    /// Checks a range of cells of an image as long as its plan says.
    ///
    /// # Errors
    /// The first violation, cell by cell.
    pub fn audit(&self, image: &[u64], cells: Range<u64>) -> Result<Audit, Violation> {
        let slots = u64::from(self.functions.slots);
        let mut audit = Audit::default();
        for slot in cells.start..cells.end.min(slots) {
            let at = slot as u32;
            let cell = self.layout.get(image, at);
            match self.pair(at, cell) {
                Some((key, value)) => {
                    let age = self.audit_pair(image, at, cell, (key, value))?;
                    audit.pairs += 1;
                    audit.greatest_age = audit.greatest_age.max(age);
                }
                None if cell == EMPTY => {}
                None if cell == TOMBSTONE && !self.names_keys => audit.tombstones += 1,
                None => return Err(Violation::Word { slot, word: cell }),
            }
            self.audit_bound(image, at, cell)?;
        }
        if cells.end >= slots {
            self.audit_end(image)?;
        }
        Ok(audit)
    }

    /// The pair's age.
    fn audit_pair(&self, image: &[u64], at: u32, cell: u64, (key, value): (u32, u32)) -> Result<u32, Violation> {
        let slot = u64::from(at);
        let (home, name) = self.aim(key);
        let age = self.age(at, cell);
        let packed = matches!(self.max_ages, MaxAges::Packed(_));
        if age == 0 || self.functions.place(home, age) != at || name != self.layout.name(cell) {
            return Err(Violation::Misplaced { slot, key: key.into() });
        }
        for earlier in 1..age {
            let other = self.functions.place(home, earlier);
            let there = self.layout.get(image, other);
            let mine = self.layout.cell(earlier, name, value);
            let is_mine = there != EMPTY && self.layout.name(there) == name;
            if is_mine && (packed || self.layout.age(there) == earlier) {
                return Err(Violation::Twice { slot, other: u64::from(other), key: key.into() });
            }
            if there == EMPTY || !packed && there < mine {
                return Err(Violation::Blocking { slot, key: key.into(), age, earlier });
            }
        }
        if self.bound(image, home) < age {
            return Err(Violation::Bucket { bucket: u64::from(home), reason: TOO_LOW });
        }
        Ok(age)
    }

    /// Checks that a place's code is not greater than necessary.
    fn audit_bound(&self, image: &[u64], place: u32, cell: u64) -> Result<(), Violation> {
        let (levels, code, least) = match self.max_ages {
            MaxAges::None => return Ok(()),
            MaxAges::Array(levels) => (levels, self.code(&levels, image, place), 0),
            MaxAges::Packed(_) if cell == EMPTY => return Ok(()),
            MaxAges::Packed(levels) => (levels, self.layout.age(cell), 1),
        };
        if !(least..=levels.last_code()).contains(&code) {
            return Err(Violation::Word { slot: u64::from(place), word: cell });
        }
        if code > least && !self.needs(&levels, image, place, code) {
            return Err(Violation::Bucket { bucket: u64::from(place), reason: TOO_HIGH });
        }
        Ok(())
    }

    /// Whether a key with this home is, or may have been, stored at an age that requires this code.
    fn needs(&self, levels: &Levels, image: &[u64], home: u32, code: u32) -> bool {
        (levels.bound(code - 1) + 1..=levels.bound(code)).any(|age| {
            let at = self.functions.place(home, age);
            let there = self.layout.get(image, at);
            match (self.max_ages, self.pair(at, there)) {
                (MaxAges::Packed(_), Some((key, _))) => self.aim(key).0 == home,
                (_, Some(_)) => self.layout.age(there) == age,
                (_, None) => there == TOMBSTONE && !self.names_keys,
            }
        })
    }

    /// Checks that nothing is stored after the last cell and after the last code.
    fn audit_end(&self, image: &[u64]) -> Result<(), Violation> {
        let slots = self.functions.slots;
        let word = (self.layout.words(u64::from(slots)) - 1) as usize;
        let nothing = |at: usize, rest: u64| match image.get(at) {
            Some(&word) if rest != 0 => Err(Violation::Word { slot: at as u64, word }),
            _ => Ok(()),
        };
        if self.layout.cell_bits() == 32 {
            // The number of slots is an odd prime, so the last word has an unused half.
            nothing(word, image.get(word).map_or(0, |word| word >> 32))?;
        }
        if let MaxAges::Array(levels) = self.max_ages {
            let codes = u64::from(levels.per_word());
            let used = levels.per_word() * levels.bits;
            for (at, &word) in image.iter().enumerate().skip(slots as usize) {
                let before = (at - slots as usize) as u64 * codes;
                let codes_here = (u64::from(slots).saturating_sub(before)).min(codes) as u32;
                let bits = (codes_here * levels.bits).min(used);
                nothing(at, word.checked_shr(bits).unwrap_or(0))?;
            }
        }
        Ok(())
    }
}
