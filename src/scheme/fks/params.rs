//! The parameters: kind, hash family, rounds of a bucket.

use crate::scheme::Kind;

/// The hash functions of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum FksFamily {
    /// Seeded bijective mixers, reduced to the table by multiplications; 256 seed numbers per bucket (both kinds; the
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

/// The default number of rounds of a classic bucket under one seed number, through the three sub-tables: Sahu's 100.
pub(crate) const DEFAULT_ITERATIONS: u32 = 100;
/// The maximum number of such rounds. It bounds the time of a bucket that cannot be built, also for untrusted files.
pub(crate) const MAX_ITERATIONS: u32 = 1000;

/// The parameters of a two-level table. At its default load of 0.71 a bucket has 409 pairs on average and 512 at most.
/// A load of 0.889 would fill every bucket completely, and no build reaches it.
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

    /// Sets the hash functions. Canonical tables need [`FksFamily::Mixer`], because a slot stores only the remainder of
    /// a key.
    pub fn family(self, family: FksFamily) -> Self {
        Fks { family, ..self }
    }

    /// Sets the rounds through the three sub-tables before a classic bucket tries its next seed number, 1 to 1000.
    /// Canonical tables do not use it.
    pub fn iterations(self, iterations: u32) -> Self {
        Fks { iterations, ..self }
    }
}
