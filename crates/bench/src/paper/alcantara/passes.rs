//! Section 4.3.1.2: the alternative that the paper rejects. Keys and values are stored together in one word; or the
//! table is built from the keys, and a second pass finds each key and writes its value.

use koel::scheme::Limits;
use koel::{Cuckoo, CuckooSet};

use crate::figure::{Axis, Figure};
use crate::paper::bench::{Bench, milliseconds};
use koel_cli::failure::Result;

pub(super) fn measure(bench: &Bench<'_>) -> Result<Vec<Figure>> {
    let (x, y) = (Axis::log("pairs", ""), Axis::log("construction time", "ms"));
    let mut figure = bench.figure(("two-passes", "Section 4.3.1.2"), "pairs at once, or keys and then values", x, y);
    figure.note("the second pass writes values into slots of 64 bits, whose keys came with zeros");
    for n in bench.sizes(1 << 12, 4, 1 << 20) {
        let pairs = bench.random(n, Limits::NONE)?;
        let keys = bench.pairs(pairs.keys.clone(), |_| Some(0))?;
        let mut point = |label: &str, time| figure.point(label, n.into(), milliseconds(time));
        let both = (bench.build(Cuckoo::classic(4), None, &pairs)?, bench.build(Cuckoo::classic(4), None, &keys)?);
        match both {
            (Ok(at_once), Ok(first)) => {
                let second = bench.assign(&first.table, &pairs)?;
                point("pairs at once", at_once.time);
                point("keys, then values", first.time + second);
                point("the second pass of it", second);
            }
            (Err(reason), _) | (_, Err(reason)) => figure.note(format!("{n} pairs: {reason}")),
        }
        match bench.build(CuckooSet::classic(4), None, &keys)? {
            Ok(built) => figure.point("keys in slots of 32 bits", n.into(), milliseconds(built.time)),
            Err(reason) => figure.note(format!("{n} keys: {reason}")),
        }
    }
    Ok(vec![figure])
}
