//! The integers that define the meaning of a bucketized image. Files and digests contain their bytes.

use bytemuck::NoUninit;

use super::{Bucketized, Functions, Insertion, LookupMode};
use crate::scheme::head::{head, outside};
use crate::scheme::stored::{equal_to_planned, known, stored};
use crate::scheme::{Kind, Plan, Salt, Scheme};

/// The integers that determine a bucketized image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, NoUninit)]
#[repr(C)]
pub struct BucketizedPlan {
    pub(super) kind: u32,
    pub(super) bucket_slots: u32,
    pub(super) buckets: u32,
    pub(super) functions: u32,
    pub(super) insertion: u32,
    pub(super) mode: u32,
    pub(super) reach: u32,
    pub(super) attempt: u32,
    pub(super) outside: u32,
    pub(super) outside_value: u32,
    pub(super) seed: u64,
    pub(super) salt: Salt,
}

impl BucketizedPlan {
    /// The functions with their constants.
    pub fn functions(&self) -> Functions {
        Functions::new(self)
    }

    /// f: the number of buckets of a key.
    pub fn function_count(&self) -> u32 {
        self.functions
    }

    /// The number of buckets.
    pub fn buckets(&self) -> u32 {
        self.buckets
    }

    /// The bucket for a new pair (classic).
    pub fn insertion(&self) -> Insertion {
        Insertion::ALL[self.insertion as usize % Insertion::ALL.len()]
    }

    /// The lookup mode (classic).
    pub fn lookup_mode(&self) -> LookupMode {
        LookupMode::ALL[self.mode as usize % LookupMode::ALL.len()]
    }

    /// The maximum number of buckets that are visited in search of a free slot for one pair (classic).
    pub fn reach(&self) -> u32 {
        self.reach
    }

    /// The words of a bucket.
    pub(super) fn bucket<'a>(&self, image: &'a [u64], bucket: u32) -> &'a [u64] {
        let slots = self.bucket_slots as usize;
        &image[bucket as usize * slots..][..slots]
    }

    /// The words of a bucket, mutable.
    pub(super) fn bucket_mut<'a>(&self, image: &'a mut [u64], bucket: u32) -> &'a mut [u64] {
        let slots = self.bucket_slots as usize;
        &mut image[bucket as usize * slots..][..slots]
    }

    /// The plan, if its fields are valid together.
    pub(super) fn checked(self) -> std::result::Result<Self, String> {
        known("kind", self.kind, &Kind::ALL)?;
        known("insertion policy", self.insertion, &Insertion::ALL)?;
        known("lookup mode", self.mode, &LookupMode::ALL)?;
        equal_to_planned(&Bucketized::from_plan(&self), self, 0)
    }
}

impl Plan for BucketizedPlan {
    type Key = u32;
    type Value = u32;

    head!(kind);
    outside!(classic);
    stored!(
        Bucketized,
        salted,
        [kind, bucket_slots, buckets, functions, insertion, mode, reach, attempt, outside, outside_value, seed]
    );

    fn slots(&self) -> u64 {
        u64::from(self.buckets) * u64::from(self.bucket_slots)
    }
    fn bucket_slots(&self) -> u32 {
        self.bucket_slots
    }
}
