//! A limit on the memory for one input, because a hostile file must not make the library allocate more than the file
//! justifies.
//!
//! The allocator counts the bytes in use and remembers the maximum. Images of 2 MiB and more are mapped rather than
//! allocated; targets add them by [`used`].

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The maximum for an input of some KiB.
pub const MOST: usize = 64 << 20;

static IN_USE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call is passed on to the system's allocator unchanged; the counters do not touch memory of callers.
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

/// Runs `work`, and panics if the process took more than [`MOST`] during it.
pub(crate) fn limited<R>(work: impl FnOnce() -> R) -> R {
    let before = IN_USE.load(Relaxed);
    PEAK.store(before, Relaxed);
    let result = work();
    used(PEAK.load(Relaxed).saturating_sub(before));
    result
}

/// Panics if this number of bytes exceeds the limit for one input.
pub(crate) fn used(bytes: usize) {
    assert!(bytes <= MOST, "{bytes} bytes of memory for a file of some KiB");
}
