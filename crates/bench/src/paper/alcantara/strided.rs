//! Figure 4.7, left: updates at strides, of 32 and of 64 bits, by an atomic operation and by a read and a write.

use std::time::Duration;

use koel::backend::{HashBackend, Probe, Word};

use crate::figure::{Axis, Figure};
use crate::paper::bench::{Bench, millions};
use crate::wrong;
use koel_cli::failure::Result;

/// The minimum distance, in elements, between the positions of two rounds.
const ROUND: usize = 32;

pub(super) fn measure(bench: &Bench<'_>) -> Result<Vec<Figure>> {
    let len = (bench.size(1 << 22) as usize).next_power_of_two();
    let (x, y) = (Axis::log("stride", "elements"), Axis::linear("updates", "M/s"));
    let title = format!("memory by strided access, arrays of {len} elements");
    let mut figure = bench.figure(("4.7-strided", "Figure 4.7, left"), &title, x, y);
    figure.note("strides are odd and lengths powers of two, so that each element is updated once; two accesses each");
    // 1, and then slightly more than powers of four.
    let strides = (0..=28).step_by(2).map(|power| if power == 0 { 1 } else { (1u32 << power) + 1 });
    // With greater strides the next round would begin so soon that it finds its lines in the caches.
    for stride in strides.filter(|&stride| stride as usize <= len / ROUND + 1) {
        bench.progress.say(format!("updates at stride {stride}, {}", bench.device.info().id));
        for atomic in [false, true] {
            let how = if atomic { "atomic" } else { "not atomic" };
            let narrow = time::<u32>(bench, len, stride, atomic)?;
            figure.point(format!("32 bits, {how}"), stride.into(), millions(len, narrow));
            let wide = time::<u64>(bench, len, stride, atomic)?;
            figure.point(format!("64 bits, {how}"), stride.into(), millions(len, wide));
        }
    }
    Ok(vec![figure])
}

/// The time to update each element of an array. The stride and the length of the array have no common divisor.
pub(super) fn time<T: Word>(bench: &Bench<'_>, len: usize, stride: u32, atomic: bool) -> Result<Duration> {
    let device = bench.device;
    let mut words = device.filled(len, T::zeroed())?;
    // A warm-up, which maps the pages and compiles the kernels.
    device.strided_updates(&mut words, stride, atomic)?;
    device.finish()?;
    let time = bench.timer().median(|| Ok(device.timed(|| device.strided_updates(&mut words, stride, atomic))?.1))?;
    let found = device.download(&words)?;
    match found.iter().all(|word| *word == found[0] && *word != T::zeroed()) {
        true => Ok(time),
        false => Err(wrong("updates at strides", "not every element was updated as often".into())),
    }
}
