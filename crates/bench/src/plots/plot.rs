//! A plot: curves over an axis, or bars if the axis is one of things, with a panel for each device.
//!
//! ```text
//! title
//! origin, and the properties that all panels share
//!
//!   device                  device                   legend, if there is one panel
//!   |                       |
//!   |  curves               |  curves, on the
//!   |                       |  same axes
//!   +---------              +---------
//! legend, if there are several
//! notes
//! ```

use plotters::chart::ChartContext;
use plotters::coord::cartesian::Cartesian2d;
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::canvas::{self, Area, Error, GRID, HEAD, INK, LABEL, MARGIN, TICK};
use super::scale::{Ends, Scale};
use super::style::Legend;
use crate::figure::Axis;
pub(super) use crate::figure::Series;

/// The contents of one file.
pub(super) struct Plot {
    /// The name of the file, without `.svg`.
    pub(super) name: String,
    pub(super) title: String,
    /// The origin, and the properties that all panels share.
    pub(super) lines: Vec<String>,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) panels: Vec<Panel>,
    /// The description of thin curves.
    pub(super) models: &'static str,
    pub(super) notes: Vec<String>,
}

/// The curves of one device.
pub(super) struct Panel {
    pub(super) head: String,
    pub(super) series: Vec<Series>,
}

/// The maximum number of panels in a row.
const MOST_IN_A_ROW: usize = 3;
/// If the maxima of devices differ by at least this factor, they cannot share a linear axis.
const TOO_FAR_APART: f64 = 8.0;

/// The axes, and the positions of all parts.
struct Layout<'a> {
    x: Scale,
    y: Scale,
    legend: Legend<'a>,
    /// The size of the area for curves.
    size: (i32, i32),
    /// The space between the left edge of a panel and its area, for the numbers and the name of the axis.
    left: i32,
    /// The space under the area.
    bottom: i32,
    /// The space above the area, for the name of the device.
    head: i32,
    /// The maximum numbers of labels on the axes.
    ticks: (usize, usize),
}

type Chart<'a> = ChartContext<'a, SVGBackend<'a>, Cartesian2d<Scale, Scale>>;

impl Plot {
    /// All series.
    fn series(&self) -> impl Iterator<Item = &Series> + Clone {
        self.panels.iter().flat_map(|panel| &panel.series)
    }

    fn is_of_bars(&self) -> bool {
        !self.x.names.is_empty()
    }

    /// The vertical axis: it starts at zero if the curves remain distinguishable, and is logarithmic if one device's
    /// curves would otherwise be too close to zero.
    fn vertical(&self) -> Scale {
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
        let from_zero = axis.log || self.is_of_bars() || !axis.unit.is_empty() || least < 0.5 * top;
        Scale::new(&axis, &numbers, if from_zero { Ends::Zero } else { Ends::Data })
    }

    fn layout(&self) -> Layout<'_> {
        let numbers: Vec<f64> = self.series().flat_map(|s| s.points.iter().map(|point| point.0)).collect();
        let (x, y) = (Scale::new(&self.x, &numbers, Ends::Data), self.vertical());
        let in_a_row = self.panels.len().clamp(1, MOST_IN_A_ROW);
        let (size, ticks) = [((560, 350), (9, 9)), ((420, 310), (7, 8)), ((330, 280), (5, 8))][in_a_row - 1];
        let widest = y.ticks(ticks.1).iter().map(|&at| TICK.width(&y.label(at))).max().unwrap_or(0);
        let names = self.named(size.0).iter().map(Vec::len).max().unwrap_or(1) as i32;
        let heads = self.panels.iter().map(|panel| HEAD.height(&panel.head, size.0)).max().unwrap_or(0);
        Layout {
            legend: Legend::new(self.series(), self.models, self.is_of_bars()),
            size,
            left: 2 * LABEL.line() + widest,
            bottom: names * TICK.line() + 2 * LABEL.line(),
            head: if self.panels.len() > 1 { heads + 4 } else { 0 },
            x,
            y,
            ticks,
        }
    }

    /// Draws the plot as SVG.
    pub(super) fn svg(&self) -> Result<String, Error> {
        let layout = self.layout();
        let (count, legend) = (self.panels.len().max(1) as i32, &layout.legend);
        let in_a_row = count.min(MOST_IN_A_ROW as i32);
        let panels = in_a_row * (layout.left + layout.size.0 + MARGIN);
        let inner = panels + if count == 1 { legend.size(0).0 } else { 0 };
        let high = layout.head + layout.size.1 + layout.bottom;
        let top = canvas::heading_end(&self.title, &self.lines, inner) + 16;
        // The legend is next to one panel, and below several.
        let rows = (count + in_a_row - 1) / in_a_row * (high + MARGIN);
        let (beside, under) = ((MARGIN + panels, top), (MARGIN + layout.left, top + rows));
        let (at, width, end) = match count {
            1 => (beside, 0, top + rows.max(legend.size(0).1)),
            _ => (under, inner - layout.left, top + rows + legend.size(inner - layout.left).1 + 8),
        };
        let height = end + canvas::footing_height(&self.notes, inner) + MARGIN;
        canvas::picture((inner + 2 * MARGIN, height), &self.title, |area| {
            canvas::heading(area, &self.title, &self.lines, inner)?;
            for (nth, panel) in (0..).zip(&self.panels) {
                let left = MARGIN + nth % in_a_row * (layout.left + layout.size.0 + MARGIN);
                self.panel(area, panel, (left, top + nth / in_a_row * (high + MARGIN)), &layout)?;
            }
            legend.draw(area, at, width)?;
            canvas::footing(area, &self.notes, end, inner)
        })
    }

    /// The names of things at the axis, each wrapped to lines that fit.
    fn named(&self, width: i32) -> Vec<Vec<String>> {
        let room = width / self.x.names.len().max(1) as i32 - 8;
        self.x.names.iter().map(|name| TICK.wrapped(name, room)).collect()
    }

    fn panel(&self, area: &Area<'_>, panel: &Panel, (left, top): (i32, i32), layout: &Layout<'_>) -> Result<(), Error> {
        let (width, height) = layout.size;
        if layout.head > 0 {
            HEAD.paragraph(area, &panel.head, (left + layout.left, top), width, HPos::Left)?;
        }
        let whole = (layout.left + width, height + layout.bottom);
        let part = area.clone().shrink((left, top + layout.head), whole);
        let mut chart = ChartBuilder::on(&part)
            .x_label_area_size(layout.bottom)
            .y_label_area_size(layout.left)
            .build_cartesian_2d(layout.x.clone(), layout.y.clone())?;
        let x_label = |at: &f64| canvas::plain(&layout.x.label(*at));
        let y_label = |at: &f64| canvas::plain(&layout.y.label(*at));
        let mut mesh = chart.configure_mesh();
        // Names of things are drawn later, because labels of axes have only one line.
        let numbers = if self.is_of_bars() { 0 } else { layout.ticks.0 };
        mesh.bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .axis_style(INK)
            .label_style(TICK.style(HPos::Left))
            .axis_desc_style(LABEL.style(HPos::Left))
            .x_labels(numbers)
            .y_labels(layout.ticks.1)
            .x_label_formatter(&x_label)
            .y_label_formatter(&y_label)
            .x_desc(self.x.head())
            .y_desc(self.y.head())
            .draw()?;
        if !self.is_of_bars() {
            return self.curves(area, &mut chart, panel, layout);
        }
        let ground = top + layout.head + height;
        for (at, lines) in self.named(width).iter().enumerate() {
            let (middle, _) = chart.plotting_area().map_coordinate(&(at as f64, layout.y.ground()));
            for (line, text) in (0..).zip(lines) {
                TICK.write(area, text, (middle, ground + 6 + line * TICK.line()), HPos::Center)?;
            }
        }
        Plot::bars(&mut chart, panel, layout)
    }

    fn curves(&self, area: &Area<'_>, chart: &mut Chart<'_>, panel: &Panel, layout: &Layout<'_>) -> Result<(), Error> {
        // Models are drawn under measured curves.
        for model in [true, false] {
            for series in panel.series.iter().filter(|series| series.model == model) {
                let style = layout.legend.style(&series.label);
                let has = |&(x, y): &(f64, f64)| layout.x.has(x) && layout.y.has(y);
                let points: Vec<_> = series.points.iter().copied().filter(has).collect();
                if points.len() > 1 {
                    chart.draw_series(LineSeries::new(points.clone(), style.line(model)))?;
                }
                if !model || points.len() == 1 {
                    for point in &points {
                        style.mark(area, chart.plotting_area().map_coordinate(point))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Bars next to each other for each thing on the axis; bars of models are outlines.
    fn bars(chart: &mut Chart<'_>, panel: &Panel, layout: &Layout<'_>) -> Result<(), Error> {
        let each = 0.8 / panel.series.len().max(1) as f64;
        for (nth, series) in panel.series.iter().enumerate() {
            let colour = layout.legend.style(&series.label);
            let style = if series.model { colour.line(true) } else { colour.colour().filled() };
            let has = |point: &&(f64, f64)| layout.x.has(point.0) && layout.y.has(point.1);
            let bars = series.points.iter().filter(has).map(|&(at, high)| {
                let from = at - 0.4 + nth as f64 * each;
                Rectangle::new([(from + 0.04 * each, high), (from + 0.96 * each, layout.y.ground())], style)
            });
            chart.draw_series(bars.collect::<Vec<_>>())?;
        }
        Ok(())
    }
}
