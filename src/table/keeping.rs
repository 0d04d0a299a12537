//! Tables of keys without values, built from columns that may contain duplicates.
//!
//! ```text
//! a scheme that keeps one of each key by itself (Scheme::keeps_one):  one attempt with all rows
//!     no row is left over, and the plan for all rows is that for the distinct keys   done: this is the table
//!     no row is left over, and the plans differ             read the distinct keys from the image, and build from them
//! other schemes, and attempts with unplaced rows            a build that keeps the first row of each key
//! ```
//!
//! Why the bytes do not depend on the path: duplicates change nothing in such an image except the number of pairs. An
//! attempt that succeeds with them also succeeds without them, and produces the same image.

use super::{HashTable, Image, TableBuilder, build};
use crate::backend::{DeviceBuffer, Kernels, Runs};
use crate::error::Result;
use crate::scheme::{Kind, Plan, Scheme};

impl<S: Scheme> TableBuilder<S> {
    /// A table of `key -> 0` for each key. The rule for duplicates must not be [`Error`](super::Duplicates::Error).
    ///
    /// # Errors
    /// As [`build_on`](Self::build_on).
    pub(crate) fn build_of_keys<B: Runs<S>>(&self, backend: &B, keys: &B::Buffer<S::Key>) -> Result<HashTable<B, S>> {
        let (scheme, settings) = self.parts()?;
        build::check_keys(backend, &scheme, keys)?;
        // A canonical image without values does not store the values that the build carries along.
        let none = scheme.kind() == Kind::Canonical && scheme.limits().value_bits == 0;
        let build = |keys: &B::Buffer<S::Key>, values: &B::Buffer<S::Value>| {
            let image = build::with_rule(backend, &scheme, &settings, keys, values)?;
            HashTable::of_image(backend, self, image)
        };
        let values =
            if none { backend.unwritten(keys.len()) } else { backend.filled(keys.len(), S::Value::default()) }?;
        let Some((table, sized)) = self.one_pass(backend, keys, &values)? else { return build(keys, &values) };
        drop(values);
        if sized {
            return Ok(table);
        }
        let (keys, values) = table.pairs_on()?;
        drop(table);
        build(&keys, &values)
    }

    /// A table of all rows from one attempt, if possible, and whether its plan is that of the distinct keys.
    fn one_pass<B: Runs<S>>(
        &self,
        backend: &B,
        keys: &B::Buffer<S::Key>,
        zeros: &B::Buffer<S::Value>,
    ) -> Result<Option<(HashTable<B, S>, bool)>> {
        let (scheme, settings) = self.parts()?;
        let rows = keys.len() as u64;
        if !scheme.keeps_one() || rows > scheme.limits().pairs {
            return Ok(None);
        }
        // If no table of this many rows can exist, there may still be one of the distinct keys.
        let Ok(plan) = scheme.plan(settings.request(&scheme, rows)) else { return Ok(None) };
        let mut image = backend.filled(plan.word_count()?, plan.empty_word())?;
        let placed = Kernels::<S>::place(backend, &plan, &mut image, keys, zeros)?;
        if placed.unplaced > 0 {
            return Ok(None);
        }
        let distinct = rows.saturating_sub(placed.duplicates);
        let own = scheme.plan(settings.request(&scheme, distinct))?;
        // Classic plans also contain the maximum length of a chain, which cannot be derived from the finished image.
        let of_one_size = own.requested_slots() == plan.requested_slots() && own.words() == plan.words();
        let sized = own == plan || scheme.kind() == Kind::Classic && of_one_size;
        let image = Image::of_pairs(plan, image, distinct, placed.outside);
        Ok(Some((HashTable::of_image(backend, self, image)?, sized)))
    }
}
