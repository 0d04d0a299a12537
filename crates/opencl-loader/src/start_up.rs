//! The two functions by which a program discovers OpenCL, and which need care.
//!
//! - They take turns. ocl-icd 2.3 and PoCL 3.1 set themselves up during these calls, and threads that do so at once
//!   have been seen to find no devices, or devices that fail later. A lock around the first function alone does not
//!   cure it.
//! - "There are no platforms" is a success with the count zero, be it that the library says `CL_PLATFORM_NOT_FOUND_KHR`
//!   or that there is no library. ocl-core takes that code for a sign of the race above, and tries again for ten
//!   seconds.

#![expect(unsafe_code, reason = "defines and calls C functions")]
#![allow(non_snake_case, reason = "the names are OpenCL's")]

use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::answers;
use crate::forward::CL_INVALID_PLATFORM;

const CL_SUCCESS: i32 = 0;
const CL_PLATFORM_NOT_FOUND_KHR: i32 = -1001;

/// Waits for its turn. The lock guards no data, so a poisoned one is as good as any.
fn take_turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

hidden!(clGetPlatformIDs);
#[unsafe(no_mangle)]
pub unsafe extern "system" fn clGetPlatformIDs(
    num_entries: u32,
    platforms: *mut *mut c_void,
    num_platforms: *mut u32,
) -> i32 {
    let _turn = take_turn();
    type Real = unsafe extern "system" fn(u32, *mut *mut c_void, *mut u32) -> i32;
    let status = match real!(clGetPlatformIDs: Real) {
        // SAFETY: the arguments are the caller's, who made the promises that go with them.
        Some(real) => unsafe { real(num_entries, platforms, num_platforms) },
        None => CL_PLATFORM_NOT_FOUND_KHR,
    };
    let status = answers::status("clGetPlatformIDs", status);
    // Without a place for the count, success would read as "`platforms` is filled": the caller
    // could not tell zero from `num_entries`, and would go on to use what was never written.
    if status != CL_PLATFORM_NOT_FOUND_KHR || num_platforms.is_null() {
        return status;
    }
    // SAFETY: not null, so it is the caller's valid place for the count.
    unsafe { num_platforms.write(0) };
    CL_SUCCESS
}

hidden!(clGetDeviceIDs);
#[unsafe(no_mangle)]
pub unsafe extern "system" fn clGetDeviceIDs(
    platform: *mut c_void,
    device_type: u64,
    num_entries: u32,
    devices: *mut *mut c_void,
    num_devices: *mut u32,
) -> i32 {
    let _turn = take_turn();
    type Real = unsafe extern "system" fn(*mut c_void, u64, u32, *mut *mut c_void, *mut u32) -> i32;
    match real!(clGetDeviceIDs: Real) {
        // SAFETY: the arguments are the caller's, who made the promises that go with them.
        Some(real) => unsafe {
            answers::status("clGetDeviceIDs", real(platform, device_type, num_entries, devices, num_devices))
        },
        None => CL_INVALID_PLATFORM,
    }
}
