//! How curves are told apart: colours that colour-blind readers tell apart too, and a marker each; and the legend.

use super::plot::Series;
use super::svg::{Font, GREY, INK, Stroke, Svg};

/// Okabe and Ito's, with grey in place of the yellow, which is hard to see on white.
const COLOURS: [&str; 8] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#8a8a8a"];
/// One fewer than colours, so that a colour comes again with another marker.
const MARKERS: usize = 7;
/// The size of a marker, from its middle.
const RADIUS: f64 = 4.0;
/// What a legend shows of a curve, and what lies behind it.
const SAMPLE: f64 = 30.0;
const GAP: f64 = 8.0;
/// Between columns.
const BETWEEN: f64 = 22.0;
const FONT: Font = Font::new(12.0, INK);

/// The colour and the marker of one curve among others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Style(usize);

impl Style {
    pub(super) fn colour(self) -> &'static str {
        COLOURS[self.0 % COLOURS.len()]
    }

    fn marker(self) -> usize {
        self.0 % MARKERS
    }

    /// A marker at a point; what it says when it is pointed at.
    pub(super) fn mark(self, svg: &mut Svg, (x, y): (f64, f64), hollow: bool, says: &str) {
        let r = RADIUS;
        let polygon = |corners: &[(f64, f64)]| {
            let corners = corners.iter().map(|&(dx, dy)| format!("{:.2} {:.2}", x + r * dx, y + r * dy));
            format!("M{}Z", corners.collect::<Vec<_>>().join("L"))
        };
        let strokes = |lines: &[[(f64, f64); 2]]| {
            let lines = lines.iter().map(|[from, to]| {
                let at = |(dx, dy): (f64, f64)| format!("{:.2} {:.2}", x + r * dx, y + r * dy);
                format!("M{}L{}", at(*from), at(*to))
            });
            lines.collect::<String>()
        };
        let path = match self.marker() {
            0 => format!("M{:.2} {y:.2}a{r} {r} 0 1 0 {d} 0a{r} {r} 0 1 0 -{d} 0Z", x - r, d = 2.0 * r),
            1 => polygon(&[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)]),
            2 => polygon(&[(0.0, -1.2), (1.1, 0.85), (-1.1, 0.85)]),
            3 => polygon(&[(0.0, -1.25), (1.1, 0.0), (0.0, 1.25), (-1.1, 0.0)]),
            4 => polygon(&[(0.0, 1.2), (1.1, -0.85), (-1.1, -0.85)]),
            5 => strokes(&[[(-0.95, -0.95), (0.95, 0.95)], [(-0.95, 0.95), (0.95, -0.95)]]),
            _ => strokes(&[[(-1.2, 0.0), (1.2, 0.0)], [(0.0, -1.2), (0.0, 1.2)]]),
        };
        let (fill, stroke) = match (self.marker(), hollow) {
            (5.., _) => ("none", Stroke::new(self.colour(), 2.0)),
            (_, true) => ("#ffffff", Stroke::new(self.colour(), 1.5)),
            (_, false) => (self.colour(), Stroke::new("#ffffff", 0.7)),
        };
        svg.shape(&path, fill, stroke, says);
    }
}

/// The curves of a plot by their names, each with its style: a model has that of what was measured under its name.
pub(super) struct Legend<'a> {
    entries: Vec<(&'a str, bool)>,
    /// What dashes are, if there are any.
    dashes: Option<&'a str>,
    /// Whether things are bars and not curves.
    bars: bool,
}

impl<'a> Legend<'a> {
    pub(super) fn new(series: impl Iterator<Item = &'a Series> + Clone, dashes: &'a str, bars: bool) -> Legend<'a> {
        let mut entries: Vec<(&str, bool)> = Vec::new();
        // What was measured comes first.
        for model in [false, true] {
            for series in series.clone().filter(|series| series.model == model) {
                if !entries.iter().any(|(label, _)| *label == series.label) {
                    entries.push((&series.label, model));
                }
            }
        }
        let dashes = series.clone().any(|series| series.model).then_some(dashes);
        Legend { entries, dashes, bars }
    }

    pub(super) fn style(&self, label: &str) -> Style {
        Style(self.entries.iter().position(|(known, _)| *known == label).unwrap_or(0))
    }

    fn widest(&self) -> f64 {
        let labels = self.entries.iter().map(|(label, _)| *label).chain(self.dashes);
        SAMPLE + GAP + labels.map(|label| FONT.width(label)).fold(0.0, f64::max)
    }

    fn len(&self) -> usize {
        self.entries.len() + usize::from(self.dashes.is_some())
    }

    fn columns(&self, width: f64) -> usize {
        (((width + BETWEEN) / (self.widest() + BETWEEN)) as usize).clamp(1, self.len().max(1))
    }

    /// How large it is in so much width.
    pub(super) fn size(&self, width: f64) -> (f64, f64) {
        let columns = self.columns(width);
        let wide = columns as f64 * (self.widest() + BETWEEN) - BETWEEN;
        (wide, self.len().div_ceil(columns) as f64 * line())
    }

    /// Draws it with its upper left corner there: down one column after the other.
    pub(super) fn draw(&self, svg: &mut Svg, (left, top): (f64, f64), width: f64) {
        let rows = self.len().div_ceil(self.columns(width)).max(1);
        let place = |at: usize| {
            let (column, row) = (at / rows, at % rows);
            (left + column as f64 * (self.widest() + BETWEEN), top + (row as f64 + 0.5) * line())
        };
        for (at, &(label, model)) in self.entries.iter().enumerate() {
            let ((x, y), style) = (place(at), Style(at));
            sample(svg, (x, y), style.colour(), model, self.bars);
            if !model && !self.bars {
                style.mark(svg, (x + SAMPLE / 2.0, y), false, "");
            }
            svg.text((x + SAMPLE + GAP, y + 4.0), label, FONT);
        }
        if let Some(dashes) = self.dashes {
            let (x, y) = place(self.entries.len());
            sample(svg, (x, y), GREY, true, self.bars);
            svg.text((x + SAMPLE + GAP, y + 4.0), dashes, Font::new(12.0, GREY));
        }
    }
}

fn line() -> f64 {
    FONT.size * 1.6
}

fn sample(svg: &mut Svg, (x, y): (f64, f64), colour: &'static str, dashed: bool, bar: bool) {
    let stroke = Stroke::new(colour, if dashed { 1.5 } else { 2.0 });
    let stroke = if dashed { stroke.dashed() } else { stroke };
    match (bar, dashed) {
        (true, true) => svg.rect((x + 8.0, y - 6.0), (14.0, 12.0), None, Some(stroke), ""),
        (true, false) => svg.rect((x + 8.0, y - 6.0), (14.0, 12.0), Some(colour), None, ""),
        _ => svg.line((x, y), (x + SAMPLE, y), stroke),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn styles_come_again_only_after_all() {
        let looks = |at| (Style(at).colour(), Style(at).marker());
        let mut seen: Vec<_> = (0..COLOURS.len() * MARKERS).map(looks).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), COLOURS.len() * MARKERS);
        assert_ne!(Style(0).colour(), Style(1).colour());
    }

    #[test]
    fn a_model_looks_like_what_was_measured() {
        let series = |label: &str, model| Series { label: label.into(), model, points: vec![(1.0, 1.0)] };
        let all = [series("theory", true), series("a", true), series("a", false), series("b", false)];
        let legend = Legend::new(all.iter(), "models", false);
        assert_eq!(["a", "b", "theory"].map(|label| legend.style(label).0), [0, 1, 2]);
        assert_eq!((legend.len(), legend.size(1.0).1), (4, 4.0 * line()), "one column if there is no room");
        assert!(legend.size(1e4).1 == line() && legend.size(1e4).0 < 1e4);
        assert_eq!(Legend::new(all[2..].iter(), "models", false).dashes, None);
    }
}
