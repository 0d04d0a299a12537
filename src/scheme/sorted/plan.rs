//! The integers that define the meaning of a sorted image. Files and digests contain their bytes.

use bytemuck::NoUninit;

use super::Sorted;
use crate::error::{Error, Result};
use crate::scheme::stored::{equal_to_planned, stored};
use crate::scheme::{Kind, Plan};

/// The integers that determine a sorted image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, NoUninit)]
#[repr(C)]
pub struct SortedPlan {
    pub(super) kind: u32,
    pub(super) slots: u32,
    pub(super) pairs: u32,
    pub(super) reserved: u32,
    pub(super) seed: u64,
}

impl SortedPlan {
    /// The number of pairs, which are in the first words of the image.
    pub fn pairs(&self) -> u32 {
        self.pairs
    }

    /// The number of slots, which always fits 32 bits.
    pub fn slot_count(&self) -> u32 {
        self.slots
    }

    /// The number of `pairs` beyond the slots. If all fit, their number must be the one that this plan was created for.
    pub(crate) fn pairs_beyond(&self, pairs: usize) -> Result<u64> {
        pairs_beyond(self.slots, self.pairs, pairs)
    }

    /// The plan, if its fields are valid together.
    pub(super) fn checked(self) -> std::result::Result<Self, String> {
        if self.kind != Kind::Canonical.code() {
            return Err(format!("sorted tables are canonical, and its kind is {}", self.kind));
        }
        equal_to_planned(&Sorted, self, self.pairs.into())
    }
}

/// The number of `pairs` beyond the slots. If all fit, their number must be the planned one.
pub(super) fn pairs_beyond(slots: u32, planned: u32, pairs: usize) -> Result<u64> {
    let beyond = (pairs as u64).saturating_sub(slots.into());
    if beyond == 0 {
        Error::check_length("the keys", pairs, planned as usize)?;
    }
    Ok(beyond)
}

impl Plan for SortedPlan {
    type Key = u32;
    type Value = u32;

    stored!(Sorted, [kind, slots, pairs, reserved, seed]);

    fn kind(&self) -> Kind {
        Kind::from_code(self.kind).unwrap_or_default()
    }
    fn slots(&self) -> u64 {
        u64::from(self.slots)
    }
    /// The word after the pairs. It is not a marker: a pair may have the same word.
    fn empty_word(&self) -> u64 {
        0
    }
    fn seed(&self) -> u64 {
        self.seed
    }
    /// There are no constants to draw, so there is one attempt.
    fn attempt(&self) -> u32 {
        0
    }
}
