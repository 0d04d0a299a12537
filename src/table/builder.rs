//! What a user says before a build: parameters, size, seed, what to do with copies.

use super::{HashTable, Pairs, build};
use crate::backend::{DeviceBuffer, Runs};
use crate::error::{Error, Result};
use crate::spec::{Load, Plan, Request, Scheme, Updates};

/// What a key that comes more than once means. Positions count through all batches, from the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Duplicates {
    /// It is an error that names the smallest such key.
    #[default]
    Error,
    /// The pair that came first stays.
    KeepFirst,
    /// The pair that came last stays.
    KeepLast,
}

impl Duplicates {
    /// Every rule.
    pub const ALL: [Duplicates; 3] = [Duplicates::Error, Duplicates::KeepFirst, Duplicates::KeepLast];
}

/// How many slots a table gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    /// The scheme's default load.
    Default,
    /// As many as this load needs; a table that grows is rebuilt to keep to it.
    Load(Load),
    /// So many, for good.
    Capacity(u64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) size: Size,
    pub(super) seed: u64,
    pub(super) duplicates: Duplicates,
    pub(super) attempts: u32,
}

impl Settings {
    /// The slots for so many pairs.
    pub(super) fn slots<S: Scheme>(&self, scheme: &S, pairs: u64) -> u64 {
        match self.size {
            Size::Default => scheme.default_load().slots_for(pairs),
            Size::Load(load) => load.slots_for(pairs),
            Size::Capacity(slots) => slots,
        }
    }
}

/// Builds tables; made by [`HashTable::builder`].
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
    capacity: Option<u64>,
    seed: u64,
    duplicates: Duplicates,
    attempts: u32,
}

/// The seed of tables whose user gives none.
const DEFAULT_SEED: u64 = 0x6b6f_656c;
/// Enough for tables of a few dozen slots, of which up to 22% of attempts fail; larger ones succeed at the first.
const DEFAULT_ATTEMPTS: u32 = 32;
/// A bound on how long a build can take that never succeeds, whoever chose the number (a hostile file, for one).
pub(super) const MOST_ATTEMPTS: u32 = 1024;

impl<S: Scheme> TableBuilder<S> {
    pub(super) fn new(scheme: S) -> Self {
        TableBuilder {
            scheme,
            load: None,
            capacity: None,
            seed: DEFAULT_SEED,
            duplicates: Duplicates::default(),
            attempts: DEFAULT_ATTEMPTS,
        }
    }

    /// Pairs per slot, above 0 and up to 1. A build gives the table the slots that its number of pairs needs at this load,
    /// and so does a batch that adds pairs, which rebuilds it for that; give a [`capacity`](Self::capacity) to insert in
    /// place. Removing pairs keeps the slots. The two exclude each other: giving both is an error of the build.
    pub fn load_factor(mut self, load: f64) -> Self {
        self.load = Some(load);
        self
    }

    /// Slots (not pairs: a cuckoo table with four functions is best left a fifth empty), for good. They are rounded up to
    /// whole buckets, and to at least 16 buckets in canonical tables. Batches are inserted in place while they fit, but for
    /// canonical Horton and two-level tables, which are built again for each.
    pub fn capacity(mut self, slots: u64) -> Self {
        self.capacity = Some(slots);
        self
    }

    /// The seed of all constants. Equal seeds, parameters and contents give equal bytes.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// What a key that comes more than once means.
    pub fn duplicates(mut self, rule: Duplicates) -> Self {
        self.duplicates = rule;
        self
    }

    /// The most attempts with new constants, 1 to 1024; otherwise 32.
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self
    }

    /// Builds a table of `keys[i] -> values[i]` on a device.
    ///
    /// Cost: one to two random accesses a pair at the default loads (`docs/canonical-layout.md`; classic Horton tables are
    /// built by one thread of this machine), the transfer of 8 bytes a pair, and [`memory_estimate`](Self::memory_estimate) bytes on the device. If keys come
    /// more than once and one is to stay, two builds more.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`], [`Error::InvalidParameter`], [`Error::DuplicateKey`], [`Error::TooFull`],
    /// [`Error::TooLarge`], [`Error::OutOfMemory`], or what the device reports.
    pub fn build<B: Runs<S>>(&self, backend: &B, keys: &[u32], values: &[u32]) -> Result<HashTable<B, S>> {
        Error::check_length("values", values.len(), keys.len())?;
        self.settings()?;
        let (keys, values) = (backend.upload(keys)?, backend.upload(values)?);
        self.build_on(backend, &keys, &values)
    }

    /// Builds a table from buffers that are on the device already; nothing is transferred.
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
        keys: &B::Buffer<u32>,
        values: &B::Buffer<u32>,
    ) -> Result<HashTable<B, S>> {
        Error::check_length("values", values.len(), keys.len())?;
        let settings = self.settings()?;
        let built = build::with_rule(backend, &self.scheme, &settings, keys, values)?;
        Ok(HashTable {
            backend: backend.clone(),
            scheme: self.scheme.clone(),
            settings,
            plan: built.plan,
            image: built.image,
            in_image: built.in_image,
            tombstones: 0,
        })
    }

    /// The memory a table of `pairs` takes, before it is built.
    ///
    /// ```
    /// use koel::{Cuckoo, HashTable};
    /// let estimate = HashTable::builder(Cuckoo::canonical(4)).memory_estimate(1_000_000)?;
    /// assert_eq!((estimate.image, estimate.build), (10_000_000, 18_000_000));
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`build`](Self::build), where no such table can exist.
    pub fn memory_estimate(&self, pairs: u64) -> Result<MemoryEstimate> {
        let settings = self.settings()?;
        let slots = settings.slots(&self.scheme, pairs);
        let rebuilds =
            S::updates(self.scheme.kind()) == Updates::Rebuild || !matches!(settings.size, Size::Capacity(_));
        let plan = self.scheme.plan(Request { slots, pairs, seed: self.seed, attempt: 0 })?;
        let scratch = S::scratch_bytes(&plan, pairs);
        Ok(MemoryEstimate::new(&plan, pairs, scratch, rebuilds, settings.duplicates))
    }

    fn settings(&self) -> Result<Settings> {
        self.scheme.check()?;
        let size = match (self.load, self.capacity) {
            (Some(load), None) => Size::Load(Load::new(load)?),
            (None, Some(slots)) => Size::Capacity(slots),
            (None, None) => Size::Default,
            (Some(load), Some(_)) => {
                let advice = "a capacity was given too, and they exclude each other: give one of the two";
                return Err(Error::parameter("load factor", load, advice));
            }
        };
        if !(1..=MOST_ATTEMPTS).contains(&self.attempts) {
            return Err(Error::parameter("attempts", self.attempts, "give 1 to 1024"));
        }
        Ok(Settings { size, seed: self.seed, duplicates: self.duplicates, attempts: self.attempts })
    }
}

/// Bytes of device memory that a table needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryEstimate {
    /// The finished table, at the first attempt. Perfect spatial hashes grow with each attempt that fails; the figures of
    /// builds have room for that.
    pub image: u64,
    /// While it is built: the table, its input, and what the build needs besides.
    pub build: u64,
    /// While it is built if keys come more than once and one pair of each is to stay.
    pub build_with_copies: u64,
    /// While a batch of as many pairs again is inserted. With a capacity: the table, the copy that is worked on, and
    /// the batch. With a load, or where every batch builds again: also all pairs, and the table that they are built into.
    pub insert: u64,
}

impl MemoryEstimate {
    fn new(plan: &impl Plan, pairs: u64, scratch: u64, rebuilds: bool, rule: Duplicates) -> Self {
        let image = 8 * plan.words();
        let input = 8 * pairs;
        // Keys, values and a bitmap of all cells, and the pairs picked out of them.
        let decoded = |cells: u64| 8 * cells + cells / 8 + input;
        // A table of positions, at load 0.8.
        let positions = 10 * pairs;
        // The batch with each key once, and its parts that are new and known.
        let split = if rule == Duplicates::Error { 0 } else { 2 * input };
        // What a build fills.
        let built = image + scratch;
        let in_place = 2 * image + input + scratch;
        let rebuilt = (image + input + decoded(plan.cells()))
            .max(image + 3 * input + 2 * input)
            .max(2 * image + built + 3 * input);
        MemoryEstimate {
            image,
            build: built + input,
            build_with_copies: (positions + decoded(pairs * 5 / 4) + input).max(built + 2 * input),
            insert: if rebuilds { rebuilt } else { in_place } + split,
        }
    }
}

impl<B: Runs<S>, S: Scheme> HashTable<B, S> {
    /// The pairs of two host slices on this table's device.
    pub(super) fn upload_pairs(&self, keys: &[u32], values: &[u32]) -> Result<Pairs<B>> {
        Error::check_length("values", values.len(), keys.len())?;
        Ok(Pairs { keys: self.backend.upload(keys)?, values: self.backend.upload(values)? })
    }
}
