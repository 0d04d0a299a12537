//! Formats numbers and tables for people.

use std::path::Path;
use std::time::Duration;

pub(crate) use koel_arrow::shown_name as name;

/// The most characters of a path that a message shows.
const PATH: usize = 80;

/// The path of a file, as messages show it: only the end of a long path, which distinguishes files.
pub(crate) fn path(path: &Path) -> String {
    let path = path.display().to_string();
    let start = path.char_indices().rev().nth(PATH - 1).map_or(0, |(start, _)| start);
    format!("{}{}", if start > 0 { "..." } else { "" }, name(&path[start..]))
}

/// `1234567` as `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count with its noun: `1 pair`, `2 pairs`.
pub fn counted(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// A rate per second, in thousand millions, millions or thousands.
pub fn rate(per_second: f64) -> String {
    match per_second {
        r if r >= 1e9 => format!("{:.2} G/s", r / 1e9),
        r if r >= 1e6 => format!("{:.1} M/s", r / 1e6),
        r => format!("{:.1} k/s", r / 1e3),
    }
}

/// Millions per second, for columns whose heading has this unit.
pub fn millions(per_second: f64) -> String {
    if per_second >= 1e8 { format!("{:.0}", per_second / 1e6) } else { format!("{:.1}", per_second / 1e6) }
}

/// Seconds with a unit that fits.
pub fn seconds(time: Duration) -> String {
    match time.as_secs_f64() {
        s if s >= 1.0 => format!("{s:.2} s"),
        s if s >= 1e-3 => format!("{:.2} ms", s * 1e3),
        s => format!("{:.1} us", s * 1e6),
    }
}

/// Bytes with a binary unit.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let mut unit = 0;
    let mut amount = count as f64;
    while amount >= 1024.0 && unit + 1 < UNITS.len() {
        amount /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{count} bytes") } else { format!("{amount:.1} {}", UNITS[unit]) }
}

/// The alignment of a column.
#[derive(Clone, Copy)]
pub enum Align {
    Left,
    Right,
}

/// Rows under a heading, in columns of the width that they need.
pub struct Table {
    aligns: Vec<Align>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns.
    pub fn new(columns: &[(&str, Align)]) -> Table {
        let head = columns.iter().map(|(name, _)| (*name).to_owned()).collect();
        Table { aligns: columns.iter().map(|(_, align)| *align).collect(), rows: vec![head] }
    }

    /// Adds a row, which has as many cells as there are columns.
    pub fn row(&mut self, cells: impl Into<Vec<String>>) {
        let cells = cells.into();
        debug_assert_eq!(cells.len(), self.aligns.len());
        self.rows.push(cells);
    }

    /// The text, with one line per row. Columns with only a heading are omitted.
    pub fn render(&self) -> String {
        let columns = 0..self.aligns.len();
        let widths: Vec<usize> = columns
            .map(|c| {
                let width = |row: &Vec<String>| row[c].chars().count();
                let filled = self.rows.iter().skip(1).map(width).max().unwrap_or(0);
                if filled == 0 { 0 } else { filled.max(width(&self.rows[0])) }
            })
            .collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for ((cell, &width), align) in row.iter().zip(&widths).zip(&self.aligns) {
                match align {
                    _ if width == 0 => {}
                    Align::Left => line.push_str(&format!("{cell:<width$}  ")),
                    Align::Right => line.push_str(&format!("{cell:>width$}  ")),
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(rate(8.1e9), "8.10 G/s");
        assert_eq!(rate(12_340_000.0), "12.3 M/s");
        assert_eq!(bytes(1023), "1023 bytes");
        assert_eq!(bytes(10 << 20), "10.0 MiB");
        assert_eq!(seconds(Duration::from_micros(1500)), "1.50 ms");
    }

    #[test]
    fn paths_are_safe_to_print_and_short() {
        assert_eq!(path("a/b\n.csv".as_ref()), "a/b\\n.csv");
        let long = "x".repeat(200) + "/a.csv";
        assert_eq!(path(long.as_ref()), "...".to_owned() + &"x".repeat(74) + "/a.csv");
    }

    #[test]
    fn columns_line_up_and_empty_ones_vanish() {
        let mut table = Table::new(&[("a", Align::Left), ("empty", Align::Left), ("number", Align::Right)]);
        table.row(["x".into(), String::new(), "7".into()]);
        table.row(["long".into(), String::new(), "12345678".into()]);
        assert_eq!(table.render(), "a       number\nx            7\nlong  12345678\n");
    }
}
