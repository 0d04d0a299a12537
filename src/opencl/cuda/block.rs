//! Allocations of CUDA that OpenCL has imported, and the memory of pools.
//!
//! ```text
//! create:  CUDA allocates -> descriptor -> OpenCL imports
//! lend:    a block for the allocator of another library, which returns it by its address
//! find:    the block that contains an address, and a part of it as an OpenCL buffer
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
    // This is dropped before the allocation.
    memory: Mem,
    allocation: Allocation,
    /// The number of users for which OpenCL has acquired it.
    users: Mutex<usize>,
    /// Whether another library's allocator has it.
    is_lent: bool,
}

/// A block on CUDA's side.
struct Allocation {
    driver: &'static Driver,
    context: usize,
    handle: u64,
    address: u64,
    bytes: usize,
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // If the context cannot be entered, the memory stays allocated.
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

    /// Lets OpenCL acquire it, unless OpenCL has already acquired it for another user.
    pub(super) fn acquire(&self, cuda: &Cuda) -> Result<()> {
        let mut users = lock(&self.users);
        if *users == 0 {
            self.hand(cuda, cuda.0.import.acquire, "acquiring")?;
        }
        *users += 1;
        Ok(())
    }

    /// Lets OpenCL release it after its last user.
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
    /// Allocates memory for the allocator of another library, such as PyTorch's, and returns its address.
    /// [`import`](Self::import) then uses arrays in this memory without a copy. Free it with
    /// [`free_lent`](Self::free_lent).
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] or [`Error::Device`].
    pub fn lend(&self, bytes: usize) -> Result<u64> {
        let needed = self.rounded(bytes)?;
        let _current = self.0.driver.enter(self.0.context)?;
        Ok(self.create_or_trim(needed, true)?.address())
    }

    /// Frees memory that [`lend`](Self::lend) returned, after all work of CUDA and OpenCL. Ignores other addresses.
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

    /// Rounds a number of bytes up to a multiple of the allocation granularity.
    pub(super) fn rounded(&self, bytes: usize) -> Result<usize> {
        let needed = bytes.max(1).checked_next_multiple_of(self.0.granularity);
        needed.ok_or(Error::OutOfMemory { device: self.0.device.0.info.to_string(), bytes: bytes as u64 })
    }

    /// Returns the block that contains all of these bytes.
    pub(super) fn block_of(&self, address: u64, bytes: usize) -> Option<Arc<Block>> {
        let blocks = lock(&self.0.blocks);
        let (&start, block) = blocks.range(..=address).next_back()?;
        let end = (address - start).checked_add(bytes as u64)?;
        (end <= block.bytes() as u64).then(|| block.clone())
    }

    /// Returns bytes of a block as OpenCL memory; `None` if OpenCL does not allow a buffer to begin at this offset.
    pub(super) fn part_of(&self, block: &Block, offset: usize, bytes: usize) -> Option<Mem> {
        if offset == 0 {
            return Some(block.memory.clone());
        }
        if !offset.is_multiple_of(self.0.alignment) {
            return None;
        }
        // A multiple of the size of every element type.
        let bytes = bytes.next_multiple_of(16).min(block.bytes() - offset);
        core::create_sub_buffer(&block.memory, MemFlags::READ_WRITE, &BufferRegion::<u8>::new(offset, bytes)).ok()
    }

    /// Creates a block in the current context. If memory is short, first frees memory that is kept for later calls.
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

    /// Imports memory into OpenCL, which then owns the descriptor.
    #[expect(unsafe_code, reason = "a function that ocl does not know, and the handle that it returns")]
    fn imported(&self, descriptor: i32, bytes: usize) -> Result<Mem> {
        let pair = &*self.0;
        let (properties, mut status) = ([DESCRIPTOR, descriptor as u64, 0], 0);
        let context = pair.device.0.context.as_core().as_ptr();
        // SAFETY: the context is alive, the list ends with 0, and the descriptor is that of memory of this size.
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

    /// Frees a block that no pending work uses.
    pub(super) fn free(&self, block: Arc<Block>) {
        lock(&self.0.blocks).remove(&block.address());
    }
}

/// The alignment in bytes that the offsets of sub-buffers require.
pub(super) fn alignment(device: &OpenCl) -> usize {
    match core::get_device_info(device.0.device, core::DeviceInfo::MemBaseAddrAlign) {
        Ok(core::DeviceInfoResult::MemBaseAddrAlign(bits)) => (bits as usize / 8).max(16),
        _ => 4096,
    }
}
