//! The integers that define the meaning of an image. Files and digests contain their bytes.

use std::marker::PhantomData;

use bytemuck::NoUninit;

use super::functions::WalkFunctions;
use crate::scheme::bucketized::wide::Layout;
use crate::scheme::robin_hood::{RobinHood, Sequence, sizes};
use crate::scheme::slot_lists::plan_of_slot_lists;
use crate::scheme::stored::{MOST_STORED, known};
use crate::scheme::{Plan, Request, Scheme};

/// The integers that determine a Robin Hood image of 64-bit keys or values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RobinHoodLinePlan<L: Layout> {
    numbers: Numbers,
    layout: PhantomData<L>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, NoUninit)]
#[repr(C)]
struct Numbers {
    sequence: u32,
    /// The slots of attempt 0: a prime.
    base: u32,
    /// The slots of this attempt: a prime.
    slots: u32,
    attempt: u32,
    seed: u64,
}
const _: () = assert!(size_of::<Numbers>() <= MOST_STORED);

impl<L: Layout> RobinHoodLinePlan<L> {
    /// The number of such tables in files and digests: that of the scheme, and the types of keys and values.
    pub const ID: u32 = RobinHood::ID | L::CODE << 16;

    pub(super) fn new(sequence: Sequence, base: u32, slots: u32, request: &Request) -> Self {
        let &Request { seed, attempt, .. } = request;
        let numbers = Numbers { sequence: sequence as u32, base, slots, attempt, seed };
        RobinHoodLinePlan { numbers, layout: PhantomData }
    }

    /// The places of a key.
    pub fn sequence(&self) -> Sequence {
        Sequence::ALL[self.numbers.sequence as usize % Sequence::ALL.len()]
    }

    /// The number of slots, a prime that fits 31 bits.
    pub fn slot_count(&self) -> u32 {
        self.numbers.slots
    }

    /// The number of lines of 64 bytes.
    pub fn lines(&self) -> u32 {
        self.numbers.slots.div_ceil(L::SLOTS as u32)
    }

    /// The lists with their constants.
    pub fn functions(&self) -> WalkFunctions<L::Key> {
        WalkFunctions::new(self)
    }
}

impl<L: Layout> Plan for RobinHoodLinePlan<L> {
    type Key = L::Key;
    type Value = L::Value;

    fn stored(&self) -> &[u8] {
        bytemuck::bytes_of(&self.numbers)
    }
    fn of_stored(scheme: u32, stored: &[u8]) -> Result<Self, String> {
        if scheme != Self::ID {
            return Err(format!("its plan is of scheme number {scheme}, not of {}", Self::ID));
        }
        let (numbers, []) = stored.as_chunks::<4>() else { return Err("its plan has the wrong length".into()) };
        let &[sequence, base, slots, attempt, low, high] = numbers else {
            return Err("its plan has the wrong length".into());
        };
        let [sequence, base, slots, attempt, low, high] =
            [sequence, base, slots, attempt, low, high].map(u32::from_le_bytes);
        known("probe sequence", sequence, &Sequence::ALL)?;
        let seed = u64::from(high) << 32 | u64::from(low);
        let request = Request { slots: base.into(), pairs: 0, seed, attempt };
        if sizes(&request).map_err(|error| error.to_string())? != (base, slots) {
            return Err(format!("no table of its scheme has {slots} slots at attempt {attempt}"));
        }
        Ok(RobinHoodLinePlan::new(Sequence::ALL[sequence as usize], base, slots, &request))
    }
    fn requested_slots(&self) -> u64 {
        self.numbers.base.into()
    }
    plan_of_slot_lists!();
}
