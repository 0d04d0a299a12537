//! Allocations whose size depends on the data. A failed allocation is an error, and does not abort the process.
//!
//! ```text
//! reserved     an empty vector with this capacity
//! reserve      capacity for a number of further elements
//! zeroed       zeros; large allocations are untouched pages of the system
//! boxed        one large value
//! ```
//!
//! Allocations that are small for any data (names, options, a list with an entry per thread, those of rayon) use `Vec`
//! instead, which aborts if memory runs out.

use crate::error::{Error, Result};

/// The name of the host in messages.
pub(crate) const HERE: &str = "this machine";

/// The error for a failed allocation of `len` elements.
pub(crate) fn out_of_memory<T>(len: usize) -> Error {
    let bytes = (len as u64).saturating_mul(size_of::<T>() as u64);
    Error::OutOfMemory { device: HERE.into(), bytes }
}

/// An empty vector with capacity for `len` elements.
pub(crate) fn reserved<T>(len: usize) -> Result<Vec<T>> {
    let mut elements = Vec::new();
    elements.try_reserve_exact(len).map_err(|_| out_of_memory::<T>(len))?;
    Ok(elements)
}

/// Reserves capacity for `more` elements.
pub(crate) fn reserve<T>(elements: &mut Vec<T>, more: usize) -> Result<()> {
    elements.try_reserve(more).map_err(|_| out_of_memory::<T>(elements.len().saturating_add(more)))
}

/// `len` zeros.
pub(crate) fn zeroed<T: bytemuck::Zeroable>(len: usize) -> Result<Vec<T>> {
    bytemuck::allocation::try_zeroed_slice_box(len).map(Vec::from).map_err(|()| out_of_memory::<T>(len))
}

/// Allocates a value that is too large for the stack of a thread. The result is a slice of length one, because safe
/// code cannot convert a vector to a `Box<T>`.
pub(crate) fn boxed<T>(value: T) -> Result<Box<[T]>> {
    let mut one = reserved(1)?;
    one.push(value);
    Ok(one.into_boxed_slice())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_large_allocations_report_their_size() {
        let bytes_of = |error: Error| match error {
            Error::OutOfMemory { bytes, .. } => bytes,
            other => panic!("{other}"),
        };
        assert_eq!(bytes_of(reserved::<u64>(1 << 58).expect_err("out of memory")), 1 << 61);
        assert_eq!(
            bytes_of(zeroed::<u32>(usize::MAX).expect_err("out of memory")),
            (usize::MAX as u64).saturating_mul(4)
        );
    }

    #[test]
    fn allocations_that_fit_succeed() {
        assert_eq!(zeroed::<u32>(3).expect("memory"), [0; 3]);
        assert!(reserved::<u8>(100).expect("memory").capacity() >= 100);
        assert_eq!(*boxed(7).expect("memory"), [7]);
        assert!(zeroed::<u64>(0).expect("memory").is_empty() && reserved::<u64>(0).expect("memory").is_empty());
    }
}
