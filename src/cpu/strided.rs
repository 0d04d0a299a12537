//! Updates at strides, to measure how memory handles accesses that are near to or far from each other.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use super::memory::{atomic, atomic_u32, prefetch};
use super::{BLOCK, CHUNK};
use crate::backend::Word;
use crate::parallel::each;

/// Adds one to `words[k * stride % len]` for each k below `len`: by an atomic addition, or by a read and a write.
pub(super) fn updates<T: Word>(words: &mut [T], stride: u32, atomically: bool) {
    // The two widths of words.
    if size_of::<T>() == size_of::<u32>() {
        let words = atomic_u32(bytemuck::cast_slice_mut(words));
        let add = |word: &AtomicU32| {
            word.fetch_add(1, Relaxed);
        };
        let store = |word: &AtomicU32| word.store(word.load(Relaxed).wrapping_add(1), Relaxed);
        if atomically { at_strides(words, stride, add) } else { at_strides(words, stride, store) }
    } else {
        let words = atomic(bytemuck::cast_slice_mut(words));
        let add = |word: &AtomicU64| {
            word.fetch_add(1, Relaxed);
        };
        let store = |word: &AtomicU64| word.store(word.load(Relaxed).wrapping_add(1), Relaxed);
        if atomically { at_strides(words, stride, add) } else { at_strides(words, stride, store) }
    }
}

/// Visits each place in turn, and prefetches the one a block later.
fn at_strides<T: Sync>(words: &[T], stride: u32, visit: impl Fn(&T) + Sync) {
    let len = words.len() as u64;
    let place = |k: usize| (k as u64 % len * u64::from(stride) % len) as usize;
    each(0..words.len(), CHUNK, |_, range| {
        let first = range.start;
        // One division per chunk suffices: the next place is one step further, or one step minus the length.
        let step = place(1);
        let next = |at: usize| if at + step >= words.len() { at + step - words.len() } else { at + step };
        let (mut at, mut ahead) = (place(first), place(first + BLOCK));
        for _ in range {
            prefetch(words, ahead);
            visit(&words[at]);
            (at, ahead) = (next(at), next(ahead));
        }
    });
}
