//! Ctrl-C and its like: what is half written is removed, and the process ends as by the signal.
//!
//! Signals that the process was started without (`nohup`, a background job of a script) stay ignored. What ends it
//! otherwise, such as `kill -9`, may leave a part; the next file that is written in its folder removes it (the library's
//! `file` module).

#[cfg(unix)]
pub(crate) fn remove_parts_at_the_end() {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    use signal_hook::iterator::Signals;
    use signal_hook::low_level::emulate_default_handler;

    // Registered by the thread that waits for them: without it a signal would be swallowed.
    let wait = || {
        let ignored = ignored();
        let wanted = [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0);
        let Ok(mut signals) = Signals::new(wanted) else { return };
        if let Some(signal) = signals.forever().next() {
            koel::file::remove_parts_then(|| {
                let _ = emulate_default_handler(signal);
                std::process::exit(128 + signal);
            });
        }
    };
    // Without a thread to spare the next run cleans up.
    let _ = std::thread::Builder::new().name("signals".into()).spawn(wait);
}

#[cfg(not(unix))]
pub(crate) fn remove_parts_at_the_end() {}

/// The signals that this process ignores, as bits from signal 1 on. Where the system does not tell, a hangup may be one.
#[cfg(unix)]
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.unwrap_or(1 << (signal_hook::consts::SIGHUP - 1))
}
