//! The parameters of a build: scheme, size, seed, and the rule for duplicates.

use super::{HashTable, KeyType, Pairs, PairsOf, ValueType, build, random_seed};
use crate::backend::{DeviceBuffer, Runs, Word};
use crate::error::{Error, Result};
use crate::scheme::{Load, Plan, Request, Scheme, Updates, sorted};

/// The rule for duplicate keys. Positions count through all batches, from the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Duplicates {
    /// Duplicates are an error that names the smallest duplicate key.
    #[default]
    Error,
    /// Keeps the first pair of each key.
    KeepFirst,
    /// Keeps the last pair of each key.
    KeepLast,
}

impl Duplicates {
    /// All rules.
    pub const ALL: [Duplicates; 3] = [Duplicates::Error, Duplicates::KeepFirst, Duplicates::KeepLast];
}

/// How the number of slots is determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    /// The scheme's default load.
    Default,
    /// The number that this load requires. A table that grows is rebuilt to keep it.
    Load(Load),
    /// A fixed number.
    Slots(u64),
}

/// What the pairs of a table mean in the structure that contains it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Contents {
    /// Keys and values: a table that is not part of a structure.
    Map,
    /// Keys with unused values: a [`HashSet`](crate::HashSet).
    Set,
    /// Keys and their ids: a [`CompactingTable`](crate::CompactingTable).
    Compact,
    /// Keys and the numbers of their runs of values: a [`MultiTable`](crate::MultiTable).
    Multi,
}

impl Contents {
    /// In the order of their codes.
    pub const ALL: [Contents; 4] = [Contents::Map, Contents::Set, Contents::Compact, Contents::Multi];

    /// The name in messages and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Contents::Map => "map",
            Contents::Set => "set",
            Contents::Compact => "compact",
            Contents::Multi => "multi",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) size: Size,
    pub(super) seed: u64,
    pub(super) duplicates: Duplicates,
    pub(super) attempts: u32,
    pub(super) contents: Contents,
    pub(super) key_type: KeyType,
    pub(super) value_type: ValueType,
}

/// The most slots that a first pair may require at the load of an empty table, which does not have them yet.
const SLOTS_OF_A_FIRST_PAIR: u64 = 1 << 16;

/// The slots for this many pairs at a load. Below a load of 1/65536 an empty table has the slots of one pair, so that
/// the size of a file limits the size of the table that its load requires.
pub(super) fn slots_at(load: Load, pairs: u64) -> u64 {
    let least = u64::from(load.slots_for(1) > SLOTS_OF_A_FIRST_PAIR);
    load.slots_for(pairs.max(least))
}

impl Settings {
    /// The slots for this many pairs.
    pub(super) fn slots<S: Scheme>(&self, scheme: &S, pairs: u64) -> u64 {
        match self.size {
            Size::Default => slots_at(scheme.default_load(), pairs),
            Size::Load(load) => slots_at(load, pairs),
            Size::Slots(slots) => slots,
        }
    }

    /// The number of slots of the first attempt for this many pairs.
    pub(super) fn request<S: Scheme>(&self, scheme: &S, pairs: u64) -> Request {
        Request { slots: self.slots(scheme, pairs), pairs, seed: self.seed, attempt: 0 }
    }
}

/// Builds tables; created by [`HashTable::builder`].
///
/// ```
/// use koel::{Cpu, Cuckoo, Duplicates, HashTable};
/// let table = HashTable::builder(Cuckoo::canonical(3))
///     .load_factor(0.9)
///     .seed(7)
///     .duplicates(Duplicates::KeepLast)
///     .build(&Cpu::new(), &[5, 6, 5], &[1, 2, 3])?;
/// assert_eq!(table.get(&[5])?, [Some(3)]);
/// # Ok::<(), koel::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct TableBuilder<S: Scheme> {
    scheme: S,
    load: Option<f64>,
    fixed: Option<Fixed>,
    pub(crate) seed: u64,
    duplicates: Duplicates,
    attempts: u32,
    contents: Contents,
    key_type: KeyType,
    value_type: ValueType,
}

/// A fixed size, which batches do not change.
#[derive(Clone, Copy, Debug)]
enum Fixed {
    /// The slots that this number of pairs requires.
    Pairs(u64),
    /// This many slots.
    Slots(u64),
}

/// The default seed.
const DEFAULT_SEED: u64 = 0x6b6f_656c;
/// Enough for tables of a few dozen slots, in which up to 22% of attempts fail; larger tables succeed at the first.
const DEFAULT_ATTEMPTS: u32 = 32;
/// Limits the duration of a build that never succeeds, even if a hostile file specifies the number of attempts.
pub(super) const MOST_ATTEMPTS: u32 = 1024;

impl<S: Scheme> TableBuilder<S> {
    pub(super) fn new(scheme: S) -> Self {
        TableBuilder {
            scheme,
            load: None,
            fixed: None,
            seed: DEFAULT_SEED,
            duplicates: Duplicates::default(),
            attempts: DEFAULT_ATTEMPTS,
            contents: Contents::Map,
            key_type: KeyType::Numbers,
            value_type: ValueType::Numbers,
        }
    }

    /// A builder for tables with this scheme and these settings.
    pub(super) fn of(scheme: S, settings: &Settings) -> Self {
        let Settings { size, seed, duplicates, attempts, contents, key_type, value_type } = *settings;
        let (load, fixed) = match size {
            Size::Default => (None, None),
            Size::Load(load) => (Some(load.get()), None),
            Size::Slots(slots) => (None, Some(Fixed::Slots(slots))),
        };
        TableBuilder { scheme, load, fixed, seed, duplicates, attempts, contents, key_type, value_type }
    }

    /// Rejects invalid parameters before any work is done.
    pub(crate) fn check(&self) -> Result<()> {
        self.settings().map(drop)
    }

    /// The parameters, checked.
    pub(super) fn parts(&self) -> Result<(S, Settings)> {
        self.settings().map(|settings| (self.scheme.clone(), settings))
    }

    /// The same parameters for tables of another scheme.
    pub(crate) fn of_scheme<T: Scheme>(self, scheme: impl FnOnce(&S) -> T) -> TableBuilder<T> {
        let scheme = scheme(&self.scheme);
        let TableBuilder { load, fixed, seed, duplicates, attempts, contents, key_type, value_type, .. } = self;
        TableBuilder { scheme, load, fixed, seed, duplicates, attempts, contents, key_type, value_type }
    }

    /// Sets the meaning of the pairs in the structure that contains the table.
    pub(crate) fn contents(mut self, contents: Contents) -> Self {
        self.contents = contents;
        self
    }

    /// Pairs per slot, above 0 and up to 1; otherwise [`Scheme::default_load`]. A build allocates the slots that its
    /// pairs need at this load. So does a batch that adds pairs, which rebuilds the table; set a
    /// [`capacity`](Self::capacity) to insert in place. Removing pairs keeps the slots.
    pub fn load_factor(mut self, load: f64) -> Self {
        self.load = Some(load);
        self
    }

    /// A fixed capacity in pairs: the table has the slots that they need at its load. Batches are inserted in place
    /// while they fit, except for kinds that are rebuilt for each batch ([`Updates::Rebuild`]).
    ///
    /// ```
    /// use koel::{Cpu, Cuckoo, HashTable};
    /// let mut table = HashTable::builder(Cuckoo::canonical(4)).capacity(1000).build(&Cpu::new(), &[], &[])?;
    /// let keys: Vec<u32> = (0..1000).collect();
    /// assert!(!table.insert(&keys, &keys)?.rebuilt);
    /// # Ok::<(), koel::Error>(())
    /// ```
    pub fn capacity(mut self, pairs: usize) -> Self {
        self.fixed = Some(Fixed::Pairs(pairs as u64));
        self
    }

    /// A fixed number of slots, instead of a [`capacity`](Self::capacity) or a [`load_factor`](Self::load_factor). The
    /// last call of `slots` or `capacity` applies; a build with both slots and a load factor is an error. A cuckoo
    /// table with four functions works best with a fifth of its slots empty. Slots are rounded up: to whole buckets, of
    /// which canonical tables have at least 16; to the next prime (Robin Hood; to the following prime with every
    /// restart); to the square or cube of a side (perfect). For a quadratic table, this is the number of pairs.
    pub fn slots(mut self, slots: usize) -> Self {
        self.fixed = Some(Fixed::Slots(slots as u64));
        self
    }

    /// The seed of all constants. Equal seeds, parameters and contents give equal bytes.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// A random seed from the operating system, for keys from untrusted sources (`docs/canonical-layout.md`, "Untrusted
    /// keys"). The plan and the files of the table contain the seed, so a build can be repeated.
    ///
    /// # Errors
    /// [`Error::NoRandomness`] if the system cannot provide one.
    pub fn seed_at_random(self) -> Result<Self> {
        Ok(self.seed(random_seed()?))
    }

    /// The rule for duplicate keys.
    pub fn duplicates(mut self, rule: Duplicates) -> Self {
        self.duplicates = rule;
        self
    }

    /// The maximum number of attempts with new constants, 1 to 1024; 32 by default. From the ninth on, the constants
    /// depend on a hash of all keys as well as on the seed ([`FIRST_SALTED`](crate::scheme::FIRST_SALTED)). With 8 or
    /// fewer, an attacker who knows the seed can choose keys for which no table can be built.
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self
    }

    /// The type of the keys; numbers by default. It describes how to create queries, and is stored in the table's file.
    /// It does not affect the image, the digest or any answer, and the keys are not checked.
    pub fn key_type(mut self, key_type: KeyType) -> Self {
        self.key_type = key_type;
        self
    }

    /// The type of the values; numbers by default. Like [`key_type`](Self::key_type), it is stored in the table's file
    /// and has no other effect.
    pub fn value_type(mut self, value_type: ValueType) -> Self {
        self.value_type = value_type;
        self
    }

    /// Builds a table of `keys[i] -> values[i]` on a device.
    ///
    /// Cost: one to two random accesses per pair at the default loads (`docs/canonical-layout.md`; the host builds
    /// classic Horton tables and perfect tables on one thread), the transfer of 8 bytes per pair, and
    /// [`memory_estimate`](Self::memory_estimate) bytes on the device. If there are duplicates and one pair of each key
    /// is kept, also a sort and a second build.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`], [`Error::InvalidParameter`], [`Error::DuplicateKey`], [`Error::TooFull`] or, if too
    /// many keys share their places, [`Error::Crowded`], [`Error::TooWide`] for keys and values that do not fit into
    /// the slots, [`Error::TooLarge`], [`Error::OutOfMemory`], or what the device reports.
    pub fn build<B: Runs<S>>(&self, backend: &B, keys: &[S::Key], values: &[S::Value]) -> Result<HashTable<B, S>> {
        Error::check_length("values", values.len(), keys.len())?;
        self.settings()?;
        let (keys, values) = (backend.upload(keys)?, backend.upload(values)?);
        self.build_on(backend, &keys, &values)
    }

    /// Builds a table from buffers on the device; nothing is transferred.
    ///
    /// ```
    /// use koel::{Cpu, Cuckoo, HashBackend, HashTable};
    /// let cpu = Cpu::new();
    /// let (keys, values) = (cpu.upload(&[1, 2, 3])?, cpu.upload(&[4, 5, 6])?);
    /// let table = HashTable::builder(Cuckoo::default()).build_on(&cpu, &keys, &values)?;
    /// assert_eq!(table.len(), 3);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`build`](Self::build).
    pub fn build_on<B: Runs<S>>(
        &self,
        backend: &B,
        keys: &B::Buffer<S::Key>,
        values: &B::Buffer<S::Value>,
    ) -> Result<HashTable<B, S>> {
        Error::check_length("values", values.len(), keys.len())?;
        let settings = self.settings()?;
        build::check_limits(backend, &self.scheme, settings.contents, keys, values)?;
        let image = build::with_rule(backend, &self.scheme, &settings, keys, values)?;
        Ok(HashTable { backend: backend.clone(), scheme: self.scheme.clone(), settings, image })
    }

    /// The parameters.
    pub fn scheme(&self) -> &S {
        &self.scheme
    }

    /// Estimates the memory of a table of `pairs` pairs before it is built.
    ///
    /// ```
    /// use koel::{Cuckoo, HashTable};
    /// let estimate = HashTable::builder(Cuckoo::canonical(4)).memory_estimate(1_000_000)?;
    /// assert_eq!((estimate.image, estimate.build), (10_000_000, 18_000_000));
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`build`](Self::build), if no such table can exist.
    pub fn memory_estimate(&self, pairs: u64) -> Result<MemoryEstimate> {
        let settings = self.settings()?;
        let rebuilds = self.scheme.updates() == Updates::Rebuild || !matches!(settings.size, Size::Slots(_));
        let table = |pairs: u64| {
            let slots = settings.slots(&self.scheme, pairs);
            let plan = self.scheme.plan(Request { slots, pairs, seed: self.seed, attempt: 0 })?;
            let (words, scratch) = (plan.words(), S::scratch_bytes(&plan, pairs));
            Ok(Footprint { image: words.saturating_mul(8), scratch, cells: plan.cells() })
        };
        let now = table(pairs)?;
        // If no table of twice the pairs can exist, such a batch is refused before it takes memory.
        let twice = table(pairs.saturating_mul(2)).or_else(|error: Error| match error {
            Error::TooLarge { .. } => Ok(now),
            _ => Err(error),
        })?;
        Ok(MemoryEstimate::new(now, twice, pairs, rebuilds, settings.duplicates))
    }

    fn settings(&self) -> Result<Settings> {
        self.scheme.check()?;
        let load = self.load.map(Load::new).transpose()?;
        let size = match (load, self.fixed) {
            (Some(load), None) => Size::Load(load),
            (None, None) => Size::Default,
            (None, Some(Fixed::Slots(slots))) => Size::Slots(slots),
            (Some(load), Some(Fixed::Slots(_))) => {
                let advice = "a number of slots is set too: set only one of the two, or a capacity";
                return Err(Error::parameter("load factor", load.get(), advice));
            }
            (load, Some(Fixed::Pairs(pairs))) => {
                Size::Slots(slots_at(load.unwrap_or(self.scheme.default_load()), pairs))
            }
        };
        if !(1..=MOST_ATTEMPTS).contains(&self.attempts) {
            return Err(Error::parameter("attempts", self.attempts, "use 1 to 1024"));
        }
        self.key_type.check(<S::Key as Word>::BITS)?;
        Ok(Settings {
            size,
            seed: self.seed,
            duplicates: self.duplicates,
            attempts: self.attempts,
            contents: self.contents,
            key_type: self.key_type,
            value_type: self.value_type,
        })
    }
}

/// Bytes of device memory that a table needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryEstimate {
    /// The finished table, after the first attempt. Perfect spatial hashes grow with each failed attempt; the estimates
    /// of builds include some growth.
    pub image: u64,
    /// During the build: the table, its input, and scratch space.
    pub build: u64,
    /// During the build, if there are duplicate keys and one pair of each key is kept.
    pub build_with_duplicates: u64,
    /// During the insertion of a batch of as many pairs again. With a capacity: the table, a copy of it, and the batch.
    /// With a load, or if every batch rebuilds the table: also all pairs, and the rebuilt table. If a table of twice
    /// the pairs cannot exist, the estimate is for the same size. Salted tables ([`Plan::salt`]), which occur only with
    /// chosen keys, are rebuilt by every batch like those with a load.
    pub insert: u64,
}

/// The memory of a table with a given number of pairs.
#[derive(Clone, Copy)]
struct Footprint {
    /// Bytes of the image.
    image: u64,
    /// Additional bytes of the build.
    scratch: u64,
    /// The number of cells.
    cells: u64,
}

/// A saturating sum.
fn sum<const N: usize>(bytes: [u64; N]) -> u64 {
    bytes.into_iter().fold(0, u64::saturating_add)
}

impl MemoryEstimate {
    /// The estimate for a table that has the footprint `now`, and `twice` with twice the pairs.
    fn new(now: Footprint, twice: Footprint, pairs: u64, rebuilds: bool, rule: Duplicates) -> Self {
        let input = pairs.saturating_mul(8);
        let several = |times: u64| input.saturating_mul(times);
        // Keys, values and a bitmap of all cells, and the pairs selected from them.
        let decoded = |cells: u64| sum([cells.saturating_mul(8), cells / 8, input]);
        // The batch with one pair per key, split into new and known keys.
        let split = if rule == Duplicates::Error { 0 } else { several(2) };
        let built = sum([now.image, now.scratch]);
        let in_place = sum([now.image, now.image, now.scratch, input]);
        // The old table, together with the largest of: its decoded cells; its pairs, the batch, and both concatenated;
        // the batch, all pairs, and the new table.
        let rebuilt = sum([now.image, input, decoded(now.cells)]).max(sum([now.image, several(5)])).max(sum([
            now.image,
            several(3),
            twice.image,
            twice.scratch,
        ]));
        // The input and twice its size for sorting it, and the counts of the sort; or the sorted input, a bitmap, and
        // the selected pairs.
        let picked = sum([several(3), sorted::counts_bytes(pairs).max(pairs / 8)]);
        MemoryEstimate {
            image: now.image,
            build: sum([built, input]),
            build_with_duplicates: picked.max(sum([built, several(2)])),
            insert: sum([if rebuilds { rebuilt } else { in_place }, split]),
        }
    }
}

impl<B: Runs<S>, S: Scheme> HashTable<B, S> {
    /// Uploads pairs to this table's device.
    pub(super) fn upload_pairs(&self, keys: &[S::Key], values: &[S::Value]) -> Result<PairsOf<B, S>> {
        Error::check_length("values", values.len(), keys.len())?;
        Ok(Pairs { keys: self.backend.upload(keys)?, values: self.backend.upload(values)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AnyScheme, Cpu};

    const N: u64 = 1_000_000;

    /// For a table sized by its load and one that is always rebuilt: at the end of an insert, memory holds the old
    /// table, the batch, and a build of all pairs with its input.
    #[test]
    fn estimates_include_the_rebuild_of_a_batch_as_large_as_the_table() {
        for scheme in AnyScheme::all() {
            let rebuilds = scheme.updates() == Updates::Rebuild;
            for fixed in [false, true] {
                let builder = HashTable::<Cpu, _>::builder(scheme.clone());
                let builder = if fixed { builder.slots(3 * N as usize) } else { builder };
                let n = N.min(scheme.limits().pairs / 2);
                let Ok(now) = builder.memory_estimate(n) else { continue };
                let all = builder.memory_estimate(2 * n).expect("twice the pairs");
                let least = now.image + 8 * n + all.build;
                let takes = if rebuilds || !fixed { now.insert >= least } else { now.insert < least };
                assert!(takes, "{scheme:?}, fixed {fixed}: {now:?}, twice {all:?}");
            }
            for pairs in [0, 1, u64::from(u32::MAX), 1 << 60, u64::MAX] {
                let builder = HashTable::<Cpu, _>::builder(scheme.clone()).duplicates(Duplicates::KeepLast);
                for builder in [builder.clone(), builder.clone().slots(1000), builder.load_factor(0.1)] {
                    match builder.memory_estimate(pairs) {
                        Ok(estimate) => assert!(estimate.insert >= estimate.image),
                        Err(error) => assert!(matches!(error, Error::TooLarge { .. }), "{error}"),
                    }
                }
            }
        }
    }
}
