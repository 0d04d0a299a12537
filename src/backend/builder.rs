//! Builds and passes that change images, for devices that cannot run them: the CPU backend runs them on copies in host
//! memory, and the results are uploaded. Images have the same bytes on all devices, so they equal those of the full
//! tier. The device's ledger records the rows as processed by the host.

use super::{BufferOf, Decoded, DecodedOf, DeviceBuffer, HashBackend, Passes, PlacedOf, Removed, Word};
use crate::cpu::{Cpu, Memory};
use crate::error::Result;
use crate::scheme::{Plan, Scheme};

/// A device, and the CPU that works in its place.
pub(super) struct Builder<'a, B> {
    device: &'a B,
    cpu: &'a Cpu,
}

impl<'a, B: HashBackend> Builder<'a, B> {
    /// The CPU that works in place of `device`; `None` if the device runs all passes.
    pub(super) fn of(device: &'a B) -> Option<Self> {
        device.builder().map(|cpu| Builder { device, cpu })
    }

    pub(super) fn build<S: Scheme>(
        &self,
        plan: &S::Plan,
        keys: &B::Buffer<S::Key>,
        values: &B::Buffer<S::Value>,
    ) -> Result<(B::Buffer<u64>, PlacedOf<S>)>
    where
        Cpu: Passes<S>,
    {
        self.device.ledger().host("build", keys.len());
        let (image, placed) = Passes::<S>::build(self.cpu, plan, &self.fetched(keys)?, &self.fetched(values)?)?;
        Ok((self.uploaded(&image)?, placed))
    }

    pub(super) fn extended<S: Scheme>(
        &self,
        plan: &S::Plan,
        image: &B::Buffer<u64>,
        keys: &B::Buffer<S::Key>,
        values: &B::Buffer<S::Value>,
    ) -> Result<(B::Buffer<u64>, PlacedOf<S>)>
    where
        Cpu: Passes<S>,
    {
        self.device.ledger().host("extend", keys.len());
        let mut new = self.fetched(image)?;
        let placed = Passes::<S>::place(self.cpu, plan, &mut new, &self.fetched(keys)?, &self.fetched(values)?)?;
        Ok((self.uploaded(&new)?, placed))
    }

    pub(super) fn place<S: Scheme>(
        &self,
        plan: &S::Plan,
        image: &mut B::Buffer<u64>,
        keys: &B::Buffer<S::Key>,
        values: &B::Buffer<S::Value>,
    ) -> Result<PlacedOf<S>>
    where
        Cpu: Passes<S>,
    {
        self.device.ledger().host("place", keys.len());
        let (keys, values) = (self.fetched(keys)?, self.fetched(values)?);
        self.changed(image, |words| Passes::<S>::place(self.cpu, plan, words, &keys, &values))
    }

    pub(super) fn remove<S: Scheme>(
        &self,
        plan: &S::Plan,
        image: &mut B::Buffer<u64>,
        keys: &B::Buffer<S::Key>,
    ) -> Result<Removed>
    where
        Cpu: Passes<S>,
    {
        self.device.ledger().host("remove", keys.len());
        let keys = self.fetched(keys)?;
        self.changed(image, |words| Passes::<S>::remove(self.cpu, plan, words, &keys))
    }

    pub(super) fn lift<S: Scheme>(&self, plan: &S::Plan, image: &mut B::Buffer<u64>) -> Result<DecodedOf<B, S>>
    where
        Cpu: Passes<S>,
    {
        self.device.ledger().host("lift", plan.cells() as usize);
        let Decoded { keys, values, taken } = self.changed(image, |words| Passes::<S>::lift(self.cpu, plan, words))?;
        Ok(Decoded { keys: self.uploaded(&keys)?, values: self.uploaded(&values)?, taken: self.uploaded(&taken)? })
    }

    /// Changes a copy of an image in host memory, and writes it back.
    fn changed<T>(
        &self,
        image: &mut BufferOf<B, u64>,
        change: impl FnOnce(&mut Memory<u64>) -> Result<T>,
    ) -> Result<T> {
        let mut words = self.fetched(image)?;
        let result = change(&mut words)?;
        self.device.write(image, 0, words.words())?;
        Ok(result)
    }

    fn fetched<T: Word>(&self, buffer: &BufferOf<B, T>) -> Result<Memory<T>> {
        let mut memory = self.cpu.unwritten(buffer.len())?;
        self.device.read(buffer, 0, memory.words_mut()?)?;
        Ok(memory)
    }

    fn uploaded<T: Word>(&self, memory: &Memory<T>) -> Result<BufferOf<B, T>> {
        self.device.upload(memory.words())
    }
}
