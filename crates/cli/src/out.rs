//! Writes to stdout and stderr; a closed pipe is not an error.

use std::io::{self, Write};

use std::sync::atomic::{AtomicBool, Ordering};

use super::failure::{Failure, Result};

/// Whether progress and summaries are suppressed (`--quiet`).
static QUIET: AtomicBool = AtomicBool::new(false);

/// From now on, only results and errors are written.
pub fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

/// Whether output is quiet.
pub fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// Writes a summary to stderr, unless output is quiet.
pub fn summary(line: &str) {
    if !is_quiet() {
        note(line);
    }
}

/// Writes text and a line end to stdout.
pub fn print(text: &str) -> Result<()> {
    let mut stdout = io::stdout().lock();
    let written = writeln!(stdout, "{}", text.trim_end()).and_then(|()| stdout.flush());
    written.map_err(|error| stdout_failed(&error))
}

/// Writes JSON to stdout.
pub fn print_json(value: &serde_json::Value) -> Result<()> {
    print(&format!("{value:#}"))
}

/// Converts an error on stdout.
pub fn stdout_failed(error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::ClosedPipe,
        _ => Failure::Input(format!("stdout: {error}")),
    }
}

/// Writes an error message to stderr.
pub fn complain(message: &str) {
    note(&format!("koel: {message}"));
}

/// Writes a line to stderr. A closed stderr is ignored.
pub fn note(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}
