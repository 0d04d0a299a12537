//! Bars: rates as shares of what they are compared with, which is the line at 1.

use koel::backend::HashBackend;
use koel::device::Any;

use super::Drawing;
use super::svg::{Anchor, Font, GREY, GRID, INK, Stroke, Svg};

/// What is drawn into one file.
pub(crate) struct Chart {
    /// Of the file, without `.svg`.
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) line: String,
    /// One a device.
    pub(crate) columns: Vec<Column>,
    pub(crate) notes: Vec<String>,
}

/// What was measured on one device.
pub(crate) struct Column {
    pub(super) head: String,
    pub(crate) groups: Vec<Group>,
}

/// One rate.
pub(crate) struct Group {
    pub(crate) label: String,
    /// Under the label.
    pub(crate) under: String,
    pub(crate) bars: Vec<Bar>,
}

/// The rate beside something.
pub(crate) struct Bar {
    /// None where it is not known.
    pub(crate) share: Option<f64>,
    /// What it is a share of.
    pub(crate) text: String,
    pub(crate) against: Against,
}

/// What a rate is beside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Against {
    Reached,
    Missed,
    /// A goal that is for something else, or cannot be told.
    NotJudged,
    Limit,
}

impl Against {
    const ALL: [Against; 4] = [Against::Reached, Against::Missed, Against::NotJudged, Against::Limit];

    fn name(self) -> &'static str {
        match self {
            Against::Reached => "of a goal that was reached",
            Against::Missed => "of a goal that was not reached",
            Against::NotJudged => "of a goal for other sizes",
            Against::Limit => "of what memory allows",
        }
    }

    /// The colour, and whether the bar is an outline.
    fn look(self) -> (&'static str, bool) {
        match self {
            Against::Reached => ("#0072b2", false),
            Against::Missed => ("#d55e00", false),
            Against::NotJudged => ("#0072b2", true),
            Against::Limit => ("#a8a8a8", false),
        }
    }
}

impl Column {
    pub(crate) fn new(device: &Any, groups: Vec<Group>) -> Column {
        Column { head: device.info().to_string(), groups }
    }
}

const MARGIN: f64 = 18.0;
const TITLE: Font = Font::new(17.0, INK).bold();
const LINE: Font = Font::new(12.0, GREY);
const HEAD: Font = Font::new(12.0, INK).bold();
const LABEL: Font = Font::new(11.5, INK);
const TEXT: Font = Font::new(10.5, INK);
const NOTE: Font = Font::new(10.5, GREY);
/// The width of a bar of 1, and the most of one that is drawn.
const ONE: f64 = 150.0;
const MOST: f64 = 2.0;
/// What bars and their numbers take.
const BARS: f64 = MOST * ONE + 52.0;
/// The height of a bar with what lies under it, and what lies between groups.
const BAR: f64 = 15.0;
const BETWEEN: f64 = 9.0;

impl Chart {
    /// The picture.
    pub(crate) fn draw(&self) -> Drawing {
        let columns: Vec<&Column> = self.columns.iter().filter(|column| !column.groups.is_empty()).collect();
        let inner = columns.iter().map(|column| column.width() + 2.0 * MARGIN).sum::<f64>().max(600.0);
        let mut svg = Svg::default();
        let mut top = MARGIN + TITLE.line();
        svg.text((MARGIN, top - 5.0), self.title, TITLE);
        for line in LINE.wrapped(&self.line, inner) {
            top += LINE.line();
            svg.text((MARGIN, top - 4.0), &line, LINE);
        }
        top += 10.0;
        let mut left = MARGIN;
        for against in Against::ALL.into_iter().filter(|&against| columns.iter().any(|column| column.has(against))) {
            let width = 22.0 + LABEL.width(against.name());
            if left > MARGIN && left + width > MARGIN + inner {
                (left, top) = (MARGIN, top + 18.0);
            }
            bar(&mut svg, (left, top), 14.0, against, "");
            svg.text((left + 20.0, top + 9.5), against.name(), LABEL);
            left += width + 18.0;
        }
        top += 26.0;
        let (mut left, mut bottom) = (MARGIN, top);
        for column in columns {
            bottom = column.draw(&mut svg, (left, top)).max(bottom);
            left += column.width() + 2.0 * MARGIN;
        }
        for line in self.notes.iter().flat_map(|note| NOTE.wrapped(note, inner)) {
            bottom += NOTE.line();
            svg.text((MARGIN, bottom - 3.0), &line, NOTE);
        }
        let svg = svg.finish((inner + 2.0 * MARGIN, bottom + MARGIN), self.title);
        Drawing { name: self.name.into(), svg }
    }
}

impl Column {
    fn has(&self, against: Against) -> bool {
        self.groups.iter().flat_map(|group| &group.bars).any(|bar| bar.against == against && bar.share.is_some())
    }

    /// Of the names.
    fn names(&self) -> f64 {
        let width = |group: &Group| LABEL.width(&group.label).max(NOTE.width(&group.under));
        self.groups.iter().map(width).fold(0.0, f64::max)
    }

    fn width(&self) -> f64 {
        let texts = self.groups.iter().flat_map(|group| &group.bars).map(|bar| NOTE.width(&bar.text));
        (self.names() + 10.0 + BARS + texts.fold(0.0, f64::max)).max(HEAD.width(&self.head))
    }

    /// Draws it; where it ends.
    fn draw(&self, svg: &mut Svg, (left, top): (f64, f64)) -> f64 {
        svg.text((left, top + HEAD.size), &self.head, HEAD);
        let (zero, top) = (left + self.names() + 10.0, top + HEAD.line() + 8.0);
        let heights = self.groups.iter().map(|group| group.height() + BETWEEN);
        let bottom = top + heights.sum::<f64>();
        for halves in 0..=4 {
            let at = zero + ONE * f64::from(halves) / 2.0;
            let stroke = if halves == 2 { Stroke::new(INK, 1.2) } else { Stroke::new(GRID, 1.0) };
            svg.line((at, top), (at, bottom), stroke);
            let label = format!("{}", f64::from(halves) / 2.0);
            svg.text((at, bottom + 14.0), &label, TEXT.anchored(Anchor::Middle));
        }
        let mut y = top + BETWEEN / 2.0;
        for group in &self.groups {
            svg.text((zero - 10.0, y + 10.0), &group.label, LABEL.anchored(Anchor::End));
            svg.text((zero - 10.0, y + 10.0 + BAR), &group.under, NOTE.anchored(Anchor::End));
            for (at, of) in group.bars.iter().enumerate() {
                let corner = (zero, y + at as f64 * BAR);
                let long = of.share.map_or(0.0, |share| share.clamp(0.0, MOST) * ONE);
                if let Some(share) = of.share {
                    bar(svg, corner, long, of.against, &format!("{}: {share:.3} {}", group.label, of.text));
                    // Lines of the axis do not run through numbers.
                    let number = format!("{}{share:.2}", if share > MOST { "» " } else { "" });
                    let box_size = (0.9 * TEXT.width(&number) + 4.0, BAR - 3.0);
                    svg.rect((zero + long + 3.0, corner.1), box_size, Some("#ffffff"), None, "");
                    svg.text((zero + long + 5.0, corner.1 + 10.0), &number, TEXT);
                }
                svg.text((zero + BARS, corner.1 + 10.0), &of.text, NOTE);
            }
            y += group.height() + BETWEEN;
        }
        bottom + 26.0
    }
}

impl Group {
    fn height(&self) -> f64 {
        let lines = if self.under.is_empty() { 1 } else { 2 };
        BAR * self.bars.len().max(lines) as f64
    }
}

fn bar(svg: &mut Svg, corner: (f64, f64), long: f64, against: Against, says: &str) {
    let (colour, outline) = against.look();
    let size = (long.max(1.0), BAR - 3.0);
    match outline {
        true => svg.rect(corner, size, Some("#ffffff"), Some(Stroke::new(colour, 1.5)), says),
        false => svg.rect(corner, size, Some(colour), None, says),
    }
}
