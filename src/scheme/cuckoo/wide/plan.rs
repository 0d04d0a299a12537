//! The integers that define the meaning of an image of slots in lines. Files and digests contain their bytes.

use std::marker::PhantomData;

use bytemuck::NoUninit;

use super::functions::SlotFunctions;
use crate::scheme::bucketized::wide::Layout;
use crate::scheme::cuckoo::MAX_FUNCTIONS;
use crate::scheme::slot_lists::plan_of_slot_lists;
use crate::scheme::stored::MOST_STORED;
use crate::scheme::{Cuckoo, FIRST_SALTED, Plan, Salt, Scheme, slot};

/// The integers that determine a canonical cuckoo image of 64-bit keys or values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CuckooLinePlan<L: Layout> {
    numbers: Numbers,
    layout: PhantomData<L>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, NoUninit)]
#[repr(C)]
struct Numbers {
    functions: u32,
    slots: u32,
    attempt: u32,
    reserved: u32,
    seed: u64,
    salt: Salt,
}

/// The number of bytes of a plan without its salt.
const STORED: usize = std::mem::offset_of!(Numbers, salt);
const _: () = assert!(STORED <= MOST_STORED && STORED + Salt::BYTES == size_of::<Numbers>());

impl<L: Layout> CuckooLinePlan<L> {
    /// The number of such tables in files and digests: that of the scheme, and the types of keys and values.
    pub const ID: u32 = Cuckoo::ID | L::CODE << 16;

    pub(super) fn new(functions: u32, slots: u32, seed: u64, attempt: u32) -> Self {
        let numbers = Numbers { functions, slots, attempt, reserved: 0, seed, salt: Salt::NONE };
        CuckooLinePlan { numbers, layout: PhantomData }
    }

    /// H.
    pub fn function_count(&self) -> u32 {
        self.numbers.functions
    }

    /// The number of slots, which always fits 32 bits.
    pub fn slot_count(&self) -> u32 {
        self.numbers.slots
    }

    /// The number of lines of 64 bytes.
    pub fn lines(&self) -> u32 {
        self.numbers.slots.div_ceil(L::SLOTS as u32)
    }

    /// The functions with their constants.
    pub fn functions(&self) -> SlotFunctions<L::Key> {
        SlotFunctions::new(self)
    }
}

impl<L: Layout> Plan for CuckooLinePlan<L> {
    type Key = L::Key;
    type Value = L::Value;

    fn stored(&self) -> &[u8] {
        &bytemuck::bytes_of(&self.numbers)[..STORED]
    }
    fn of_stored(scheme: u32, stored: &[u8]) -> Result<Self, String> {
        if scheme != Self::ID {
            return Err(format!("its plan is of scheme number {scheme}, not of {}", Self::ID));
        }
        let (numbers, []) = stored.as_chunks::<4>() else { return Err("its plan has the wrong length".into()) };
        let &[functions, slots, attempt, reserved, low, high] = numbers else {
            return Err("its plan has the wrong length".into());
        };
        let [functions, slots, attempt, reserved, low, high] =
            [functions, slots, attempt, reserved, low, high].map(u32::from_le_bytes);
        if !(2..=MAX_FUNCTIONS as u32).contains(&functions) || slots < slot::MIN_BUCKETS || reserved != 0 {
            return Err(format!("no table of its scheme has {slots} slots and {functions} functions"));
        }
        Ok(CuckooLinePlan::new(functions, slots, u64::from(high) << 32 | u64::from(low), attempt))
    }
    fn takes_salt(&self) -> bool {
        true
    }
    fn salt(&self) -> Option<Salt> {
        Some(self.numbers.salt).filter(|&salt| salt != Salt::NONE)
    }
    fn with_salt(self, salt: Option<Salt>) -> Self {
        let salt = salt.filter(|_| self.numbers.attempt >= FIRST_SALTED).unwrap_or(Salt::NONE);
        CuckooLinePlan { numbers: Numbers { salt, ..self.numbers }, ..self }
    }
    plan_of_slot_lists!();
}
