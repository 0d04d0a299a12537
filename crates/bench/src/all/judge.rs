//! Whether a rate reaches its goals.

use koel::device::{Any, choose};

use super::goals::{Class, Goal, Limit, Reference, Row, Target, usual_n};
use super::{Bench, class_of};
use crate::limits::{COPIED, Limits};
use koel_cli::failure::Result;
use koel_cli::text;

/// A rate compared with a goal.
pub(super) struct Judged {
    pub(super) reach: Aim,
    pub(super) stretch: Option<Aim>,
    /// Why the goal is not judged.
    pub(super) unjudged: Option<String>,
    /// Whether the goal is for devices of another class, so that the ratio is meaningless.
    pub(super) of_others: bool,
}

/// A target, and the rate that it requires in this run, if known.
pub(super) struct Aim {
    pub(super) text: String,
    pub(super) rate: Option<f64>,
}

impl Aim {
    /// A target of a row, without the rate that it requires.
    fn unknown(row: &Row, target: Target) -> Aim {
        let text = match target {
            Target::Rate(rate) => text::rate(rate),
            Target::Times(factor, reference) => format!("{factor}x {}", name(reference, row)),
        };
        Aim { text, rate: None }
    }
}

impl Judged {
    /// A goal of a row that was not measured.
    pub(super) fn unmeasured(row: &Row, goal: &Goal) -> Judged {
        let aim = |target| Aim::unknown(row, target);
        Judged { reach: aim(goal.reach), stretch: goal.stretch.map(aim), unjudged: None, of_others: false }
    }

    /// Whether the goal was reached, and whether the better rate was.
    pub(super) fn reached(&self, rate: f64) -> (Option<bool>, Option<bool>) {
        let of = |aim: &Aim| aim.rate.filter(|_| self.unjudged.is_none()).map(|target| rate >= target);
        (of(&self.reach), self.stretch.as_ref().and_then(of))
    }
}

/// The bytes per pair that a build one partition at a time reads and writes: the columns or their keys, the partitioned
/// words, and slots of 8 bytes. GPUs partition twice; the CPU counts keys first and partitions once.
fn passed(class: Class, load: f64) -> f64 {
    let (pair, word, key, slots) = (8.0, 8.0, 4.0, 8.0 / load);
    match class {
        Class::Gpu | Class::CpuByOpenCl => pair + word + 2.0 * word + word + slots,
        Class::Cpu => key + pair + word + word + slots,
    }
}

/// The rate that a memory limit allows for tables of this load; `None` for the bus, whose rate is measured with the
/// row.
pub(super) fn allowed(limit: Limit, limits: Limits, class: Class, load: Option<f64>) -> Option<f64> {
    match limit {
        Limit::Words => Some(limits.words),
        Limit::Lines => Some(limits.lines),
        Limit::Updates => Some(limits.updates),
        Limit::Copy => Some(limits.copy),
        Limit::Passes => load.map(|load| limits.copy * COPIED / passed(class, load)),
        Limit::Bus => None,
    }
}

/// Compares the rate of a row on a device, with this number of pairs, with one of its goals. If the goal is a multiple
/// of another rate that is not known yet, this measures it.
pub(super) fn judge(
    bench: &mut Bench<'_>,
    row: &Row,
    goal: &Goal,
    device: &Any,
    n: u32,
    limit: Option<f64>,
) -> Result<Judged> {
    let mut unjudged = None;
    let of_others = class_of(device) != row.class;
    if of_others {
        unjudged = Some(format!("the goal is {}'s", row.class.name()));
    } else if n != row.n {
        unjudged = Some(format!("the goal is at n = {}", text::grouped(row.n.into())));
    } else if n < usual_n(row.class) && bench.queries(device) < usual_n(row.class) {
        unjudged = Some(format!("the goal is with {} queries", text::grouped(usual_n(row.class).into())));
    }
    let mut aim = |target: Target| -> Result<(Aim, Option<String>)> {
        match target {
            Target::Rate(rate) => Ok((Aim { rate: Some(rate), ..Aim::unknown(row, target) }, None)),
            Target::Times(factor, reference) => match base(bench, row, reference, device, n, limit)? {
                Ok(base) => Ok((Aim { rate: Some(factor * base), ..Aim::unknown(row, target) }, None)),
                Err(reason) => Ok((Aim::unknown(row, target), Some(reason))),
            },
        }
    };
    let (reach, unknown) = aim(goal.reach)?;
    let stretch = goal.stretch.map(&mut aim).transpose()?.map(|(stretch, _)| stretch);
    Ok(Judged { reach, stretch, unjudged: unjudged.or(unknown), of_others })
}

fn name(reference: Reference, row: &Row) -> String {
    match reference {
        Reference::Limit => row.limit.map_or("the limit", Limit::name).into(),
        Reference::Peer(name) => name.into(),
        Reference::OneThread => "one thread".into(),
        Reference::CpuBackend => "the CPU backend".into(),
        Reference::Pairs(pairs) => format!("that at n = {}", text::grouped(pairs.into())),
    }
}

/// The rate that a target is a multiple of, or why it is not known.
fn base(
    bench: &mut Bench<'_>,
    row: &Row,
    reference: Reference,
    device: &Any,
    n: u32,
    limit: Option<f64>,
) -> Result<std::result::Result<f64, String>> {
    let mut rate = |n, device: &Any, threads| {
        let measured = bench.rate(row, n, device, threads)?;
        Ok(measured.map(|row| row.rate))
    };
    match reference {
        Reference::Limit => Ok(limit.ok_or_else(|| "it has no limit".into())),
        Reference::OneThread => rate(n, device, Some(1)),
        Reference::Pairs(pairs) => rate(pairs, device, None),
        Reference::CpuBackend => match choose("cpu", None)?.first() {
            Some(cpu) => rate(n, cpu, None),
            None => Ok(Err("there is no CPU backend".into())),
        },
        Reference::Peer(name) => Ok(bench.peer(name, n, row)?.ok_or_else(|| match name {
            _ if bench.args.no_peers => format!("{name} was not measured: omit --no-peers"),
            _ => format!("{name} was not measured: build koel with --features bench-peers, if it has this peer"),
        })),
    }
}
