//! A figure: curves over an axis, as text and JSON.

use serde_json::{Value, json};

use koel_cli::text::{self, Align, Table};

/// The labels and the kind of an axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Axis {
    pub(super) label: &'static str,
    /// The unit of the numbers; empty for counts and ratios.
    pub(super) unit: &'static str,
    /// Whether the scale is logarithmic.
    pub(super) log: bool,
    /// The names of the positions 0, 1, .. of a categorical axis; empty for an axis of numbers.
    pub(super) names: Vec<&'static str>,
}

impl Axis {
    pub(super) fn linear(label: &'static str, unit: &'static str) -> Axis {
        Axis { label, unit, log: false, names: Vec::new() }
    }

    pub(super) fn log(label: &'static str, unit: &'static str) -> Axis {
        Axis { log: true, ..Axis::linear(label, unit) }
    }

    pub(super) fn named(label: &'static str, names: &[&'static str]) -> Axis {
        Axis { names: names.to_vec(), ..Axis::linear(label, "") }
    }

    /// The label with the unit.
    pub(super) fn head(&self) -> String {
        if self.unit.is_empty() { self.label.into() } else { format!("{} ({})", self.label, self.unit) }
    }

    /// The text for a place on the axis.
    fn place(&self, at: f64) -> String {
        self.names.get(at as usize).map_or_else(|| number(at), |name| (*name).into())
    }

    fn json(&self) -> Value {
        json!({ "label": self.label, "unit": self.unit, "log": self.log, "names": self.names })
    }
}

/// One curve.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Series {
    pub(super) label: String,
    /// Whether it was computed, or read from the paper, instead of measured.
    pub(super) model: bool,
    /// By ascending x. A curve need not have a point at every x of its figure.
    pub(super) points: Vec<(f64, f64)>,
}

/// Curves over one axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Figure {
    /// Short, with characters that file names may contain, and unique among the figures of a paper.
    pub(super) id: &'static str,
    pub(super) title: String,
    /// The figure or section of the paper.
    pub(super) place: &'static str,
    /// The device that it was measured on.
    pub(super) device: String,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) series: Vec<Series>,
    /// Sentences on how it was measured, and on what is omitted.
    pub(super) notes: Vec<String>,
}

impl Figure {
    pub(super) fn new(
        (id, place): (&'static str, &'static str),
        title: impl Into<String>,
        device: &str,
        x: Axis,
        y: Axis,
    ) -> Figure {
        let (series, notes) = (Vec::new(), Vec::new());
        Figure { id, title: title.into(), place, device: device.into(), x, y, series, notes }
    }

    /// Adds a point to the measured curve of this name, and creates the curve if it does not exist.
    pub(super) fn point(&mut self, label: impl Into<String>, x: f64, y: f64) {
        self.add(label.into(), false, x, y);
    }

    /// Adds a point to the computed curve of this name.
    pub(super) fn model(&mut self, label: impl Into<String>, x: f64, y: f64) {
        self.add(label.into(), true, x, y);
    }

    fn add(&mut self, label: String, model: bool, x: f64, y: f64) {
        match self.series.iter_mut().find(|series| series.label == label && series.model == model) {
            Some(series) => series.points.push((x, y)),
            None => self.series.push(Series { label, model, points: vec![(x, y)] }),
        }
    }

    /// Adds a sentence, unless it exists.
    pub(super) fn note(&mut self, note: impl Into<String>) {
        let note = note.into();
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// All x at which some curve has a point, ascending.
    pub(super) fn places(&self) -> Vec<f64> {
        let mut places: Vec<f64> = self.series.iter().flat_map(|s| s.points.iter().map(|point| point.0)).collect();
        places.sort_unstable_by(f64::total_cmp);
        places.dedup();
        places
    }

    /// A table: x down, a column for each curve.
    pub(super) fn text(&self) -> String {
        let heads: Vec<String> = std::iter::once(self.x.head())
            .chain(self.series.iter().map(|s| if s.model { format!("[{}]", s.label) } else { s.label.clone() }))
            .collect();
        let columns: Vec<_> = heads.iter().map(|head| (head.as_str(), Align::Right)).collect();
        let mut table = Table::new(&columns);
        for x in self.places() {
            let value = |series: &Series| series.points.iter().find(|point| point.0 == x).map(|point| number(point.1));
            let values = self.series.iter().map(|series| value(series).unwrap_or_default());
            table.row(std::iter::once(self.x.place(x)).chain(values).collect::<Vec<_>>());
        }
        let mut shown = format!("{}: {} [{}], on {}\n", self.id, self.title, self.place, self.device);
        shown.push_str(&format!("{}:\n{}", self.y.head(), table.render()));
        self.notes.iter().for_each(|note| shown.push_str(&format!("  {note}\n")));
        shown
    }

    /// The figure as JSON.
    pub(super) fn json(&self) -> Value {
        let series = self.series.iter();
        let series = series.map(|s| json!({ "label": s.label, "model": s.model, "points": s.points }));
        json!({
            "id": self.id, "title": self.title, "place": self.place, "device": self.device, "x": self.x.json(),
            "y": self.y.json(), "series": series.collect::<Vec<_>>(), "notes": self.notes,
        })
    }
}

/// Whole numbers unchanged, others with four digits, and small ones with an exponent.
fn number(value: f64) -> String {
    if value.fract() == 0.0 && (0.0..1e15).contains(&value) {
        return text::grouped(value as u64);
    }
    if value.abs() < 1e-4 {
        return format!("{value:.3e}");
    }
    let before = value.abs().log10().floor() as i32;
    let digits = (3 - before).clamp(0, 12) as usize;
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_four_digits() {
        let shown = [0.0, 7.0, 1_234_567.0, 1234.56, 12.3456, 1.02, 0.000_123_456, 2.2567e-6, -0.5];
        let right = ["0", "7", "1,234,567", "1235", "12.35", "1.020", "0.0001235", "2.257e-6", "-0.5000"];
        assert_eq!(shown.map(number), right);
    }

    #[test]
    fn curves_share_the_rows_of_a_table() {
        let axis = Axis::named("order", &["row", "random"]);
        let mut figure = Figure::new(("7", "Figure 7"), "rates", "cpu", axis, Axis::log("rate", "M/s"));
        figure.point("built", 0.0, 2.5);
        figure.point("built", 1.0, 3.0);
        figure.model("built", 1.0, 4.0);
        figure.note("twice");
        figure.note("twice");
        assert_eq!((figure.series.len(), figure.places()), (2, vec![0.0, 1.0]));
        let text = figure.text();
        assert!(text.starts_with("7: rates [Figure 7], on cpu\nrate (M/s):\n order  built  [built]\n"), "{text}");
        assert!(text.ends_with("   row  2.500\nrandom      3        4\n  twice\n"), "{text}");
        let rendered = figure.json();
        assert_eq!(
            (&rendered["series"][1]["model"], &rendered["series"][0]["points"][1][1]),
            (&json!(true), &json!(3.0))
        );
        assert_eq!((&rendered["x"]["names"][1], &rendered["y"]["log"]), (&json!("random"), &json!(true)));
    }
}
