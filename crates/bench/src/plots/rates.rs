//! `koel-bench --draw FILES --plots DIR`: recorded rates, each with its date and its source, next to each other. The
//! files in `docs/plots/` are the input of the plots in `docs/performance.md`.

use std::io;
use std::path::Path;

use serde::Deserialize;

use super::bars::{Bar, Chart, Column, Group, Kind};
use super::{Drawing, style};
use crate::figure::Axis;
use koel_cli::failure::{Failure, Result};

/// A file of rates.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Data {
    title: String,
    /// The properties that all rates share.
    line: String,
    unit: Unit,
    columns: Vec<OnDevice>,
    notes: Vec<String>,
}

#[derive(Clone, Copy, Deserialize)]
enum Unit {
    #[serde(rename = "G/s")]
    Giga,
    #[serde(rename = "M/s")]
    Mega,
}

/// The rates of one device.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OnDevice {
    /// The device, and the number of its threads.
    on: String,
    rates: Vec<Rate>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rate {
    /// The operation.
    of: String,
    /// The implementation.
    by: String,
    rate: f64,
    /// A remark.
    #[serde(default)]
    but: String,
    date: String,
    source: String,
}

/// Draws one such file.
///
/// # Errors
/// Returns the error in the file.
pub(crate) fn of_file(path: &Path) -> Result<Drawing> {
    let io = |error: &io::Error| Failure::io(path, error);
    let text = std::fs::read_to_string(path).map_err(|error| io(&error))?;
    let data: Data = serde_json::from_str(&text).map_err(|error| io(&error.into()))?;
    let mut rates = data.columns.iter().flat_map(|column| &column.rates);
    if let Some(wrong) = rates.find(|rate| !(rate.rate.is_finite() && rate.rate > 0.0)) {
        let (path, Rate { of, by, rate, .. }) = (path.display(), wrong);
        return Err(Failure::Input(format!("{path}: {of} by {by}: {rate} is not a rate")));
    }
    let name = path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    chart(name, data).draw().map_err(|error| io(&error))
}

/// The index of a name among those seen so far.
fn index(seen: &mut Vec<String>, name: &str) -> usize {
    seen.iter().position(|known| known == name).unwrap_or_else(|| {
        seen.push(name.into());
        seen.len() - 1
    })
}

fn chart(name: String, data: Data) -> Chart {
    let (mut kinds, mut notes, mut sources) = (Vec::new(), data.notes, Vec::new());
    let mut columns = Vec::new();
    for OnDevice { on, rates } in data.columns {
        // The date of a device's first rate is next to its name; others are below.
        let day = rates.first().map(|rate| rate.date.clone()).unwrap_or_default();
        let (mut names, mut groups) = (Vec::new(), Vec::new());
        for rate in rates {
            let at = index(&mut names, &rate.of);
            if at == groups.len() {
                groups.push(Group { label: rate.of, under: String::new(), bars: Vec::new() });
            }
            if rate.date != day {
                index(&mut notes, &super::capital(&format!("{}: {}.", rate.by, rate.date)));
            }
            index(&mut sources, &rate.source);
            let but = if rate.but.is_empty() { String::new() } else { format!(" ({})", rate.but) };
            groups[at].bars.push(Bar {
                long: Some(rate.rate),
                says: format!("{}{but}", three_digits(rate.rate)),
                text: String::new(),
                kind: index(&mut kinds, &rate.by),
            });
        }
        columns.push(Column { head: format!("{on}; {day}"), groups });
    }
    let kind = |(at, label)| Kind { label, colour: style::colour(at), outline: false };
    let unit = match data.unit {
        Unit::Giga => "G keys or pairs a second",
        Unit::Mega => "M keys or pairs a second",
    };
    notes.push(format!("How it was measured: {}.", sources.join(", ")));
    Chart {
        name,
        title: data.title,
        lines: vec![data.line],
        axis: Axis::linear("rate", unit),
        marked: None,
        most: None,
        kinds: kinds.into_iter().enumerate().map(kind).collect(),
        columns,
        notes,
    }
}

/// A rate as it is printed: with one decimal below a hundred.
fn three_digits(rate: f64) -> String {
    let tenths = if rate < 100.0 { 10.0 } else { 1.0 };
    ((rate * tenths).round() / tenths).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_printed_with_three_digits() {
        let rendered = [30.15, 77.05, 48.0, 6.305, 516.5, 1590.0].map(three_digits);
        assert_eq!(rendered, ["30.2", "77.1", "48", "6.3", "517", "1590"]);
    }

    /// The plots in documents equal those drawn from the rates in the same folder.
    #[test]
    fn the_plots_in_the_repository_are_drawn_of_their_files() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/plots");
        let mut count = 0;
        for entry in std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{error}")) {
            let path = entry.unwrap_or_else(|error| panic!("{error}")).path();
            if path.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            let drawn = of_file(&path).unwrap_or_else(|error| panic!("{error}"));
            let there = std::fs::read_to_string(path.with_extension("svg")).unwrap_or_else(|error| panic!("{error}"));
            // Git may have changed the line ends.
            assert!(
                drawn.svg == there.replace("\r\n", "\n"),
                "draw {} again: docs/performance/measuring.md",
                path.display()
            );
            count += 1;
        }
        assert_eq!(count, 2);
    }
}
