//! The integers that define the meaning of a Robin Hood image. Files and digests contain their bytes.

use bytemuck::NoUninit;

use super::cell::{self, CellLayout};
use super::max_ages::MaxAges;
use super::{RobinHood, Rule, Sequence};
use crate::scheme::head::head;
use crate::scheme::stored::{equal_to_planned, known, stored};
use crate::scheme::{Kind, Plan, Scheme};

/// The integers that determine a Robin Hood image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, NoUninit)]
#[repr(C)]
pub struct RobinHoodPlan {
    pub(super) kind: u32,
    pub(super) sequence: u32,
    /// 1 if there are no values.
    pub(super) keys_alone: u32,
    /// Bits of a maximum age; 0 for none.
    pub(super) max_ages: u32,
    /// The slots of attempt 0: a prime.
    pub(super) base: u32,
    /// The slots of this attempt: a prime.
    pub(super) slots: u32,
    pub(super) attempt: u32,
    pub(super) reserved: u32,
    pub(super) seed: u64,
}

impl RobinHoodPlan {
    /// The parameters of this plan's passes.
    pub fn rule(&self) -> Rule {
        Rule::new(self)
    }

    /// The places of a key.
    pub fn sequence(&self) -> Sequence {
        Sequence::ALL[self.sequence as usize % Sequence::ALL.len()]
    }

    /// The layout of a cell.
    pub fn layout(&self) -> CellLayout {
        match (self.kind(), self.keys_alone) {
            (Kind::Canonical, _) => cell::CANONICAL,
            (_, 0) => cell::PAIRS,
            _ => cell::KEYS,
        }
    }

    /// The place and the encoding of the maximum ages.
    pub fn max_ages(&self) -> MaxAges {
        MaxAges::of(self.kind(), self.max_ages)
    }

    /// Bits of a maximum age; 0 for none.
    pub fn max_ages_bits(&self) -> u32 {
        self.max_ages
    }

    /// Whether there are no values.
    pub fn keys_alone(&self) -> bool {
        self.keys_alone != 0
    }

    /// The number of slots, a prime that fits 31 bits.
    pub fn slot_count(&self) -> u32 {
        self.slots
    }

    /// The plan, if its fields are valid together.
    pub(super) fn checked(self) -> std::result::Result<Self, String> {
        known("kind", self.kind, &Kind::ALL)?;
        known("probe sequence", self.sequence, &Sequence::ALL)?;
        equal_to_planned(&RobinHood::from_plan(&self), self, 0)
    }
}

impl Plan for RobinHoodPlan {
    type Key = u32;
    type Value = u32;

    head!(kind);
    stored!(RobinHood, [kind, sequence, keys_alone, max_ages, base, slots, attempt, reserved, seed]);

    fn slots(&self) -> u64 {
        u64::from(self.slots)
    }
    fn requested_slots(&self) -> u64 {
        u64::from(self.base)
    }
    fn words(&self) -> u64 {
        self.layout().words(self.slots()) + self.max_ages().words(self.slots())
    }
    fn cells(&self) -> u64 {
        self.slots()
    }
    fn empty_word(&self) -> u64 {
        cell::EMPTY
    }
}
