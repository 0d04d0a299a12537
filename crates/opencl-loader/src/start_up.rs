//! The two functions by which a program discovers OpenCL, and which need workarounds.
//!
//! - Their calls are serialized. ocl-icd 2.3 and PoCL 3.1 initialize themselves during these calls, and threads that do
//!   so concurrently sometimes find no devices, or devices that fail later. A lock around the first function alone does
//!   not fix it.
//! - "There are no platforms" is a success with the count zero, both if the library returns `CL_PLATFORM_NOT_FOUND_KHR`
//!   and if there is no library. ocl-core takes that code for a sign of the race above, and retries for ten seconds.

#![expect(unsafe_code, reason = "defines and calls C functions")]
#![allow(non_snake_case, reason = "the names are OpenCL's")]

use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::answers;
use crate::forward::CL_INVALID_PLATFORM;

const CL_SUCCESS: i32 = 0;
const CL_PLATFORM_NOT_FOUND_KHR: i32 = -1001;

/// Waits for other calls. The lock guards no data, so a poisoned one is usable.
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
        // SAFETY: the arguments are the caller's, who guarantees their validity.
        Some(real) => unsafe { real(num_entries, platforms, num_platforms) },
        None => CL_PLATFORM_NOT_FOUND_KHR,
    };
    let status = answers::status("clGetPlatformIDs", status);
    // Without a place for the count, success would mean that `platforms` is filled: the caller could not distinguish
    // zero from `num_entries`, and would use platforms that were never written.
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
        // SAFETY: the arguments are the caller's, who guarantees their validity.
        Some(real) => unsafe {
            answers::status("clGetDeviceIDs", real(platform, device_type, num_entries, devices, num_devices))
        },
        None => CL_INVALID_PLATFORM,
    }
}
