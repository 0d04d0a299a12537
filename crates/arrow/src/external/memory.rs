//! Memory that Arrow is about to take: its kernels end the process where there is none, also on threads of rayon.
//!
//! What it is not: a reservation. Another thread may take the memory in between; then the process ends after all.

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
