//! Attempts: the loop around every build, for every scheme and device.
//!
//! ```text
//! before the loop:          a sample of the keys shows whether to expect duplicates; apply their rule (`rows.rs`)
//! for attempt = 0, 1, ..:   constants of (seed, attempt);  place all pairs;  done if none is left over
//! after the first failure:  are there duplicate keys? An exact check, before the next attempt
//! attempts from 8 on:       constants of (salt, attempt); the salt is a hash of all keys, which are distinct by now
//! after the last, or a hopeless salted one:  Error::TooFull
//! ```
//!
//! Attempts 0 to 7 allow batches to be inserted in place, but an attacker who knows the seed can choose keys for which
//! all of them fail. No one can choose keys for salted attempts (`scheme/constants.rs`). Schemes whose attempts differ
//! by more than the constants of their functions are not salted ([`Plan::takes_salt`]).
//!
//! Whether a canonical attempt fails depends only on the set of keys, so a plan stores the same attempt on every
//! device. In cuckoo and bucketized tables the number of leftover pairs is exact too, so stopping at a hopeless attempt
//! is deterministic. An attempt is hopeless only if the load exceeds what the functions can reach and the constants are
//! salted; otherwise the keys may have been chosen for it. In other schemes, an attempt can fail because of a crowd
//! that other constants would scatter, so all attempts are made. If the last one fails because of a crowd, the error
//! names it.

use super::builder::{Contents, Settings};
use super::rows::Rows;
use super::{Image, salt};
use crate::backend::{HashBackend, Kernels, Runs, Word};
use crate::error::{Error, Result};
use crate::scheme::{FIRST_SALTED, Plan, Request, Scheme};

/// The result of a loop of attempts.
pub(super) enum Outcome<B: Runs<S>, S: Scheme> {
    Built(Image<B, S>),
    /// The smallest key that occurs more than once.
    Duplicates(S::Key),
}

impl<B: Runs<S>, S: Scheme> Outcome<B, S> {
    /// The image, for rows that are known to be distinct.
    pub(super) fn of_distinct(self) -> Result<Image<B, S>> {
        match self {
            Outcome::Built(image) => Ok(image),
            Outcome::Duplicates(key) => Err(Error::DuplicateKey { key: key.into() }),
        }
    }
}

/// Builds from pairs that may have duplicate keys. The caller has checked their widths.
pub(super) fn with_rule<B: Runs<S>, S: Scheme>(
    backend: &B,
    scheme: &S,
    settings: &Settings,
    keys: &B::Buffer<S::Key>,
    values: &B::Buffer<S::Value>,
) -> Result<Image<B, S>> {
    let try_all = |rows: &mut Rows<'_, B, S>| {
        let slots = settings.slots(scheme, rows.len());
        attempts(backend, scheme, settings, slots, 0, rows)
    };
    let mut rows = Rows::of(keys, values).prepared(backend, settings.duplicates)?;
    if let Outcome::Built(image) = try_all(&mut rows)? {
        return Ok(image);
    }
    try_all(&mut rows.settled(backend, settings.duplicates)?)?.of_distinct()
}

/// Returns an error for keys and values that are too wide for this scheme's slots.
pub(super) fn check_limits<B: HashBackend, S: Scheme>(
    backend: &B,
    scheme: &S,
    contents: Contents,
    keys: &B::Buffer<S::Key>,
    values: &B::Buffer<S::Value>,
) -> Result<()> {
    let bits = scheme.limits().value_bits;
    let advice = match (contents, bits) {
        (Contents::Compact | Contents::Multi, _) => "the values are ids of keys: use a scheme with wider values",
        (_, 0) => "this scheme stores only keys: use values of 0, or another scheme",
        _ => KEYS_TOO_WIDE,
    };
    check_keys(backend, scheme, keys)?;
    check_width(backend, "value", values, bits, advice)
}

const KEYS_TOO_WIDE: &str = "use canonical tables, or another scheme";

/// Returns an error for keys that are too wide for this scheme's slots.
pub(super) fn check_keys<B: HashBackend, S: Scheme>(backend: &B, scheme: &S, keys: &B::Buffer<S::Key>) -> Result<()> {
    check_width(backend, "key", keys, scheme.limits().key_bits, KEYS_TOO_WIDE)
}

/// Returns an error for numbers of more than this many bits.
fn check_width<B: HashBackend, T: Word>(
    backend: &B,
    what: &'static str,
    column: &B::Buffer<T>,
    bits: u32,
    advice: &'static str,
) -> Result<()> {
    if bits >= T::BITS {
        return Ok(());
    }
    let given: u64 = backend.greatest(column)?.into();
    if given >> bits == 0 { Ok(()) } else { Err(Error::TooWide { what, given, bits, advice }) }
}

/// Makes attempts with different constants, starting with attempt `first`; all earlier ones are known to fail.
pub(super) fn attempts<B: Runs<S>, S: Scheme>(
    backend: &B,
    scheme: &S,
    settings: &Settings,
    slots: u64,
    first: u32,
    rows: &mut Rows<'_, B, S>,
) -> Result<Outcome<B, S>> {
    let pairs = rows.len();
    let most = scheme.limits().pairs;
    if pairs > most {
        if let Some(least) = rows.least_duplicate(backend)? {
            return Ok(Outcome::Duplicates(least));
        }
        let what = "pairs for a table of this scheme";
        return Err(Error::TooLarge { what, requested: pairs, most });
    }
    let mut plan = match scheme.plan(Request { slots, pairs, seed: settings.seed, attempt: 0 }) {
        Ok(plan) => plan,
        // All pairs are too many for a table, but they may fit without their duplicates.
        Err(error @ Error::TooLarge { .. }) => {
            return rows.least_duplicate(backend)?.map(Outcome::Duplicates).ok_or(error);
        }
        Err(error) => return Err(error),
    };
    let mut tried = 0;
    let mut unplaced = pairs.saturating_sub(capacity(&plan));
    // More pairs than the capacity fit only if some are duplicates, which the check below detects.
    let last = if unplaced > 0 { 0 } else { settings.attempts };
    let too_high = scheme.gives_up_above().map(|most| plan.slots() < most.slots_for(pairs));
    let mut salted = None;
    for attempt in first..last {
        plan = scheme.plan(Request { slots, pairs, seed: settings.seed, attempt })?;
        if plan.takes_salt() && attempt >= FIRST_SALTED {
            if let Some(least) = rows.least_duplicate(backend)? {
                return Ok(Outcome::Duplicates(least));
            }
            if salted.is_none() {
                salted = Some(salt::of(backend, settings.seed, rows.keys())?);
            }
            plan = plan.with_salt(salted);
        }
        let (image, placed) = Kernels::<S>::build(backend, &plan, rows.keys(), rows.values())?;
        tried += 1;
        unplaced = placed.unplaced;
        if unplaced == 0 {
            if let Some(least) = placed.least_duplicate {
                rows.found(least);
                return Ok(Outcome::Duplicates(least));
            }
            return Ok(Outcome::Built(Image::of_pairs(plan.with_stash(placed.stash), image, pairs, placed.outside)));
        }
        drop(image);
        if let Some(least) = rows.least_duplicate(backend)? {
            return Ok(Outcome::Duplicates(least));
        }
        if too_high == Some(true) && salted.is_some() && hopeless(unplaced, pairs) {
            break;
        }
    }
    if let Some(least) = rows.least_duplicate(backend)? {
        return Ok(Outcome::Duplicates(least));
    }
    if tried > 0
        && scheme.names_crowds()
        // The keys only make the error more precise. If they cannot be read, the less precise error is returned.
        && let Ok(keys) = backend.download(rows.keys())
        && let Some(crowd) = S::crowd(&plan, &keys)
    {
        return Err(Error::Crowded { attempts: tried, crowd });
    }
    let by_load = tried == 0 || too_high.unwrap_or(true);
    Err(Error::TooFull { pairs, slots: plan.slots(), attempts: tried, unplaced, by_load })
}

/// The maximum number of pairs of a table: some tables store one pair outside of their image.
pub(super) fn capacity(plan: &impl Plan) -> u64 {
    plan.capacity() + u64::from(plan.outside_key().is_some())
}

/// Used for schemes that [give up by load](Scheme::gives_up_above). An unlucky attempt leaves a few pairs unplaced; an
/// attempt at a load that is too high leaves a share of all pairs; other constants cure only the first.
fn hopeless(unplaced: u64, pairs: u64) -> bool {
    unplaced > 64 + pairs / 1024
}
