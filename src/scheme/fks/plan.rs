//! The integers that define the meaning of a two-level image. Files and digests contain their bytes.

use bytemuck::NoUninit;

use super::{BUCKET_PAIRS, BUCKET_SLOTS, Fks, FksFamily, Functions, SEEDS_OF_WORD};
use crate::scheme::head::{head, outside};
use crate::scheme::stored::{equal_to_planned, known, stored};
use crate::scheme::{Kind, Plan, Salt, Scheme};

/// The integers that determine a two-level image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, NoUninit)]
#[repr(C)]
pub struct FksPlan {
    pub(super) kind: u32,
    pub(super) family: u32,
    pub(super) buckets: u32,
    pub(super) iterations: u32,
    pub(super) attempt: u32,
    pub(super) outside: u32,
    pub(super) outside_value: u32,
    pub(super) reserved: u32,
    pub(super) seed: u64,
    pub(super) salt: Salt,
}

impl FksPlan {
    /// The functions with their constants.
    pub fn functions(&self) -> Functions {
        Functions::new(self)
    }

    /// The number of buckets.
    pub fn buckets(&self) -> u32 {
        self.buckets
    }

    /// The hash family.
    pub fn family(&self) -> FksFamily {
        FksFamily::ALL[self.family as usize % FksFamily::ALL.len()]
    }

    /// Rounds through the three sub-tables under one seed number (classic; 0 in canonical tables).
    pub fn iterations(&self) -> u32 {
        self.iterations
    }

    /// The plan, if its fields are valid together.
    pub(super) fn checked(self) -> std::result::Result<Self, String> {
        known("kind", self.kind, &Kind::ALL)?;
        known("hash family", self.family, &FksFamily::ALL)?;
        equal_to_planned(&Fks::from_plan(&self), self, 0)
    }
}

impl Plan for FksPlan {
    type Key = u32;
    type Value = u32;

    head!(kind);
    outside!(classic);
    stored!(Fks, salted, [kind, family, buckets, iterations, attempt, outside, outside_value, reserved, seed]);

    fn slots(&self) -> u64 {
        u64::from(self.buckets) * u64::from(BUCKET_SLOTS)
    }
    fn capacity(&self) -> u64 {
        u64::from(self.buckets) * u64::from(BUCKET_PAIRS)
    }
    fn words(&self) -> u64 {
        self.slots() + u64::from(self.buckets.div_ceil(SEEDS_OF_WORD))
    }
}
