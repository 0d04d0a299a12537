//! Handles Ctrl-C and similar signals: removes partly written files, and ends the process as the signal would.
//!
//! Signals that the process was started to ignore (`nohup`, a background job of a script) stay ignored. If the process
//! is ended in another way, such as by `kill -9`, a partly written file may remain; the next file that is written in
//! its folder removes it (the library's `file` module).

#[cfg(unix)]
pub(crate) fn remove_parts_at_the_end() {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    use signal_hook::iterator::Signals;
    use signal_hook::low_level::emulate_default_handler;

    // The waiting thread registers the signals: if it cannot start, they keep their default actions.
    let wait = || {
        let wanted = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|&signal| !is_ignored(signal));
        let Ok(mut signals) = Signals::new(wanted) else { return };
        if let Some(signal) = signals.forever().next() {
            koel::file::remove_parts_then(|| {
                // The first process of a container has no default actions: its own signal would not end it, and
                // `emulate_default_handler` would abort.
                if std::process::id() != 1 {
                    let _ = emulate_default_handler(signal);
                }
                std::process::exit(128 + signal);
            });
        }
    };
    // If the thread cannot start, the next run removes partly written files.
    let _ = std::thread::Builder::new().name("signals".into()).spawn(wait);
}

#[cfg(not(unix))]
pub(crate) fn remove_parts_at_the_end() {}

/// Whether this process ignores a signal.
#[cfg(unix)]
#[expect(unsafe_code, reason = "there is no safe interface that tells a signal's action")]
fn is_ignored(signal: i32) -> bool {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without a new action, `sigaction` changes nothing and writes the present action to `action`, which is
    // large enough.
    let status = unsafe { libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) };
    // SAFETY: `sigaction` has initialised it if it succeeded; zeros are a valid action too.
    status == 0 && unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN
}
