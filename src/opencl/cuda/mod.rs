//! Shares CUDA memory with OpenCL, without copies over the bus.
//!
//! ```text
//! Cuda::nth(0)            CUDA device 0 and the OpenCL device that is the same GPU, matched by UUID
//! import(&[array, ..])  -> Memory    arrays that CUDA or a library over it allocated: copies on the device
//! lend(bytes)          -> address   memory for another library's allocator, which import() uses in place
//! allocate(bytes)      -> Memory    memory that both OpenCL and CUDA read and write
//!   memory.buffer::<u64>(len)       the same memory as a koel buffer: input or output of any call
//! publish(&[&memory])               waits for koel's work; from then on CUDA reads the results at memory.address()
//! ```
//!
//! **How memory is shared.** CUDA allocates it with its virtual memory API and exports a file descriptor, which OpenCL
//! imports (`cl_khr_external_memory`). Memory of `cudaMalloc` cannot be exported, so [`Cuda::import`] copies it on the
//! device, at the rate of device memory. Arrays in memory of [`Cuda::lend`] and [`Cuda::allocate`] are not copied.
//! Freed memory is kept for later calls; each call frees what exceeds an eighth of the device's memory.
//!
//! **Order.** [`Cuda::import`] and [`Cuda::allocate`] wait for all work of the device's primary CUDA context, whichever
//! stream it is in; [`Cuda::publish`] waits for koel's. No work of one side is under way when the other begins.
//!
//! Nothing is needed to build, link or start a program: `libcuda.so.1`, or the file that the environment variable
//! `KOEL_CUDA` names, is loaded on first use; `KOEL_CUDA=off` disables it. Linux only.
//!
//! ```no_run
//! # fn demo(address: u64, len: usize, table: &koel::HashTable<koel::OpenCl, koel::scheme::BucketizedOf<u64, u64>>)
//! # -> koel::Result<()> {
//! use koel::opencl::cuda::{Cuda, Strided};
//! let cuda = Cuda::of(table.backend())?;
//! // SAFETY: `address` is that of `len` u64 in CUDA memory, that no one writes to during the call.
//! let keys = unsafe { cuda.import(&[Strided { address, len, item: 8, stride: 8 }])? };
//! let values = cuda.allocate(len * 8)?;
//! let mut found = koel::HashBackend::filled(table.backend(), len.div_ceil(32), 0)?;
//! table.get_on_into(&keys[0].buffer(len)?, &mut values.buffer(len)?, &mut found)?;
//! cuda.publish(&[&values])?;
//! println!("the values are at {:#x}", values.address());
//! # Ok(())
//! # }
//! ```

mod block;
mod convert;
mod driver;
mod memory;
#[cfg(test)]
mod tests;
mod voxels;

use std::collections::BTreeMap;
use std::ffi::{c_char, c_void};
use std::fmt;
use std::ptr::null_mut;
use std::sync::{Arc, Mutex};

use ocl::core::{ClDeviceIdPtr as _, DeviceInfo as Which, DeviceInfoResult, ffi};

use super::{OpenCl, lock};
use crate::error::{Error, Result};
use block::Block;
use driver::{Driver, driver};

pub use convert::{
    Part, append_column, bits_to_bytes, column_of, doubles_to_floats, floats_to_doubles, has_nan, keys_to_words,
    nan_if_empty, resized, rows_to_integers, without_nan, without_negative_zero,
};
pub use memory::{Memory, Strided};
pub use voxels::{Grid, Matrix, Voxels, neighbours};

/// `CL_DEVICE_UUID_KHR` of the extension `cl_khr_device_uuid`.
const CL_DEVICE_UUID: u32 = 0x106A;
/// `CU_MEM_ALLOCATION_TYPE_PINNED`, `CU_MEM_LOCATION_TYPE_DEVICE` and `CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR`.
const ONE: i32 = 1;
/// `CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL`.
const OF_DEVICE: i32 = 9;

/// A CUDA device, and the OpenCL device that is the same GPU. Clones share both.
#[derive(Clone)]
pub struct Cuda(Arc<Pair>);

struct Pair {
    device: OpenCl,
    driver: &'static Driver,
    ordinal: i32,
    /// The primary context of the device, which CUDA's runtime and the libraries based on it use.
    context: usize,
    import: Import,
    granularity: usize,
    /// The alignment of arrays that are used in place.
    alignment: usize,
    /// All memory, by address.
    blocks: Mutex<BTreeMap<u64, Arc<Block>>>,
    /// Memory that is not in use.
    idle: Mutex<Vec<Arc<Block>>>,
}

type CreateBuffer =
    unsafe extern "system" fn(*mut c_void, *const u64, u64, usize, *mut c_void, *mut i32) -> *mut c_void;
type Hand =
    unsafe extern "system" fn(*mut c_void, u32, *const *mut c_void, u32, *const *mut c_void, *mut *mut c_void) -> i32;

/// The functions of OpenCL 3.0 and `cl_khr_external_memory` that import memory.
struct Import {
    create: CreateBuffer,
    acquire: Hand,
    release: Hand,
}

/// All opened devices. They are kept, because drivers keep a context's memory.
static OPENED: Mutex<Vec<Cuda>> = Mutex::new(Vec::new());

/// The devices that [`Cuda::nth`] opened.
static NUMBERED: Mutex<BTreeMap<i32, Cuda>> = Mutex::new(BTreeMap::new());

impl fmt::Debug for Cuda {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cuda").field("ordinal", &self.0.ordinal).field("device", &self.0.device).finish_non_exhaustive()
    }
}

impl Cuda {
    /// CUDA device number `ordinal`, as CUDA numbers them in this process, and its OpenCL device.
    ///
    /// # Errors
    /// [`Error::NoDevice`] if there is no CUDA driver, no such device, or no OpenCL device that is the same GPU;
    /// [`Error::Unsupported`] if its OpenCL cannot import memory; [`Error::Device`] if a driver fails.
    pub fn nth(ordinal: i32) -> Result<Cuda> {
        if let Some(cuda) = lock(&NUMBERED).get(&ordinal) {
            return Ok(cuda.clone());
        }
        let uuid = driver()?.uuid(ordinal)?;
        let same = |device: &ocl::Device| uuid_of(device) == Some(uuid);
        let device = OpenCl::find(same)?.ok_or_else(|| Error::NoDevice {
            wanted: format!("CUDA device {ordinal}"),
            reason: "no OpenCL device is the same GPU: install NVIDIA's OpenCL driver (libnvidia-opencl.so.1)".into(),
        })?;
        let cuda = Cuda::of(&device)?;
        lock(&NUMBERED).insert(ordinal, cuda.clone());
        Ok(cuda)
    }

    /// The CUDA device that is the same GPU as an OpenCL device.
    ///
    /// # Errors
    /// As [`nth`](Self::nth).
    pub fn of(device: &OpenCl) -> Result<Cuda> {
        let mut opened = lock(&OPENED);
        let context = |device: &OpenCl| device.0.context.as_core().as_ptr();
        if let Some(cuda) = opened.iter().find(|cuda| context(&cuda.0.device) == context(device)) {
            return Ok(cuda.clone());
        }
        let driver = driver()?;
        let unpaired = || Error::NoDevice {
            wanted: format!("the CUDA device of {}", device.0.info),
            reason: "CUDA has no device with its UUID".into(),
        };
        let uuid = uuid_of(&device.0.device).ok_or_else(unpaired)?;
        let mut found = None;
        for ordinal in 0..driver.devices()? {
            if driver.uuid(ordinal)? == uuid {
                found = Some(ordinal);
            }
        }
        let ordinal = found.ok_or_else(unpaired)?;
        let import = Import::of(device)?;
        let context = driver.primary_context(ordinal)?;
        let granularity = driver.granularity(ordinal, context)?;
        let (alignment, device) = (block::alignment(device), device.clone());
        let (blocks, idle) = (Mutex::default(), Mutex::default());
        let pair = Pair { device, driver, ordinal, context, import, granularity, alignment, blocks, idle };
        let cuda = Cuda(Arc::new(pair));
        opened.push(cuda.clone());
        Ok(cuda)
    }

    /// The ordinal of the CUDA device to whose memory an address belongs.
    ///
    /// # Errors
    /// [`Error::NoDevice`] if there is no CUDA driver; [`Error::Device`] if the address is not in CUDA memory.
    pub fn device_of(address: u64) -> Result<i32> {
        driver()?.device_of(address)
    }

    /// The OpenCL device.
    pub fn device(&self) -> &OpenCl {
        &self.0.device
    }

    /// CUDA's number of the device.
    pub fn ordinal(&self) -> i32 {
        self.0.ordinal
    }
}

impl Import {
    #[expect(unsafe_code, reason = "functions that are looked up by name have no type")]
    fn of(device: &OpenCl) -> Result<Import> {
        let missing = || Error::Unsupported {
            device: device.0.info.to_string(),
            missing: "its OpenCL does not import memory of CUDA (cl_khr_external_memory_opaque_fd): update the driver"
                .into(),
        };
        let platform = match ocl::core::get_device_info(device.0.device, Which::Platform) {
            Ok(DeviceInfoResult::Platform(platform)) => platform.as_ptr(),
            _ => return Err(missing()),
        };
        let extension = |name: &'static std::ffi::CStr| {
            // SAFETY: the platform is that of the device, and the name is a C string.
            let found =
                unsafe { ffi::clGetExtensionFunctionAddressForPlatform(platform, name.as_ptr() as *const c_char) };
            if found.is_null() { Err(missing()) } else { Ok(found) }
        };
        let acquire = extension(c"clEnqueueAcquireExternalMemObjectsKHR")?;
        let release = extension(c"clEnqueueReleaseExternalMemObjectsKHR")?;
        let koel_opencl_loader::Status::Loaded { name } = koel_opencl_loader::status() else { return Err(missing()) };
        // SAFETY: the library is already loaded; this looks up its function.
        let create = unsafe {
            let library = libloading::Library::new(name).map_err(|_| missing())?;
            let create = *library.get::<CreateBuffer>("clCreateBufferWithProperties").map_err(|_| missing())?;
            // Its functions are used until the process ends.
            std::mem::forget(library);
            create
        };
        // SAFETY: the types are those that the extension defines for these functions.
        unsafe {
            let acquire = std::mem::transmute::<*mut c_void, Hand>(acquire.cast());
            Ok(Import { create, acquire, release: std::mem::transmute::<*mut c_void, Hand>(release.cast()) })
        }
    }
}

/// The UUID of a device, if its driver reports one.
#[expect(unsafe_code, reason = "ocl does not know this question")]
fn uuid_of(device: &ocl::Device) -> Option<[u8; 16]> {
    let mut uuid = [0_u8; 16];
    // SAFETY: the result has 16 bytes, and the driver does not write more than the given size.
    let status =
        unsafe { ffi::clGetDeviceInfo(device.as_ptr(), CL_DEVICE_UUID, 16, uuid.as_mut_ptr().cast(), null_mut()) };
    (status == 0).then_some(uuid)
}
