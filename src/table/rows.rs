//! The rows of a build, and what is known about duplicates among them.
//!
//! ```text
//! Unknown    not all keys have been examined
//! Distinct   there are no duplicates
//! Least      there are duplicates; the smallest duplicate key
//!
//! Rows::of      Unknown
//! prepared      if a sample of the keys shows duplicates, with which an attempt would fail:
//!               under Error, the error
//!               Unknown, without all but one pair of the heavy keys, if the sample shows no other duplicates
//!               Distinct, one pair of each key
//! least_duplicate    Unknown -> Least or Distinct, by examining all keys; so they are examined once
//! found         -> Least, by an attempt
//! settled       Least   -> under Error, the error
//!                       -> Distinct, one pair of each key
//! ```
//!
//! The rule for duplicates is applied only here: attempts (`build.rs`) know rows, but no rule.

use super::builder::Duplicates;
use super::sample::Sample;
use super::{PairsOf, distinct, heavy};
use crate::backend::{DeviceBuffer, Runs};
use crate::error::{Error, Result};
use crate::scheme::Scheme;

/// What is known about duplicates.
enum Known<K> {
    Unknown,
    Distinct,
    Least(K),
}

/// Keys and their values: those of the caller, or columns computed from them.
enum Columns<'a, B: Runs<S>, S: Scheme> {
    Given { keys: &'a B::Buffer<S::Key>, values: &'a B::Buffer<S::Value> },
    Results(PairsOf<B, S>),
}

/// The pairs of a build.
pub(super) struct Rows<'a, B: Runs<S>, S: Scheme> {
    columns: Columns<'a, B, S>,
    duplicates: Known<S::Key>,
}

impl<'a, B: Runs<S>, S: Scheme> Rows<'a, B, S> {
    /// Rows about which nothing is known.
    pub(super) fn of(keys: &'a B::Buffer<S::Key>, values: &'a B::Buffer<S::Value>) -> Self {
        Rows { columns: Columns::Given { keys, values }, duplicates: Known::Unknown }
    }

    /// One pair of each key.
    fn distinct(backend: &B, keys: &B::Buffer<S::Key>, values: &B::Buffer<S::Value>, rule: Duplicates) -> Result<Self> {
        let pairs = distinct::one_of_each::<B, S::Key, S::Value>(backend, keys, values, rule)?;
        Ok(Rows { columns: Columns::Results(pairs), duplicates: Known::Distinct })
    }

    pub(super) fn keys(&self) -> &B::Buffer<S::Key> {
        match &self.columns {
            Columns::Given { keys, .. } => keys,
            Columns::Results(pairs) => &pairs.keys,
        }
    }

    pub(super) fn values(&self) -> &B::Buffer<S::Value> {
        match &self.columns {
            Columns::Given { values, .. } => values,
            Columns::Results(pairs) => &pairs.values,
        }
    }

    pub(super) fn len(&self) -> u64 {
        self.keys().len() as u64
    }

    /// The rows for the first attempt. If a sample shows duplicates, they are removed first, because an attempt would
    /// fail.
    ///
    /// # Errors
    /// [`Error::DuplicateKey`] if the sample shows duplicates and the rule does not allow them; what the device
    /// reports.
    pub(super) fn prepared(mut self, backend: &B, rule: Duplicates) -> Result<Self> {
        let Some(sample) = Sample::<S::Key>::with_duplicates(backend, self.keys())? else { return Ok(self) };
        if rule == Duplicates::Error {
            self.least_duplicate(backend)?;
            return self.settled(backend, rule);
        }
        Ok(
            match heavy::without_heavy_keys::<B, S::Key, S::Value>(
                backend,
                self.keys(),
                self.values(),
                rule,
                &sample.heavy_keys(),
            )? {
                // The attempt detects duplicates of keys that are not heavy.
                Some(pairs) => Rows { columns: Columns::Results(pairs), duplicates: Known::Unknown },
                None => Rows::distinct(backend, self.keys(), self.values(), rule)?,
            },
        )
    }

    /// The smallest duplicate key. Examines all keys, unless it is known.
    pub(super) fn least_duplicate(&mut self, backend: &B) -> Result<Option<S::Key>> {
        if let Known::Unknown = self.duplicates {
            let least = distinct::least_duplicate::<B, S::Key>(backend, self.keys())?;
            self.duplicates = least.map_or(Known::Distinct, Known::Least);
        }
        Ok(match self.duplicates {
            Known::Least(least) => Some(least),
            _ => None,
        })
    }

    /// Records the smallest duplicate key, which an attempt found.
    pub(super) fn found(&mut self, least: S::Key) {
        self.duplicates = Known::Least(least);
    }

    /// The rows without the duplicates that were found.
    ///
    /// # Errors
    /// [`Error::DuplicateKey`] if the rule does not allow duplicates; what the device reports.
    pub(super) fn settled(self, backend: &B, rule: Duplicates) -> Result<Self> {
        match self.duplicates {
            Known::Least(key) if rule == Duplicates::Error => Err(Error::DuplicateKey { key: key.into() }),
            Known::Least(_) => Rows::distinct(backend, self.keys(), self.values(), rule),
            _ => Ok(self),
        }
    }
}
