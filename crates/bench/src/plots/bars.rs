//! Horizontal bars in groups, with a column for each device: rates next to each other, or as shares of reference
//! values.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::canvas::{self, Area, Error, GRID, HEAD, INK, LABEL, MARGIN, NOTE, TICK};
use super::scale::{Ends, Scale};
use super::{Drawing, drawing};
use crate::figure::Axis;

/// The contents of one file.
pub(crate) struct Chart {
    /// The name of the file, without `.svg`.
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) lines: Vec<String>,
    /// The axis of the bars.
    pub(crate) axis: Axis,
    /// A line across all bars.
    pub(crate) marked: Option<f64>,
    /// Longer bars are cut off here.
    pub(crate) most: Option<f64>,
    pub(crate) kinds: Vec<Kind>,
    /// One per device.
    pub(crate) columns: Vec<Column>,
    pub(crate) notes: Vec<String>,
}

/// Bars of one colour.
#[derive(Clone, Debug)]
pub(crate) struct Kind {
    pub(crate) label: String,
    pub(crate) colour: RGBColor,
    /// Whether they are outlines.
    pub(crate) outline: bool,
}

/// The bars of one device.
pub(crate) struct Column {
    pub(crate) head: String,
    pub(crate) groups: Vec<Group>,
}

/// Adjacent bars with one label.
pub(crate) struct Group {
    pub(crate) label: String,
    /// The text under the label.
    pub(crate) under: String,
    pub(crate) bars: Vec<Bar>,
}

pub(crate) struct Bar {
    /// The length; `None` if unknown.
    pub(crate) long: Option<f64>,
    /// The text at the end of the bar.
    pub(crate) says: String,
    /// The text at the right edge.
    pub(crate) text: String,
    /// The index of its kind in the chart.
    pub(crate) kind: usize,
}

/// The width of the area for bars.
const WIDE: i32 = 300;
/// The height of a bar with the space under it, and the space between groups.
const BAR: i32 = 16;
const BETWEEN: i32 = 10;
/// The height of the axis under the bars: its numbers and its name, and the space under them.
const FOOT: i32 = 44;
const UNDER: i32 = 12;
/// The width of a kind's sample.
const SAMPLE: i32 = 14;

impl Chart {
    /// The picture.
    pub(crate) fn draw(&self) -> std::io::Result<Drawing> {
        drawing(&self.name, self.svg())
    }

    pub(super) fn svg(&self) -> Result<String, Error> {
        let columns: Vec<&Column> = self.columns.iter().filter(|column| !column.groups.is_empty()).collect();
        let behind = self.behind();
        let wide = |column: &Column| column.width(behind) + 2 * MARGIN;
        let inner = columns.iter().map(|column| wide(column)).sum::<i32>() - 2 * MARGIN;
        let inner = inner.max(640);
        let legend = canvas::heading_end(&self.title, &self.lines, inner) + 10;
        let top = self.kinds(None, legend, inner)? + 14;
        let end = top + columns.iter().map(|column| column.height(behind)).max().unwrap_or(0);
        let height = end + canvas::footing_height(&self.notes, inner) + MARGIN;
        canvas::picture((inner + 2 * MARGIN, height), &self.title, |area| {
            canvas::heading(area, &self.title, &self.lines, inner)?;
            self.kinds(Some(area), legend, inner)?;
            let mut left = MARGIN;
            for column in columns {
                self.column(area, column, (left, top), behind)?;
                left += wide(column);
            }
            canvas::footing(area, &self.notes, end, inner)
        })
    }

    fn bars(&self) -> impl Iterator<Item = &Bar> {
        self.columns.iter().flat_map(|column| &column.groups).flat_map(|group| &group.bars)
    }

    /// The position of a bar's end.
    fn end(&self, bar: &Bar) -> Option<f64> {
        bar.long.map(|long| self.most.map_or(long, |most| long.min(most)))
    }

    /// How far the texts at the ends of bars extend beyond their area.
    fn behind(&self) -> i32 {
        let longest = self.bars().filter_map(|bar| self.end(bar)).chain(self.marked).fold(f64::MIN_POSITIVE, f64::max);
        let beyond = |bar: &Bar| {
            let end = self.end(bar).unwrap_or(0.0) / longest;
            (end.clamp(0.0, 1.0) * f64::from(WIDE)) as i32 - WIDE + 12 + TICK.width(&bar.says)
        };
        self.bars().map(beyond).fold(0, i32::max)
    }

    /// Draws the legend of the kinds that occur, in lines of that width; returns where it ends.
    fn kinds(&self, area: Option<&Area<'_>>, mut top: i32, width: i32) -> Result<i32, Error> {
        let mut left = MARGIN;
        for (at, kind) in self.kinds.iter().enumerate().filter(|&(at, _)| self.has(at)) {
            let wide = SAMPLE + 8 + LABEL.width(&kind.label);
            if left > MARGIN && left + wide > MARGIN + width {
                (left, top) = (MARGIN, top + LABEL.line() + 4);
            }
            if let Some(area) = area {
                self.bar(area, at, (left, top), SAMPLE)?;
                LABEL.write(area, &kind.label, (left + SAMPLE + 8, top), HPos::Left)?;
            }
            left += wide + 20;
        }
        Ok(top + LABEL.line())
    }

    fn has(&self, kind: usize) -> bool {
        self.bars().any(|bar| bar.kind == kind && bar.long.is_some())
    }

    fn bar(&self, area: &Area<'_>, kind: usize, (left, top): (i32, i32), long: i32) -> Result<(), Error> {
        let Some(kind) = self.kinds.get(kind) else { return Ok(()) };
        let style = if kind.outline { kind.colour.stroke_width(1) } else { kind.colour.filled() };
        area.draw(&Rectangle::new([(left, top), (left + long.max(1), top + BAR - 4)], style))
    }

    fn column(&self, area: &Area<'_>, column: &Column, (left, top): (i32, i32), behind: i32) -> Result<(), Error> {
        HEAD.paragraph(area, &column.head, (left, top), column.width(behind), HPos::Left)?;
        let (zero, top) = (left + column.names() + 10, top + column.heading(behind));
        let numbers: Vec<f64> = self.bars().filter_map(|bar| self.end(bar)).chain(self.marked).collect();
        let scale = Scale::new(&self.axis, &numbers, Ends::Zero);
        let height = column.bars();
        let part = area.clone().shrink((zero, top), (WIDE, height + FOOT));
        let mut chart = ChartBuilder::on(&part)
            .x_label_area_size(FOOT)
            .build_cartesian_2d(scale.clone(), 0.0..f64::from(height))?;
        let label = |at: &f64| canvas::plain(&scale.label(*at));
        chart
            .configure_mesh()
            .disable_y_mesh()
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .axis_style(INK)
            .label_style(TICK.style(HPos::Left))
            .axis_desc_style(LABEL.style(HPos::Left))
            .x_labels(6)
            .x_label_formatter(&label)
            .x_desc(self.axis.head())
            .draw()?;
        if let Some(marked) = self.marked {
            let line = [(marked, 0.0), (marked, f64::from(height))];
            chart.draw_series(LineSeries::new(line, INK.stroke_width(1)))?;
        }
        let place = |long: f64| chart.plotting_area().map_coordinate(&(long, 0.0)).0;
        let mut y = top + BETWEEN / 2;
        for group in &column.groups {
            LABEL.write(area, &group.label, (zero - 10, y), HPos::Right)?;
            NOTE.write(area, &group.under, (zero - 10, y + BAR), HPos::Right)?;
            for (at, bar) in (0..).zip(&group.bars) {
                let y = y + at * BAR;
                if let Some(end) = self.end(bar).filter(|&end| scale.has(end)).map(place) {
                    self.bar(area, bar.kind, (zero, y), end - zero)?;
                    // Lines of the axis must not run through numbers.
                    let beside = [(end + 3, y), (end + 5 + TICK.width(&bar.says), y + BAR - 4)];
                    area.draw(&Rectangle::new(beside, WHITE.filled()))?;
                    TICK.write(area, &bar.says, (end + 5, y), HPos::Left)?;
                }
                NOTE.write(area, &bar.text, (zero + WIDE + behind, y), HPos::Left)?;
            }
            y += group.height() + BETWEEN;
        }
        Ok(())
    }
}

impl Column {
    /// The width of the names.
    fn names(&self) -> i32 {
        let width = |group: &Group| LABEL.width(&group.label).max(NOTE.width(&group.under));
        self.groups.iter().map(width).max().unwrap_or(0)
    }

    fn width(&self, behind: i32) -> i32 {
        let texts = self.groups.iter().flat_map(|group| &group.bars).map(|bar| NOTE.width(&bar.text));
        self.names() + 10 + WIDE + behind + texts.max().unwrap_or(0)
    }

    fn heading(&self, behind: i32) -> i32 {
        HEAD.height(&self.head, self.width(behind)) + 8
    }

    fn bars(&self) -> i32 {
        self.groups.iter().map(|group| group.height() + BETWEEN).sum()
    }

    fn height(&self, behind: i32) -> i32 {
        self.heading(behind) + self.bars() + FOOT + UNDER
    }
}

impl Group {
    fn height(&self) -> i32 {
        let lines = if self.under.is_empty() { 1 } else { 2 };
        BAR * self.bars.len().max(lines) as i32
    }
}
