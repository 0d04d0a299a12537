//! Section 4.5.1: the time of retrievals over the share of absent keys.

use koel::backend::Runs;
use koel::device::Any;
use koel::scheme::Limits;
use koel::{Cuckoo, Fks, Scheme};

use crate::figure::{Axis, Figure};
use crate::paper::bench::{Bench, Random, milliseconds};
use koel_cli::failure::Result;

pub(super) fn measure(bench: &Bench<'_>) -> Result<Vec<Figure>> {
    let n = bench.size(1 << 20);
    let pairs = bench.random(n, Limits::NONE)?;
    let (x, y) = (Axis::linear("absent keys", "%"), Axis::linear("retrieval time", "ms"));
    let title = format!("failed queries, {n} pairs and as many queries");
    let mut figure = bench.figure(("failed-queries", "Section 4.5.1"), &title, x, y);
    curve(bench, &mut figure, &pairs, "cuckoo, H = 4", Cuckoo::classic(4))?;
    curve(bench, &mut figure, &pairs, "cuckoo, H = 3", Cuckoo::classic(3))?;
    curve(bench, &mut figure, &pairs, "two-level", Fks::classic())?;
    curve(bench, &mut figure, &pairs, "canonical cuckoo, H = 4", Cuckoo::canonical(4))?;
    curve(bench, &mut figure, &pairs, "canonical cuckoo, H = 3", Cuckoo::canonical(3))?;
    curve(bench, &mut figure, &pairs, "canonical two-level", Fks::canonical())?;
    Ok(vec![figure])
}

fn curve<S: Scheme<Key = u32, Value = u32>>(
    bench: &Bench<'_>,
    figure: &mut Figure,
    pairs: &Random,
    label: &str,
    scheme: S,
) -> Result<()>
where
    Any: Runs<S>,
{
    match bench.build(scheme, None, pairs)? {
        Ok(built) => {
            for absent in (0..=100).step_by(10) {
                let time = bench.lookup(&built.table, pairs, 100 - absent)?;
                figure.point(label, absent.into(), milliseconds(time));
            }
        }
        Err(reason) => figure.note(format!("{label}: {reason}")),
    }
    Ok(())
}
