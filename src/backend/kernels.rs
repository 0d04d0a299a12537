//! The passes over tables, with the checks before each, for all backends and schemes. If a device cannot change tables,
//! and cannot build those of the scheme either, a CPU does it instead (`builder.rs`).

use super::builder::Builder;
use super::{DecodedOf, DeviceBuffer, HashBackend, Passes, PlacedOf, Removed, bitmap_words};
use crate::cpu::Cpu;
use crate::error::{Error, Result};
use crate::scheme::{Plan, Scheme, Updates};

/// The passes over tables of scheme `S`, on every backend that runs it. Sealed.
///
/// # Errors
/// All of them return [`Error::LengthMismatch`] if the length of an image or column does not match the plan or another
/// column; [`Error::WrongDevice`] and [`Error::Aliased`] if a kernel receives a buffer of another backend, or one
/// twice; and what the device reports. Plans need no check: only schemes can create them ([`Plan`]).
pub trait Kernels<S: Scheme>: HashBackend {
    /// Creates an image of these pairs. The result equals that of [`place`](Self::place) on an empty image, but a
    /// backend may have a faster algorithm. Reports whether there are duplicates and the smallest duplicate key, but
    /// may count some duplicates twice. With duplicates, the image equals that of `place` only for the schemes of
    /// [`Key::Rows`](crate::scheme::Key::Rows); in other schemes, it may store a key more than once and must be
    /// discarded. If the size of a stash depends on the keys, the image is that of
    /// [`plan.with_stash(placed.stash)`](Plan::with_stash).
    ///
    /// # Errors
    /// As `place`, and [`Error::OutOfMemory`] for the image.
    fn build(
        &self,
        plan: &S::Plan,
        keys: &Self::Buffer<S::Key>,
        values: &Self::Buffer<S::Value>,
    ) -> Result<(Self::Buffer<u64>, PlacedOf<S>)>;

    /// Creates a copy of an image with these pairs added. The result equals that of [`place`](Self::place) on a copy,
    /// but a backend may have a faster algorithm. Duplicates are reported as by [`build`](Self::build); with them, the
    /// copy may store a key more than once and must be discarded. The image itself is unchanged.
    ///
    /// # Errors
    /// As `place`, and [`Error::OutOfMemory`] for the copy.
    fn extended(
        &self,
        plan: &S::Plan,
        image: &Self::Buffer<u64>,
        keys: &Self::Buffer<S::Key>,
        values: &Self::Buffer<S::Value>,
    ) -> Result<(Self::Buffer<u64>, PlacedOf<S>)>;

    /// Adds pairs to an image, which may contain pairs unless the kind's updates are
    /// [`Updates::Rebuild`](crate::scheme::Updates). Of pairs with equal keys, one is kept, or the image must not be
    /// used ([`Placed::duplicates`](super::Placed::duplicates)).
    fn place(
        &self,
        plan: &S::Plan,
        image: &mut Self::Buffer<u64>,
        keys: &Self::Buffer<S::Key>,
        values: &Self::Buffer<S::Value>,
    ) -> Result<PlacedOf<S>>;

    /// Looks up `queries`: `values[i]` is the value or 0, and bit i of `found` is set for a hit.
    fn lookup(
        &self,
        plan: &S::Plan,
        image: &Self::Buffer<u64>,
        queries: &Self::Buffer<S::Key>,
        values: &mut Self::Buffer<S::Value>,
        found: &mut Self::Buffer<u32>,
    ) -> Result<()>;

    /// A bitmap of the hits among `queries`. It equals `found` of a [`lookup`](Self::lookup); a backend may have a
    /// faster algorithm.
    fn contains(
        &self,
        plan: &S::Plan,
        image: &Self::Buffer<u64>,
        queries: &Self::Buffer<S::Key>,
    ) -> Result<Self::Buffer<u32>>;

    /// Overwrites the values of keys. The keys must be distinct; a key that is absent or outside of the image is
    /// skipped.
    fn assign(
        &self,
        plan: &S::Plan,
        image: &mut Self::Buffer<u64>,
        keys: &Self::Buffer<S::Key>,
        values: &Self::Buffer<S::Value>,
    ) -> Result<()>;

    /// The pair of each word.
    fn decode(&self, plan: &S::Plan, image: &Self::Buffer<u64>) -> Result<DecodedOf<Self, S>>;

    /// Removes these keys from the image. Absent keys and duplicates have no effect.
    ///
    /// Kinds whose updates are [`Updates::Rebuild`](crate::scheme::Updates) return [`crate::Error::InvalidParameter`].
    fn remove(&self, plan: &S::Plan, image: &mut Self::Buffer<u64>, keys: &Self::Buffer<S::Key>) -> Result<Removed>;

    /// The first part of compacting: clears the slots of all tombstones and of all pairs above age 1, and returns those
    /// pairs. The caller then places them again.
    ///
    /// Kinds whose updates are not [`Updates::Tombstones`](crate::scheme::Updates) return
    /// [`crate::Error::InvalidParameter`].
    fn lift(&self, plan: &S::Plan, image: &mut Self::Buffer<u64>) -> Result<DecodedOf<Self, S>>;
}

/// Returns an error if the image's length does not match its plan.
fn check_image(plan: &impl Plan, image: &impl DeviceBuffer) -> Result<()> {
    Error::check_length("the image", image.len(), plan.word_count()?)
}

/// The error of removing from an image that depends on all pairs at once ([`Updates::Rebuild`]).
pub(super) fn rebuilt<S: Scheme>(plan: &S::Plan) -> Error {
    Error::parameter("kind", plan.kind(), "tables of this kind are built afresh to remove pairs: use HashTable::remove")
}

/// The error of compacting an image whose kind does not have tombstones.
pub(super) fn no_tombstones<S: Scheme>(plan: &S::Plan) -> Error {
    Error::parameter("kind", plan.kind(), "tables of this kind have no tombstones, so nothing is to be lifted")
}

fn check_pairs(keys: &impl DeviceBuffer, values: &impl DeviceBuffer) -> Result<()> {
    Error::check_length("the values", values.len(), keys.len())
}

#[diagnostic::do_not_recommend]
impl<B: Passes<S>, S: Scheme> Kernels<S> for B
where
    Cpu: Passes<S>,
{
    fn build(
        &self,
        plan: &S::Plan,
        keys: &B::Buffer<S::Key>,
        values: &B::Buffer<S::Value>,
    ) -> Result<(B::Buffer<u64>, PlacedOf<S>)> {
        check_pairs(keys, values)?;
        match Builder::of(self) {
            None => Passes::build(self, plan, keys, values),
            Some(builder) => match Passes::partial_build(self, plan, keys, values) {
                Ok(Some(built)) => Ok(built),
                // The device does not have the memory that the build needs in addition to the image.
                Ok(None) | Err(Error::OutOfMemory { .. } | Error::TooLarge { .. }) => {
                    builder.build::<S>(plan, keys, values)
                }
                Err(error) => Err(error),
            },
        }
    }

    fn extended(
        &self,
        plan: &S::Plan,
        image: &B::Buffer<u64>,
        keys: &B::Buffer<S::Key>,
        values: &B::Buffer<S::Value>,
    ) -> Result<(B::Buffer<u64>, PlacedOf<S>)> {
        check_image(plan, image)?;
        check_pairs(keys, values)?;
        match Builder::of(self) {
            None => Passes::extended(self, plan, image, keys, values),
            Some(builder) => builder.extended::<S>(plan, image, keys, values),
        }
    }

    fn place(
        &self,
        plan: &S::Plan,
        image: &mut B::Buffer<u64>,
        keys: &B::Buffer<S::Key>,
        values: &B::Buffer<S::Value>,
    ) -> Result<PlacedOf<S>> {
        check_image(plan, image)?;
        check_pairs(keys, values)?;
        match Builder::of(self) {
            None => Passes::place(self, plan, image, keys, values),
            Some(builder) => builder.place::<S>(plan, image, keys, values),
        }
    }

    fn lookup(
        &self,
        plan: &S::Plan,
        image: &B::Buffer<u64>,
        queries: &B::Buffer<S::Key>,
        values: &mut B::Buffer<S::Value>,
        found: &mut B::Buffer<u32>,
    ) -> Result<()> {
        check_image(plan, image)?;
        check_pairs(queries, values)?;
        Error::check_length("the bitmap", found.len(), bitmap_words(queries.len()))?;
        Passes::lookup(self, plan, image, queries, values, found)
    }

    fn contains(&self, plan: &S::Plan, image: &B::Buffer<u64>, queries: &B::Buffer<S::Key>) -> Result<B::Buffer<u32>> {
        check_image(plan, image)?;
        Passes::contains(self, plan, image, queries)
    }

    fn assign(
        &self,
        plan: &S::Plan,
        image: &mut B::Buffer<u64>,
        keys: &B::Buffer<S::Key>,
        values: &B::Buffer<S::Value>,
    ) -> Result<()> {
        check_image(plan, image)?;
        check_pairs(keys, values)?;
        Passes::assign(self, plan, image, keys, values)
    }

    fn decode(&self, plan: &S::Plan, image: &B::Buffer<u64>) -> Result<DecodedOf<B, S>> {
        check_image(plan, image)?;
        Passes::decode(self, plan, image)
    }

    fn remove(&self, plan: &S::Plan, image: &mut B::Buffer<u64>, keys: &B::Buffer<S::Key>) -> Result<Removed> {
        check_image(plan, image)?;
        match (S::from_plan(plan).updates(), Builder::of(self)) {
            (Updates::Rebuild, _) => Err(rebuilt::<S>(plan)),
            (_, None) => Passes::remove(self, plan, image, keys),
            (_, Some(builder)) => builder.remove::<S>(plan, image, keys),
        }
    }

    fn lift(&self, plan: &S::Plan, image: &mut B::Buffer<u64>) -> Result<DecodedOf<B, S>> {
        check_image(plan, image)?;
        match (S::from_plan(plan).updates(), Builder::of(self)) {
            (Updates::Tombstones, None) => Passes::lift(self, plan, image),
            (Updates::Tombstones, Some(builder)) => builder.lift::<S>(plan, image),
            _ => Err(no_tombstones::<S>(plan)),
        }
    }
}
