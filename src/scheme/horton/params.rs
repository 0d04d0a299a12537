//! The parameters: kind, slots of a bucket, remap entries and their width, hash family, height of the search.

use crate::scheme::Kind;

/// The hash functions of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum HortonFamily {
    /// Seeded bijective mixers, reduced to the table by multiplications (both kinds; the default).
    #[default]
    Mixer,
    /// Equations 1 and 2 as printed, with two of Jenkins' functions (classic tables).
    Jenkins,
}

impl HortonFamily {
    /// Every family.
    pub const ALL: [HortonFamily; 2] = [HortonFamily::Mixer, HortonFamily::Jenkins];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        ["mixer", "jenkins"][self as usize]
    }
}

/// The default number of remap entries of a bucket: the paper's 21.
pub(crate) const DEFAULT_TAGS: u32 = 21;
/// The default bits of a remap entry: the paper's 3.
pub(crate) const DEFAULT_BITS: u32 = 3;
/// The default depth, in moves, to which a classic insertion searches for a free slot. In tables of 2^16 slots, filled
/// to loads of 0.88, 0.95, 0.96 with 4, 8, 16 slots per bucket, no search was deeper than 3.
pub(crate) const DEFAULT_HEIGHT: u32 = 5;
/// The greatest depth. A search also ends after 4,096 visited places, so a greater depth would never be reached.
pub(crate) const MAX_HEIGHT: u32 = 8;

/// The parameters of a Horton table.
///
/// ```
/// use koel::scheme::{Horton, horton::HortonFamily};
/// let canonical = Horton::canonical(8);
/// let classic = Horton::classic(8).family(HortonFamily::Jenkins).height(3);
/// assert_ne!(canonical, classic);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Horton {
    pub(super) kind: Kind,
    pub(super) bucket_slots: u32,
    pub(super) tags: u32,
    pub(super) bits: u32,
    pub(super) family: HortonFamily,
    pub(super) height: u32,
}

impl Default for Horton {
    fn default() -> Self {
        Horton::canonical(8)
    }
}

impl Horton {
    /// A canonical table with buckets of 4, 8 or 16 slots, 21 remap entries of 3 bits.
    pub fn canonical(bucket_slots: u32) -> Self {
        Horton {
            kind: Kind::Canonical,
            bucket_slots,
            tags: DEFAULT_TAGS,
            bits: DEFAULT_BITS,
            family: HortonFamily::Mixer,
            height: DEFAULT_HEIGHT,
        }
    }

    /// The paper's table with buckets of 4, 8 or 16 slots, 21 remap entries of 3 bits, and mixers.
    pub fn classic(bucket_slots: u32) -> Self {
        Horton { kind: Kind::Classic, ..Horton::canonical(bucket_slots) }
    }

    /// Sets the number of remap entries of a Type B bucket, 2 to 32. Together they must fit one word.
    pub fn tags(self, tags: u32) -> Self {
        Horton { tags, ..self }
    }

    /// Sets the bits of a remap entry, 2 to 4. A classic table then has `2^bits - 1` secondary functions, a canonical
    /// one `2^bits - 2`, because one value of an entry means the stash.
    pub fn bits(self, bits: u32) -> Self {
        Horton { bits, ..self }
    }

    /// Sets the hash functions. Canonical tables need [`HortonFamily::Mixer`].
    pub fn family(self, family: HortonFamily) -> Self {
        Horton { family, ..self }
    }

    /// Sets the depth, in moves, to which a classic insertion searches for a free slot, 1 to 8. Canonical tables do not
    /// use it.
    pub fn height(self, height: u32) -> Self {
        Horton { height, ..self }
    }
}
