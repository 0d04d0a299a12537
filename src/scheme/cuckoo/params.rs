//! The parameters: kind, number of functions, hash family, rule of re-insertion, longest chain.

use crate::scheme::Kind;

/// The hash functions of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum HashFamily {
    /// Seeded bijective mixers, reduced to the table by a multiplication (both kinds; the default).
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

/// The next slot of a pair evicted from a classic table (Section 4.3.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reinsertion {
    /// Listing 4.1: the function after the first one that maps to the slot. If two functions of a key agree, the later
    /// ones are never reached, which matters in tables of a few hundred slots.
    AsPublished,
    /// The paper's first fix: the next function that does not map to the same slot.
    SkipSameSlot,
    /// The paper's second fix: a function chosen pseudo-randomly from key and chain length, so that runs repeat.
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
/// | functions | default load | builds to load | reads per hit, per miss, at the default |
/// |---|---|---|---|
/// | 2 | 0.45 | 0.45 | 1.29, 1.31 |
/// | 3 | 0.80 | 0.90 | 1.91, 1.98 |
/// | 4 (the default) | 0.80 | 0.95 | 2.01, 2.01 |
/// | 5 | 0.90 | 0.99 | 2.56, 2.56 |
///
/// The reads are those of canonical tables, measured (`docs/canonical-layout.md`). Classic tables read up to H slots
/// per miss.
///
/// ```
/// use koel::{Cuckoo, HashFamily};
/// let canonical = Cuckoo::canonical(4);
/// let classic = Cuckoo::classic(4).family(HashFamily::Linear).chain(200);
/// assert_ne!(canonical, classic);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cuckoo {
    pub(super) kind: Kind,
    pub(super) functions: u32,
    pub(super) family: HashFamily,
    pub(super) reinsertion: Reinsertion,
    pub(super) chain: Option<u32>,
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

    /// The paper's table with `functions` (2 to 5) places for each key, with mixers and [`Reinsertion::SkipSameSlot`].
    pub fn classic(functions: u32) -> Self {
        Cuckoo { kind: Kind::Classic, ..Cuckoo::canonical(functions) }
    }

    /// Sets the hash functions. Canonical tables need [`HashFamily::Mixer`], because a slot stores only the remainder
    /// of a key.
    pub fn family(self, family: HashFamily) -> Self {
        Cuckoo { family, ..self }
    }

    /// Sets the rule by which evicted pairs move. Canonical tables do not use it: their words decide.
    pub fn reinsertion(self, reinsertion: Reinsertion) -> Self {
        Cuckoo { reinsertion, ..self }
    }

    /// Sets the maximum number of swaps for one pair before a classic build restarts; the default is
    /// [`super::classic::default_chain`]. Canonical tables do not use it.
    pub fn chain(self, swaps: u32) -> Self {
        Cuckoo { chain: Some(swaps), ..self }
    }
}
