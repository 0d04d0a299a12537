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

/// A place that threads share. Relaxed accesses: nothing else is read on the strength of a word.
pub(super) trait Shared: Place {
    /// Writes a word.
    fn put(&self, word: u64);

    /// Writes a word, and returns what stood there.
    fn swap(&self, word: u64) -> u64;

    /// Raises the place to `mine` at least, and returns what stood there before: an atomic maximum, spelled out because
    /// most refusals need only the read that it begins with.
    fn raise(&self, mine: u64) -> u64;
}

/// A cell that is shared as an atomic.
pub(super) trait Share: Cell {
    type Shared: Shared;

    /// The same cells as atomics, for as long as no one else can see them.
    fn share(cells: &mut [Self]) -> &[Self::Shared];
}

impl<C: Cell> Place for C {
    #[inline(always)]
    fn word(&self) -> u64 {
        Cell::word(*self)
    }
}

/// Both widths alike: `$cell` is what is stored of a word.
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

/// [`Shared::raise`] of what is stored.
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
