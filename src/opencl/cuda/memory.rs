//! Memory that CUDA and OpenCL share.
//!
//! ```text
//! allocate:  an idle block of a fitting size, or a new one
//! import:    the array in place, if it lies in a block; else a copy on the device in memory of `allocate`
//! in use:    OpenCL has acquired it; publish() releases it to CUDA
//! dropped:   an array in place stays with its owner, after koel's work on it; other blocks are kept as idle, and
//!            before their next use both sides finish all of their work
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

/// Memory of a GPU that both CUDA and OpenCL use, freed on drop: the device keeps it for later.
pub struct Memory {
    cuda: Cuda,
    block: Arc<Block>,
    /// The array of an owner in the block; `None` if the block is this memory's own.
    part: Option<Part>,
    bytes: usize,
    /// Whether OpenCL has acquired it.
    is_acquired: AtomicBool,
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
    /// Memory of this many bytes with unspecified contents, for koel to write to. Waits for CUDA's work.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] or [`Error::Device`].
    pub fn allocate(&self, bytes: usize) -> Result<Memory> {
        let memory = self.take(bytes)?;
        memory.acquire()?;
        Ok(memory)
    }

    /// An array of `len` items of `item` bytes that are `stride` bytes apart, after CUDA's work: in place if the items
    /// are contiguous in memory of koel ([`lend`](Self::lend), [`allocate`](Self::allocate)) and begin where OpenCL
    /// allows buffers to begin; else a copy, made on the device.
    ///
    /// # Safety
    /// `address` is that of such an array in CUDA memory. Until the result is dropped, the array stays allocated, and
    /// no work changes it.
    ///
    /// # Errors
    /// [`Error::WrongDevice`] if the memory is another device's; [`Error::Device`] if it is not CUDA's or the driver
    /// fails; [`Error::OutOfMemory`].
    #[expect(unsafe_code, reason = "only the caller knows what an address is")]
    pub unsafe fn import(&self, address: u64, len: usize, item: usize, stride: usize) -> Result<Memory> {
        if stride < item && len > 1 {
            return Err(Error::parameter("stride", stride, "use an array whose items do not overlap"));
        }
        let (bytes, driver) = (len.saturating_mul(item), self.0.driver);
        if bytes > 0
            && (stride == item || len == 1)
            && let Some(memory) = self.in_place(address, bytes)?
        {
            return Ok(memory);
        }
        let memory = self.take(bytes)?;
        if len > 0 {
            if driver.device_of(address)? != self.0.ordinal {
                return Err(Error::WrongDevice);
            }
            let _current = driver.enter(self.0.context)?;
            // SAFETY: the source is as the caller promises, and the target was allocated that long.
            unsafe { driver.copy(address, memory.address(), len, item, stride)? };
        }
        memory.acquire()?;
        Ok(memory)
    }

    /// An array in a block, after CUDA's work; `None` if it is elsewhere.
    fn in_place(&self, address: u64, bytes: usize) -> Result<Option<Memory>> {
        let Some(block) = self.block_of(address, bytes) else { return Ok(None) };
        let offset = (address - block.address()) as usize;
        let Some(memory) = self.part_of(&block, offset, bytes) else { return Ok(None) };
        let _current = self.0.driver.enter(self.0.context)?;
        self.0.driver.wait()?;
        let (part, is_acquired) = (Some(Part { offset, memory }), AtomicBool::new(false));
        let memory = Memory { cuda: self.clone(), block, part, bytes, is_acquired };
        memory.acquire()?;
        Ok(Some(memory))
    }

    /// Waits for koel's work, and gives its results to CUDA, which reads them at their addresses from now on.
    ///
    /// # Errors
    /// [`Error::Device`] if the work failed.
    pub fn publish(&self, results: &[&Memory]) -> Result<()> {
        for memory in results {
            memory.release()?;
        }
        self.0.device.finish()
    }

    /// A block in which no work is under way, on either side. Frees idle blocks beyond an eighth of device memory.
    fn take(&self, bytes: usize) -> Result<Memory> {
        let pair = &*self.0;
        let needed = self.rounded(bytes)?;
        let _current = pair.driver.enter(pair.context)?;
        // Blocks leave the list before the wait: work that uses one was queued before it became idle.
        let best = self.idle(needed);
        let surplus = self.surplus();
        if let Err(error) = self.settle() {
            lock(&pair.idle).extend(surplus.into_iter().chain(best));
            return Err(error);
        }
        surplus.into_iter().for_each(|block| self.free(block));
        let block = match best {
            Some(block) => block,
            None => self.create_or_trim(needed, false)?,
        };
        Ok(Memory { cuda: self.clone(), block, part: None, bytes, is_acquired: AtomicBool::new(false) })
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

    /// The smallest idle block of this size, and not of more than twice as much.
    fn idle(&self, needed: usize) -> Option<Arc<Block>> {
        let mut idle = lock(&self.0.idle);
        let fits = |block: &Arc<Block>| (needed..=needed.saturating_mul(2)).contains(&block.bytes());
        let best = (0..idle.len()).filter(|&i| fits(&idle[i])).min_by_key(|&i| idle[i].bytes())?;
        Some(idle.remove(best))
    }

    /// The oldest idle blocks, so that the others take an eighth of the device's memory at most.
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

    /// Whether it is an array of an owner, which was imported without a copy.
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

    /// Its first `len` elements as a buffer of koel, without a copy. Use it before the memory is published or dropped.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] if it is shorter; [`Error::Device`] if the driver fails.
    pub fn buffer<T: Word>(&self, len: usize) -> Result<Buffer<T>> {
        // Memory is whole elements of every type.
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
        // SAFETY: it is at least that long.
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
        // A failure shows when the memory is next acquired.
        let _ = self.release();
        if self.is_in_place() {
            // The owner may change or free it from now on.
            let _ = self.cuda.0.device.finish();
        } else {
            // No wait here: this may run while Python's lock is held, which a callback of CUDA may be waiting for.
            lock(&self.cuda.0.idle).push(self.block.clone());
        }
    }
}
