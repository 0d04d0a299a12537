//! The two-level table of Alcantara et al. 2009, in the figures of their poster and of Sahu 2015.

use koel::backend::Runs;
use koel::device::Any;
use koel::layout::Rows3;
use koel::scheme::Limits;
use koel::scheme::hash::{MixKeys, SplitMix64, mix, reduce};
use koel::workload::Workload;
use koel::{Fks, FksFamily, Perfect, Scheme, Sorted};
use rayon::prelude::*;

use super::Experiment;
use super::bench::{Bench, Pairs, milliseconds};
use crate::figure::{Axis, Figure};
use koel_cli::failure::Result;
use koel_cli::text;

pub(super) const POSTER: &[Experiment] = &[
    Experiment::here(&["iterations"], iterations),
    Experiment::on_device(&["voxels"], voxels),
    Experiment::on_device(&["stages"], poster_stages),
];

pub(super) const SAHU: &[Experiment] = &[Experiment::on_device(&["1", "2"], kernels)];

/// The maximum number of voxels for perfect spatial hashes, which one thread of the host builds.
const PERFECT: usize = 1 << 17;

/// The stage of large builds that no paper has.
const SAMPLE: &str = "gather: with 2^18 pairs or more, a sample is read to look for duplicate keys";

/// Tables whose iterations are counted, each with different functions.
const TABLES: usize = 31;
/// The number of iterations after which a build is abandoned.
const MOST: u32 = 1000;

/// The poster's method: the number of iterations until all items are placed, over the number of items. In an iteration,
/// items that are not placed try each sub-table.
fn iterations(bench: &Bench<'_>) -> Result<Vec<Figure>> {
    let (x, y) = (Axis::log("items", ""), Axis::linear("iterations", ""));
    let mut figure = Figure::new(("iterations", "Method"), "iterations of parallel insertion", "host", x, y);
    figure.note(format!(
        "an iteration tries each sub-table once; medians and greatest of {TABLES} tables, each with its own functions"
    ));
    for n in bench.sizes(16, 4, 1 << 16) {
        let keys = Workload::new(n, bench.seed()).keys();
        figure.model("log2 n", n.into(), f64::from(n).log2());
        // Two sub-tables place random keys up to half of their slots; three are the poster's, with 576 slots for 409
        // items.
        for (label, subtables, space) in [("2 sub-tables, 2.5 N", 2, 2.5), ("3 sub-tables, 1.41 N", 3, 576.0 / 409.0)] {
            bench.progress.say(format!("iterations of {n} items in {subtables} sub-tables"));
            let slots = (f64::from(n) * space / f64::from(subtables)).ceil() as u32;
            let mut stream = SplitMix64::new(bench.seed());
            let tables = (0..TABLES).map(|_| (0..subtables).map(|_| stream.next_mix_keys()).collect::<Vec<_>>());
            let mut all: Vec<u32> = tables.filter_map(|functions| rounds(&keys, &functions, slots)).collect();
            all.sort_unstable();
            if all.len() < TABLES {
                let without = text::counted((TABLES - all.len()) as u64, "table");
                figure.note(format!("{label}, {n} items: after {MOST} iterations {without} not complete"));
            }
            if let (Some(&median), Some(&greatest)) = (all.get(all.len() / 2), all.last()) {
                figure.point(label, n.into(), median.into());
                figure.point(format!("{label}, greatest"), n.into(), greatest.into());
            }
        }
    }
    Ok(vec![figure])
}

/// The number of iterations until all keys are placed. Keys that are not placed write themselves into their slots of
/// one sub-table after the other, and keys that are overwritten are not placed any more. If several keys write one
/// slot, the last one stays.
fn rounds(keys: &[u32], functions: &[MixKeys], slots: u32) -> Option<u32> {
    let mut subtables = vec![vec![None; slots as usize]; functions.len()];
    let mut out: Vec<u32> = keys.to_vec();
    (1..=MOST).find(|_| {
        for (subtable, &function) in subtables.iter_mut().zip(functions) {
            let write = |key| subtable[reduce(mix(key, function), slots) as usize].replace(key);
            out = out.drain(..).filter_map(write).collect();
        }
        out.is_empty()
    })
}

/// The results of the poster: a surface in voxels of increasing resolution, in a table, a sorted list and a perfect
/// hash.
fn voxels(bench: &Bench<'_>) -> Result<Vec<Figure>> {
    let (x, y) = (Axis::log("voxels", ""), Axis::log("time", "ms"));
    let mut figure = bench.figure(("voxels", "results, first figure"), "voxels of a surface", x, y);
    figure.note("a sphere in place of the model; all voxels are retrieved, in random order");
    let most = bench.size(1 << 20) as usize;
    // The voxels of the next sphere do not have 32-bit keys.
    for radius in (4..10).map(|power| 1u32 << power) {
        bench.progress.say(format!("voxels of a sphere of radius {radius}"));
        let (grid, keys) = sphere(radius)?;
        if keys.len() > most && radius > 1 << 4 {
            break;
        }
        let values = SplitMix64::new(bench.seed()).next_mix_keys();
        // In cell order the keys ascend.
        let surface = keys.clone();
        let pairs = bench.pairs(keys, move |key| surface.binary_search(&key).ok().map(|_| mix(key, values)))?;
        let mut curves = Curves { bench, pairs: &pairs, figure: &mut figure };
        curves.add(["hash: construction", "hash: retrieval"], Fks::classic())?;
        curves.add(["", "sorted array: binary search"], Sorted)?;
        if pairs.keys.len() <= PERFECT {
            curves.add(["", "perfect spatial hash: retrieval"], Perfect::volume(grid, grid))?;
        }
        figure.point("sorted array: radix sort", pairs.keys.len() as f64, milliseconds(bench.sort(&pairs)?));
    }
    if bench.size(1 << 20) as usize > PERFECT {
        figure.note(format!("perfect spatial hashes up to {PERFECT} voxels: the host builds them"));
    }
    Ok(vec![figure])
}

/// Curves of one table.
struct Curves<'a> {
    bench: &'a Bench<'a>,
    pairs: &'a Pairs,
    figure: &'a mut Figure,
}

impl Curves<'_> {
    /// Adds the times of construction, if it has a name, and of retrieval.
    fn add<S: Scheme<Key = u32, Value = u32>>(&mut self, [construction, retrieval]: [&str; 2], scheme: S) -> Result<()>
    where
        Any: Runs<S>,
    {
        let (bench, n) = (self.bench, self.pairs.keys.len() as f64);
        let table = if construction.is_empty() {
            bench.table(scheme, None, self.pairs)?
        } else {
            bench.build(scheme, None, self.pairs)?.map(|built| {
                self.figure.point(construction, n, milliseconds(built.time));
                built.table
            })
        };
        match table {
            Ok(table) => {
                let time = bench.time_lookups(&table, self.pairs, &self.pairs.each_once())?;
                self.figure.point(retrieval, n, milliseconds(time));
            }
            Err(reason) => self.figure.note(format!("{retrieval}, {n} voxels: {reason}")),
        }
        Ok(())
    }
}

/// The side of a cube, and the keys of the cells in a sphere that have a neighbour outside it.
fn sphere(radius: u32) -> Result<(u32, Vec<u32>)> {
    let (side, r) = (2 * radius, i64::from(radius));
    let rows = Rows3::new(side, side, side)?;
    let from_middle = |at: u32| 2 * (i64::from(at) - r) + 1;
    // In halves of a cell: cells have odd coordinates, and a step is two.
    let of_row = |(z, y): (u32, u32)| {
        (0..side).filter_map(move |x| {
            let at = [x, y, z].map(from_middle);
            let square: i64 = at.iter().map(|c| c * c).sum();
            let farthest = at.iter().map(|c| c.abs()).max().unwrap_or(0);
            let (inside, out) = (square < 4 * r * r, square + 4 * farthest + 4 >= 4 * r * r);
            (inside && out).then(|| rows.key(x, y, z)).flatten()
        })
    };
    let keys = (0..side).into_par_iter().flat_map_iter(|z| (0..side).flat_map(move |y| of_row((z, y)))).collect();
    Ok((side, keys))
}

fn poster_stages(bench: &Bench<'_>) -> Result<Vec<Figure>> {
    let (x, y) = (Axis::log("pairs", ""), Axis::log("time", "ms"));
    let mut figure = bench.figure(("stages", "results, second figure"), "stages of a build, random keys", x, y);
    figure.note(SAMPLE);
    for n in bench.sizes(512, 2, 1 << 20) {
        let pairs = bench.random(n, Limits::NONE)?;
        match bench.build(Fks::classic(), None, &pairs)? {
            Ok(built) => {
                drop(built);
                for stage in bench.stages(Fks::classic(), &pairs)? {
                    figure.point(stage.name, n.into(), milliseconds(stage.time));
                }
            }
            Err(reason) => figure.note(format!("{n} pairs: {reason}")),
        }
    }
    Ok(vec![figure])
}

/// Figures 1 to 3 of Sahu: the report's functions and seeds. The third is the second on another device.
fn kernels(bench: &Bench<'_>) -> Result<Vec<Figure>> {
    let x = || Axis::log("entries", "");
    let mut times = bench.figure(("1", "Figure 1"), "time of each kernel", x(), Axis::log("time", "ms"));
    let place = ("2", "Figures 2 and 3");
    let mut shares = bench.figure(place, "kernels compared", x(), Axis::linear("share of a build", "%"));
    times.note(SAMPLE);
    times.note("count: phase 1; shuffle: store; cuckoo: phase 2; the scan is parallel here");
    for n in bench.sizes(512, 2, 1 << 20) {
        let pairs = bench.random(n, Limits::NONE)?;
        let scheme = Fks::classic().family(FksFamily::Sahu);
        if let Err(reason) = bench.table(scheme.clone(), None, &pairs)? {
            times.note(format!("{n} entries: {reason}"));
            continue;
        }
        let stages = bench.stages(scheme, &pairs)?;
        let all: f64 = stages.iter().map(|stage| milliseconds(stage.time)).sum();
        for stage in stages {
            let time = milliseconds(stage.time);
            times.point(stage.name, n.into(), time);
            shares.point(stage.name, n.into(), 100.0 * time / all);
        }
    }
    Ok(vec![times, shares])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iterations_end_when_every_key_is_in() {
        let mut stream = SplitMix64::new(7);
        let functions = [stream.next_mix_keys(), stream.next_mix_keys(), stream.next_mix_keys()];
        let keys = Workload::new(409, 1).keys();
        assert_eq!(rounds(&[], &functions, 1), Some(1));
        assert_eq!(rounds(&keys[..1], &functions, 192), Some(1));
        // Three slots cannot contain four keys, and three keys with all slots available need one iteration.
        assert_eq!((rounds(&keys[..3], &functions, 1), rounds(&keys[..4], &functions, 1)), (Some(1), None));
        // The poster's bucket.
        assert!(rounds(&keys, &functions, 192).is_some_and(|rounds| (2..=60).contains(&rounds)));
    }

    #[test]
    fn a_sphere_is_closed_and_hollow() {
        let (side, keys) = sphere(16).unwrap_or_else(|failure| panic!("{failure}"));
        let surface: std::collections::HashSet<u32> = keys.iter().copied().collect();
        assert_eq!((side, surface.len()), (32, keys.len()));
        let is = |x: u32, y: u32, z: u32| surface.contains(&(x + 32 * (y + 32 * z)));
        // Each line through the middle crosses two walls.
        let walls = |of: &dyn Fn(u32) -> bool| (0..32).filter(|&i| of(i)).count();
        assert!(walls(&|i| is(i, 16, 16)) == 2 && walls(&|i| is(16, i, 16)) == 2 && walls(&|i| is(16, 16, i)) == 2);
        assert!(is(0, 16, 16) && is(31, 15, 16) && !is(0, 0, 0) && !is(16, 16, 16));
        // A wall of one voxel: seen along the axis that it faces most, each voxel covers a unit of area. On a sphere
        // the greatest component of a normal is 0.83 on average.
        let area = 4.0 * std::f64::consts::PI * 256.0;
        assert!((0.75..0.9).contains(&(keys.len() as f64 / area)), "{}", keys.len());
    }
}
