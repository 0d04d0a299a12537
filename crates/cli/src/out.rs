//! Writing to stdout and stderr, where a closed pipe is no error.

use std::io::{self, Write};

use super::failure::{Failure, Result};

/// Writes text and a line's end to stdout.
pub fn print(text: &str) -> Result<()> {
    let mut stdout = io::stdout().lock();
    let written = writeln!(stdout, "{}", text.trim_end()).and_then(|()| stdout.flush());
    written.map_err(|error| stdout_failed(&error))
}

/// Writes JSON to stdout.
pub fn print_json(value: &serde_json::Value) -> Result<()> {
    print(&format!("{value:#}"))
}

/// What an error on stdout means.
pub fn stdout_failed(error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::ClosedPipe,
        _ => Failure::Input(format!("stdout: {error}")),
    }
}

/// Says what went wrong on stderr.
pub fn complain(message: &str) {
    note(&format!("koel: {message}"));
}

/// Writes a line to stderr. If stderr is closed, there is nobody left to tell.
pub fn note(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}
