//! Out of memory where no error can be returned: the command ends with a message (and on Unix without an abort).
//!
//! The library returns an error if an allocation fails. Arrow, which stores tables of named columns, does not check
//! allocations. So commands on such tables end at once, even if the library would have returned an error.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, Ordering};

/// The system's allocator, and the end of the command where that has no memory and no error can be handed on.
pub struct Memory;

static ENDS: AtomicBool = AtomicBool::new(false);
/// Whether there is a limit, which may be lower.
static HAS_LIMIT: AtomicBool = AtomicBool::new(false);

/// From here on, the command ends if an allocation fails. A partly written file has no name, or is removed by the next
/// command that writes to its folder.
pub(crate) fn end_when_short() {
    ENDS.store(true, Ordering::Relaxed);
}

/// From here on the message advises a lower --memory.
pub(crate) fn has_limit() {
    HAS_LIMIT.store(true, Ordering::Relaxed);
}

// SAFETY: it is the system's allocator, which is one; nothing is changed of what that returns.
#[expect(unsafe_code, reason = "an allocator is unsafe by its nature")]
unsafe impl GlobalAlloc for Memory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's guarantees are those that `System` requires; so below.
        checked(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        checked(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        checked(unsafe { System.realloc(memory, layout, size) }, size)
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[inline]
fn checked(memory: *mut u8, bytes: usize) -> *mut u8 {
    if memory.is_null() && ENDS.load(Ordering::Relaxed) {
        end(bytes);
    }
    memory
}

/// Ends the process. It takes no memory.
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
    // Nothing is run at this exit: what would be may take memory.
    #[cfg(unix)]
    signal_hook::low_level::exit(2);
    #[cfg(not(unix))]
    std::process::abort()
}
