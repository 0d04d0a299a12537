//! Memory that CUDA and OpenCL share.
//!
//! ```text
//! allocate:  an idle block of a fitting size, or a new one      CUDA allocates -> descriptor -> OpenCL imports
//! in use:    OpenCL has acquired it; publish() releases it to CUDA
//! dropped:   kept as idle; before its next use both sides finish all of their work
//! ```

use std::ffi::c_void;
use std::fmt;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, Ordering};

use ocl::core::Mem;

use super::{Cuda, Hand};
use crate::backend::{HashBackend as _, Word};
use crate::error::{Error, Result};
use crate::opencl::{Buffer, lock};

/// `CL_EXTERNAL_MEMORY_HANDLE_OPAQUE_FD_KHR`.
const DESCRIPTOR: u64 = 0x2060;
/// `CL_MEM_READ_WRITE`.
const READ_WRITE: u64 = 1;

/// `CL_MEM_OBJECT_ALLOCATION_FAILURE` and `CL_OUT_OF_RESOURCES`.
const NO_MEMORY: [i32; 2] = [-4, -5];

/// What one allocation of CUDA is to both sides.
pub(super) struct Block {
    handle: u64,
    address: u64,
    bytes: usize,
    /// OpenCL's handle.
    memory: Mem,
}

/// Memory of a GPU that both CUDA and OpenCL use, freed on drop: the device keeps it for later.
pub struct Memory {
    cuda: Cuda,
    /// Present until the drop.
    block: Option<Block>,
    bytes: usize,
    /// Whether OpenCL has acquired it.
    is_acquired: AtomicBool,
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

    /// A copy of an array of `len` items of `item` bytes that are `stride` bytes apart, made on the device. Waits for
    /// CUDA's work before, and for the copy.
    ///
    /// # Safety
    /// `address` is that of such an array in CUDA memory, which stays allocated during the call and which work that is
    /// queued later does not change before the call returns.
    ///
    /// # Errors
    /// [`Error::WrongDevice`] if the memory is another device's; [`Error::Device`] if it is not CUDA's or the driver
    /// fails; [`Error::OutOfMemory`].
    #[expect(unsafe_code, reason = "only the caller knows what an address is")]
    pub unsafe fn import(&self, address: u64, len: usize, item: usize, stride: usize) -> Result<Memory> {
        if stride < item && len > 1 {
            return Err(Error::parameter("stride", stride, "use an array whose items do not overlap"));
        }
        let memory = self.take(len.saturating_mul(item))?;
        if len > 0 {
            let driver = self.0.driver;
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
        let needed = bytes.max(1).checked_next_multiple_of(pair.granularity);
        let needed =
            needed.ok_or(Error::OutOfMemory { device: pair.device.0.info.to_string(), bytes: bytes as u64 })?;
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
            None => self.create(needed).or_else(|error| match error {
                Error::OutOfMemory { .. } => {
                    self.trim()?;
                    self.create(needed)
                }
                other => Err(other),
            })?,
        };
        Ok(Memory { cuda: self.clone(), block: Some(block), bytes, is_acquired: AtomicBool::new(false) })
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
    fn settle(&self) -> Result<()> {
        self.0.device.finish()?;
        self.0.driver.wait()
    }

    /// The smallest idle block of this size, and not of more than twice as much.
    fn idle(&self, needed: usize) -> Option<Block> {
        let mut idle = lock(&self.0.idle);
        let fits = |block: &Block| (needed..=needed.saturating_mul(2)).contains(&block.bytes);
        let best = (0..idle.len()).filter(|&i| fits(&idle[i])).min_by_key(|&i| idle[i].bytes)?;
        Some(idle.remove(best))
    }

    /// The oldest idle blocks, so that the others take an eighth of the device's memory at most.
    fn surplus(&self) -> Vec<Block> {
        let most = self.0.device.0.info.memory.unwrap_or(0) / 8;
        let mut idle = lock(&self.0.idle);
        let mut bytes: u64 = idle.iter().map(|block| block.bytes as u64).sum();
        let mut surplus = 0;
        while bytes > most && surplus < idle.len() {
            bytes -= idle[surplus].bytes as u64;
            surplus += 1;
        }
        idle.drain(..surplus).collect()
    }

    /// A new block, in the current context.
    fn create(&self, bytes: usize) -> Result<Block> {
        let pair = &*self.0;
        let (handle, address) = pair.driver.allocate(pair.ordinal, bytes)?;
        match pair.driver.export(handle).and_then(|descriptor| self.imported(descriptor, bytes)) {
            Ok(memory) => Ok(Block { handle, address, bytes, memory }),
            Err(error) => {
                pair.driver.free(handle, address, bytes);
                Err(error)
            }
        }
    }

    /// Has OpenCL import memory, which owns the descriptor then.
    #[expect(unsafe_code, reason = "a function that ocl does not know, and the handle that it returns")]
    fn imported(&self, descriptor: i32, bytes: usize) -> Result<Mem> {
        let pair = &*self.0;
        let (properties, mut status) = ([DESCRIPTOR, descriptor as u64, 0], 0);
        let context = pair.device.0.context.as_core().as_ptr();
        // SAFETY: the context is alive, the list ends with 0, and the descriptor is that of as many bytes.
        let memory =
            unsafe { (pair.import.create)(context, properties.as_ptr(), READ_WRITE, bytes, null_mut(), &mut status) };
        if memory.is_null() || status != 0 {
            #[cfg(unix)]
            // SAFETY: OpenCL does not own it after a failure.
            drop(unsafe { <std::os::fd::OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(descriptor) });
            let (device, doing) = (pair.device.0.info.to_string(), format!("importing {bytes} bytes of CUDA memory"));
            if NO_MEMORY.contains(&status) {
                return Err(Error::OutOfMemory { device, bytes: bytes as u64 });
            }
            return Err(Error::Device { device, doing, message: format!("OpenCL error {status}") });
        }
        // SAFETY: the handle is new, and its one reference becomes this one's.
        Ok(unsafe { Mem::from_raw_create_ptr(memory) })
    }

    /// Frees a block in which no work is under way, in the current context.
    fn free(&self, block: Block) {
        let Block { handle, address, bytes, memory } = block;
        drop(memory);
        self.0.driver.free(handle, address, bytes);
    }
}

impl Memory {
    fn block(&self) -> &Block {
        self.block.as_ref().expect("present until the drop")
    }

    /// Its address in CUDA.
    pub fn address(&self) -> u64 {
        self.block().address
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
        if len.saturating_mul(size_of::<T>()) > self.bytes {
            let found = (self.bytes / size_of::<T>()) as u64;
            return Err(Error::LengthMismatch { what: "the memory", found, expected: len as u64 });
        }
        Ok(Buffer::of_memory(&self.cuda.0.device, self.block().memory.clone())?.shortened(len))
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
        self.hand(self.cuda.0.import.acquire, "acquiring")?;
        self.is_acquired.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn release(&self) -> Result<()> {
        if self.is_acquired.swap(false, Ordering::Relaxed) {
            self.hand(self.cuda.0.import.release, "releasing")?;
        }
        Ok(())
    }

    #[expect(unsafe_code, reason = "a function that ocl does not know")]
    fn hand(&self, over: Hand, doing: &str) -> Result<()> {
        let device = &self.cuda.0.device;
        let (queue, memory): (*mut c_void, *mut c_void) =
            (device.0.queue.as_core().as_ptr(), self.block().memory.as_ptr());
        // SAFETY: queue and memory are alive; there are no events.
        match unsafe { over(queue, 1, &memory, 0, null(), null_mut()) } {
            0 => Ok(()),
            status => Err(Error::Device {
                device: device.0.info.to_string(),
                doing: format!("{doing} memory of CUDA"),
                message: format!("OpenCL error {status}"),
            }),
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // A failure shows when the memory is next acquired.
        let _ = self.release();
        // No wait here: this may run while Python's lock is held, which a callback of CUDA may be waiting for.
        if let Some(block) = self.block.take() {
            lock(&self.cuda.0.idle).push(block);
        }
    }
}
