//! The parameters: kind, hash family, rounds of a bucket.

use crate::scheme::Kind;

/// Where a key's bucket and slots come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum FksFamily {
    /// Seeded bijective mixers, and multiplications to reduce to the table; 256 seed numbers a bucket (both kinds; the
    /// default).
    #[default]
    Mixer,
    /// Sahu's `(a k + b) mod p mod n`, p = 1900813, in wrapping 32-bit arithmetic; one list of 20 seeds of 16 bits for
    /// all buckets (classic tables of at most p buckets).
    Sahu,
}

impl FksFamily {
    /// Every family.
    pub const ALL: [FksFamily; 2] = [FksFamily::Mixer, FksFamily::Sahu];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        ["mixer", "sahu"][self as usize]
    }
}

/// Rounds through the three sub-tables that a classic bucket makes under one seed number, by default: Sahu's 100.
pub const DEFAULT_ITERATIONS: u32 = 100;
/// The most such rounds: a bound on how long a bucket can take that no function fits, whoever chose the number.
pub const MAX_ITERATIONS: u32 = 1000;

/// The parameters of a two-level table. At its default load of 0.71 a bucket has 409 pairs on average and 512 at most;
/// 0.889 would fill every bucket to the last, and no build comes near it.
///
/// ```
/// use koel::scheme::{Fks, FksFamily};
/// let canonical = Fks::canonical();
/// let classic = Fks::classic().family(FksFamily::Sahu).iterations(25);
/// assert_ne!(canonical, classic);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fks {
    pub(super) kind: Kind,
    pub(super) family: FksFamily,
    pub(super) iterations: u32,
}

impl Default for Fks {
    fn default() -> Self {
        Fks::canonical()
    }
}

impl Fks {
    /// A canonical table.
    pub fn canonical() -> Self {
        Fks { kind: Kind::Canonical, family: FksFamily::Mixer, iterations: DEFAULT_ITERATIONS }
    }

    /// The poster's table: rounds in which all pairs of a bucket write at once; mixers.
    pub fn classic() -> Self {
        Fks { kind: Kind::Classic, ..Fks::canonical() }
    }

    /// The hash functions. Canonical tables need [`FksFamily::Mixer`], because a slot holds only the rest of a key.
    pub fn family(self, family: FksFamily) -> Self {
        Fks { family, ..self }
    }

    /// Rounds through the three sub-tables before a classic bucket takes its next seed number, 1 to 1000. It means
    /// nothing to canonical tables.
    pub fn iterations(self, iterations: u32) -> Self {
        Fks { iterations, ..self }
    }
}
