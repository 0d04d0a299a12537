//! The output of `koel-bench --all`.

use std::collections::BTreeMap;

use koel::backend::HashBackend;
use koel::device::Any;
use serde_json::{Value, json};

use super::judge::{Aim, Judged};
use super::{Allowed, Found, Line};
use crate::Args;
use crate::limits::COPIED;
use koel_cli::devices;
use koel_cli::text::{self, Align, Table};

/// Tables: the memory limits, and every row with its goals; then the reasons why some were not measured or judged.
pub(super) fn text(lines: &[Line], allowed: &[Allowed], devices: &[Any], args: &Args) -> String {
    let mut shown = String::new();
    for device in devices {
        shown.push_str(&format!("{}, {}\n", device.info(), device.info().driver));
    }
    let threads = rayon::current_num_threads();
    shown.push_str(&format!("host: {threads} threads; medians of {} runs; every answer checked\n", args.repeats));
    if !args.rows.is_empty() {
        shown.push_str(&format!("rows: only those with {} in their names\n", args.rows.join(" or ")));
    }
    shown.push('\n');
    shown.push_str(&limits(allowed).render());

    let mut table = Table::new(&[
        ("row", Align::Left),
        ("on", Align::Left),
        ("n", Align::Right),
        ("load", Align::Right),
        ("hits", Align::Right),
        ("rate", Align::Right),
        ("limit", Align::Right),
        ("of limit", Align::Right),
        ("goal", Align::Left),
        ("of goal", Align::Right),
        ("reached", Align::Left),
    ]);
    for line in lines {
        let on = line.device.clone().unwrap_or_default();
        let hits = line.row.hits.map(|hits| format!("{hits}%")).unwrap_or_default();
        let found = match &line.found {
            Ok(found) => found,
            Err(_) => {
                let n = if line.row.goals.is_empty() { String::new() } else { text::grouped(line.n.into()) };
                let goals = line.row.goals.iter().map(|of| goal(&Judged::unmeasured(line.row, of)));
                let (empty, goals) = (String::new, goals.collect::<Vec<_>>().join("; "));
                let what = "not measured".into();
                table.row([
                    line.row.name.into(),
                    on,
                    n,
                    empty(),
                    hits,
                    what,
                    empty(),
                    empty(),
                    goals,
                    empty(),
                    empty(),
                ]);
                continue;
            }
        };
        for (at, judged) in found.goals.iter().enumerate() {
            // A row with several goals shows its measurements once.
            let once = |cell: String| if at == 0 { cell } else { String::new() };
            table.row([
                once(line.row.name.into()),
                once(on.clone()),
                once(text::grouped(line.n.into())),
                once(found.load.map(|load| format!("{load:.3}")).unwrap_or_default()),
                once(hits.clone()),
                once(text::rate(found.rate)),
                once(found.limit.map(text::rate).unwrap_or_default()),
                once(found.limit.map(|limit| format!("{:.0}%", 100.0 * found.rate / limit)).unwrap_or_default()),
                goal(judged),
                judged
                    .reach
                    .rate
                    .filter(|_| !judged.of_others)
                    .map(|rate| format!("{:.2}", found.rate / rate))
                    .unwrap_or_default(),
                verdict(found, judged).into(),
            ]);
        }
    }
    shown.push('\n');
    shown.push_str(&table.render());
    for reason in reasons(lines) {
        shown.push_str(&format!("\n{reason}"));
    }
    shown
}

fn limits(allowed: &[Allowed]) -> Table {
    let mut table = Table::new(&[
        ("limits on", Align::Left),
        ("n", Align::Right),
        ("8-byte reads", Align::Right),
        ("64-byte reads", Align::Right),
        ("atomics", Align::Right),
        ("keys copied", Align::Right),
        ("in and out", Align::Right),
    ]);
    for Allowed { device, n, limits } in allowed {
        table.row([
            device.clone(),
            text::grouped((*n).into()),
            text::rate(limits.words),
            text::rate(limits.lines),
            text::rate(limits.updates),
            text::rate(limits.copy),
            format!("{:.2} GB/s", COPIED * limits.copy / 1e9),
        ]);
    }
    table
}

fn goal(judged: &Judged) -> String {
    match &judged.stretch {
        None => judged.reach.text.clone(),
        Some(stretch) => format!("{}, better {}", judged.reach.text, stretch.text),
    }
}

fn verdict(found: &Found, judged: &Judged) -> &'static str {
    match judged.reached(found.rate) {
        (_, Some(true)) => "yes, and better",
        (Some(true), _) => "yes",
        (Some(false), _) => "no",
        (None, _) => "-",
    }
}

/// The reasons why rows were not measured, with the rows of each reason. For goals that are not judged, only their
/// number, because each is shown with its row.
fn reasons(lines: &[Line]) -> Vec<String> {
    let (mut rows, mut goals) = (BTreeMap::<&str, Vec<String>>::new(), BTreeMap::<&str, u64>::new());
    for line in lines {
        let hits = line.row.hits.map(|hits| format!(", {hits}% hits")).unwrap_or_default();
        let on = line.device.as_ref().map(|device| format!(", on {device}")).unwrap_or_default();
        match &line.found {
            Err(reason) => rows.entry(reason).or_default().push(format!("{}{hits}{on}", line.row.name)),
            Ok(found) => {
                for reason in found.goals.iter().filter_map(|judged| judged.unjudged.as_ref()) {
                    *goals.entry(reason).or_default() += 1;
                }
            }
        }
    }
    let goals = goals
        .into_iter()
        .map(|(reason, count)| format!("{} not judged, because {reason}\n", text::counted(count, "goal")));
    let rows =
        rows.into_iter().map(|(reason, rows)| format!("not measured, because {reason}:\n  {}\n", rows.join("\n  ")));
    goals.chain(rows).collect()
}

/// The results as JSON.
pub(super) fn json(lines: &[Line], allowed: &[Allowed], devices: &[Any], args: &Args) -> Value {
    let devices: Vec<_> = devices.iter().map(|device| devices::json(device.info())).collect();
    let limits: Vec<_> = allowed
        .iter()
        .map(|Allowed { device, n, limits }| {
            json!({
                "device": device, "n": n, "random_8_byte_reads": limits.words, "random_64_byte_reads": limits.lines,
                "random_atomics": limits.updates, "keys_copied": limits.copy, "copy_bytes": COPIED * limits.copy,
            })
        })
        .collect();
    let rows: Vec<_> = lines.iter().map(of_line).collect();
    json!({
        "koel": env!("CARGO_PKG_VERSION"), "repeats": args.repeats, "threads": rayon::current_num_threads(),
        "seed": args.data.seed, "devices": devices, "chosen": args.rows, "limits": limits, "rows": rows,
    })
}

fn of_line(line: &Line) -> Value {
    let row = line.row;
    let found = line.found.as_ref().ok();
    let rate = found.map(|found| found.rate);
    let limit = found.and_then(|found| found.limit);
    let goals: Vec<_> = match found {
        Some(found) => found.goals.iter().map(|judged| of_goal(rate, judged)).collect(),
        None => row.goals.iter().map(|goal| of_goal(None, &Judged::unmeasured(row, goal))).collect(),
    };
    json!({
        "row": row.name, "for": row.class.name(), "device": line.device, "n": line.n, "goal_n": row.n,
        "load": found.and_then(|found| found.load), "hits": row.hits, "rate": rate,
        "limit": limit, "limited_by": row.limit.map(super::goals::Limit::name),
        "of_limit": rate.zip(limit).map(|(rate, limit)| rate / limit), "goals": goals,
        "not_measured": line.found.as_ref().err(),
    })
}

fn of_goal(rate: Option<f64>, judged: &Judged) -> Value {
    let share = |aim: &Aim| rate.zip(aim.rate).map(|(rate, target)| rate / target);
    let aim = |aim: &Aim| json!({ "goal": aim.text, "rate": aim.rate, "of_goal": share(aim) });
    let (reached, better) = rate.map_or((None, None), |rate| judged.reached(rate));
    json!({
        "reach": aim(&judged.reach), "reached": reached, "stretch": judged.stretch.as_ref().map(aim),
        "stretch_reached": better, "not_judged": judged.unjudged,
    })
}
