//! Figures 4.5 and 4.6: compacting and multivalue tables of rows with more and more duplicates, compared with sorted
//! lists. The measurements are those of `koel-bench --table`; here their rows are converted to curves.

use koel::Kind;
use koel::scheme::Limits;

use crate::Args;
use crate::figure::{Axis, Figure};
use crate::measure::Row;
use crate::paper::bench::{Bench, milliseconds};
use crate::tables::{self, Table};
use koel_cli::failure::Result;

/// A curve: its name, scheme and kind, and the name of the build in its rows.
type Curve = (&'static str, &'static str, Kind, &'static str);

pub(super) fn compacting(bench: &Bench<'_>) -> Result<Vec<Figure>> {
    let places = [("4.5-construction", "Figure 4.5, left"), ("4.5-retrieval", "Figure 4.5, right")];
    let curves = [
        ("single-level, of a set", "cuckoo_set", Kind::Classic, "build, ids in table order"),
        ("single-level, ids as first seen", "cuckoo", Kind::Canonical, "build, ids as first seen"),
        ("two-level, ids as first seen", "fks", Kind::Classic, "build, ids as first seen"),
        ("sorted lists", "sorted", Kind::Canonical, "build, ids ascending"),
    ];
    over_multiplicity(bench, Table::Compact, places, &curves, "ids")
}

pub(super) fn multivalue(bench: &Bench<'_>) -> Result<Vec<Figure>> {
    let places = [("4.6-construction", "Figure 4.6, left"), ("4.6-retrieval", "Figure 4.6, right")];
    let curves = [
        ("single-level", "cuckoo", Kind::Classic, "build"),
        ("canonical single-level", "cuckoo", Kind::Canonical, "build"),
        ("two-level", "fks", Kind::Classic, "build"),
        ("sorted lists", "sorted", Kind::Canonical, "build"),
    ];
    over_multiplicity(bench, Table::Multi, places, &curves, "get")
}

fn over_multiplicity(
    bench: &Bench<'_>,
    table: Table,
    [left, right]: [(&'static str, &'static str); 2],
    curves: &[Curve],
    retrieval: &str,
) -> Result<Vec<Figure>> {
    let n = bench.size(1 << 18);
    let args = Args { table, brief: true, data: bench.args.data.with_hits(&[100]), ..bench.args.clone() };
    let axes = |y| (Axis::log("rows a key", ""), Axis::linear(y, "ms"));
    let ((x, y), what) = (axes("construction time"), if table == Table::Multi { "multivalue" } else { "compacting" });
    let mut built = bench.figure(left, &format!("construction of {what} tables, {n} rows"), x, y);
    let (x, y) = axes("retrieval time");
    let mut queried = bench.figure(right, &format!("retrieval from {what} tables, {n} rows"), x, y);
    queried.note("each key is queried as often as it occurs");
    for copies in (0..=11).map(|power| 1u32 << power) {
        let columns = args.data.copies(n, (copies, None), Limits::NONE)?;
        for &(label, scheme, kind, build) in curves {
            let found =
                tables::of_columns(&args, &columns, (copies, None), bench.device, (scheme, kind), bench.progress)?;
            let time = |is: &dyn Fn(&&Row) -> bool| found.rows.iter().find(is).map(|row| milliseconds(row.time));
            if let Some(time) = time(&|row| row.what == build) {
                built.point(label, copies.into(), time);
            }
            if let Some(time) = time(&|row| row.what == retrieval && row.hits == Some(100)) {
                queried.point(label, copies.into(), time);
            }
            found.left_out.into_iter().for_each(|reason| built.note(reason));
        }
    }
    Ok(vec![built, queried])
}
