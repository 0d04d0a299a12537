//! A plot: curves over an axis, or bars where the axis is one of things, with a panel for each device.
//!
//! ```text
//! title
//! where it is from, what is the same in all of it
//!
//!   device                  device                   legend, if there is one panel
//!   |                       |
//!   |  curves               |  curves, on the
//!   |                       |  same axes
//!   +---------              +---------
//! legend, if there are several
//! notes
//! ```

use super::scale::{Ends, Scale};
use super::style::Legend;
use super::svg::{Anchor, Font, GREY, GRID, INK, Stroke, Svg};
use crate::figure::Axis;
pub(super) use crate::figure::Series;

/// What is drawn into one file.
pub(super) struct Plot {
    /// Of the file, without `.svg`.
    pub(super) name: String,
    pub(super) title: String,
    /// Where it is from, and what is the same in all of it.
    pub(super) lines: Vec<String>,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) panels: Vec<Panel>,
    /// What dashed curves are.
    pub(super) dashes: &'static str,
    pub(super) notes: Vec<String>,
}

/// What was measured on one device.
pub(super) struct Panel {
    pub(super) head: String,
    pub(super) series: Vec<Series>,
}

const MARGIN: f64 = 18.0;
const TITLE: Font = Font::new(17.0, INK).bold();
const LINE: Font = Font::new(12.0, GREY);
const HEAD: Font = Font::new(12.0, INK).bold();
const LABEL: Font = Font::new(12.5, INK);
const TICK: Font = Font::new(11.5, INK);
const NOTE: Font = Font::new(10.5, GREY);
/// Panels in a row.
const MOST_IN_A_ROW: usize = 3;
/// Of the maxima of devices: from there on they share no linear axis.
const TOO_FAR_APART: f64 = 8.0;

/// Where everything goes.
struct Layout {
    /// Of the area of curves.
    size: (f64, f64),
    /// Between the left edge of a panel and its area: the numbers and the name of the axis.
    left: f64,
    /// Under the area.
    bottom: f64,
    /// Over the area: the name of the device.
    head: f64,
}

impl Plot {
    /// All that is drawn.
    pub(super) fn series(&self) -> impl Iterator<Item = &Series> + Clone {
        self.panels.iter().flat_map(|panel| &panel.series)
    }

    fn is_of_bars(&self) -> bool {
        !self.x.names.is_empty()
    }

    /// The vertical axis: from zero where that leaves room for what is to be seen, and of powers where one device's
    /// curves would otherwise lie on the ground.
    fn vertical(&self) -> (Axis, Scale) {
        let of =
            |panel: &Panel| -> Vec<f64> { panel.series.iter().flat_map(|s| s.points.iter().map(|p| p.1)).collect() };
        let mut numbers: Vec<f64> = self.panels.iter().flat_map(of).filter(|number| number.is_finite()).collect();
        let least = numbers.iter().copied().fold(f64::INFINITY, f64::min);
        let mut axis = self.y.clone();
        let maxima: Vec<f64> = self.panels.iter().map(|panel| of(panel).into_iter().fold(0.0, f64::max)).collect();
        let (top, low) =
            (maxima.iter().copied().fold(0.0, f64::max), maxima.iter().copied().fold(f64::INFINITY, f64::min));
        axis.log |= maxima.len() > 1 && least > 0.0 && low > 0.0 && top / low > TOO_FAR_APART;
        if axis.log && self.is_of_bars() {
            // The least bar is one too.
            numbers.push(least / 2.0);
        }
        let from_zero = self.is_of_bars() || !axis.unit.is_empty() || least < 0.5 * top;
        let scale = Scale::new(&axis, &numbers, if from_zero { Ends::Zero } else { Ends::Round });
        (axis, scale)
    }

    /// The file.
    pub(super) fn svg(&self) -> String {
        let (y_axis, y) = self.vertical();
        let numbers: Vec<f64> = self.series().flat_map(|s| s.points.iter().map(|point| point.0)).collect();
        let x = if self.is_of_bars() { None } else { Some(Scale::new(&self.x, &numbers, Ends::Data)) };
        let legend = Legend::new(self.series(), self.dashes, self.is_of_bars());
        let count = self.panels.len().max(1);
        let in_a_row = count.min(MOST_IN_A_ROW);
        let size = [(560.0, 350.0), (420.0, 310.0), (330.0, 280.0)][in_a_row - 1];
        let numbers = y.ticks.iter().map(|tick| TICK.width(&tick.label)).fold(0.0, f64::max);
        let names = self.named(size.0).iter().map(Vec::len).max().unwrap_or(1);
        let heads = self.panels.iter().map(|panel| HEAD.wrapped(&panel.head, size.0).len()).max().unwrap_or(0);
        let layout = Layout {
            size,
            left: LABEL.line() + numbers + 14.0,
            bottom: 4.0 + names as f64 * TICK.line() + LABEL.line() + 4.0,
            head: if count > 1 { heads as f64 * HEAD.line() + 4.0 } else { 0.0 },
        };
        let panels = in_a_row as f64 * (layout.left + size.0 + MARGIN);
        let beside = if count == 1 { legend.size(0.0).0 + MARGIN } else { 0.0 };
        let inner = panels + beside;

        let mut svg = Svg::default();
        let mut top = MARGIN;
        let mut write = |svg: &mut Svg, text: &str, font: Font| {
            for line in font.wrapped(text, inner) {
                top += font.line();
                svg.text((MARGIN, top - 0.3 * font.size), &line, font);
            }
        };
        write(&mut svg, &self.title, TITLE);
        self.lines.iter().for_each(|line| write(&mut svg, line, LINE));
        top += 16.0;
        let high = layout.head + size.1 + layout.bottom;
        for (at, panel) in self.panels.iter().enumerate() {
            let (column, row) = ((at % in_a_row) as f64, (at / in_a_row) as f64);
            let corner = (MARGIN + column * (layout.left + size.0 + MARGIN), top + row * (high + MARGIN));
            self.panel(&mut svg, panel, corner, &layout, (x.as_ref(), &y, &y_axis, &legend));
        }
        let rows = count.div_ceil(in_a_row) as f64;
        if count == 1 {
            legend.draw(&mut svg, (MARGIN + panels, top), 0.0);
        }
        top = (top + rows * (high + MARGIN) - MARGIN).max(if count == 1 { top + legend.size(0.0).1 } else { 0.0 });
        if count > 1 {
            top += 8.0;
            legend.draw(&mut svg, (MARGIN + layout.left, top), inner - layout.left);
            top += legend.size(inner - layout.left).1;
        }
        top += if self.notes.is_empty() { 0.0 } else { 8.0 };
        for line in self.notes.iter().flat_map(|note| NOTE.wrapped(note, inner)) {
            top += NOTE.line();
            svg.text((MARGIN, top - 0.3 * NOTE.size), &line, NOTE);
        }
        svg.finish((inner + 2.0 * MARGIN, top + MARGIN), &self.title)
    }

    /// The names of things at the axis, each in lines that have room.
    fn named(&self, width: f64) -> Vec<Vec<String>> {
        let room = width / self.x.names.len().max(1) as f64 - 8.0;
        self.x.names.iter().map(|name| TICK.wrapped(name, room)).collect()
    }

    fn panel(
        &self,
        svg: &mut Svg,
        panel: &Panel,
        corner: (f64, f64),
        layout: &Layout,
        (x, y, y_axis, legend): (Option<&Scale>, &Scale, &Axis, &Legend<'_>),
    ) {
        let (width, height) = layout.size;
        let (left, top) = (corner.0 + layout.left, corner.1 + layout.head);
        let up = |place: f64| top + height * (1.0 - place);
        let right = |place: f64| left + width * place;
        if layout.head > 0.0 {
            for (at, line) in HEAD.wrapped(&panel.head, width).iter().enumerate() {
                svg.text((left, corner.1 + (at as f64 + 0.7) * HEAD.line()), line, HEAD);
            }
        }
        for place in y.minor.iter().filter_map(|&at| y.place(at)) {
            svg.line((left, up(place)), (left + width, up(place)), Stroke::new("#f3f3f3", 1.0));
        }
        for tick in &y.ticks {
            let Some(at) = y.place(tick.at).map(up) else { continue };
            svg.line((left, at), (left + width, at), Stroke::new(GRID, 1.0));
            svg.text((left - 8.0, at + 4.0), &tick.label, TICK.anchored(Anchor::End));
        }
        if let Some(x) = x {
            let mut free = f64::NEG_INFINITY;
            for tick in &x.ticks {
                let Some(at) = x.place(tick.at).map(right) else { continue };
                svg.line((at, top), (at, top + height), Stroke::new(GRID, 1.0));
                let half = TICK.width(&tick.label) / 2.0;
                // A number that has no room is left out.
                if at - half > free {
                    svg.text((at, top + height + 16.0), &tick.label, TICK.anchored(Anchor::Middle));
                    free = at + half + 4.0;
                }
            }
        }
        svg.line((left, top + height), (left + width, top + height), Stroke::new(INK, 1.2));
        svg.line((left, top), (left, top + height), Stroke::new(INK, 1.2));
        let middle = LABEL.anchored(Anchor::Middle);
        let under = top + height + layout.bottom - 0.5 * LABEL.size;
        svg.text((left + width / 2.0, under), &self.x.head(), middle);
        svg.text((corner.0 + LABEL.size, top + height / 2.0), &y_axis.head(), middle.upwards());
        match x {
            Some(x) => self.curves(svg, panel, legend, |(at, high)| Some((right(x.place(at)?), up(y.place(high)?)))),
            None => self.bars(svg, panel, legend, (left, top + height, width), |high| y.place(high).map(up)),
        }
    }

    fn curves(
        &self,
        svg: &mut Svg,
        panel: &Panel,
        legend: &Legend<'_>,
        place: impl Fn((f64, f64)) -> Option<(f64, f64)>,
    ) {
        // Models lie under what was measured.
        for model in [true, false] {
            for series in panel.series.iter().filter(|series| series.model == model) {
                let style = legend.style(&series.label);
                let points: Vec<_> = series.points.iter().filter_map(|&point| Some((point, place(point)?))).collect();
                let places: Vec<_> = points.iter().map(|&(_, place)| place).collect();
                let stroke =
                    if model { Stroke::new(style.colour(), 1.5).dashed() } else { Stroke::new(style.colour(), 2.0) };
                if places.len() > 1 {
                    svg.curve(&places, stroke);
                }
                if model && places.len() > 1 {
                    continue;
                }
                for ((at, high), place) in points {
                    let says = self.says(series, at, high);
                    style.mark(svg, place, model, &says);
                }
            }
        }
    }

    /// Bars side by side, for each thing on the axis.
    fn bars(
        &self,
        svg: &mut Svg,
        panel: &Panel,
        legend: &Legend<'_>,
        (left, ground, width): (f64, f64, f64),
        up: impl Fn(f64) -> Option<f64>,
    ) {
        let room = width / self.x.names.len().max(1) as f64;
        let each = ((room - 16.0).max(4.0) / panel.series.len().max(1) as f64).min(60.0);
        for (at, lines) in self.named(width).iter().enumerate() {
            let middle = left + (at as f64 + 0.5) * room;
            for (line, text) in lines.iter().enumerate() {
                let down = ground + 16.0 + line as f64 * TICK.line();
                svg.text((middle, down), text, TICK.anchored(Anchor::Middle));
            }
            for (nth, series) in panel.series.iter().enumerate() {
                let Some(&(_, high)) = series.points.iter().find(|point| point.0 == at as f64) else { continue };
                let Some(top) = up(high) else { continue };
                let from = middle + (nth as f64 - panel.series.len() as f64 / 2.0) * each + 1.0;
                let colour = legend.style(&series.label).colour();
                let (fill, outline) = match series.model {
                    true => (None, Some(Stroke::new(colour, 1.5).dashed())),
                    false => (Some(colour), None),
                };
                let says = self.says(series, at as f64, high);
                svg.rect((from, top), (each - 2.0, ground - top), fill, outline, &says);
            }
        }
    }

    /// What a point says when it is pointed at.
    fn says(&self, series: &Series, at: f64, high: f64) -> String {
        format!("{}: {}; {} {}", series.label, self.y.told(high), self.x.label, self.x.told(at))
    }
}
