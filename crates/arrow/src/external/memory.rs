//! Checks memory before Arrow allocates it: Arrow's kernels abort the process on failure, even on rayon's threads.
//!
//! The memory is not reserved. If another thread allocates it after the check, the process may still abort.

use crate::error::Result;

/// Checks that `bytes` bytes can be allocated.
///
/// # Errors
/// [`koel::Error::OutOfMemory`].
pub(super) fn check(bytes: u64) -> Result<()> {
    reserved::<u8>(usize::try_from(bytes).unwrap_or(usize::MAX)).map(|reserved| {
        // The compiler may remove an allocation whose result is not used.
        std::hint::black_box(reserved);
    })
}

/// An empty vector with capacity for `len` elements.
///
/// # Errors
/// [`koel::Error::OutOfMemory`].
pub(super) fn reserved<T>(len: usize) -> Result<Vec<T>> {
    let mut reserved = Vec::new();
    match reserved.try_reserve_exact(len) {
        Ok(()) => Ok(reserved),
        Err(_) => {
            let bytes = (len as u64).saturating_mul(size_of::<T>() as u64);
            Err(koel::Error::OutOfMemory { device: "this machine".into(), bytes }.into())
        }
    }
}
