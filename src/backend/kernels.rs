//! The passes over tables, and what is checked before each: once, for all backends and schemes.

use super::{DecodedOf, DeviceBuffer, HashBackend, Passes, PlacedOf, Removed, bitmap_words};
use crate::error::{Error, Result};
use crate::scheme::{Plan, Scheme, Updates};

/// The passes over tables of scheme `S`, on every backend that runs it. Sealed.
///
/// # Errors
/// Of all of them: [`Error::LengthMismatch`] for an image or columns of other lengths than the plan or each other need;
/// where a kernel is given them, [`Error::WrongDevice`] and [`Error::Aliased`] for buffers that are not the backend's
/// own, or one twice; and what the device reports. Plans need no check: there are only those that schemes make
/// ([`Plan`]).
pub trait Kernels<S: Scheme>: HashBackend {
    /// A new image with these pairs, and what became of them. It is the image that [`place`](Self::place) makes of an
    /// empty one; a backend may have a faster way. Of copies it says whether there are any and which key is the least, but
    /// may count some twice. Where a stash's size depends on the keys, it is the image of
    /// [`plan.with_stash(placed.stash)`](Plan::with_stash).
    ///
    /// # Errors
    /// As of `place`, and of memory for the image.
    fn build(
        &self,
        plan: &S::Plan,
        keys: &Self::Buffer<S::Key>,
        values: &Self::Buffer<S::Value>,
    ) -> Result<(Self::Buffer<u64>, PlacedOf<S>)>;

    /// A copy of an image with these pairs added, and what became of them: what [`place`](Self::place) makes of a copy; a
    /// backend may have a faster way. Of copies it says what [`build`](Self::build) does. The image itself stays as it is.
    ///
    /// # Errors
    /// As of `place`, and of memory for the copy.
    fn extended(
        &self,
        plan: &S::Plan,
        image: &Self::Buffer<u64>,
        keys: &Self::Buffer<S::Key>,
        values: &Self::Buffer<S::Value>,
    ) -> Result<(Self::Buffer<u64>, PlacedOf<S>)>;

    /// Adds pairs to an image that may hold others already, unless the kind's updates are
    /// [`Updates::Rebuild`](crate::scheme::Updates). Pairs that share a key: one of them stays, or the image is of no use
    /// ([`Placed::copies`](super::Placed::copies)).
    fn place(
        &self,
        plan: &S::Plan,
        image: &mut Self::Buffer<u64>,
        keys: &Self::Buffer<S::Key>,
        values: &Self::Buffer<S::Value>,
    ) -> Result<PlacedOf<S>>;

    /// Answers `queries`: `values[i]` is the value or 0, bit i of `found` tells which.
    fn lookup(
        &self,
        plan: &S::Plan,
        image: &Self::Buffer<u64>,
        queries: &Self::Buffer<S::Key>,
        values: &mut Self::Buffer<S::Value>,
        found: &mut Self::Buffer<u32>,
    ) -> Result<()>;

    /// Which of `queries` are there, as a bitmap. It is `found` of a [`lookup`](Self::lookup); a backend
    /// may have a faster way.
    fn contains(
        &self,
        plan: &S::Plan,
        image: &Self::Buffer<u64>,
        queries: &Self::Buffer<S::Key>,
    ) -> Result<Self::Buffer<u32>>;

    /// Overwrites the values of keys. The keys are distinct; one that is absent, or stands outside the image, is passed
    /// over.
    fn assign(
        &self,
        plan: &S::Plan,
        image: &mut Self::Buffer<u64>,
        keys: &Self::Buffer<S::Key>,
        values: &Self::Buffer<S::Value>,
    ) -> Result<()>;

    /// The pair of each of the words.
    fn decode(&self, plan: &S::Plan, image: &Self::Buffer<u64>) -> Result<DecodedOf<Self, S>>;

    /// Takes the pairs of these keys out of the image. A key that is absent or comes again does nothing.
    ///
    /// Kinds whose updates are [`Updates::Rebuild`](crate::scheme::Updates) refuse with
    /// [`crate::Error::InvalidParameter`].
    fn remove(&self, plan: &S::Plan, image: &mut Self::Buffer<u64>, keys: &Self::Buffer<S::Key>) -> Result<Removed>;

    /// The first half of compacting: empties the slots of all tombstones and of all pairs above age 1, and returns
    /// those pairs, which are then placed again.
    ///
    /// Kinds whose updates are not [`Updates::Tombstones`](crate::scheme::Updates) refuse with
    /// [`crate::Error::InvalidParameter`].
    fn lift(&self, plan: &S::Plan, image: &mut Self::Buffer<u64>) -> Result<DecodedOf<Self, S>>;
}

/// Refuses an image that has not the words of its plan.
fn check_image(plan: &impl Plan, image: &impl DeviceBuffer) -> Result<()> {
    Error::check_length("the image", image.len(), plan.word_count()?)
}

/// Pairs cannot be taken out of an image that depends on all of them at once ([`Updates::Rebuild`]).
pub(super) fn rebuilt<S: Scheme>(plan: &S::Plan) -> Error {
    Error::parameter("kind", plan.kind(), "tables of this kind are built afresh to remove pairs: use HashTable::remove")
}

/// An image that cannot have tombstones is not compacted.
pub(super) fn no_tombstones<S: Scheme>(plan: &S::Plan) -> Error {
    Error::parameter("kind", plan.kind(), "tables of this kind have no tombstones, so nothing is to be lifted")
}

fn check_pairs(keys: &impl DeviceBuffer, values: &impl DeviceBuffer) -> Result<()> {
    Error::check_length("the values", values.len(), keys.len())
}

#[diagnostic::do_not_recommend]
impl<B: Passes<S>, S: Scheme> Kernels<S> for B {
    fn build(
        &self,
        plan: &S::Plan,
        keys: &B::Buffer<S::Key>,
        values: &B::Buffer<S::Value>,
    ) -> Result<(B::Buffer<u64>, PlacedOf<S>)> {
        check_pairs(keys, values)?;
        Passes::build(self, plan, keys, values)
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
        Passes::extended(self, plan, image, keys, values)
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
        Passes::place(self, plan, image, keys, values)
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
        match S::from_plan(plan).updates() {
            Updates::Rebuild => Err(rebuilt::<S>(plan)),
            _ => Passes::remove(self, plan, image, keys),
        }
    }

    fn lift(&self, plan: &S::Plan, image: &mut B::Buffer<u64>) -> Result<DecodedOf<B, S>> {
        check_image(plan, image)?;
        match S::from_plan(plan).updates() {
            Updates::Tombstones => Passes::lift(self, plan, image),
            _ => Err(no_tombstones::<S>(plan)),
        }
    }
}
