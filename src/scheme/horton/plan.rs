//! The integers that define the meaning of a Horton image. Files and digests contain their bytes.

use bytemuck::NoUninit;

use super::{Functions, Horton, HortonFamily, tokens};
use crate::scheme::head::{head, outside};
use crate::scheme::stored::{equal_to_planned, known, stored};
use crate::scheme::{Kind, Plan, Salt, Scheme};

/// The integers that determine a Horton image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, NoUninit)]
#[repr(C)]
pub struct HortonPlan {
    pub(super) kind: u32,
    pub(super) bucket_slots: u32,
    pub(super) buckets: u32,
    pub(super) stash_buckets: u32,
    pub(super) tags: u32,
    pub(super) bits: u32,
    pub(super) family: u32,
    pub(super) height: u32,
    pub(super) attempt: u32,
    pub(super) outside: u32,
    pub(super) outside_value: u32,
    pub(super) reserved: u32,
    pub(super) seed: u64,
    pub(super) salt: Salt,
}

impl HortonPlan {
    /// The functions with their constants.
    pub fn functions(&self) -> Functions {
        Functions::new(self)
    }

    /// The number of buckets of the table, without the stash.
    pub fn buckets(&self) -> u32 {
        self.buckets
    }

    /// The number of buckets of the stash, which follow the table's (canonical; 0 in classic tables).
    pub fn stash_buckets(&self) -> u32 {
        self.stash_buckets
    }

    /// The number of remap entries of a Type B bucket.
    pub fn tags(&self) -> u32 {
        self.tags
    }

    /// The number of bits of a remap entry.
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// The hash family.
    pub fn family(&self) -> HortonFamily {
        HortonFamily::ALL[self.family as usize % HortonFamily::ALL.len()]
    }

    /// The depth, in moves, to which an insertion searches for a free slot (classic; 0 in canonical tables).
    pub fn height(&self) -> u32 {
        self.height
    }

    /// The secondary functions R_1 .. R_F: `2^bits - 1` in classic tables, one less in canonical ones.
    pub fn function_count(&self) -> u32 {
        let codes = (1 << self.bits.clamp(2, 4)) - 1;
        match self.kind() {
            Kind::Canonical => codes - 1,
            Kind::Classic => codes,
        }
    }

    /// The plan, if its fields are valid together.
    pub(super) fn checked(self) -> std::result::Result<Self, String> {
        known("kind", self.kind, &Kind::ALL)?;
        known("hash family", self.family, &HortonFamily::ALL)?;
        equal_to_planned(&Horton::from_plan(&self), self, 0)
    }
}

impl Plan for HortonPlan {
    type Key = u32;
    type Value = u32;

    head!(kind);
    outside!(tokens::EMPTY_KEY);
    stored!(
        Horton,
        salted,
        [
            kind,
            bucket_slots,
            buckets,
            stash_buckets,
            tags,
            bits,
            family,
            height,
            attempt,
            outside,
            outside_value,
            reserved,
            seed
        ]
    );

    fn slots(&self) -> u64 {
        u64::from(self.buckets) * u64::from(self.bucket_slots)
    }
    fn words(&self) -> u64 {
        (u64::from(self.buckets) + u64::from(self.stash_buckets)) * u64::from(self.bucket_slots)
    }
    fn bucket_slots(&self) -> u32 {
        self.bucket_slots
    }
    fn empty_word(&self) -> u64 {
        tokens::EMPTY
    }
}
