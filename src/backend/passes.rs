//! The passes that a device must provide to run a scheme. They do not check their arguments.

use super::kernels::{no_tombstones, rebuilt};
use super::{DecodedOf, DeviceBuffer, HashBackend, PlacedOf, Removed, bitmap_words};
use crate::error::Result;
use crate::scheme::{Plan, Scheme};

/// The passes that a backend provides to run scheme `S`. [`Kernels`](super::Kernels) has checked their preconditions:
/// the plan is valid, and the lengths of the image and the columns match it.
pub trait Passes<S: Scheme>: HashBackend {
    /// See [`Kernels::build`](super::Kernels::build). The default is for schemes without a stash.
    fn build(
        &self,
        plan: &S::Plan,
        keys: &Self::Buffer<S::Key>,
        values: &Self::Buffer<S::Value>,
    ) -> Result<(Self::Buffer<u64>, PlacedOf<S>)> {
        filled_and_placed::<S, Self>(self, plan, keys, values)
    }

    /// As [`build`](Self::build), on a device without 64-bit atomics ([`HashBackend::builder`]). `None` if the CPU has
    /// to build the image; duplicates and the memory of the device are then ignored.
    fn partial_build(
        &self,
        _plan: &S::Plan,
        _keys: &Self::Buffer<S::Key>,
        _values: &Self::Buffer<S::Value>,
    ) -> Result<Option<(Self::Buffer<u64>, PlacedOf<S>)>> {
        Ok(None)
    }

    /// See [`Kernels::extended`](super::Kernels::extended).
    fn extended(
        &self,
        plan: &S::Plan,
        image: &Self::Buffer<u64>,
        keys: &Self::Buffer<S::Key>,
        values: &Self::Buffer<S::Value>,
    ) -> Result<(Self::Buffer<u64>, PlacedOf<S>)> {
        copied_and_placed::<S, Self>(self, plan, image, keys, values)
    }

    /// See [`Kernels::place`](super::Kernels::place).
    fn place(
        &self,
        plan: &S::Plan,
        image: &mut Self::Buffer<u64>,
        keys: &Self::Buffer<S::Key>,
        values: &Self::Buffer<S::Value>,
    ) -> Result<PlacedOf<S>>;

    /// See [`Kernels::lookup`](super::Kernels::lookup).
    fn lookup(
        &self,
        plan: &S::Plan,
        image: &Self::Buffer<u64>,
        queries: &Self::Buffer<S::Key>,
        values: &mut Self::Buffer<S::Value>,
        found: &mut Self::Buffer<u32>,
    ) -> Result<()>;

    /// See [`Kernels::contains`](super::Kernels::contains).
    fn contains(
        &self,
        plan: &S::Plan,
        image: &Self::Buffer<u64>,
        queries: &Self::Buffer<S::Key>,
    ) -> Result<Self::Buffer<u32>> {
        let (mut values, mut found) = (self.unwritten(queries.len())?, self.unwritten(bitmap_words(queries.len()))?);
        self.lookup(plan, image, queries, &mut values, &mut found)?;
        Ok(found)
    }

    /// See [`Kernels::assign`](super::Kernels::assign).
    fn assign(
        &self,
        plan: &S::Plan,
        image: &mut Self::Buffer<u64>,
        keys: &Self::Buffer<S::Key>,
        values: &Self::Buffer<S::Value>,
    ) -> Result<()>;

    /// See [`Kernels::decode`](super::Kernels::decode).
    fn decode(&self, plan: &S::Plan, image: &Self::Buffer<u64>) -> Result<DecodedOf<Self, S>>;

    /// See [`Kernels::remove`](super::Kernels::remove). The default is for kinds that must be rebuilt instead.
    fn remove(&self, plan: &S::Plan, _image: &mut Self::Buffer<u64>, _keys: &Self::Buffer<S::Key>) -> Result<Removed> {
        Err(rebuilt::<S>(plan))
    }

    /// See [`Kernels::lift`](super::Kernels::lift). The default is for kinds without tombstones.
    fn lift(&self, plan: &S::Plan, _image: &mut Self::Buffer<u64>) -> Result<DecodedOf<Self, S>> {
        Err(no_tombstones::<S>(plan))
    }
}

/// Places the pairs in an empty image: the default of [`Passes::build`].
pub(crate) fn filled_and_placed<S: Scheme, B: Passes<S>>(
    backend: &B,
    plan: &S::Plan,
    keys: &B::Buffer<S::Key>,
    values: &B::Buffer<S::Value>,
) -> Result<(B::Buffer<u64>, PlacedOf<S>)> {
    let mut image = backend.filled(plan.word_count()?, plan.empty_word())?;
    let placed = Passes::<S>::place(backend, plan, &mut image, keys, values)?;
    Ok((image, placed))
}

/// Places the pairs in a copy of an image: the default of [`Passes::extended`].
pub(crate) fn copied_and_placed<S: Scheme, B: Passes<S>>(
    backend: &B,
    plan: &S::Plan,
    image: &B::Buffer<u64>,
    keys: &B::Buffer<S::Key>,
    values: &B::Buffer<S::Value>,
) -> Result<(B::Buffer<u64>, PlacedOf<S>)> {
    let mut image = backend.clone_buffer(image)?;
    let placed = Passes::<S>::place(backend, plan, &mut image, keys, values)?;
    Ok((image, placed))
}
