//! Converts results of a driver to ones that ocl-core accepts.
//!
//! ocl-core panics on a code that it does not know, and on a retain or release that fails, in `Clone` and in `Drop`; a
//! panic in `Drop` during another one aborts. Therefore:
//!
//! ```text
//! a code that ocl-core knows       is returned unchanged
//! any other                        becomes CL_OUT_OF_RESOURCES, and is stored for `unknown_code`
//! success, but no object           the same
//! a release that fails             becomes a success, and is counted; the object stays in the driver
//! a retain that fails              becomes a success, and is counted; the caller then counts one reference more than
//!                                  the driver, so one release of that object is not forwarded
//! ```
//!
//! Callers release an object as often as they create and retain it. So the release after a failed retain occurs while
//! the driver still has the object, and no debt remains when a later object gets the same address.

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::{Ignored, UnknownCode};

pub(crate) const CL_SUCCESS: i32 = 0;
const CL_OUT_OF_RESOURCES: i32 = -5;

thread_local! {
    /// The code of this thread's latest failure, if ocl-core does not know it.
    static UNKNOWN: Cell<Option<UnknownCode>> = const { Cell::new(None) };
}

static IGNORED_RELEASES: AtomicU64 = AtomicU64::new(0);
static IGNORED_RETAINS: AtomicU64 = AtomicU64::new(0);

/// Whether ocl-core 0.11 has a name for the code (`ocl_core::Status`).
fn is_known(code: i32) -> bool {
    matches!(code, -19..=0 | -70..=-30 | -1001..=-1000 | -9999)
}

/// The code that the caller receives.
pub(crate) fn status(function: &'static str, code: i32) -> i32 {
    if code == CL_SUCCESS {
        return CL_SUCCESS;
    }
    let known = is_known(code);
    remember((!known).then_some(UnknownCode { function, code }));
    if known { code } else { CL_OUT_OF_RESOURCES }
}

/// Converts the code of a function that returns an object: success without an object is a failure.
pub(crate) fn object(function: &'static str, object: *mut c_void, code: i32) -> i32 {
    if code == CL_SUCCESS && object.is_null() {
        remember(Some(UnknownCode { function, code }));
        return CL_OUT_OF_RESOURCES;
    }
    status(function, code)
}

fn remember(unknown: Option<UnknownCode>) {
    // Fails if the thread's local storage is already destroyed.
    let _ = UNKNOWN.try_with(|latest| latest.set(unknown));
}

pub(crate) fn unknown_code() -> Option<UnknownCode> {
    UNKNOWN.try_with(Cell::get).ok().flatten()
}

pub(crate) fn ignored() -> Ignored {
    let (releases, retains) = (&IGNORED_RELEASES, &IGNORED_RETAINS);
    Ignored { releases: releases.load(Ordering::Relaxed), retains: retains.load(Ordering::Relaxed) }
}

/// The number of releases of each object that are not to be forwarded, by its address.
#[derive(Default)]
struct Debts(Mutex<Option<HashMap<usize, u64>>>);

static DEBTS: Debts = Debts(Mutex::new(None));

impl Debts {
    fn lock(&self) -> MutexGuard<'_, Option<HashMap<usize, u64>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, object: *mut c_void) {
        *self.lock().get_or_insert_default().entry(object as usize).or_default() += 1;
    }

    /// Removes one debt of this object, if it has any.
    fn take(&self, object: *mut c_void) -> bool {
        let mut debts = self.lock();
        let Some(of_all) = debts.as_mut() else { return false };
        let Some(debt) = of_all.get_mut(&(object as usize)) else { return false };
        *debt -= 1;
        if *debt == 0 {
            of_all.remove(&(object as usize));
        }
        true
    }
}

/// Retains an object by `real`. Never fails.
pub(crate) fn retain(object: *mut c_void, real: impl FnOnce(*mut c_void) -> i32) -> i32 {
    if real(object) != CL_SUCCESS {
        // In this order, so that a thread that sees the count also finds the debt.
        DEBTS.add(object);
        IGNORED_RETAINS.fetch_add(1, Ordering::Release);
    }
    CL_SUCCESS
}

/// Releases an object by `real`. Never fails.
pub(crate) fn release(object: *mut c_void, real: impl FnOnce(*mut c_void) -> i32) -> i32 {
    // As long as no retain has ever failed, no thread waits for the lock.
    let owed = IGNORED_RETAINS.load(Ordering::Acquire) > 0 && DEBTS.take(object);
    if !owed && real(object) != CL_SUCCESS {
        IGNORED_RELEASES.fetch_add(1, Ordering::Relaxed);
    }
    CL_SUCCESS
}

#[cfg(test)]
mod tests {
    use num_traits::FromPrimitive;
    use ocl_core::Status;

    use super::*;

    fn at(address: usize) -> *mut c_void {
        std::ptr::without_provenance_mut(address)
    }

    #[test]
    fn the_codes_passed_on_are_those_that_ocl_core_knows() {
        for code in (-20_000..=20_000).chain([i32::MIN, i32::MAX]) {
            assert_eq!(is_known(code), Status::from_i32(code).is_some(), "{code}");
            let passed = status("clFinish", code);
            assert!(Status::from_i32(passed).is_some(), "{code}");
            assert_eq!(passed == CL_SUCCESS, code == CL_SUCCESS);
        }
    }

    #[test]
    fn the_latest_failure_alone_is_remembered() {
        assert_eq!(status("clFinish", -7777), CL_OUT_OF_RESOURCES);
        let unknown = UnknownCode { function: "clFinish", code: -7777 };
        assert_eq!(status("clFlush", CL_SUCCESS), CL_SUCCESS);
        assert_eq!(unknown_code(), Some(unknown));
        assert_eq!(std::thread::spawn(unknown_code).join().unwrap(), None);
        assert_eq!(status("clFlush", -36), -36);
        assert_eq!(unknown_code(), None);
        assert_eq!(object("clCreateBuffer", at(8), CL_SUCCESS), CL_SUCCESS);
        assert_eq!(object("clCreateBuffer", at(0), CL_SUCCESS), CL_OUT_OF_RESOURCES);
        assert_eq!(unknown_code(), Some(UnknownCode { function: "clCreateBuffer", code: 0 }));
    }

    /// The reference count of a simulated driver, and its results.
    #[test]
    fn a_failed_retain_costs_one_release() {
        let before = ignored();
        let (references, fails) = (Cell::new(1), |_| -5);
        let count = |by| {
            references.set(references.get() + by);
            0
        };
        assert_eq!(retain(at(64), fails), CL_SUCCESS);
        assert_eq!(retain(at(64), |_| count(1)), CL_SUCCESS);
        assert_eq!(release(at(128), |_| CL_SUCCESS), CL_SUCCESS, "another object owes nothing");
        assert_eq!(release(at(64), |_| panic!("passed on")), CL_SUCCESS);
        assert_eq!(release(at(64), |_| count(-1)), CL_SUCCESS);
        assert_eq!(release(at(64), |_| count(-1)), CL_SUCCESS);
        assert_eq!(references.get(), 0);
        assert_eq!(release(at(64), fails), CL_SUCCESS);
        let after = ignored();
        assert_eq!((after.releases - before.releases, after.retains - before.retains), (1, 1));
    }
}
