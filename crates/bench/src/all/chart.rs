//! Draws the plots of `koel-bench --all --plots`: each rate as a share of its goals and of its limit.

use std::io;

use koel::backend::HashBackend;
use koel::device::Any;
use plotters::style::RGBColor;

use super::judge::Judged;
use super::{Found, Line};
use crate::Args;
use crate::figure::Axis;
use crate::plots::{self, Bar, Chart, Column, Drawing, Group, Kind};
use koel_cli::text;

/// The comparison of a rate with a goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Against {
    Reached,
    Missed,
    /// The goal applies to something else, or cannot be judged.
    NotJudged,
    Limit,
}

impl Against {
    /// In the order of their numbers.
    const ALL: [Against; 4] = [Against::Reached, Against::Missed, Against::NotJudged, Against::Limit];

    fn kind(self) -> Kind {
        let (label, colour, outline) = match self {
            Against::Reached => ("of a goal that was reached", RGBColor(0x00, 0x72, 0xb2), false),
            Against::Missed => ("of a goal that was not reached", RGBColor(0xd5, 0x5e, 0x00), false),
            Against::NotJudged => ("of a goal for other sizes", RGBColor(0x00, 0x72, 0xb2), true),
            Against::Limit => ("of what memory allows", RGBColor(0xa8, 0xa8, 0xa8), false),
        };
        Kind { label: label.into(), colour, outline }
    }
}

/// Longer bars are cut off here.
const MOST: f64 = 2.0;

/// Draws a column for each device.
pub(super) fn draw(lines: &[Line], devices: &[Any], args: &Args) -> io::Result<Drawing> {
    let columns = devices.iter().map(|device| {
        let here = lines.iter().filter(|line| line.device.as_ref() == Some(&device.info().id));
        let groups = here.filter_map(|line| Some(group(line, line.found.as_ref().ok()?))).collect();
        Column { head: device.info().to_string(), groups }
    });
    let missing = lines.iter().filter(|line| line.found.is_err()).count();
    let mut notes = Vec::new();
    if missing > 0 {
        let rows = text::counted(missing as u64, "row");
        notes.push(format!("Not measured here: {rows} of the command's table, which says why."));
    }
    let chart = Chart {
        name: "all".into(),
        title: "Rates compared with goals and memory limits".into(),
        lines: vec![plots::how(args)],
        axis: Axis::linear("share: at 1 is the goal, or what memory allows", ""),
        marked: Some(1.0),
        most: Some(MOST),
        kinds: Against::ALL.map(Against::kind).into(),
        columns: columns.collect(),
        notes,
    };
    chart.draw()
}

fn group(line: &Line, found: &Found) -> Group {
    let row = line.row;
    let hits = row.hits.map(|hits| format!(", {hits}% hits")).unwrap_or_default();
    let mut bars: Vec<Bar> =
        found.goals.iter().filter(|judged| !judged.of_others).map(|of| beside(found, of)).collect();
    if let (Some(limit), Some(kind)) = (found.limit, row.limit) {
        let text = format!("of {} ({})", text::rate(limit), kind.name());
        bars.push(bar(Some(found.rate / limit), text, Against::Limit));
    }
    if bars.is_empty() {
        bars.push(bar(None, "no goal here".into(), Against::NotJudged));
    }
    Group {
        label: format!("{}{hits}", row.name),
        under: format!("{}, n = {}", text::rate(found.rate), plots::count(line.n.into())),
        bars,
    }
}

/// The bar of a rate as a share of one goal.
fn beside(found: &Found, judged: &Judged) -> Bar {
    let goal = &judged.reach;
    match (goal.rate, judged.reached(found.rate)) {
        (None, _) => bar(None, format!("{} is not known here", goal.text), Against::NotJudged),
        (Some(rate), (reached, better)) => {
            let against = match reached {
                None => Against::NotJudged,
                Some(false) => Against::Missed,
                Some(true) => Against::Reached,
            };
            let more = if better == Some(true) { ", and better" } else { "" };
            bar(Some(found.rate / rate), format!("of {}{more}", goal.text), against)
        }
    }
}

fn bar(share: Option<f64>, text: String, against: Against) -> Bar {
    let says = share.map(|share| format!("{}{share:.2}", if share > MOST { "» " } else { "" }));
    Bar { long: share, says: says.unwrap_or_default(), text, kind: against as usize }
}
