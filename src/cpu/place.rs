//! One place of an image, as passes access it: exclusively or shared by threads, as 64 bits or as the upper half of a
//! word.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use super::atomic::Atomic;
use super::memory::{atomic, atomic_u32};
use crate::scheme::cuckoo::Cell;

/// A place that can be read.
pub(super) trait Place: Sync {
    /// The whole word; the lower half of one that is not stored is 0.
    fn word(&self) -> u64;
}

/// A place that threads share. Accesses are relaxed: a word does not publish other memory.
pub(super) trait Shared: Place {
    /// Writes a word.
    fn put(&self, word: u64);

    /// Writes a word, and returns the previous one.
    fn swap(&self, word: u64) -> u64;

    /// Raises the place to at least `mine`, and returns its previous content. This is an atomic maximum, written as a
    /// loop because its initial read is enough for most refusals.
    fn raise(&self, mine: u64) -> u64;
}

/// A cell that is shared as an atomic.
pub(super) trait Share: Cell {
    type Shared: Shared;

    /// The same cells as atomics, for the duration of the exclusive borrow.
    fn share(cells: &mut [Self]) -> &[Self::Shared];
}

impl<C: Cell> Place for C {
    #[inline(always)]
    fn word(&self) -> u64 {
        Cell::word(*self)
    }
}

/// Implements both widths: `$cell` is the stored part of a word.
macro_rules! shared {
    ($atomic:ty, $cell:ty, $share:ident) => {
        impl Place for $atomic {
            #[inline(always)]
            fn word(&self) -> u64 {
                self.load(Relaxed).word()
            }
        }

        impl Shared for $atomic {
            #[inline(always)]
            fn put(&self, word: u64) {
                self.store(<$cell>::of(word), Relaxed);
            }

            #[inline(always)]
            fn swap(&self, word: u64) -> u64 {
                Self::swap(self, <$cell>::of(word), Relaxed).word()
            }

            #[inline(always)]
            fn raise(&self, mine: u64) -> u64 {
                raise(self, <$cell>::of(mine)).word()
            }
        }

        impl Share for $cell {
            type Shared = $atomic;

            fn share(cells: &mut [$cell]) -> &[$atomic] {
                $share(cells)
            }
        }
    };
}

shared!(AtomicU64, u64, atomic);
shared!(AtomicU32, u32, atomic_u32);

/// [`Shared::raise`] for the stored part of a word.
#[inline(always)]
pub(super) fn raise<A: Atomic>(place: &A, mine: A::Word) -> A::Word {
    let mut there = place.load(Relaxed);
    while there < mine {
        match place.compare_exchange_weak(there, mine, Relaxed, Relaxed) {
            Ok(_) => break,
            Err(now) => there = now,
        }
    }
    there
}

#[cfg(all(test, loom))]
mod loom_tests;
