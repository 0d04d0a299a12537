//! The CUDA driver: a few functions of `libcuda`, which is loaded on first use.

#![expect(unsafe_code, reason = "functions of a C library, found by name")]

use std::env;
use std::ffi::{CStr, c_char, c_void};
use std::ptr::{null, null_mut};
use std::sync::OnceLock;

use libloading::Library;

use super::{OF_DEVICE, ONE};
use crate::error::{Error, Result};

/// The environment variable that names another library than the system's, or is `off`.
const VARIABLE: &str = "KOEL_CUDA";
/// `CUDA_ERROR_OUT_OF_MEMORY`.
const OUT_OF_MEMORY: i32 = 2;

/// `CUmemAllocationProp`.
#[repr(C)]
#[derive(Default)]
pub(super) struct Allocation {
    kind: i32,
    handle_types: i32,
    location: Location,
    windows: usize,
    flags: [u64; 1],
}

/// `CUmemLocation`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Location {
    kind: i32,
    id: i32,
}

/// `CUmemAccessDesc`.
#[repr(C)]
struct Access {
    location: Location,
    flags: i32,
}

/// `CUDA_MEMCPY2D`.
#[repr(C)]
struct Copy2d {
    from_x: usize,
    from_y: usize,
    from_kind: i32,
    from_host: *const c_void,
    from: u64,
    from_array: *mut c_void,
    from_pitch: usize,
    to_x: usize,
    to_y: usize,
    to_kind: i32,
    to_host: *mut c_void,
    to: u64,
    to_array: *mut c_void,
    to_pitch: usize,
    width: usize,
    height: usize,
}

/// `CU_MEMORYTYPE_DEVICE`.
const ON_DEVICE: i32 = 2;

/// Defines [`Driver`] with a field for each function, and loads each function by its symbol.
macro_rules! functions {
    ($($name:ident = $symbol:literal ($($argument:ty),*);)*) => {
        pub(super) struct Driver {
            $($name: unsafe extern "C" fn($($argument),*) -> i32,)*
        }

        impl Driver {
            /// # Safety
            /// The library is a CUDA driver, and is never closed.
            unsafe fn of(library: &Library) -> std::result::Result<Driver, libloading::Error> {
                // SAFETY: the types are those of cuda.h; the library stays open.
                Ok(Driver { $($name: *unsafe { library.get($symbol)? },)* })
            }
        }
    };
}

functions! {
    init = "cuInit" (u32);
    error_name = "cuGetErrorName" (i32, *mut *const c_char);
    device_count = "cuDeviceGetCount" (*mut i32);
    device_get = "cuDeviceGet" (*mut i32, i32);
    device_uuid = "cuDeviceGetUuid" (*mut [u8; 16], i32);
    retain = "cuDevicePrimaryCtxRetain" (*mut *mut c_void, i32);
    push = "cuCtxPushCurrent_v2" (*mut c_void);
    pop = "cuCtxPopCurrent_v2" (*mut *mut c_void);
    synchronize = "cuCtxSynchronize" ();
    pointer_attribute = "cuPointerGetAttribute" (*mut c_void, i32, u64);
    granularity_of = "cuMemGetAllocationGranularity" (*mut usize, *const Allocation, i32);
    create = "cuMemCreate" (*mut u64, usize, *const Allocation, u64);
    release = "cuMemRelease" (u64);
    reserve = "cuMemAddressReserve" (*mut u64, usize, usize, u64, u64);
    unreserve = "cuMemAddressFree" (u64, usize);
    map = "cuMemMap" (u64, usize, usize, u64, u64);
    unmap = "cuMemUnmap" (u64, usize);
    set_access = "cuMemSetAccess" (u64, usize, *const Access, usize);
    export = "cuMemExportToShareableHandle" (*mut c_void, u64, i32, u64);
    copy = "cuMemcpyDtoD_v2" (u64, u64, usize);
    copy_2d = "cuMemcpy2D_v2" (*const Copy2d);
    download = "cuMemcpyDtoH_v2" (*mut c_void, u64, usize);
}

/// The driver of this process.
///
/// # Errors
/// [`Error::NoDevice`] with the reason, which is the same at each call.
pub(super) fn driver() -> Result<&'static Driver> {
    static OPENED: OnceLock<std::result::Result<Driver, String>> = OnceLock::new();
    let no_driver = |reason: &String| Error::NoDevice { wanted: "CUDA".into(), reason: reason.clone() };
    OPENED.get_or_init(open).as_ref().map_err(no_driver)
}

fn open() -> std::result::Result<Driver, String> {
    let name = env::var_os(VARIABLE).filter(|name| !name.is_empty()).unwrap_or_else(|| "libcuda.so.1".into());
    if name.eq_ignore_ascii_case("off") {
        return Err(format!("CUDA is switched off by {VARIABLE}"));
    }
    if cfg!(not(target_os = "linux")) {
        return Err("CUDA arrays are supported on Linux: use a copy in main memory".into());
    }
    let advice = format!("install NVIDIA's driver, or set {VARIABLE} to the library's file name");
    // SAFETY: it is the system's driver or the user's choice, which is as trusted as a library that the program links
    // to.
    let library = unsafe { Library::new(&name) }.map_err(|error| {
        let reason = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
        format!("no CUDA driver found ({reason}); {advice}")
    })?;
    // SAFETY: the library is never closed, because drivers start threads.
    let driver = unsafe { Driver::of(&library) };
    std::mem::forget(library);
    let driver = driver.map_err(|error| format!("the CUDA driver lacks a function ({error}); update it"))?;
    // SAFETY: it takes no flags.
    match unsafe { (driver.init)(0) } {
        0 => Ok(driver),
        code => Err(format!("the CUDA driver does not start: {}", driver.name_of(code))),
    }
}

/// While this exists, a context is the current one of a thread.
pub(super) struct Current<'a>(&'a Driver);

impl Drop for Current<'_> {
    fn drop(&mut self) {
        let mut ignored = null_mut();
        // SAFETY: it was pushed by this thread.
        unsafe { (self.0.pop)(&mut ignored) };
    }
}

impl Driver {
    fn name_of(&self, code: i32) -> String {
        let mut name = null();
        // SAFETY: it writes a pointer to a static string, or null.
        match unsafe { (self.error_name)(code, &mut name) } {
            // SAFETY: the pointer is to a C string of the driver.
            0 if !name.is_null() => unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned(),
            _ => format!("error {code}"),
        }
    }

    fn done(&self, doing: &str, bytes: usize, code: i32) -> Result<()> {
        match code {
            0 => Ok(()),
            OUT_OF_MEMORY => Err(Error::OutOfMemory { device: "CUDA".into(), bytes: bytes as u64 }),
            code => Err(Error::Device { device: "CUDA".into(), doing: doing.into(), message: self.name_of(code) }),
        }
    }

    /// Makes a context the current one of this thread. Dropping the guard restores the previous one.
    pub(super) fn enter(&self, context: usize) -> Result<Current<'_>> {
        // SAFETY: the context is retained until the process ends.
        self.done("entering a context", 0, unsafe { (self.push)(context as *mut c_void) })?;
        Ok(Current(self))
    }

    pub(super) fn devices(&self) -> Result<i32> {
        let mut count = 0;
        // SAFETY: it writes a number.
        self.done("counting devices", 0, unsafe { (self.device_count)(&mut count) })?;
        Ok(count)
    }

    fn device(&self, ordinal: i32) -> Result<i32> {
        let (mut device, count) = (0, self.devices()?);
        if !(0..count).contains(&ordinal) {
            let reason = format!("CUDA has {count} devices");
            return Err(Error::NoDevice { wanted: format!("CUDA device {ordinal}"), reason });
        }
        // SAFETY: it writes a number.
        self.done("opening a device", 0, unsafe { (self.device_get)(&mut device, ordinal) })?;
        Ok(device)
    }

    pub(super) fn uuid(&self, ordinal: i32) -> Result<[u8; 16]> {
        let (mut uuid, device) = ([0; 16], self.device(ordinal)?);
        // SAFETY: it writes 16 bytes.
        self.done("reading a device's UUID", 0, unsafe { (self.device_uuid)(&mut uuid, device) })?;
        Ok(uuid)
    }

    /// The primary context of a device, retained until the process ends.
    pub(super) fn primary_context(&self, ordinal: i32) -> Result<usize> {
        let (mut context, device) = (null_mut(), self.device(ordinal)?);
        // SAFETY: it writes a handle.
        self.done("opening the primary context", 0, unsafe { (self.retain)(&mut context, device) })?;
        Ok(context as usize)
    }

    pub(super) fn granularity(&self, ordinal: i32, context: usize) -> Result<usize> {
        let (mut bytes, _current) = (0, self.enter(context)?);
        // SAFETY: it writes a number; 1 is CU_MEM_ALLOC_GRANULARITY_RECOMMENDED.
        let code = unsafe { (self.granularity_of)(&mut bytes, &exportable(ordinal), 1) };
        self.done("reading the granularity of memory", 0, code)?;
        Ok(bytes.max(1))
    }

    pub(super) fn device_of(&self, address: u64) -> Result<i32> {
        let mut ordinal = 0_i32;
        // SAFETY: it writes a number; any address may be given.
        let code = unsafe { (self.pointer_attribute)((&raw mut ordinal).cast(), OF_DEVICE, address) };
        self.done("finding the device of an address that should be CUDA memory", 0, code)?;
        Ok(ordinal)
    }

    /// Waits for all work of the current context.
    pub(super) fn wait(&self) -> Result<()> {
        // SAFETY: no arguments.
        self.done("waiting for CUDA's work", 0, unsafe { (self.synchronize)() })
    }

    /// Allocates exportable memory of the device. Returns its handle and its address. `bytes` is a multiple of the
    /// granularity.
    pub(super) fn allocate(&self, ordinal: i32, bytes: usize) -> Result<(u64, u64)> {
        let (mut handle, mut address) = (0, 0);
        // SAFETY: the structures are those of cuda.h, and each step receives the results of the previous steps.
        unsafe {
            self.done("allocating", bytes, (self.create)(&mut handle, bytes, &exportable(ordinal), 0))?;
            let mapped = (|| {
                self.done("reserving addresses", bytes, (self.reserve)(&mut address, bytes, 0, 0, 0))?;
                self.done("mapping memory", bytes, (self.map)(address, bytes, 0, handle, 0))?;
                // 3 is CU_MEM_ACCESS_FLAGS_PROT_READWRITE.
                let access = Access { location: Location { kind: ONE, id: ordinal }, flags: 3 };
                self.done("opening memory to the device", bytes, (self.set_access)(address, bytes, &access, 1))
            })();
            if let Err(error) = mapped {
                self.free(handle, address, bytes);
                return Err(error);
            }
        }
        Ok((handle, address))
    }

    /// Frees memory that [`allocate`](Self::allocate) returned. If this fails, the memory stays allocated.
    pub(super) fn free(&self, handle: u64, address: u64, bytes: usize) {
        // SAFETY: the caller does not use it any more; the driver rejects addresses that were not mapped.
        unsafe {
            if address != 0 {
                (self.unmap)(address, bytes);
                (self.unreserve)(address, bytes);
            }
            (self.release)(handle);
        }
    }

    /// Exports memory as a file descriptor, which the caller owns.
    pub(super) fn export(&self, handle: u64) -> Result<i32> {
        let mut descriptor = -1_i32;
        // SAFETY: it writes a descriptor.
        let code = unsafe { (self.export)((&raw mut descriptor).cast(), handle, ONE, 0) };
        self.done("exporting memory", 0, code)?;
        Ok(descriptor)
    }

    /// Queues a copy of `len` items of `item` bytes, which are `stride` bytes apart in the source and adjacent in the
    /// copy.
    ///
    /// # Safety
    /// Both are memory of the current context's device, and long enough.
    pub(super) unsafe fn copy(&self, from: u64, to: u64, len: usize, item: usize, stride: usize) -> Result<()> {
        // SAFETY: the caller guarantees it.
        let code = unsafe {
            if stride == item || len == 1 {
                (self.copy)(to, from, len * item)
            } else {
                let columns = Copy2d {
                    from_x: 0,
                    from_y: 0,
                    from_kind: ON_DEVICE,
                    from_host: null(),
                    from,
                    from_array: null_mut(),
                    from_pitch: stride,
                    to_x: 0,
                    to_y: 0,
                    to_kind: ON_DEVICE,
                    to_host: null_mut(),
                    to,
                    to_array: null_mut(),
                    to_pitch: item,
                    width: item,
                    height: len,
                };
                (self.copy_2d)(&columns)
            }
        };
        self.done("copying an array on the device", len * item, code)
    }

    /// Copies memory of the device to the host.
    ///
    /// # Safety
    /// The memory belongs to the current context's device, and is at least as long as `to`.
    pub(super) unsafe fn download(&self, from: u64, to: &mut [u8]) -> Result<()> {
        // SAFETY: the caller guarantees it.
        let code = unsafe { (self.download)(to.as_mut_ptr().cast(), from, to.len()) };
        self.done("copying an array to the host", to.len(), code)
    }
}

/// The properties of device memory that can be exported as a file descriptor.
fn exportable(ordinal: i32) -> Allocation {
    let location = Location { kind: ONE, id: ordinal };
    Allocation { kind: ONE, handle_types: ONE, location, ..Allocation::default() }
}
