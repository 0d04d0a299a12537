//! What `koel-bench --all --plots` draws: each rate as a share of its goals and of what memory allows.

use koel::backend::HashBackend;
use koel::device::Any;

use super::judge::Judged;
use super::{Found, Line};
use crate::Args;
use crate::plots::{self, Against, Bar, Chart, Column, Group};
use koel_cli::text;

/// A column for each device.
pub(super) fn chart(lines: &[Line], devices: &[Any], args: &Args) -> Chart {
    let columns = devices.iter().map(|device| {
        let here = lines.iter().filter(|line| line.device.as_ref() == Some(&device.info().id));
        Column::new(device, here.filter_map(|line| Some(group(line, line.found.as_ref().ok()?))).collect())
    });
    let missing = lines.iter().filter(|line| line.found.is_err()).count();
    let mut notes = Vec::new();
    if missing > 0 {
        let rows = text::counted(missing as u64, "row");
        notes.push(format!("Not measured here: {rows} of the command's table, which says why."));
    }
    Chart {
        name: "all",
        title: "Rates beside goals and beside what memory allows",
        line: format!("1 is the goal, or the limit; medians of {}", text::counted(args.repeats.into(), "run")),
        columns: columns.collect(),
        notes,
    }
}

fn group(line: &Line, found: &Found) -> Group {
    let row = line.row;
    let hits = row.hits.map(|hits| format!(", {hits}% hits")).unwrap_or_default();
    let mut bars: Vec<Bar> =
        found.goals.iter().filter(|judged| !judged.of_others).map(|of| beside(found, of)).collect();
    if let (Some(limit), Some(kind)) = (found.limit, row.limit) {
        let text = format!("of {} ({})", text::rate(limit), kind.name());
        bars.push(Bar { share: Some(found.rate / limit), text, against: Against::Limit });
    }
    if bars.is_empty() {
        bars.push(Bar { share: None, text: "no goal here".into(), against: Against::NotJudged });
    }
    Group {
        label: format!("{}{hits}", row.name),
        under: format!("{}, n = {}", text::rate(found.rate), plots::count(line.n.into())),
        bars,
    }
}

/// The rate beside one goal.
fn beside(found: &Found, judged: &Judged) -> Bar {
    let goal = &judged.reach;
    match (goal.rate, judged.reached(found.rate)) {
        (None, _) => Bar { share: None, text: format!("{} is not known here", goal.text), against: Against::NotJudged },
        (Some(rate), (reached, better)) => {
            let against = match reached {
                None => Against::NotJudged,
                Some(false) => Against::Missed,
                Some(true) => Against::Reached,
            };
            let more = if better == Some(true) { ", and better" } else { "" };
            Bar { share: Some(found.rate / rate), text: format!("of {}{more}", goal.text), against }
        }
    }
}
