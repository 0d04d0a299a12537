//! The integers that define the meaning of a cuckoo image. Files and digests contain their bytes.

use bytemuck::NoUninit;

use super::{Cuckoo, Functions, HashFamily, Reinsertion};
use crate::scheme::head::{head, outside};
use crate::scheme::stored::{equal_to_planned, known, stored};
use crate::scheme::{Kind, Plan, Salt, Scheme};

/// The integers that determine a cuckoo image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, NoUninit)]
#[repr(C)]
pub struct CuckooPlan {
    pub(super) kind: u32,
    pub(super) functions: u32,
    pub(super) family: u32,
    pub(super) reinsertion: u32,
    pub(super) slots: u32,
    pub(super) chain: u32,
    pub(super) attempt: u32,
    pub(super) outside: u32,
    pub(super) outside_value: u32,
    pub(super) reserved: u32,
    pub(super) seed: u64,
    pub(super) salt: Salt,
}

impl CuckooPlan {
    /// A canonical table in which each key has a single slot. No [`Cuckoo`] has such a plan.
    pub(in crate::scheme) fn of_one_function(slots: u32, seed: u64, attempt: u32, salt: Salt) -> CuckooPlan {
        CuckooPlan {
            kind: Kind::Canonical.code(),
            functions: 1,
            family: HashFamily::Mixer as u32,
            reinsertion: Reinsertion::SkipSameSlot as u32,
            slots,
            chain: 0,
            attempt,
            outside: 0,
            outside_value: 0,
            reserved: 0,
            seed,
            salt,
        }
    }

    /// The functions with their constants.
    pub fn functions(&self) -> Functions {
        Functions::new(self)
    }

    /// H.
    pub fn function_count(&self) -> u32 {
        self.functions
    }

    /// The hash family.
    pub fn family(&self) -> HashFamily {
        HashFamily::ALL[self.family as usize % HashFamily::ALL.len()]
    }

    /// The rule of re-insertion, which only classic tables use.
    pub fn reinsertion(&self) -> Reinsertion {
        Reinsertion::ALL[self.reinsertion as usize % Reinsertion::ALL.len()]
    }

    /// The maximum number of swaps of a chain (classic).
    pub fn chain(&self) -> u32 {
        self.chain
    }

    /// The number of slots, which always fits 32 bits.
    pub fn slot_count(&self) -> u32 {
        self.slots
    }

    /// The plan, if its fields are valid together.
    pub(super) fn checked(self) -> std::result::Result<Self, String> {
        known("kind", self.kind, &Kind::ALL)?;
        known("hash family", self.family, &HashFamily::ALL)?;
        known("re-insertion rule", self.reinsertion, &Reinsertion::ALL)?;
        let chain = (self.kind() == Kind::Classic).then_some(self.chain);
        equal_to_planned(&Cuckoo { chain, ..Cuckoo::from_plan(&self) }, self, 0)
    }
}

impl Plan for CuckooPlan {
    type Key = u32;
    type Value = u32;

    head!(kind);
    outside!(classic);
    stored!(
        Cuckoo,
        salted,
        [kind, functions, family, reinsertion, slots, chain, attempt, outside, outside_value, reserved, seed]
    );

    fn slots(&self) -> u64 {
        u64::from(self.slots)
    }
}
