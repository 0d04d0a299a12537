//! The single-level cuckoo table (Alcantara et al. 2011): H functions give each key H slots; it is in one of them.
//!
//! ```text
//! canonical  slot = [age][remainder][value], `slot.rs`; a slot keeps the greatest word offered to it; the loser goes to its
//!            next function, one age older; past MAX_AGE the attempt has failed            (`canonical.rs`)
//! classic    slot = [key][value]; a pair is swapped in and carries on with what was there, round-robin through the
//!            functions, for at most `chain` swaps; then everything starts again with new constants      (`classic.rs`)
//! ```
//!
//! This file holds what both share: the parameters, the plan, and the functions.

pub mod canonical;
pub mod classic;

use std::ops::Range;

use bytemuck::{Pod, Zeroable};

use super::hash::{self, ALCANTARA_PRIME, Lane, MixKeys, SplitMix64, linear_family, xor_family};
use super::{Audit, Kind, Load, Placing, Plan, Request, Scheme, Violation, slot};
use crate::error::{Error, Result};

/// The most functions a table may have.
pub const MAX_FUNCTIONS: usize = 5;

/// Where a key's slots come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum HashFamily {
    /// Seeded bijective mixers, and a multiplication to reduce to the table (both kinds; the default).
    #[default]
    Mixer,
    /// `(a k + b) mod p mod m`, p = 334214459, in wrapping 32-bit arithmetic (Section 4.3.1.1; classic tables).
    Linear,
    /// `((a ^ k) + b) mod p mod m`, the paper's variant for some data sets (classic tables).
    Xor,
}

impl HashFamily {
    /// Every family.
    pub const ALL: [HashFamily; 3] = [HashFamily::Mixer, HashFamily::Linear, HashFamily::Xor];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        ["mixer", "linear", "xor"][self as usize]
    }
}

/// Where an evicted pair of a classic table goes (Section 4.3.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reinsertion {
    /// Listing 4.1: the function after the first one that points at the slot. When two functions of a key agree it never
    /// reaches the later ones, which matters in tables of a few hundred slots.
    AsPublished,
    /// The paper's first cure: on to the next function that does not point at the same slot.
    SkipSameSlot,
    /// The paper's second cure: a function picked at random (from key and chain length, so that runs repeat).
    RandomFunction,
}

impl Reinsertion {
    /// Every rule.
    pub const ALL: [Reinsertion; 3] =
        [Reinsertion::AsPublished, Reinsertion::SkipSameSlot, Reinsertion::RandomFunction];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        ["as-published", "skip-same-slot", "random-function"][self as usize]
    }
}

/// The parameters of a cuckoo table.
///
/// ```
/// use koel::{Cuckoo, HashFamily};
/// let canonical = Cuckoo::canonical(4);
/// let classic = Cuckoo::classic(4).family(HashFamily::Linear).chain(200);
/// assert_ne!(canonical, classic);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cuckoo {
    kind: Kind,
    functions: u32,
    family: HashFamily,
    reinsertion: Reinsertion,
    chain: Option<u32>,
}

impl Default for Cuckoo {
    fn default() -> Self {
        Cuckoo::canonical(4)
    }
}

impl Cuckoo {
    /// A canonical table with `functions` (2 to 5) places for each key.
    pub fn canonical(functions: u32) -> Self {
        Cuckoo {
            kind: Kind::Canonical,
            functions,
            family: HashFamily::Mixer,
            reinsertion: Reinsertion::SkipSameSlot,
            chain: None,
        }
    }

    /// The paper's table with `functions` (2 to 5) places for each key; mixers, and [`Reinsertion::SkipSameSlot`].
    pub fn classic(functions: u32) -> Self {
        Cuckoo { kind: Kind::Classic, ..Cuckoo::canonical(functions) }
    }

    /// The hash functions. Canonical tables need [`HashFamily::Mixer`], because a slot holds only the rest of a key.
    pub fn family(self, family: HashFamily) -> Self {
        Cuckoo { family, ..self }
    }

    /// Where evicted pairs go; it means nothing to canonical tables, which evict by the word alone.
    pub fn reinsertion(self, reinsertion: Reinsertion) -> Self {
        Cuckoo { reinsertion, ..self }
    }

    /// The most swaps one pair may cause before a classic build starts again; otherwise [`classic::default_chain`]. It means
    /// nothing to canonical tables.
    pub fn chain(self, swaps: u32) -> Self {
        Cuckoo { chain: Some(swaps), ..self }
    }

    /// The number of functions, H.
    pub fn functions(&self) -> u32 {
        self.functions
    }
}

/// The integers that fix a cuckoo image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct CuckooPlan {
    kind: u32,
    functions: u32,
    family: u32,
    reinsertion: u32,
    slots: u32,
    chain: u32,
    attempt: u32,
    outside: u32,
    outside_value: u32,
    reserved: u32,
    seed: u64,
}

impl CuckooPlan {
    /// The functions with their constants.
    pub fn functions(&self) -> Functions {
        Functions::new(self)
    }

    /// H.
    pub fn function_count(&self) -> u32 {
        self.functions
    }

    /// The family's number in OpenCL sources: its place in [`HashFamily::ALL`].
    pub fn family_code(&self) -> u32 {
        self.family
    }

    /// The rule's number in OpenCL sources: its place in [`Reinsertion::ALL`].
    pub fn reinsertion_code(&self) -> u32 {
        self.reinsertion
    }

    /// The most swaps a chain may have (classic).
    pub fn chain(&self) -> u32 {
        self.chain
    }

    /// Slots, which always fit 32 bits.
    pub fn slot_count(&self) -> u32 {
        self.slots
    }
}

impl Plan for CuckooPlan {
    fn kind(&self) -> Kind {
        Kind::from_code(self.kind).unwrap_or_default()
    }
    fn slots(&self) -> u64 {
        u64::from(self.slots)
    }
    fn words(&self) -> u64 {
        u64::from(self.slots)
    }
    fn empty_word(&self) -> u64 {
        match self.kind() {
            Kind::Canonical => slot::EMPTY,
            Kind::Classic => classic::EMPTY,
        }
    }
    fn seed(&self) -> u64 {
        self.seed
    }
    fn attempt(&self) -> u32 {
        self.attempt
    }
    fn outside(&self) -> Option<(u32, u32)> {
        (self.outside != 0).then_some((classic::EMPTY_KEY, self.outside_value))
    }
    fn with_outside(self, value: Option<u32>) -> Self {
        CuckooPlan { outside: u32::from(value.is_some()), outside_value: value.unwrap_or(0), ..self }
    }
}

/// The H functions of one plan, ready to compute with.
#[derive(Clone, Debug)]
pub struct Functions {
    /// Constants of each function: a mixer's keys, or the papers' `a` as `before` and `b` as `between`.
    pub keys: [MixKeys; MAX_FUNCTIONS],
    /// H.
    pub count: u32,
    /// Slots of the table.
    pub slots: u32,
    family: HashFamily,
    /// For each age the function it stands for, so that no division is needed.
    turn: [u8; 1 << slot::AGE_BITS],
}

impl Functions {
    fn new(plan: &CuckooPlan) -> Self {
        let count = plan.functions.clamp(1, MAX_FUNCTIONS as u32);
        let family = HashFamily::ALL[plan.family as usize % HashFamily::ALL.len()];
        let mut stream = SplitMix64::for_attempt(plan.seed, plan.attempt);
        let keys = std::array::from_fn(|_| match family {
            HashFamily::Mixer => stream.next_mix_keys(),
            HashFamily::Linear | HashFamily::Xor => family_constants(&mut stream),
        });
        let turn = std::array::from_fn(|age| (age as u32).saturating_sub(1).rem_euclid(count) as u8);
        Functions { keys, count, slots: plan.slots, family, turn }
    }

    /// The function (from 0) that a proposal of this age uses.
    #[inline(always)]
    pub fn turn(&self, age: u32) -> usize {
        usize::from(self.turn[age as usize % self.turn.len()])
    }

    /// Slot and remainder of a key under function `i` (canonical tables).
    #[inline(always)]
    pub fn probe<L: Lane>(&self, i: usize, key: L) -> (L, L) {
        slot::split(hash::mix(key, self.keys[i]), self.slots)
    }

    /// The key that stands in `slot` under function `i` with this remainder (canonical tables).
    #[inline(always)]
    pub fn key_at(&self, i: usize, slot: u32, remainder: u32) -> u32 {
        hash::unmix(slot::join(slot, remainder, self.slots), self.keys[i])
    }

    /// The slot of a key under function `i` (classic tables).
    #[inline(always)]
    pub fn location(&self, i: usize, key: u32) -> u32 {
        let MixKeys { before: a, between: b, .. } = self.keys[i];
        match self.family {
            HashFamily::Mixer => hash::reduce(hash::mix(key, self.keys[i]), self.slots),
            HashFamily::Linear => linear_family(key, a, b, ALCANTARA_PRIME, self.slots),
            HashFamily::Xor => xor_family(key, a, b, ALCANTARA_PRIME, self.slots),
        }
    }

    /// Every slot of a key under function 0, 1, .., H - 1 (classic tables).
    #[inline(always)]
    pub fn locations(&self, key: u32) -> impl Iterator<Item = u32> + '_ {
        (0..self.count as usize).map(move |i| self.location(i, key))
    }
}

/// `a` in `1..p` and `b` in `0..p`. A multiplier of 0 would send every key to one slot, so it is drawn again.
fn family_constants(stream: &mut SplitMix64) -> MixKeys {
    loop {
        let (a, b) = (stream.next_u32() % ALCANTARA_PRIME, stream.next_u32() % ALCANTARA_PRIME);
        if a != 0 {
            return MixKeys::new(a, 1, b);
        }
    }
}

impl Scheme for Cuckoo {
    const NAME: &'static str = "cuckoo";
    const ID: u32 = 1;
    const KINDS: &'static [Kind] = &Kind::ALL;
    type Plan = CuckooPlan;

    fn host_built(_: Kind) -> bool {
        false
    }

    fn of_kind(kind: Kind) -> Self {
        match kind {
            Kind::Canonical => Cuckoo::canonical(4),
            Kind::Classic => Cuckoo::classic(4),
        }
    }

    fn kind(&self) -> Kind {
        self.kind
    }

    fn check(&self) -> Result<()> {
        if !(2..=MAX_FUNCTIONS as u32).contains(&self.functions) {
            return Err(Error::parameter("functions", self.functions, "a cuckoo table has 2 to 5"));
        }
        if self.kind == Kind::Canonical && self.family != HashFamily::Mixer {
            let advice =
                "canonical tables need `mixer`, which can be inverted; the papers' families are for classic ones";
            return Err(Error::parameter("hash family", self.family.name(), advice));
        }
        if self.chain == Some(0) {
            return Err(Error::parameter("chain", 0, "a build needs at least one swap a pair"));
        }
        Ok(())
    }

    /// The paper's 1.25 N for three and four functions, and loads at which even tiny tables build for two and five.
    fn default_load(&self) -> Load {
        Load::from_millionths(match self.functions {
            0..=2 => 450_000,
            3 | 4 => 800_000,
            _ => 900_000,
        })
    }

    fn plan(&self, request: Request) -> Result<CuckooPlan> {
        self.check()?;
        let least = match self.kind {
            Kind::Canonical => slot::MIN_BUCKETS,
            Kind::Classic => 1,
        };
        let slots = u32::try_from(request.slots).map_err(|_| Error::TooLarge {
            what: "slots of a cuckoo table",
            asked: request.slots,
            most: u64::from(u32::MAX),
        })?;
        let slots = slots.max(least);
        if self.family != HashFamily::Mixer && slots > ALCANTARA_PRIME {
            return Err(Error::TooLarge {
                what: "slots with the families modulo p (take the family `mixer`)",
                asked: u64::from(slots),
                most: u64::from(ALCANTARA_PRIME),
            });
        }
        // What only the classic race has must not make two canonical tables differ.
        let (chain, reinsertion) = match self.kind {
            Kind::Canonical => (0, Reinsertion::SkipSameSlot),
            Kind::Classic => {
                let default = || classic::default_chain(self.functions, request.pairs, slots.into());
                (self.chain.unwrap_or_else(default), self.reinsertion)
            }
        };
        Ok(CuckooPlan {
            kind: self.kind.code(),
            functions: self.functions,
            family: self.family as u32,
            reinsertion: reinsertion as u32,
            slots,
            chain,
            attempt: request.attempt,
            outside: 0,
            outside_value: 0,
            reserved: 0,
            seed: request.seed,
        })
    }

    fn from_plan(plan: &CuckooPlan) -> std::result::Result<Self, String> {
        let kind = Kind::from_code(plan.kind).ok_or(format!("kind {} is unknown", plan.kind))?;
        let family =
            HashFamily::ALL.get(plan.family as usize).ok_or(format!("hash family {} is unknown", plan.family))?;
        let reinsertion =
            Reinsertion::ALL.get(plan.reinsertion as usize).ok_or(format!("rule {} is unknown", plan.reinsertion))?;
        let chain = (kind == Kind::Classic).then_some(plan.chain);
        let scheme = Cuckoo { kind, functions: plan.functions, family: *family, reinsertion: *reinsertion, chain };
        scheme.check().map_err(|error| error.to_string())?;
        let request = Request { slots: plan.slots(), pairs: 0, seed: plan.seed, attempt: plan.attempt };
        let again = scheme.plan(request).map_err(|error| error.to_string())?;
        let outside_allowed =
            kind == Kind::Classic && plan.outside <= 1 || plan.outside == 0 && plan.outside_value == 0;
        if !outside_allowed || again.with_outside(plan.outside().map(|(_, value)| value)) != *plan {
            return Err("its fields contradict each other".into());
        }
        // The chain in a file is what the build used, not what its user chose: batches to come use the default again.
        Ok(Cuckoo { chain: None, ..scheme })
    }

    fn find(plan: &CuckooPlan, image: &[u64], key: u32) -> Option<u32> {
        match plan.kind() {
            Kind::Canonical => canonical::search(&plan.functions(), image, key).1,
            Kind::Classic => classic::search(plan, image, key).1,
        }
    }

    fn reads(plan: &CuckooPlan, image: &[u64], key: u32) -> u32 {
        match plan.kind() {
            Kind::Canonical => canonical::search(&plan.functions(), image, key).0,
            Kind::Classic => classic::search(plan, image, key).0,
        }
    }

    fn pair(plan: &CuckooPlan, image: &[u64], slot: u64) -> Option<(u32, u32)> {
        let word = *image.get(slot as usize)?;
        match plan.kind() {
            Kind::Canonical => canonical::pair(&plan.functions(), slot as u32, word),
            Kind::Classic => classic::pair(word),
        }
    }

    fn age(plan: &CuckooPlan, image: &[u64], slot: u64) -> u32 {
        let Some(&word) = image.get(slot as usize) else { return 0 };
        match plan.kind() {
            Kind::Canonical => slot::age(word),
            Kind::Classic => classic::age(&plan.functions(), slot as u32, word),
        }
    }

    fn place(plan: &CuckooPlan, image: &mut [u64], key: u32, value: u32) -> Placing {
        match plan.kind() {
            Kind::Canonical => canonical::place(&plan.functions(), image, key, value),
            Kind::Classic => classic::place(plan, image, key, value),
        }
    }

    fn audit(plan: &CuckooPlan, image: &[u64], slots: Range<u64>) -> std::result::Result<Audit, Violation> {
        match plan.kind() {
            Kind::Canonical => canonical::audit(&plan.functions(), image, slots),
            Kind::Classic => classic::audit(&plan.functions(), image, slots),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan_of(scheme: &Cuckoo, slots: u64) -> CuckooPlan {
        scheme.plan(Request { slots, pairs: slots / 2, seed: 1, attempt: 0 }).expect("a plan")
    }

    #[test]
    fn parameters_out_of_range_are_refused() {
        for functions in [0, 1, 6, u32::MAX] {
            assert!(Cuckoo::canonical(functions).check().is_err());
        }
        assert!(Cuckoo::canonical(4).family(HashFamily::Linear).check().is_err());
        assert!(Cuckoo::classic(4).chain(0).check().is_err());
        let too_many = Request { slots: u64::from(ALCANTARA_PRIME) + 1, pairs: 1, seed: 0, attempt: 0 };
        assert!(matches!(Cuckoo::classic(4).family(HashFamily::Xor).plan(too_many), Err(Error::TooLarge { .. })));
        assert!(Cuckoo::classic(4).plan(too_many).is_ok());
    }

    #[test]
    fn a_stored_plan_gives_its_parameters_back() {
        for scheme in [Cuckoo::canonical(3), Cuckoo::classic(4).family(HashFamily::Xor)] {
            assert_eq!(Cuckoo::from_plan(&plan_of(&scheme, 1000)).as_ref(), Ok(&scheme));
        }
        let good = plan_of(&Cuckoo::canonical(3), 1000);
        for bad in [
            CuckooPlan { kind: 9, ..good },
            CuckooPlan { functions: 0, ..good },
            CuckooPlan { family: 3, ..good },
            CuckooPlan { reinsertion: 7, ..good },
            CuckooPlan { slots: 3, ..good },
            CuckooPlan { chain: 5, ..good },
            CuckooPlan { outside: 1, ..good },
            CuckooPlan { reserved: 1, ..good },
        ] {
            assert!(Cuckoo::from_plan(&bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_multiplier_of_zero_is_drawn_again() {
        // SplitMix64 maps the state 0 to the output 0, and adds its increment before every output.
        let increment = 0x9e37_79b9_7f4a_7c15_u64;
        let mut zero_first = SplitMix64::new(increment.wrapping_neg());
        assert_eq!(zero_first.clone().next_u32() % ALCANTARA_PRIME, 0, "the first draw is refused");
        zero_first.next_u64();
        zero_first.next_u64();
        let after_it = family_constants(&mut zero_first);
        assert_eq!(family_constants(&mut SplitMix64::new(increment.wrapping_neg())), after_it);
    }
}
