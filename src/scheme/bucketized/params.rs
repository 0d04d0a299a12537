//! The parameters: kind, slots of a bucket, and for classic tables functions, insertion, lookup mode and search.

use crate::scheme::Kind;

/// The bucket for a new pair of a classic table (Breslow 2016, Section 3.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Insertion {
    /// The candidate with the most free slots; the key breaks ties. Hits read (f + 1) / 2 buckets, because every
    /// function is used equally.
    #[default]
    LoadBalancing,
    /// The first candidate with a free slot: fewer reads per hit, and longer chains at high loads.
    FirstFit,
}

impl Insertion {
    /// Every policy.
    pub const ALL: [Insertion; 2] = [Insertion::LoadBalancing, Insertion::FirstFit];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        ["load-balancing", "first-fit"][self as usize]
    }
}

/// The lookup mode of a classic table (Breslow 2016, Section 3.2). All modes return the same values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum LookupMode {
    /// One candidate after the other, until the key is found: reads the fewest bytes.
    #[default]
    BandwidthOptimized,
    /// All candidates at once: waits only once.
    LatencyOptimized,
}

impl LookupMode {
    /// Every mode.
    pub const ALL: [LookupMode; 2] = [LookupMode::BandwidthOptimized, LookupMode::LatencyOptimized];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        ["bandwidth-optimized", "latency-optimized"][self as usize]
    }
}

/// The parameters of a bucketized cuckoo table (BCHT).
///
/// Canonical tables have three functions, of which the second leads near the first, and 4, 8 or 16 slots per bucket:
///
/// | slots per bucket | default load | builds to load |
/// |---|---|---|
/// | 4 | 0.85 | 0.98 |
/// | 8 (the default: one line of 64 bytes) | 0.90 | 0.99 |
/// | 16 | 0.93 | 0.99 |
///
/// Classic tables have 2 (the default) to 4 independent functions.
///
/// ```
/// use koel::{Bucketized, Insertion};
/// let canonical = Bucketized::canonical(8);
/// let classic = Bucketized::classic(2, 4).insertion(Insertion::FirstFit);
/// assert_ne!(canonical, classic);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucketized {
    pub(super) kind: Kind,
    pub(super) bucket_slots: u32,
    pub(super) functions: u32,
    pub(super) insertion: Insertion,
    pub(super) mode: LookupMode,
    pub(super) reach: u32,
}

impl Default for Bucketized {
    fn default() -> Self {
        Bucketized::canonical(8)
    }
}

/// The default number of buckets that the search for a free slot may visit.
const DEFAULT_REACH: u32 = 1 << 12;

impl Bucketized {
    /// A canonical table with buckets of 4, 8 or 16 slots.
    pub fn canonical(bucket_slots: u32) -> Self {
        Bucketized {
            kind: Kind::Canonical,
            bucket_slots,
            functions: 3,
            insertion: Insertion::default(),
            mode: LookupMode::default(),
            reach: 0,
        }
    }

    /// The paper's baseline with `functions` (2 to 4) buckets for each key, of 4, 8 or 16 slots each.
    pub fn classic(functions: u32, bucket_slots: u32) -> Self {
        Bucketized { kind: Kind::Classic, functions, reach: DEFAULT_REACH, ..Bucketized::canonical(bucket_slots) }
    }

    /// Sets the bucket for a new pair (classic tables; canonical ones always start with the first bucket of a pair).
    pub fn insertion(self, insertion: Insertion) -> Self {
        Bucketized { insertion, ..self }
    }

    /// Sets the lookup mode (classic tables).
    pub fn lookup_mode(self, mode: LookupMode) -> Self {
        Bucketized { mode, ..self }
    }

    /// Sets the maximum number of buckets that a classic build visits in search of a free slot for one pair before it
    /// restarts with new constants, 1 to 65536; the default is 4096. On devices that build in parallel: the maximum
    /// number of pairs that one pair moves.
    pub fn reach(self, buckets: u32) -> Self {
        Bucketized { reach: buckets, ..self }
    }
}
