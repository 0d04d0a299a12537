//! Progress on terminals; cleared before anything is printed.
//!
//! ```text
//! steps      a bar                                 verify, koel-bench
//! say        the current operation                 ⠙ building a table of 5,000,000 rows
//! bytes      bytes of a file that is being read    ⠙ reading a.csv: 21.00 MiB of 56.10 MiB, 88.03 MiB/s
//! rows       rows that are being written           ⠙ writing: 1,048,576 of 9,437,184 rows, 12,582,912/s
//! ```
//!
//! Commands only state the operation: readers and writers find the current line in a global variable, and count.

use std::io::{self, IsTerminal, Read};
use std::sync::{Mutex, PoisonError};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle, WeakProgressBar};

use super::out;

/// The bar that was started last, and what it counts.
static LAST: Mutex<Option<(WeakProgressBar, Counted)>> = Mutex::new(None);

/// What a bar counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Counted {
    Steps,
    Nothing,
    Bytes,
    Rows,
}

/// Writes a line to stderr, above a bar if one is shown.
pub fn note(line: &str) {
    match last() {
        Some((bar, _)) => bar.suspend(|| out::note(line)),
        None => out::note(line),
    }
}

/// Writes a line to stdout, above a bar if one is shown.
pub fn print(line: &str) -> super::failure::Result<()> {
    match last() {
        Some((bar, _)) => bar.suspend(|| out::print(line)),
        None => out::print(line),
    }
}

/// A bar on stderr, or nothing if stderr is not a terminal.
pub struct Progress(ProgressBar);

impl Progress {
    /// A bar of `count` steps.
    pub fn steps(count: usize) -> Progress {
        Progress::started(Some(count as u64), Counted::Steps, "{bar:30} {pos}/{len}  {msg}")
    }

    /// A line that shows the current operation.
    pub fn line() -> Progress {
        Progress::started(None, Counted::Nothing, SAYING)
    }

    fn started(length: Option<u64>, counted: Counted, template: &str) -> Progress {
        let bar = ProgressBar::with_draw_target(length, target());
        restyle(&bar, counted, template);
        if is_shown() {
            bar.enable_steady_tick(std::time::Duration::from_millis(200));
        }
        Progress(bar)
    }

    /// Shows the current operation.
    pub fn say(&self, what: impl Into<String>) {
        self.0.set_message(what.into());
    }

    /// Sets the number of steps.
    pub(crate) fn expect(&self, steps: usize) {
        self.0.set_length(steps as u64);
    }

    /// Counts a step.
    pub fn step(&self) {
        self.0.inc(1);
    }

    /// Shows that rows are being written, how many of them [`advance`] has counted, and of how many if that is known.
    pub fn rows(&self, rows: Option<u64>) {
        self.say("writing");
        restart(&self.0, rows);
        let of = if rows.is_some() { " of {human_len}" } else { "" };
        restyle(&self.0, Counted::Rows, &format!("{{spinner}} {{msg}}: {{human_pos}}{of} rows, {{per_sec}}"));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// Shows the current operation on the current line, if there is one.
pub fn say(what: String) {
    if let Some((bar, _)) = last() {
        bar.set_message(what);
    }
}

/// Shows on the current line, if there is one, that `bytes` bytes (if known) are being read, and how many of them
/// [`advance_bytes`] has counted.
pub fn bytes(bytes: impl Into<Option<u64>>) {
    let bytes = bytes.into();
    let Some((bar, Counted::Nothing | Counted::Bytes | Counted::Rows)) = last() else { return };
    restart(&bar, bytes);
    let of = if bytes.is_some() { " of {binary_total_bytes}" } else { "" };
    restyle(&bar, Counted::Bytes, &format!("{{spinner}} {{msg}}: {{binary_bytes}}{of}, {{binary_bytes_per_sec}}"));
}

/// A reader that counts its bytes on the progress line.
pub(crate) struct Counting<R> {
    reader: R,
    /// Bytes that were read while the line did not count bytes.
    uncounted: u64,
}

impl<R> Counting<R> {
    pub(crate) fn new(reader: R) -> Counting<R> {
        Counting { reader, uncounted: 0 }
    }
}

impl<R: Read> Read for Counting<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        self.uncounted += read as u64;
        if advance_bytes(self.uncounted) {
            self.uncounted = 0;
        }
        Ok(read)
    }
}

/// Stops counting bytes on the line.
pub fn end_of_bytes() {
    if let Some((bar, Counted::Bytes)) = last() {
        restyle(&bar, Counted::Nothing, SAYING);
    }
}

/// Counts rows that were written.
pub fn advance(rows: u64) {
    if let Some((bar, Counted::Rows)) = last() {
        bar.inc(rows);
    }
}

/// The template of a line without a count.
const SAYING: &str = "{spinner} {msg}";

/// Counts bytes that were read. Returns whether the line counts bytes.
pub fn advance_bytes(bytes: u64) -> bool {
    let bar = last().filter(|(_, counted)| *counted == Counted::Bytes);
    bar.inspect(|(bar, _)| bar.inc(bytes)).is_some()
}

/// Restarts the count.
fn restart(bar: &ProgressBar, length: Option<u64>) {
    match length {
        Some(length) => bar.set_length(length),
        None => bar.unset_length(),
    }
    bar.reset();
}

/// Changes the template, because the bar counts something else. Redraws it at once, so that the line appears even if
/// the work is short.
fn restyle(bar: &ProgressBar, counted: Counted, template: &str) {
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.force_draw();
    *LAST.lock().unwrap_or_else(PoisonError::into_inner) = Some((bar.downgrade(), counted));
}

/// The bar that was started last, if it still exists.
fn last() -> Option<(ProgressBar, Counted)> {
    let last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    last.as_ref().and_then(|(bar, counted)| Some((bar.upgrade()?, *counted)))
}

fn is_shown() -> bool {
    std::io::stderr().is_terminal() && !out::is_quiet()
}

fn target() -> ProgressDrawTarget {
    if is_shown() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() }
}
