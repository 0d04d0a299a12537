//! An OpenCL library with known behaviour. tests/forwarding.rs compiles and loads it.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

static BUSY: AtomicBool = AtomicBool::new(false);

/// Returns `status`, or -7777 if another thread is in this function too.
fn alone(status: i32) -> i32 {
    if BUSY.swap(true, Ordering::SeqCst) {
        return -7777;
    }
    sleep(Duration::from_millis(2));
    BUSY.store(false, Ordering::SeqCst);
    status
}

/// A loader without drivers.
#[unsafe(no_mangle)]
extern "system" fn clGetPlatformIDs(_: u32, _: *mut *mut c_void, _: *mut u32) -> i32 {
    alone(-1001)
}

#[unsafe(no_mangle)]
extern "system" fn clGetDeviceIDs(_: *mut c_void, _: u64, _: u32, _: *mut *mut c_void, _: *mut u32) -> i32 {
    alone(-1)
}

/// Returns its argument, negated.
#[unsafe(no_mangle)]
extern "system" fn clFinish(queue: *mut c_void) -> i32 {
    -(queue as usize as i32)
}

/// A retain and a release that fail.
#[unsafe(no_mangle)]
extern "system" fn clRetainEvent(_: *mut c_void) -> i32 {
    -58
}

#[unsafe(no_mangle)]
extern "system" fn clReleaseEvent(_: *mut c_void) -> i32 {
    -7777
}

/// Returns the sum of its numbers, and the same as a code, negated.
#[unsafe(no_mangle)]
unsafe extern "system" fn clCreateBuffer(
    context: *mut c_void,
    flags: u64,
    size: usize,
    host_ptr: *mut c_void,
    errcode_ret: *mut i32,
) -> *mut c_void {
    let sum = context as usize + flags as usize + size + host_ptr as usize;
    unsafe { errcode_ret.write(-(sum as i32)) };
    null_mut::<c_void>().wrapping_byte_add(sum)
}
