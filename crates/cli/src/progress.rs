//! Progress bars: on a terminal only, and gone before anything is printed.

use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle, WeakProgressBar};

use super::out;

/// The bar that was started last.
static LAST: Mutex<Option<WeakProgressBar>> = Mutex::new(None);

/// Writes a line to stderr, past a bar that may be there.
pub fn note(line: &str) {
    let last = LAST.lock().unwrap_or_else(PoisonError::into_inner).as_ref().and_then(WeakProgressBar::upgrade);
    match last {
        Some(bar) => bar.suspend(|| out::note(line)),
        None => out::note(line),
    }
}

/// A bar on stderr, or nothing where stderr is no terminal.
pub struct Progress(ProgressBar);

impl Progress {
    /// A bar of so many steps.
    pub fn steps(count: usize) -> Progress {
        let bar = Progress::on_terminal(ProgressBar::with_draw_target(Some(count as u64), target()));
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len}  {msg}") {
            bar.0.set_style(style);
        }
        bar
    }

    /// A line that says what is going on.
    pub fn line() -> Progress {
        Progress::on_terminal(ProgressBar::with_draw_target(None, target()))
    }

    fn on_terminal(bar: ProgressBar) -> Progress {
        if std::io::stderr().is_terminal() {
            bar.enable_steady_tick(std::time::Duration::from_millis(200));
        }
        *LAST.lock().unwrap_or_else(PoisonError::into_inner) = Some(bar.downgrade());
        Progress(bar)
    }

    /// Says what is being done.
    pub fn say(&self, what: impl Into<String>) {
        self.0.set_message(what.into());
    }

    /// One step is done.
    pub fn step(&self) {
        self.0.inc(1);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

fn target() -> ProgressDrawTarget {
    if std::io::stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() }
}
