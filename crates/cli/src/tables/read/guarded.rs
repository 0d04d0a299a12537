//! Runs code of other crates on untrusted files and types: a panic becomes an error, and nothing is printed.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    /// Whether a panic of this thread is caught, and reported as an error.
    static CAUGHT: Cell<bool> = const { Cell::new(false) };
}

static HOOK: Once = Once::new();

/// Returns the result of `work`; a panic is returned as an error.
pub(in crate::tables) fn guarded<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    caught(work).flatten()
}

/// Returns the result of `work`, or the message of its panic. It must not use other threads: their panics are not
/// caught.
pub(in crate::tables) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    HOOK.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |about| {
            if !CAUGHT.get() {
                usual(about);
            }
        }));
    });
    let before = CAUGHT.replace(true);
    // The data that `work` was using is dropped, and not read again.
    let outcome = panic::catch_unwind(AssertUnwindSafe(work));
    CAUGHT.set(before);
    outcome.map_err(|what| {
        let what = what.downcast_ref::<String>().map(String::as_str).or(what.downcast_ref::<&str>().copied());
        what.unwrap_or("its bytes make no sense").to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panics_are_errors() {
        assert_eq!(guarded(|| Ok(1)), Ok(1));
        assert_eq!(guarded::<()>(|| Err("so".into())), Err("so".into()));
        assert_eq!(guarded::<()>(|| panic!("at {}", 7)), Err("at 7".into()));
        assert_eq!(guarded::<()>(|| panic!("plain")), Err("plain".into()));
    }
}
