//! Memory that CUDA and OpenCL share.
//!
//! ```text
//! allocate:  an idle block of a fitting size, or a new one
//! import:    arrays in place if they are in a block; the others are copied on the device, with a single wait
//! in use:    OpenCL has acquired the block; publish() releases it to CUDA
//! dropped:   an array in place stays with its owner, after koel's work on it; other blocks become idle, and both sides
//!            finish all of their work before the next use
//! ```

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ocl::core::Mem;

use super::Cuda;
use super::block::Block;
use crate::backend::{HashBackend as _, Word};
use crate::error::{Error, Result};
use crate::opencl::{Buffer, lock};

/// Memory of a GPU that both CUDA and OpenCL use. When it is dropped, the device keeps it for later calls.
pub struct Memory {
    cuda: Cuda,
    block: Arc<Block>,
    /// An imported array in the block; `None` if this memory owns the block.
    part: Option<Part>,
    bytes: usize,
    /// Whether OpenCL has acquired it.
    is_acquired: AtomicBool,
}

/// An array in CUDA memory.
#[derive(Clone, Copy, Debug)]
pub struct Strided {
    /// The address of its first item.
    pub address: u64,
    /// The number of items.
    pub len: usize,
    /// The bytes of an item.
    pub item: usize,
    /// The bytes from the start of one item to the start of the next.
    pub stride: usize,
}

impl Strided {
    /// The total bytes of its items.
    fn bytes(&self) -> usize {
        self.len.saturating_mul(self.item)
    }
}

/// A part of a block.
struct Part {
    offset: usize,
    /// OpenCL's handle.
    memory: Mem,
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("bytes", &self.bytes).field("cuda", &self.cuda).finish_non_exhaustive()
    }
}

impl Cuda {
    /// Allocates this many bytes with unspecified contents, which koel may write. Waits for CUDA's work.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] or [`Error::Device`].
    pub fn allocate(&self, bytes: usize) -> Result<Memory> {
        let memory = self.take(&[bytes])?.remove(0);
        memory.acquire()?;
        Ok(memory)
    }

    /// Imports arrays, after CUDA's work. They are used in place if their items are contiguous, are in memory that
    /// [`lend`](Self::lend) or [`allocate`](Self::allocate) returned, and begin where OpenCL allows buffers to begin;
    /// otherwise they are copied on the device.
    ///
    /// Import the arrays of a call together: copies are CUDA's work, and each switch between CUDA's work and OpenCL's
    /// takes the GPU about 0.14 ms.
    ///
    /// # Safety
    /// The addresses are in CUDA memory. Until the results are dropped, the arrays stay allocated, and no work changes
    /// them.
    ///
    /// # Errors
    /// [`Error::WrongDevice`] if the memory is another device's; [`Error::Device`] if it is not CUDA's or the driver
    /// fails; [`Error::OutOfMemory`].
    #[expect(unsafe_code, reason = "only the caller knows what an address is")]
    pub unsafe fn import(&self, arrays: &[Strided]) -> Result<Vec<Memory>> {
        let (driver, mut copied) = (self.0.driver, Vec::new());
        let mut imported = Vec::with_capacity(arrays.len());
        for array in arrays {
            if array.stride < array.item && array.len > 1 {
                return Err(Error::parameter("stride", array.stride, "use an array whose items do not overlap"));
            }
            let in_place = self.in_place(array);
            copied.extend(in_place.is_none().then_some(*array));
            imported.push(in_place);
        }
        let mut copies = self.take(&copied.iter().map(Strided::bytes).collect::<Vec<_>>())?;
        let _current = driver.enter(self.0.context)?;
        let copy = |(array, copy): (&Strided, &Memory)| match array.len {
            0 => Ok(()),
            _ if driver.device_of(array.address)? != self.0.ordinal => Err(Error::WrongDevice),
            // SAFETY: the source is as the caller guarantees, and the target was allocated with that length.
            _ => unsafe { driver.copy(array.address, copy.address(), array.len, array.item, array.stride) },
        };
        let queued = copied.iter().zip(&copies).try_for_each(copy);
        driver.wait()?;
        queued?;
        let mut copies = copies.drain(..);
        let memories: Vec<Memory> = imported.into_iter().filter_map(|array| array.or_else(|| copies.next())).collect();
        memories.iter().try_for_each(Memory::acquire)?;
        Ok(memories)
    }

    /// An array in a block; `None` if it is elsewhere.
    fn in_place(&self, array: &Strided) -> Option<Memory> {
        if array.bytes() == 0 || (array.stride != array.item && array.len > 1) {
            return None;
        }
        let block = self.block_of(array.address, array.bytes())?;
        let offset = (array.address - block.address()) as usize;
        let memory = self.part_of(&block, offset, array.bytes())?;
        Some(self.memory(block, Some(Part { offset, memory }), array.bytes()))
    }

    fn memory(&self, block: Arc<Block>, part: Option<Part>, bytes: usize) -> Memory {
        Memory { cuda: self.clone(), block, part, bytes, is_acquired: AtomicBool::new(false) }
    }

    /// Waits for koel's work, and releases its results to CUDA, which can then read them at their addresses.
    ///
    /// # Errors
    /// [`Error::Device`] if the work failed.
    pub fn publish(&self, results: &[&Memory]) -> Result<()> {
        for memory in results {
            memory.release()?;
        }
        self.0.device.finish()
    }

    /// Blocks that no pending work of either side uses. Frees idle blocks beyond an eighth of device memory.
    fn take(&self, bytes: &[usize]) -> Result<Vec<Memory>> {
        let pair = &*self.0;
        let needed = bytes.iter().map(|&bytes| self.rounded(bytes)).collect::<Result<Vec<_>>>()?;
        let _current = pair.driver.enter(pair.context)?;
        // Blocks leave the list before the wait: work that uses one was queued before it became idle.
        let of = |(&needed, &bytes)| Some(self.memory(self.idle(needed)?, None, bytes));
        let idle: Vec<Option<Memory>> = needed.iter().zip(bytes).map(of).collect();
        let surplus = self.surplus();
        if let Err(error) = self.settle() {
            lock(&pair.idle).extend(surplus);
            return Err(error);
        }
        surplus.into_iter().for_each(|block| self.free(block));
        let of = |((idle, needed), &bytes): ((Option<Memory>, usize), &usize)| match idle {
            Some(memory) => Ok(memory),
            None => Ok(self.memory(self.create_or_trim(needed, false)?, None, bytes)),
        };
        idle.into_iter().zip(needed).zip(bytes).map(of).collect()
    }

    /// Frees all memory that is kept for later calls, of CUDA and of OpenCL. Waits for the work of both.
    ///
    /// # Errors
    /// [`Error::Device`] if that work failed.
    pub fn trim(&self) -> Result<()> {
        let pair = &*self.0;
        let _current = pair.driver.enter(pair.context)?;
        let idle = std::mem::take(&mut *lock(&pair.idle));
        if let Err(error) = self.settle() {
            lock(&pair.idle).extend(idle);
            return Err(error);
        }
        idle.into_iter().for_each(|block| self.free(block));
        pair.device.0.pool.empty();
        Ok(())
    }

    /// Waits for all work of the OpenCL queue and of the current CUDA context.
    pub(super) fn settle(&self) -> Result<()> {
        self.0.device.finish()?;
        self.0.driver.wait()
    }

    /// The smallest idle block that has this size, and at most twice as much.
    fn idle(&self, needed: usize) -> Option<Arc<Block>> {
        let mut idle = lock(&self.0.idle);
        let fits = |block: &Arc<Block>| (needed..=needed.saturating_mul(2)).contains(&block.bytes());
        let best = (0..idle.len()).filter(|&i| fits(&idle[i])).min_by_key(|&i| idle[i].bytes())?;
        Some(idle.remove(best))
    }

    /// The oldest idle blocks, to be freed so that the others take at most an eighth of the device's memory.
    fn surplus(&self) -> Vec<Arc<Block>> {
        let most = self.0.device.0.info.memory.unwrap_or(0) / 8;
        let mut idle = lock(&self.0.idle);
        let mut bytes: u64 = idle.iter().map(|block| block.bytes() as u64).sum();
        let mut surplus = 0;
        while bytes > most && surplus < idle.len() {
            bytes -= idle[surplus].bytes() as u64;
            surplus += 1;
        }
        idle.drain(..surplus).collect()
    }
}

impl Memory {
    /// Its address in CUDA.
    pub fn address(&self) -> u64 {
        self.block.address() + self.part.as_ref().map_or(0, |part| part.offset as u64)
    }

    /// Whether this is an array that was imported without a copy.
    pub fn is_in_place(&self) -> bool {
        self.part.is_some()
    }

    /// Its length in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Its device.
    pub fn cuda(&self) -> &Cuda {
        &self.cuda
    }

    /// Its first `len` elements as a koel buffer, without a copy. Use the buffer before the memory is published or
    /// dropped.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] if it is shorter; [`Error::Device`] if the driver fails.
    pub fn buffer<T: Word>(&self, len: usize) -> Result<Buffer<T>> {
        // The memory has whole elements of every type.
        if len.saturating_mul(size_of::<T>()) > self.bytes.next_multiple_of(size_of::<T>()) {
            let found = (self.bytes / size_of::<T>()) as u64;
            return Err(Error::LengthMismatch { what: "the memory", found, expected: len as u64 });
        }
        let memory = self.part.as_ref().map_or(self.block.memory(), |part| &part.memory).clone();
        Ok(Buffer::of_memory(&self.cuda.0.device, memory)?.shortened(len))
    }

    /// Copies its first bytes to the host. Waits for CUDA's work.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] if `to` is longer; [`Error::Device`] if the driver fails.
    #[expect(unsafe_code, reason = "an address and its length")]
    pub fn read(&self, to: &mut [u8]) -> Result<()> {
        if to.len() > self.bytes {
            let (found, expected) = (to.len() as u64, self.bytes as u64);
            return Err(Error::LengthMismatch { what: "the slice", found, expected });
        }
        if to.is_empty() {
            return Ok(());
        }
        let pair = &*self.cuda.0;
        let _current = pair.driver.enter(pair.context)?;
        pair.driver.wait()?;
        // SAFETY: the memory is at least as long as `to`.
        unsafe { pair.driver.download(self.address(), to) }
    }

    fn acquire(&self) -> Result<()> {
        self.block.acquire(&self.cuda)?;
        self.is_acquired.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn release(&self) -> Result<()> {
        if self.is_acquired.swap(false, Ordering::Relaxed) { self.block.release(&self.cuda) } else { Ok(()) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // A failure is reported when the memory is next acquired.
        let _ = self.release();
        if self.is_in_place() {
            // After this, the owner may change or free the array.
            let _ = self.cuda.0.device.finish();
        } else {
            // No wait here: this may run while Python's lock is held, which a callback of CUDA may be waiting for.
            lock(&self.cuda.0.idle).push(self.block.clone());
        }
    }
}
