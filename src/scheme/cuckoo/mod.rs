//! The single-level cuckoo table (Alcantara et al. 2011): H functions give each key H slots; it is in one of them.
//!
//! ```text
//! canonical  slot = [age][remainder][value], `slot.rs`; a slot keeps the greatest word offered to it; the rejected pair
//!            is offered to its next function, one age older; past MAX_AGE the attempt has failed      (`canonical.rs`)
//! classic    slot = [key][value]; a pair is swapped in, and the evicted one goes to its next function, round-robin,
//!            for at most `chain` swaps; then the build restarts with new constants                    (`classic.rs`)
//! ```
//!
//! `params.rs` has the parameters, `plan.rs` the stored integers, `functions.rs` the hash functions and `cell.rs` the
//! types of slots (those of sets, `cuckoo_set.rs`, have no values). `kinds.rs` selects the kind. This file implements
//! the scheme. `wide/` has the canonical tables of 64-bit keys or values.

pub(crate) mod canonical;
mod cell;
#[doc(hidden)]
pub mod classic;
mod functions;
pub(crate) mod kinds;
pub mod model;
mod params;
mod plan;
pub(crate) mod wide;

pub use cell::Cell;
pub use functions::Functions;
pub use params::{Cuckoo, HashFamily, Reinsertion};
pub use plan::CuckooPlan;
pub use wide::{CuckooLinePlan, CuckooOf};

use std::ops::Range;

use super::hash::ALCANTARA_PRIME;
use super::{Audit, Kind, Load, Placing, Plan, Request, Salt, Scheme, Updates, Violation, slot};
use crate::error::{Error, Result};

/// The maximum number of functions of a table.
pub(crate) const MAX_FUNCTIONS: usize = 5;

/// Schemes whose images are those of a cuckoo table, which passes for cuckoo tables fill and read: the cuckoo table
/// itself, the quadratic table with its single function, and the set of keys without values.
pub(crate) trait CuckooImage: Scheme<Key = u32, Value = u32> {
    /// The stored form of a slot.
    type Cell: Cell;

    /// The plan of the cuckoo table with the same slots. It may have one function, which [`Cuckoo::check`] rejects. The
    /// image has this many slots of this scheme, so passes that reduce to them stay in bounds.
    fn cuckoo_plan(plan: &Self::Plan) -> CuckooPlan;
}

impl CuckooImage for Cuckoo {
    type Cell = u64;

    fn cuckoo_plan(plan: &CuckooPlan) -> CuckooPlan {
        *plan
    }
}

impl Scheme for Cuckoo {
    const NAME: &'static str = "cuckoo";
    const ID: u32 = 1;
    const KINDS: &'static [Kind] = &Kind::ALL;
    type Key = u32;
    type Value = u32;
    type Plan = CuckooPlan;

    fn updates(&self) -> Updates {
        match self.kind() {
            Kind::Canonical => Updates::Tombstones,
            Kind::Classic => Updates::InPlace,
        }
    }

    /// The thresholds of random graphs: above them, some set of keys shares fewer slots than it has keys, whatever the
    /// constants (0.5 for two functions, Pagh and Rodler 2004; 0.9179, 0.9768, 0.9924 for three to five, Fountoulakis
    /// and Panagiotou 2012).
    fn gives_up_above(&self) -> Option<Load> {
        let most = match self.functions {
            0..=2 => 500_000,
            3 => 917_900,
            4 => 976_800,
            _ => 992_400,
        };
        (self.kind == Kind::Canonical).then_some(Load::from_millionths(most))
    }

    fn keeps_one(&self) -> bool {
        self.kind() == Kind::Canonical
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

    /// The paper's 1.25 N for three and four functions, and loads at which even tiny tables can be built for two and
    /// five.
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
            requested: request.slots,
            most: u64::from(u32::MAX),
        })?;
        let slots = slots.max(least);
        if self.family != HashFamily::Mixer && slots > ALCANTARA_PRIME {
            return Err(Error::TooLarge {
                what: "slots with the families modulo p (take the family `mixer`)",
                requested: u64::from(slots),
                most: u64::from(ALCANTARA_PRIME),
            });
        }
        // Parameters of classic tables must not make two canonical plans differ.
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
            salt: Salt::NONE,
        })
    }

    fn from_plan(plan: &CuckooPlan) -> Self {
        // A file contains the chain that the build used, not the user's choice; later batches use the default again.
        Cuckoo {
            kind: plan.kind(),
            functions: plan.functions,
            family: plan.family(),
            reinsertion: plan.reinsertion(),
            chain: None,
        }
    }

    fn find(plan: &CuckooPlan, image: &[u64], key: u32) -> Option<u32> {
        kinds::search(plan, image, key).1
    }

    fn reads(plan: &CuckooPlan, image: &[u64], key: u32) -> u32 {
        kinds::search(plan, image, key).0
    }

    fn pair(plan: &CuckooPlan, image: &[u64], at: u64) -> Option<(u32, u32)> {
        kinds::pair(plan, image, at)
    }

    fn age(plan: &CuckooPlan, image: &[u64], at: u64) -> u32 {
        kinds::age(plan, image, at)
    }

    fn place(plan: &CuckooPlan, image: &mut [u64], pairs: &[(u32, u32)]) -> Placing {
        kinds::place(plan, image, pairs)
    }

    fn remove(plan: &CuckooPlan, image: &mut [u64], keys: &[u32]) -> u64 {
        kinds::remove(plan, image, keys)
    }

    fn audit(plan: &CuckooPlan, image: &[u64], words: Range<u64>) -> std::result::Result<Audit, Violation> {
        kinds::audit(plan, image, words)
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
            assert_eq!(Cuckoo::from_plan(&plan_of(&scheme, 1000)), scheme);
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
            assert!(bad.checked().is_err(), "{bad:?}");
        }
    }
}
