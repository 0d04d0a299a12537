//! The command's allocator: the system's, with two additions.
//!
//! After `end_when_short`, a failed allocation ends the command with a message (on Unix without an abort). This is for
//! commands that store rows in Arrow's arrays, whose allocations are not checked. In other commands, the library
//! returns an error if an allocation fails.
//!
//! Huge pages are requested for large allocations: with pages of 4 KiB, first writes took a fifth of the time of a join
//! on 16 cores. Commands with a memory limit do not request them, because partly used pages could exceed it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, Ordering};

/// The system's allocator, which ends the command if memory runs out and no error can be returned.
pub struct Memory;

static ENDS: AtomicBool = AtomicBool::new(false);
/// Whether the command has a memory limit, which the user may lower.
static HAS_LIMIT: AtomicBool = AtomicBool::new(false);

/// From now on, a failed allocation ends the command. A partly written file has no name, or is removed by the next
/// command that writes to its folder.
pub(crate) fn end_when_short() {
    ENDS.store(true, Ordering::Relaxed);
}

/// From now on, the message advises a lower --memory.
pub(crate) fn has_limit() {
    HAS_LIMIT.store(true, Ordering::Relaxed);
}

// SAFETY: all calls are forwarded to the system's allocator, whose results are returned unchanged.
#[expect(unsafe_code, reason = "an allocator is unsafe by its nature")]
unsafe impl GlobalAlloc for Memory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller guarantees what `System` requires. The same applies below.
        advised(checked(unsafe { System.alloc(layout) }, layout.size()), layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        advised(checked(unsafe { System.alloc_zeroed(layout) }, layout.size()), layout.size())
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        advised(checked(unsafe { System.realloc(memory, layout, size) }, size), size)
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// The least allocation for which huge pages are requested: the last page of an allocation may be partly used.
const LARGE: usize = 32 << 20;

/// Returns `memory`. Requests huge pages for it if it is large.
#[inline]
fn advised(memory: *mut u8, bytes: usize) -> *mut u8 {
    if bytes >= LARGE && !memory.is_null() && !HAS_LIMIT.load(Ordering::Relaxed) {
        request_huge_pages(memory, bytes);
    }
    memory
}

#[cfg(target_os = "linux")]
#[cold]
#[expect(unsafe_code, reason = "a call of the system")]
fn request_huge_pages(memory: *mut u8, bytes: usize) {
    /// On systems with larger pages, the system may reject the request.
    const PAGE: usize = 4 << 10;
    // Begins with the page of the allocator's header: if only a part of the mapping were advised, the system could not
    // extend the mapping in `realloc`, and would copy it.
    let start = memory as usize / PAGE * PAGE;
    let bytes = memory as usize + bytes - start;
    // SAFETY: these are pages of an allocation, and their contents are not changed. A failure has no consequences.
    unsafe { libc::madvise(start as *mut libc::c_void, bytes, libc::MADV_HUGEPAGE) };
}

#[cfg(not(target_os = "linux"))]
fn request_huge_pages(_memory: *mut u8, _bytes: usize) {}

#[inline]
fn checked(memory: *mut u8, bytes: usize) -> *mut u8 {
    if memory.is_null() && ENDS.load(Ordering::Relaxed) {
        end(bytes);
    }
    memory
}

/// Ends the process without allocating memory.
#[cold]
fn end(bytes: usize) -> ! {
    use std::io::Write;

    let mut text = [0; 256];
    let mut rest = &mut text[..];
    let advice = match HAS_LIMIT.load(Ordering::Relaxed) {
        true => "give a lower --memory, or use a machine with more",
        false => {
            "tables are in memory: give fewer rows or columns, a limit with --memory if the command has it, or use a machine with more"
        }
    };
    let _ = writeln!(rest, "koel: not enough memory ({bytes} more bytes are needed): {advice}");
    let left = rest.len();
    let _ = std::io::stderr().write_all(&text[..text.len() - left]);
    // Exits without running exit handlers, because these may allocate memory.
    #[cfg(unix)]
    signal_hook::low_level::exit(2);
    #[cfg(not(unix))]
    std::process::abort()
}
