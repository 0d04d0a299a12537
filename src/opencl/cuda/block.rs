//! Allocations of CUDA that OpenCL has imported, and the memory of pools.
//!
//! ```text
//! create:  CUDA allocates -> descriptor -> OpenCL imports
//! lend:    a block for the allocator of another library, which returns it by its address
//! find:    the block that an address lies in, and the part of it as a buffer of OpenCL
//! ```

use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::{Arc, Mutex};

use ocl::core::{self, BufferRegion, Mem, MemFlags};

use super::driver::Driver;
use super::{Cuda, Hand};
use crate::error::{Error, Result};
use crate::opencl::{OpenCl, lock};

/// `CL_EXTERNAL_MEMORY_HANDLE_OPAQUE_FD_KHR`.
const DESCRIPTOR: u64 = 0x2060;
/// `CL_MEM_READ_WRITE`.
const READ_WRITE: u64 = 1;

/// `CL_MEM_OBJECT_ALLOCATION_FAILURE` and `CL_OUT_OF_RESOURCES`.
const NO_MEMORY: [i32; 2] = [-4, -5];

/// One allocation on both sides. No work may be under way in it when it is dropped.
pub(super) struct Block {
    // Dropped before the allocation.
    memory: Mem,
    allocation: Allocation,
    /// How many users OpenCL has acquired it for.
    users: Mutex<usize>,
    /// Whether another library's allocator has it.
    is_lent: bool,
}

/// CUDA's side of a block.
struct Allocation {
    driver: &'static Driver,
    context: usize,
    handle: u64,
    address: u64,
    bytes: usize,
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // Without the context, it stays allocated.
        if let Ok(_current) = self.driver.enter(self.context) {
            self.driver.free(self.handle, self.address, self.bytes);
        }
    }
}

impl Block {
    /// Its address in CUDA.
    pub(super) fn address(&self) -> u64 {
        self.allocation.address
    }

    pub(super) fn bytes(&self) -> usize {
        self.allocation.bytes
    }

    /// OpenCL's handle.
    pub(super) fn memory(&self) -> &Mem {
        &self.memory
    }

    /// Has OpenCL acquire it, unless it has already for another user.
    pub(super) fn acquire(&self, cuda: &Cuda) -> Result<()> {
        let mut users = lock(&self.users);
        if *users == 0 {
            self.hand(cuda, cuda.0.import.acquire, "acquiring")?;
        }
        *users += 1;
        Ok(())
    }

    /// Has OpenCL release it after its last user.
    pub(super) fn release(&self, cuda: &Cuda) -> Result<()> {
        let mut users = lock(&self.users);
        *users -= 1;
        if *users == 0 { self.hand(cuda, cuda.0.import.release, "releasing") } else { Ok(()) }
    }

    #[expect(unsafe_code, reason = "a function that ocl does not know")]
    fn hand(&self, cuda: &Cuda, over: Hand, doing: &str) -> Result<()> {
        let device = &cuda.0.device;
        let (queue, memory): (*mut c_void, *mut c_void) = (device.0.queue.as_core().as_ptr(), self.memory.as_ptr());
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

impl Cuda {
    /// Allocates memory for the allocator of another library, such as PyTorch's: [`import`](Self::import) then returns
    /// arrays in it without a copy. Returns its address. Free it by [`free_lent`](Self::free_lent).
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] or [`Error::Device`].
    pub fn lend(&self, bytes: usize) -> Result<u64> {
        let needed = self.rounded(bytes)?;
        let _current = self.0.driver.enter(self.0.context)?;
        Ok(self.create_or_trim(needed, true)?.address())
    }

    /// Frees memory of [`lend`](Self::lend), after all work of CUDA and OpenCL. Ignores other addresses.
    ///
    /// # Errors
    /// [`Error::Device`] if that work failed; then the memory stays allocated.
    pub fn free_lent(&self, address: u64) -> Result<()> {
        let pair = &*self.0;
        if !lock(&pair.blocks).get(&address).is_some_and(|block| block.is_lent) {
            return Ok(());
        }
        let _current = pair.driver.enter(pair.context)?;
        self.settle()?;
        let block = lock(&pair.blocks).remove(&address);
        drop(block);
        Ok(())
    }

    /// Bytes as a multiple of the granularity of allocations.
    pub(super) fn rounded(&self, bytes: usize) -> Result<usize> {
        let needed = bytes.max(1).checked_next_multiple_of(self.0.granularity);
        needed.ok_or(Error::OutOfMemory { device: self.0.device.0.info.to_string(), bytes: bytes as u64 })
    }

    /// The block that has all of these bytes.
    pub(super) fn block_of(&self, address: u64, bytes: usize) -> Option<Arc<Block>> {
        let blocks = lock(&self.0.blocks);
        let (&start, block) = blocks.range(..=address).next_back()?;
        let end = (address - start).checked_add(bytes as u64)?;
        (end <= block.bytes() as u64).then(|| block.clone())
    }

    /// Bytes of a block as memory of OpenCL; `None` if they begin where OpenCL allows none to begin.
    pub(super) fn part_of(&self, block: &Block, offset: usize, bytes: usize) -> Option<Mem> {
        if offset == 0 {
            return Some(block.memory.clone());
        }
        if !offset.is_multiple_of(self.0.alignment) {
            return None;
        }
        // Whole elements of every type.
        let bytes = bytes.next_multiple_of(16).min(block.bytes() - offset);
        core::create_sub_buffer(&block.memory, MemFlags::READ_WRITE, &BufferRegion::<u8>::new(offset, bytes)).ok()
    }

    /// A new block, in the current context. If memory is short, frees what is kept for later calls first.
    pub(super) fn create_or_trim(&self, bytes: usize, is_lent: bool) -> Result<Arc<Block>> {
        self.create(bytes, is_lent).or_else(|error| match error {
            Error::OutOfMemory { .. } => {
                self.trim()?;
                self.create(bytes, is_lent)
            }
            other => Err(other),
        })
    }

    fn create(&self, bytes: usize, is_lent: bool) -> Result<Arc<Block>> {
        let pair = &*self.0;
        let (driver, context) = (pair.driver, pair.context);
        let (handle, address) = driver.allocate(pair.ordinal, bytes)?;
        let allocation = Allocation { driver, context, handle, address, bytes };
        let memory = self.imported(driver.export(handle)?, bytes)?;
        let block = Arc::new(Block { memory, allocation, users: Mutex::default(), is_lent });
        lock(&pair.blocks).insert(address, block.clone());
        Ok(block)
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

    /// Frees a block in which no work is under way.
    pub(super) fn free(&self, block: Arc<Block>) {
        lock(&self.0.blocks).remove(&block.address());
    }
}

/// What the offsets of sub-buffers are multiples of, in bytes.
pub(super) fn alignment(device: &OpenCl) -> usize {
    match core::get_device_info(device.0.device, core::DeviceInfo::MemBaseAddrAlign) {
        Ok(core::DeviceInfoResult::MemBaseAddrAlign(bits)) => (bits as usize / 8).max(16),
        _ => 4096,
    }
}
