//! Axes: from numbers to places, and the round numbers that stand at them.
//!
//! ```text
//! linear    steps of 1, 2 or 5 times a power of ten
//! log       powers of ten; 1, 2 and 5 times them where there are few; powers of two where all the numbers are such
//! ```

use crate::figure::Axis;
use koel_cli::text;

/// Steps of a linear axis, about.
const STEPS: f64 = 6.0;
/// Labels of an axis of powers, at most.
const MOST_POWERS: usize = 9;
/// The part of an axis that is left free beside the first and behind the last point.
const ROOM: f64 = 0.035;

/// Where an axis begins and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    /// A little beyond the data.
    Data,
    /// At round numbers.
    Round,
    /// At zero, if the axis has one, and at a round number.
    Zero,
}

/// A number on an axis that is written there.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tick {
    pub(super) at: f64,
    pub(super) label: String,
}

/// An axis of numbers.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scale {
    log: bool,
    low: f64,
    high: f64,
    pub(super) ticks: Vec<Tick>,
    /// Lines without a number.
    pub(super) minor: Vec<f64>,
}

impl Scale {
    /// An axis on which all these numbers have a place, but for those that no such axis has.
    pub(super) fn new(axis: &Axis, numbers: &[f64], ends: Ends) -> Scale {
        let numbers: Vec<f64> = numbers.iter().copied().filter(|&number| is_there(number, axis.log)).collect();
        if axis.log { logarithmic(axis, &numbers, ends) } else { linear(&numbers, ends) }
    }

    /// The place of a number, from 0 where the axis begins to 1 where it ends.
    pub(super) fn place(&self, number: f64) -> Option<f64> {
        if !is_there(number, self.log) {
            return None;
        }
        let on = |number: f64| if self.log { number.ln() } else { number };
        Some((on(number) - on(self.low)) / (on(self.high) - on(self.low)))
    }

    /// Whether a number is a place on this axis.
    fn has(&self, number: f64) -> bool {
        self.place(number).is_some_and(|place| (-1e-9..=1.0 + 1e-9).contains(&place))
    }
}

/// Whether an axis can have this number: none is measured beyond these, and arithmetic stays clear of infinity and of
/// steps too small to be counted.
fn is_there(number: f64, log: bool) -> bool {
    let within = (1e-100..=1e100).contains(&number.abs());
    if log { within && number > 0.0 } else { within || number == 0.0 }
}

/// The least and the greatest.
fn bounds(numbers: &[f64]) -> Option<(f64, f64)> {
    let least = numbers.iter().copied().reduce(f64::min)?;
    Some((least, numbers.iter().copied().fold(least, f64::max)))
}

fn linear(numbers: &[f64], ends: Ends) -> Scale {
    let whole = numbers.iter().all(|number| number.fract() == 0.0) && !numbers.is_empty();
    let (mut least, mut most) = bounds(numbers).unwrap_or((0.0, 1.0));
    if ends == Ends::Zero {
        (least, most) = (least.min(0.0), most.max(0.0));
    }
    if most - least <= most.abs().max(least.abs()) * 1e-9 {
        // One number: something around it, of which zero is the end.
        let around = if whole { (most.abs() / 10.0).max(1.0) } else { most.abs() / 10.0 };
        (least, most) = if most == 0.0 { (0.0, 1.0) } else { (least - around, most + around) };
    }
    let step = round_step((most - least) / STEPS).max(if whole { 1.0 } else { 0.0 });
    let (low, high) = match ends {
        Ends::Data => (least - ROOM * (most - least), most + ROOM * (most - least)),
        Ends::Round | Ends::Zero => ((least / step + 1e-9).floor() * step, (most / step - 1e-9).ceil() * step),
    };
    let ticks = steps(low, high, step);
    Scale { log: false, low, high, ticks, minor: Vec::new() }
}

/// All multiples of a step from `low` to `high`.
fn steps(low: f64, high: f64, step: f64) -> Vec<Tick> {
    let decimals = (-(step.log10() + 1e-9).floor()).max(0.0) as usize;
    let (first, last) = ((low / step - 1e-6).ceil() as i64, (high / step + 1e-6).floor() as i64);
    let label = |at: f64| match decimals {
        _ if at == 0.0 => "0".into(),
        10.. => format!("{at:.1e}"),
        0 if at.abs() >= 1e15 => format!("{at:.1e}"),
        0 => whole_number(at),
        _ => format!("{at:.decimals$}"),
    };
    (first..=last).map(|i| i as f64 * step).map(|at| Tick { at, label: label(at) }).collect()
}

/// The least of 1, 2 and 5 times a power of ten that is as great.
fn round_step(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|times| times * power)
        .find(|step| *step >= least * (1.0 - 1e-9))
        .unwrap_or(power)
}

fn logarithmic(axis: &Axis, numbers: &[f64], ends: Ends) -> Scale {
    let (mut least, mut most) = bounds(numbers).unwrap_or((1.0, 10.0));
    if most / least < 1.0 + 1e-9 {
        (least, most) = (least / 2.0, most * 2.0);
    }
    let (low, high) = match ends {
        Ends::Data => {
            let room = (most / least).powf(ROOM);
            (least / room, most * room)
        }
        Ends::Round | Ends::Zero => (round_down(least), round_step(most)),
    };
    let mut scale = Scale { log: true, low, high, ticks: Vec::new(), minor: Vec::new() };
    let power_of_two = |number: &f64| {
        (1.0..1e18).contains(number) && (*number as u64) as f64 == *number && (*number as u64).is_power_of_two()
    };
    if ends == Ends::Data && numbers.iter().all(power_of_two) && !numbers.is_empty() {
        scale.ticks = powers_of_two(&scale, axis.unit);
        return scale;
    }
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let of = |times: &[f64]| -> Vec<f64> {
        let all = (first..=last).flat_map(|power| times.iter().map(move |times| times * 10f64.powi(power)));
        all.filter(|&number| scale.has(number)).collect()
    };
    let powers = of(&[1.0]);
    let labelled = match powers.len() {
        4.. => every(powers, MOST_POWERS),
        _ => of(&[1.0, 2.0, 5.0]),
    };
    let ticks: Vec<Tick> = labelled.into_iter().map(|at| Tick { at, label: short(at) }).collect();
    if last - first <= 6 {
        scale.minor = of(&[2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]);
        scale.minor.retain(|number| !ticks.iter().any(|tick| tick.at == *number));
    }
    scale.ticks = if ticks.len() < 3 { steps(low, high, round_step((high - low) / STEPS)) } else { ticks };
    scale.ticks.retain(|tick| tick.at > 0.0);
    scale
}

/// The greatest of 1, 2 and 5 times a power of ten that is no greater.
fn round_down(number: f64) -> f64 {
    let power = 10f64.powf(number.log10().floor());
    [5.0, 2.0, 1.0].into_iter().map(|times| times * power).find(|step| *step <= number * (1.0 + 1e-9)).unwrap_or(power)
}

/// Powers of two, of which not too many are labelled.
fn powers_of_two(scale: &Scale, unit: &str) -> Vec<Tick> {
    let (first, last) = (scale.low.log2().ceil().max(0.0) as u32, scale.high.log2().floor().max(0.0) as u32);
    let powers = every((first..=last.min(63)).collect(), MOST_POWERS);
    let label = |power: u32| match unit {
        "bytes" => text::bytes(1 << power).replace(".0 ", " "),
        _ if last <= 12 => whole_number(2f64.powi(power as i32)),
        _ => format!("2^{power}"),
    };
    powers.into_iter().map(|power| Tick { at: 2f64.powi(power as i32), label: label(power) }).collect()
}

/// The first of them and every second, third, .. such that they are not too many.
fn every<T>(all: Vec<T>, most: usize) -> Vec<T> {
    let step = all.len().div_ceil(most).max(1);
    all.into_iter().step_by(step).collect()
}

/// A whole number, with its sign.
fn whole_number(number: f64) -> String {
    let sign = if number < 0.0 { "-" } else { "" };
    format!("{sign}{}", text::grouped(number.abs().round() as u64))
}

/// A number as it stands at an axis of powers: great ones with a letter.
fn short(number: f64) -> String {
    if number >= 1e13 {
        return format!("{number:.0e}");
    }
    let letters = [(1e9, "G"), (1e6, "M"), (1e3, "k")];
    match letters.into_iter().find(|(factor, _)| number >= factor * (1.0 - 1e-9) && number >= 1e4 * (1.0 - 1e-9)) {
        Some((factor, letter)) => format!("{}{letter}", whole_number(number / factor)),
        None if number >= 1.0 - 1e-9 => whole_number(number),
        // As many digits as the one that is not 0 needs.
        None if number >= 0.99e-6 => {
            let decimals = (-(number.log10() + 1e-9).floor()) as usize;
            format!("{number:.decimals$}")
        }
        None => format!("{number:.0e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINEAR: Axis = Axis { label: "load", unit: "", log: false, names: Vec::new() };
    const LOG: Axis = Axis { label: "pairs", unit: "", log: true, names: Vec::new() };

    fn labels(scale: &Scale) -> Vec<&str> {
        scale.ticks.iter().map(|tick| tick.label.as_str()).collect()
    }

    /// Every axis has numbers, all of them on it, in order, each with a label of its own.
    fn check(scale: &Scale, numbers: &[f64]) {
        assert!(scale.low < scale.high && scale.ticks.len() >= 2, "{scale:?}");
        assert!(numbers.iter().all(|&number| scale.has(number)), "{scale:?}");
        assert!(scale.ticks.iter().all(|tick| scale.has(tick.at)), "{scale:?}");
        assert!(scale.ticks.windows(2).all(|two| two[0].at < two[1].at && two[0].label != two[1].label), "{scale:?}");
        assert!(scale.ticks.len() <= 11, "{scale:?}");
    }

    #[test]
    fn linear_axes_have_round_steps() {
        let scale = Scale::new(&LINEAR, &[0.5, 0.99], Ends::Data);
        assert_eq!(labels(&scale), ["0.5", "0.6", "0.7", "0.8", "0.9", "1.0"]);
        let scale = Scale::new(&LINEAR, &[3.0, 4870.0], Ends::Zero);
        assert_eq!(labels(&scale), ["0", "1,000", "2,000", "3,000", "4,000", "5,000"]);
        assert_eq!((scale.place(0.0), scale.place(2500.0), scale.place(5000.0)), (Some(0.0), Some(0.5), Some(1.0)));
        let scale = Scale::new(&LINEAR, &[2.0, 3.0, 4.0, 5.0], Ends::Data);
        assert_eq!(labels(&scale), ["2", "3", "4", "5"], "whole numbers have whole steps");
        assert_eq!(labels(&Scale::new(&LINEAR, &[1.02, 1.18], Ends::Round)), ["1.00", "1.05", "1.10", "1.15", "1.20"]);
        assert_eq!(labels(&Scale::new(&LINEAR, &[-3.0, 3.0], Ends::Round)), ["-3", "-2", "-1", "0", "1", "2", "3"]);
    }

    #[test]
    fn axes_of_powers_have_a_few_of_them() {
        let ticks = |numbers: &[f64], ends| labels(&Scale::new(&LOG, numbers, ends)).join(" ");
        assert_eq!(ticks(&[1000.0, 1e8], Ends::Data), "1,000 10k 100k 1M 10M 100M");
        assert_eq!(ticks(&[0.003, 4.0], Ends::Round), "0.002 0.005 0.01 0.02 0.05 0.1 0.2 0.5 1 2 5");
        assert_eq!(ticks(&[1e-9, 1e9], Ends::Round), "1e-9 0.000001 0.001 1 1,000 1M 1G");
        assert_eq!(ticks(&[20_000.0, 90_000.0], Ends::Round), "20k 50k 100k");
        assert_eq!(ticks(&[40.0, 47.0], Ends::Data), "40 42 44 46");
    }

    #[test]
    fn powers_of_two_are_told_as_such() {
        let ticks = |axis: &Axis, numbers: &[f64]| labels(&Scale::new(axis, numbers, Ends::Data)).join(" ");
        let size = |power| 2f64.powi(power);
        assert_eq!(ticks(&LOG, &[size(20), size(22), size(24)]), "2^20 2^21 2^22 2^23 2^24");
        assert_eq!(ticks(&LOG, &[1.0, 8.0, 64.0]), "1 2 4 8 16 32 64");
        let bytes = Axis { unit: "bytes", ..LOG };
        assert_eq!(
            ticks(&bytes, &[size(14), size(17), size(21)]),
            "16 KiB 32 KiB 64 KiB 128 KiB 256 KiB 512 KiB 1 MiB 2 MiB"
        );
        assert!(Scale::new(&LOG, &[size(9), size(31)], Ends::Data).ticks.len() <= MOST_POWERS);
    }

    #[test]
    fn there_is_an_axis_of_whatever_numbers() {
        for numbers in [
            &[][..],
            &[0.0],
            &[7.0],
            &[-7.0],
            &[0.3],
            &[5.0, 5.0],
            &[1e-100, 1e100],
            &[1e-12, 2e-12],
            &[1e15, 2e15],
            &[0.1, 0.2, 0.3],
            &[1.0, 1.0 + 1e-12],
            &[100.0, 101.0],
            &[0.0, 100.0],
            &[999.0, 1001.0],
        ] {
            for ends in [Ends::Data, Ends::Round, Ends::Zero] {
                check(&Scale::new(&LINEAR, numbers, ends), numbers);
                let positive: Vec<f64> = numbers.iter().copied().filter(|number| *number > 0.0).collect();
                check(&Scale::new(&LOG, numbers, ends), &positive);
            }
        }
    }

    #[test]
    fn what_has_no_place_gets_none() {
        let scale = Scale::new(&LOG, &[f64::NAN, -1.0, 0.0, f64::INFINITY, 10.0, 1000.0], Ends::Round);
        assert_eq!([0.0, -1.0, f64::NAN, f64::INFINITY].map(|number| scale.place(number)), [None; 4]);
        assert!(scale.place(100.0).is_some_and(|place| (place - 0.5).abs() < 1e-9));
        assert_eq!(Scale::new(&LINEAR, &[f64::NAN], Ends::Zero).place(f64::NAN), None);
    }
}
