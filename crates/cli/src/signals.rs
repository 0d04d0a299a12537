//! Ctrl-C and its like: what is half written is removed, and the process ends as by the signal.
//!
//! Signals that the process was started to ignore (`nohup`, a background job of a script) stay ignored. What ends it
//! otherwise, such as `kill -9`, may leave a part; the next file that is written in its folder removes it (the
//! library's `file` module).

#[cfg(unix)]
pub(crate) fn remove_parts_at_the_end() {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    use signal_hook::iterator::Signals;
    use signal_hook::low_level::emulate_default_handler;

    // Registered by the thread that waits for them: without it a signal would be swallowed.
    let wait = || {
        let wanted = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|&signal| !is_ignored(signal));
        let Ok(mut signals) = Signals::new(wanted) else { return };
        if let Some(signal) = signals.forever().next() {
            koel::file::remove_parts_then(|| {
                // The first process of a container has no default actions: its own signal would not end it, and
                // `emulate_default_handler` aborts where that is so.
                if std::process::id() != 1 {
                    let _ = emulate_default_handler(signal);
                }
                std::process::exit(128 + signal);
            });
        }
    };
    // Without a thread to spare the next run cleans up.
    let _ = std::thread::Builder::new().name("signals".into()).spawn(wait);
}

#[cfg(not(unix))]
pub(crate) fn remove_parts_at_the_end() {}

/// Whether this process ignores a signal.
#[cfg(unix)]
#[expect(unsafe_code, reason = "there is no safe interface that tells a signal's action")]
fn is_ignored(signal: i32) -> bool {
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without a new action, `sigaction` changes nothing and writes the present one to memory that has room for
    // it.
    let status = unsafe { libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) };
    // SAFETY: `sigaction` has filled it, and zeros are an action too.
    status == 0 && unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN
}
