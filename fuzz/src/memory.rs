//! A limit on the memory that an input may take, because a hostile file must not make the library ask for more than
//! the file accounts for.
//!
//! The allocator counts the bytes in use and remembers the most. Images of 2 MiB and more are mapped and not allocated:
//! targets add them by [`used`].

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The most that an input of some KiB may take.
pub const MOST: usize = 64 << 20;

static IN_USE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call is passed on to the system's allocator as it is; the counters touch no memory of callers.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        took(layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        took(layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

fn took(bytes: usize) {
    PEAK.fetch_max(IN_USE.fetch_add(bytes, Relaxed) + bytes, Relaxed);
}

/// Runs `work`, and panics if the process took more than [`MOST`] meanwhile.
pub(crate) fn limited<R>(work: impl FnOnce() -> R) -> R {
    let before = IN_USE.load(Relaxed);
    PEAK.store(before, Relaxed);
    let result = work();
    used(PEAK.load(Relaxed).saturating_sub(before));
    result
}

/// Panics if so many bytes are more than an input may take.
pub(crate) fn used(bytes: usize) {
    assert!(bytes <= MOST, "{bytes} bytes of memory for a file of some KiB");
}
