//! Styles of curves: colours that colour-blind readers can distinguish too, and a marker each; and the legend.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::canvas::{Area, Error, GREY, LABEL};
use super::plot::Series;

/// The colours of Okabe and Ito, with grey instead of yellow, which is hard to see on white.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0x00, 0x00, 0x00),
    RGBColor(0x8a, 0x8a, 0x8a),
];
/// Not a divisor of the number of colours, so that a repeated colour has another marker.
const MARKERS: usize = 5;
/// The width of a curve's sample in a legend, and the space after it.
const SAMPLE: i32 = 30;
const GAP: i32 = 8;
/// The space between columns.
const BETWEEN: i32 = 22;

/// The colour at an index.
pub(super) fn colour(at: usize) -> RGBColor {
    COLOURS[at % COLOURS.len()]
}

/// The colour and the marker of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Style(usize);

impl Style {
    pub(super) fn colour(self) -> RGBColor {
        colour(self.0)
    }

    fn marker(self) -> usize {
        self.0 % MARKERS
    }

    /// The style of a curve's line: models are thin.
    pub(super) fn line(self, model: bool) -> ShapeStyle {
        if model { self.colour().mix(0.6).stroke_width(1) } else { self.colour().stroke_width(2) }
    }

    /// Draws a marker at a point.
    pub(super) fn mark(self, area: &Area<'_>, (x, y): (i32, i32)) -> Result<(), Error> {
        let filled = self.colour().filled();
        match self.marker() {
            0 => area.draw(&Circle::new((x, y), 4, filled)),
            1 => area.draw(&Rectangle::new([(x - 4, y - 4), (x + 4, y + 4)], filled)),
            2 => area.draw(&TriangleMarker::new((x, y), 6, filled)),
            3 => area.draw(&Cross::new((x, y), 4, self.colour().stroke_width(2))),
            _ => area.draw(&Polygon::new([(x - 5, y), (x, y - 5), (x + 5, y), (x, y + 5)], filled)),
        }
    }
}

/// The curves of a plot by their names, each with its style: a model has the style of the measured curve of its name.
pub(super) struct Legend<'a> {
    entries: Vec<(&'a str, bool)>,
    /// The description of thin lines, if there are any.
    models: Option<&'a str>,
    /// Whether the plot has bars instead of curves.
    bars: bool,
}

impl<'a> Legend<'a> {
    pub(super) fn new(series: impl Iterator<Item = &'a Series> + Clone, models: &'a str, bars: bool) -> Legend<'a> {
        let mut entries: Vec<(&str, bool)> = Vec::new();
        // Measured curves are first.
        for model in [false, true] {
            for series in series.clone().filter(|series| series.model == model) {
                if !entries.iter().any(|(label, _)| *label == series.label) {
                    entries.push((&series.label, model));
                }
            }
        }
        let models = series.clone().any(|series| series.model).then_some(models);
        Legend { entries, models, bars }
    }

    pub(super) fn style(&self, label: &str) -> Style {
        Style(self.entries.iter().position(|(known, _)| *known == label).unwrap_or(0))
    }

    fn widest(&self) -> i32 {
        let labels = self.entries.iter().map(|(label, _)| *label).chain(self.models);
        SAMPLE + GAP + labels.map(|label| LABEL.width(label)).max().unwrap_or(0)
    }

    fn len(&self) -> i32 {
        self.entries.len() as i32 + i32::from(self.models.is_some())
    }

    fn columns(&self, width: i32) -> i32 {
        ((width + BETWEEN) / (self.widest() + BETWEEN)).clamp(1, self.len().max(1))
    }

    /// The size of the legend at this width.
    pub(super) fn size(&self, width: i32) -> (i32, i32) {
        let columns = self.columns(width);
        (columns * (self.widest() + BETWEEN) - BETWEEN, (self.len() + columns - 1) / columns * line())
    }

    /// Draws the legend with its upper left corner at this position, column by column.
    pub(super) fn draw(&self, area: &Area<'_>, (left, top): (i32, i32), width: i32) -> Result<(), Error> {
        let rows = (self.size(width).1 / line()).max(1);
        let place = |at: i32| (left + at / rows * (self.widest() + BETWEEN), top + at % rows * line());
        for (at, &(label, model)) in self.entries.iter().enumerate() {
            let ((x, y), style) = (place(at as i32), Style(at));
            self.sample(area, (x, y), style, model)?;
            LABEL.write(area, label, (x + SAMPLE + GAP, y), HPos::Left)?;
        }
        if let Some(models) = self.models {
            let (x, y) = place(self.entries.len() as i32);
            area.draw(&PathElement::new([(x, y + 6), (x + SAMPLE, y + 6)], GREY.stroke_width(1)))?;
            LABEL.write(area, models, (x + SAMPLE + GAP, y), HPos::Left)?;
        }
        Ok(())
    }

    fn sample(&self, area: &Area<'_>, (x, y): (i32, i32), style: Style, model: bool) -> Result<(), Error> {
        if self.bars {
            let of = if model { style.line(true) } else { style.colour().filled() };
            return area.draw(&Rectangle::new([(x + 8, y), (x + 22, y + 12)], of));
        }
        area.draw(&PathElement::new([(x, y + 6), (x + SAMPLE, y + 6)], style.line(model)))?;
        if model { Ok(()) } else { style.mark(area, (x + SAMPLE / 2, y + 6)) }
    }
}

fn line() -> i32 {
    LABEL.line() + 3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn styles_repeat_only_after_all() {
        let looks = |at| (Style(at).colour().rgb(), Style(at).marker());
        let mut seen: Vec<_> = (0..COLOURS.len() * MARKERS).map(looks).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), COLOURS.len() * MARKERS);
        assert_ne!(colour(0), colour(1));
    }

    #[test]
    fn a_model_looks_like_what_was_measured() {
        let series = |label: &str, model| Series { label: label.into(), model, points: vec![(1.0, 1.0)] };
        let all = [series("theory", true), series("a", true), series("a", false), series("b", false)];
        let legend = Legend::new(all.iter(), "models", false);
        assert_eq!(["a", "b", "theory"].map(|label| legend.style(label).0), [0, 1, 2]);
        assert_eq!((legend.len(), legend.size(1).1), (4, 4 * line()), "one column if there is no room");
        assert!(legend.size(10_000).1 == line() && legend.size(10_000).0 < 10_000);
        assert_eq!(Legend::new(all[2..].iter(), "models", false).models, None);
    }
}
