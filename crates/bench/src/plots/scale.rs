//! Axes of `plotters` whose kind is known only when a figure is drawn: linear, logarithmic, or of things with names.
//!
//! Positions, and the steps of linear axes, are those of `plotters`. Its logarithmic axes have no labels if no power
//! lies between the ends, so their labels are chosen here: powers of two if all data are powers of two, and otherwise
//! powers of ten, with 2 and 5 times them if there are few.

use std::ops::Range;

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::coord::types::RangedCoordf64;

use crate::figure::Axis;
use koel_cli::text;

/// The share of an axis that is left free before the first and after the last point.
const ROOM: f64 = 0.035;

/// The ends of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ends {
    /// Slightly beyond the data.
    Data,
    /// At zero, if the axis contains zero, and otherwise slightly beyond the data.
    Zero,
}

/// The steps of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Steps {
    Linear,
    PowersOfTen,
    PowersOfTwo,
    /// One step per thing.
    Names,
}

/// An axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Scale {
    steps: Steps,
    low: f64,
    high: f64,
    bytes: bool,
}

impl Scale {
    /// Creates an axis that contains all these numbers, except for those that no such axis can contain.
    pub(super) fn new(axis: &Axis, numbers: &[f64], ends: Ends) -> Scale {
        let bytes = axis.unit == "bytes";
        if !axis.names.is_empty() {
            return Scale { steps: Steps::Names, low: -0.5, high: axis.names.len() as f64 - 0.5, bytes };
        }
        let numbers: Vec<f64> = numbers.iter().copied().filter(|&number| is_there(number, axis.log)).collect();
        let bounds = numbers.iter().copied().reduce(f64::min).zip(numbers.iter().copied().reduce(f64::max));
        if axis.log {
            let (mut least, mut most) = bounds.unwrap_or((1.0, 10.0));
            if most / least < 1.0 + 1e-9 {
                (least, most) = (least / 2.0, most * 2.0);
            }
            let room = (most / least).powf(ROOM);
            let twos = ends == Ends::Data && !numbers.is_empty() && numbers.iter().all(|&at| is_power_of_two(at));
            let steps = if twos { Steps::PowersOfTwo } else { Steps::PowersOfTen };
            return Scale { steps, low: least / room, high: most * room, bytes };
        }
        let (mut least, mut most) = bounds.unwrap_or((0.0, 1.0));
        if ends == Ends::Zero {
            (least, most) = (least.min(0.0), most.max(0.0));
        }
        if most - least <= most.abs().max(least.abs()) * 1e-9 {
            // For a single number, a range around it that does not cross zero.
            let around = most.abs() / 10.0;
            (least, most) = if most == 0.0 { (0.0, 1.0) } else { (least - around, most + around) };
        }
        let room = ROOM * (most - least);
        let from_zero = ends == Ends::Zero && least == 0.0;
        Scale { steps: Steps::Linear, low: if from_zero { 0.0 } else { least - room }, high: most + room, bytes }
    }

    /// Whether the axis can show a number.
    pub(super) fn has(&self, number: f64) -> bool {
        is_there(number, self.is_of_powers()) && (self.low..=self.high).contains(&number)
    }

    /// The number at which bars begin.
    pub(super) fn ground(&self) -> f64 {
        if self.is_of_powers() { self.low } else { self.low.max(0.0) }
    }

    fn is_of_powers(&self) -> bool {
        matches!(self.steps, Steps::PowersOfTen | Steps::PowersOfTwo)
    }

    /// The labelled numbers, at most `most`.
    pub(super) fn ticks(&self, most: usize) -> Vec<f64> {
        let linear = |most| RangedCoordf64::from(self.low..self.high).key_points(most);
        let on = |all: Vec<f64>| all.into_iter().filter(|&at| self.has(at)).collect::<Vec<f64>>();
        match self.steps {
            _ if most == 0 => Vec::new(),
            Steps::Linear => on(linear(most)),
            Steps::Names => (0..self.high.round() as u32).map(f64::from).collect(),
            Steps::PowersOfTwo => every(on((0..64).map(|power| 2f64.powi(power)).collect::<Vec<f64>>()), most),
            Steps::PowersOfTen => {
                let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
                let of = |times: &[f64]| {
                    on((first..=last).flat_map(|at| times.iter().map(move |times| times * 10f64.powi(at))).collect())
                };
                match (of(&[1.0]), of(&[1.0, 2.0, 5.0])) {
                    (powers, _) if powers.len() >= 4 => every(powers, most),
                    (_, more) if more.len() >= 3 => every(more, most),
                    _ => on(linear(most)),
                }
            }
        }
    }

    /// The label of a number: large numbers are abbreviated with a letter.
    pub(super) fn label(&self, at: f64) -> String {
        if self.steps == Steps::PowersOfTwo {
            return match at as u64 {
                bytes if self.bytes => text::bytes(bytes).replace(".0 ", " "),
                count if count <= 1 << 12 => text::grouped(count),
                count => format!("2^{}", count.ilog2()),
            };
        }
        let letters = [(1e9, "G"), (1e6, "M"), (1e3, "k")];
        let size = at.abs() * (1.0 + 1e-9);
        let great = |&(factor, _): &(f64, &str)| size >= factor && size >= 1e4;
        let (value, letter) =
            letters.into_iter().find(great).map_or((at, ""), |(factor, letter)| (at / factor, letter));
        if at != 0.0 && !(1e-4..1e13).contains(&size) {
            return format!("{at:.0e}");
        }
        let digits = format!("{value:.5}");
        let digits = digits.trim_end_matches('0').trim_end_matches('.');
        format!("{}{letter}", if digits == "-0" { "0" } else { digits })
    }
}

impl Ranged for Scale {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let on = |number: f64| if self.is_of_powers() { number.ln() } else { number };
        RangedCoordf64::from(on(self.low)..on(self.high)).map(&on(*value), limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        self.ticks(hint.max_num_points())
    }

    fn range(&self) -> Range<f64> {
        self.low..self.high
    }
}

/// Whether an axis can show a number. No measurement exceeds these bounds, and within them arithmetic does not overflow
/// and steps are not too small to be counted.
fn is_there(number: f64, log: bool) -> bool {
    let within = (1e-12..=1e18).contains(&number.abs());
    if log { within && number > 0.0 } else { within || number == 0.0 }
}

fn is_power_of_two(number: f64) -> bool {
    (1.0..=1e18).contains(&number) && number.fract() == 0.0 && (number as u64).is_power_of_two()
}

/// The first and every second, third, .. of them, such that there are at most `most`.
fn every(all: Vec<f64>, most: usize) -> Vec<f64> {
    let step = all.len().div_ceil(most.max(1)).max(1);
    all.into_iter().step_by(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINEAR: Axis = Axis { label: "load", unit: "", log: false, names: Vec::new() };
    const LOG: Axis = Axis { label: "pairs", unit: "", log: true, names: Vec::new() };

    fn labels(axis: &Axis, numbers: &[f64], ends: Ends) -> String {
        let scale = Scale::new(axis, numbers, ends);
        let labels: Vec<_> = scale.ticks(9).into_iter().map(|at| scale.label(at)).collect();
        labels.join(" ")
    }

    #[test]
    fn linear_axes_have_round_steps() {
        assert_eq!(labels(&LINEAR, &[0.5, 0.99], Ends::Data), "0.5 0.6 0.7 0.8 0.9 1");
        assert_eq!(labels(&LINEAR, &[3.0, 4870.0], Ends::Zero), "0 1000 2000 3000 4000 5000");
        assert_eq!(labels(&LINEAR, &[0.0, 2e7], Ends::Zero), "0 5M 10M 15M 20M");
        let scale = Scale::new(&LINEAR, &[0.0, 100.0], Ends::Zero);
        assert_eq!((scale.ground(), scale.map(&0.0, (10, 210)), scale.map(&103.5, (10, 210))), (0.0, 10, 210));
    }

    #[test]
    fn axes_of_powers_have_a_few_of_them() {
        assert_eq!(labels(&LOG, &[1000.0, 1e8], Ends::Data), "1000 10k 100k 1M 10M 100M");
        assert_eq!(labels(&LOG, &[1e-9, 1e9], Ends::Zero), "1e-9 1e-6 0.001 1 1000 1M 1G");
        assert_eq!(labels(&LOG, &[18_000.0, 110_000.0], Ends::Zero), "20k 50k 100k");
        assert_eq!(labels(&LOG, &[40.0, 47.0], Ends::Data), "40 41 42 43 44 45 46 47");
        let scale = Scale::new(&LOG, &[1.0, 10_000.0], Ends::Data);
        assert_eq!(scale.map(&100.0, (0, 1000)), 500, "in the middle");
    }

    #[test]
    fn powers_of_two_are_printed_as_such() {
        let size = |power| 2f64.powi(power);
        assert_eq!(labels(&LOG, &[size(20), size(22), size(24)], Ends::Data), "2^20 2^21 2^22 2^23 2^24");
        assert_eq!(labels(&LOG, &[1.0, 8.0, 64.0], Ends::Data), "1 2 4 8 16 32 64");
        let bytes = Axis { unit: "bytes", ..LOG };
        assert_eq!(labels(&bytes, &[size(14), size(17)], Ends::Data), "16 KiB 32 KiB 64 KiB 128 KiB");
        assert_eq!(
            labels(&LOG, &[size(9), size(31)], Ends::Data),
            "512 2^12 2^15 2^18 2^21 2^24 2^27 2^30".replace("2^12", "4,096")
        );
    }

    /// Every axis has labels, all of them on it, in order, and no two are equal.
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
            &[1e-12, 1e18],
            &[1.0, 1.0 + 1e-12],
            &[100.0, 101.0],
            &[0.0, 100.0],
            &[999.0, 1001.0],
            &[f64::NAN, f64::INFINITY, -1.0, 3.0],
        ] {
            for (axis, ends) in [(&LINEAR, Ends::Data), (&LINEAR, Ends::Zero), (&LOG, Ends::Data), (&LOG, Ends::Zero)] {
                let scale = Scale::new(axis, numbers, ends);
                let ticks = scale.ticks(9);
                assert!(scale.low < scale.high && ticks.iter().all(|&at| scale.has(at)), "{scale:?} {ticks:?}");
                assert!(ticks.windows(2).all(|two| two[0] < two[1]) && ticks.len() <= 10, "{scale:?} {ticks:?}");
                let placed = numbers.iter().filter(|&&at| is_there(at, axis.log));
                assert!(placed.clone().all(|&at| scale.has(at)), "{numbers:?} on {scale:?}");
                assert!(placed.clone().all(|&at| (0..=500).contains(&scale.map(&at, (0, 500)))), "{scale:?}");
            }
        }
    }

    #[test]
    fn what_has_no_place_gets_none() {
        let scale = Scale::new(&LOG, &[10.0, 1000.0], Ends::Data);
        assert!([0.0, -1.0, f64::NAN, f64::INFINITY, 1e6].iter().all(|&at| !scale.has(at)));
        let names = Scale::new(&Axis::named("order", &["row", "random"]), &[0.0, 1.0], Ends::Data);
        assert_eq!(names.ticks(9), [0.0, 1.0]);
        assert!(names.has(1.0) && !names.has(2.0));
    }
}
