//! `koel-bench --plots DIR`: draws the measurements.
//!
//! ```text
//! rows.rs      an ordinary bench: its rows over the pairs, the load, the hits or the rows of a key, a series per table
//! papers.rs    the figures of a paper, each a plot
//! rates.rs     bench --draw: the rates of a file, next to each other
//! bars.rs      draws bars: those rates, and for bench --all each rate as a share of its goals and of its limit
//! plot.rs      draws curves        scale.rs    axes        style.rs    colours, markers, legend
//! canvas.rs    a picture and its texts
//! ```
//!
//! `plotters` draws. Legends are placed here, because `plotters` would draw them over the curves. Panels of devices are
//! next to each other and have the same axes. Each picture shows the date and the conditions of its measurements; the
//! same measurements of one day give the same bytes.

mod bars;
mod canvas;
mod papers;
mod plot;
mod rates;
mod rows;
mod scale;
mod style;
#[cfg(test)]
mod tests;

use std::fs::DirBuilder;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use super::Args;
use koel::file::WholeFile;
use koel_cli::failure::{Failure, Result};
use koel_cli::out;
use koel_cli::text;

pub(super) use bars::{Bar, Chart, Column, Group, Kind};
pub(super) use papers::{Named, of_figures};
pub(super) use rates::of_file;
pub(super) use rows::{has_axis, of_rows};

/// A picture and the name of its file, without `.svg`.
pub(super) struct Drawing {
    name: String,
    svg: String,
}

/// The folder for plots.
pub(super) struct Plots(PathBuf);

impl Plots {
    /// The folder of `--plots`, which is created if it does not exist: after all other options have been checked, and
    /// before anything is measured.
    ///
    /// # Errors
    /// Returns the reason if no file can be written there, before an hour of measurements instead of after it.
    pub(super) fn requested(args: &Args) -> Result<Option<Plots>> {
        args.plots.as_deref().map(Plots::at).transpose()
    }

    fn at(path: &Path) -> Result<Plots> {
        if path.as_os_str().is_empty() {
            return Err(Failure::Input("--plots has no name: give a directory".into()));
        }
        if path.exists() && !path.is_dir() {
            let path = path.display();
            return Err(Failure::Input(format!(
                "--plots {path}: a file is in the way: give a directory, or a new name"
            )));
        }
        DirBuilder::new().recursive(true).create(path).map_err(|error| Failure::io(path, &error))?;
        // Checks whether files can be created there; this one is never renamed to its final name.
        WholeFile::create(&path.join("trial.svg")).map_err(|error| Failure::io(path, &error))?;
        Ok(Plots(path.into()))
    }

    /// Writes the files and returns their paths; existing files of the same names are replaced.
    pub(super) fn write(&self, drawings: io::Result<Vec<Drawing>>) -> Result<Vec<PathBuf>> {
        let drawings = drawings.map_err(|error| Failure::io(&self.0, &error))?;
        let mut written = Vec::new();
        for Drawing { name, svg } in &drawings {
            let path = self.0.join(format!("{name}.svg"));
            let io = |error: io::Error| Failure::io(&path, &error);
            let (whole, mut file) = WholeFile::create(&path).map_err(io)?;
            file.write_all(svg.as_bytes()).map_err(io)?;
            drop(file);
            whole.finish().map_err(io)?;
            out::note(&format!("{}: drawn", path.display()));
            written.push(path);
        }
        if drawings.is_empty() {
            out::note("no plots: nothing was measured at two places of an axis");
        }
        Ok(written)
    }
}

/// Converts the result of drawing a picture.
fn drawing(name: &str, svg: std::result::Result<String, canvas::Error>) -> io::Result<Drawing> {
    Ok(Drawing { name: name.into(), svg: svg.map_err(|error| io::Error::other(error.to_string()))? })
}

/// The current date, and the conditions of the measurements.
pub(super) fn how(args: &Args) -> String {
    let (version, threads) = (env!("CARGO_PKG_VERSION"), rayon::current_num_threads());
    let runs = text::counted(args.repeats.into(), "run");
    format!("{}, koel {version}, host with {}, medians of {runs}", today(), text::counted(threads as u64, "thread"))
}

/// The current date in UTC.
fn today() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    date(since.as_secs() / 86_400)
}

/// The date `days` days after 1970-01-01. Years begin in March here, so that the leap day is the last day.
fn date(days: u64) -> String {
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month) = (day - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    format!("{}-{month:02}-{day:02}", 400 * era + year + u64::from(month <= 2))
}

/// Converts a text to a valid file name.
fn file_name(text: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c.to_ascii_lowercase() } else { '-' };
    let name: String = text.chars().map(safe).collect();
    let words: Vec<_> = name.split('-').filter(|word| !word.is_empty()).collect();
    words.join("-")
}

/// Capitalizes the first letter.
fn capital(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map(|first| first.to_uppercase().chain(rest).collect()).unwrap_or_default()
}

/// A number of pairs as text; powers of two as powers.
pub(super) fn count(number: u64) -> String {
    if number.is_power_of_two() && number > 1 << 12 { format!("2^{}", number.ilog2()) } else { text::grouped(number) }
}
