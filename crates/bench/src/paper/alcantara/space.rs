//! Section 4.3.1.1: the size of a table against its build and lookup rates, for two to five functions; and for builds
//! with four, the construction-time model of Section 4.5.3 (Figure 4.7, right).

use koel::Cuckoo;
use koel::scheme::Limits;
use koel::scheme::cuckoo::model::{self, Costs};

use super::SMALLEST;
use crate::figure::{Axis, Figure};
use crate::paper::bench::{Bench, millions};
use koel_cli::failure::Result;

/// Slots per pair.
const SPACES: [f64; 14] = [1.02, 1.03, 1.05, 1.1, 1.15, 1.25, 1.42, 1.7, 2.1, 2.5, 3.0, 3.5, 4.0, 4.5];

pub(super) fn measure(bench: &Bench<'_>) -> Result<Vec<Figure>> {
    let n = bench.size(1 << 19);
    let pairs = bench.random(n, Limits::NONE)?;
    let axes = |y| (Axis::linear("slots a pair", ""), Axis::linear(y, "M/s"));
    let (x, y) = axes("insertion rate");
    let place = ("space-insertion", "Section 4.3.1.1");
    let mut insertion = bench.figure(place, &format!("insertion over space, {n} pairs"), x, y);
    let (x, y) = axes("retrieval rate");
    let place = ("space-retrieval", "Section 4.3.1.1");
    let mut retrieval = bench.figure(place, &format!("retrieval over space, {n} pairs"), x, y);
    let (x, y) = axes("updates");
    let place = ("4.7-model", "Figure 4.7, right");
    let mut beside = bench.figure(place, &format!("the construction-time model, {n} pairs"), x, y);
    insertion.note("classic tables; each number of functions from the smallest size that the paper found practical");

    let costs = costs(bench, n)?;
    beside.note(format!(
        "this device: {:.3} ns a random update (atomic maxima in 1.25 N words), {:.4} ns a unit-stride access",
        costs.uncoalesced * 1e9,
        costs.coalesced * 1e9
    ));
    beside.note("the paper's GTX 480: 1.5 ns and 0.05 ns");
    for space in SPACES {
        let of = |costs| model::construction_rate(n.into(), f64::from(n) * space, costs) / 1e6;
        beside.model("model, this device", space, of(costs));
        beside.model("model, GTX 480", space, of(Costs::GTX_480));
        for (functions, _) in SMALLEST.into_iter().filter(|&(_, smallest)| space >= smallest) {
            let label = format!("H = {functions}");
            match bench.build(Cuckoo::classic(functions), Some(1.0 / space), &pairs)? {
                Ok(built) => {
                    let rate = millions(n as usize, built.time);
                    insertion.point(&label, space, rate);
                    if functions == 4 {
                        beside.point(&label, space, rate);
                    }
                    let time = bench.lookup(&built.table, &pairs, 100)?;
                    retrieval.point(&label, space, millions(n as usize, time));
                }
                Err(reason) => insertion.note(format!("{label} in {space} N: {reason}")),
            }
        }
    }
    Ok(vec![insertion, retrieval, beside])
}

/// The model's two numbers for this device, measured as in the paper by the memory accesses of a table.
fn costs(bench: &Bench<'_>, n: u32) -> Result<Costs> {
    let words = (f64::from(n) * 1.25) as usize;
    let updates = bench.timer().random_updates(words, n as usize)?;
    let strided = super::strided::time::<u64>(bench, words, 1, false)?;
    // An update is two accesses.
    let coalesced = strided.as_secs_f64() / (2.0 * words as f64);
    Ok(Costs { uncoalesced: updates.as_secs_f64() / f64::from(n), coalesced })
}
