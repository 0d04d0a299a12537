//! `koel-bench --paper`: every figure of every paper, with a few thousand pairs.

use serde_json::Value;

use crate::folder::{Folder, devices};

/// The figures of a paper, with few repeats. The command itself checks all answers.
fn figures(paper: &str, rest: &str) -> Vec<Value> {
    let found = Folder::new().json(&format!("--paper {paper} --repeats 1 --json {rest}"));
    assert_eq!((&found["paper"], &found["repeats"]), (&paper.into(), &1.into()));
    found["figures"].as_array().unwrap().clone()
}

fn figure<'a>(figures: &'a [Value], id: &str) -> &'a Value {
    figures.iter().find(|figure| figure["id"] == id).unwrap_or_else(|| panic!("there is no figure {id}"))
}

/// The points of a curve.
fn curve(figure: &Value, label: &str, model: bool) -> Vec<(f64, f64)> {
    let series = figure["series"].as_array().unwrap().iter();
    let mut wanted = series.filter(|series| series["label"] == label && series["model"] == model);
    let found = wanted.next().unwrap_or_else(|| panic!("there is no curve {label} in {figure}"));
    assert!(wanted.next().is_none(), "two curves have one name");
    let number = |value: &Value| value.as_f64().unwrap();
    found["points"].as_array().unwrap().iter().map(|point| (number(&point[0]), number(&point[1]))).collect()
}

/// Checks properties of every figure: named axes, curves with ascending x, finite numbers, measured times and rates
/// above 0. `expected` has the ids, the axes and the minimum numbers of curves.
fn check(figures: &[Value], expected: &[(&str, &str, &str, usize)]) {
    let ids: Vec<_> = figures.iter().map(|figure| figure["id"].as_str().unwrap()).collect();
    assert_eq!(ids, expected.iter().map(|expected| expected.0).collect::<Vec<_>>());
    for (figure, &(id, x, y, curves)) in figures.iter().zip(expected) {
        assert_eq!((figure["x"]["label"].as_str(), figure["y"]["label"].as_str()), (Some(x), Some(y)), "{id}");
        assert!(!figure["title"].as_str().unwrap().is_empty() && !figure["place"].as_str().unwrap().is_empty());
        let series = figure["series"].as_array().unwrap();
        assert!(series.len() >= curves, "{id} has {} curves: {}", series.len(), figure["notes"]);
        for series in series {
            let points = curve(figure, series["label"].as_str().unwrap(), series["model"].as_bool().unwrap());
            assert!(points.windows(2).all(|two| two[0].0 < two[1].0), "{id}: {series}");
            assert!(points.iter().all(|point| point.1.is_finite() && point.1 >= 0.0), "{id}: {series}");
            let counted = ["attempts that failed", "storage"].contains(&y);
            assert!(counted || points.iter().all(|point| point.1 > 0.0), "{id}: {series}");
            assert!(figure["x"]["log"] != true || points.iter().all(|point| point.0 > 0.0), "{id}: {series}");
        }
    }
}

/// Checks that a measured curve differs from its model by at most the fraction `most`, at the selected x that both
/// have.
fn near_model(figure: &Value, label: &str, model: &str, places: impl Fn(f64) -> bool, most: f64) {
    let (counted, model) = (curve(figure, label, false), curve(figure, model, true));
    let mut compared = 0;
    for (x, y) in counted.into_iter().filter(|point| places(point.0)) {
        if let Some((_, right)) = model.iter().find(|point| (point.0 - x).abs() < 1e-9) {
            assert!((y / right - 1.0).abs() < most, "{label} at {x}: {y}, but {right} in the model");
            compared += 1;
        }
    }
    assert!(compared > 0, "{label}: no common points");
}

#[test]
fn every_figure_of_alcantara_2011() {
    let found = figures("alcantara2011", "--device cpu --n 5000");
    let (pairs, space, copies) = ("pairs", "slots a pair", "rows a key");
    check(
        &found,
        &[
            ("iterations", space, "iterations a pair", 9),
            ("search", space, "slots of each pair", 9),
            ("two-passes", pairs, "construction time", 4),
            ("space-insertion", space, "insertion rate", 4),
            ("space-retrieval", space, "retrieval rate", 4),
            ("4.7-model", space, "updates", 3),
            ("smallest-space", "functions", space, 4),
            ("restarts", "functions", "attempts that failed", 4),
            ("4.4-insertion", pairs, "insertion rate", 7),
            ("4.4-retrieval", pairs, "retrieval rate", 5),
            ("failed-queries", "absent keys", "retrieval time", 6),
            ("4.5-construction", copies, "construction time", 4),
            ("4.5-retrieval", copies, "retrieval time", 4),
            ("4.6-construction", copies, "construction time", 4),
            ("4.6-retrieval", copies, "retrieval time", 4),
            ("4.7-strided", "stride", "updates", 4),
            ("sorted-queries", pairs, "retrieval rate", 4),
        ],
    );
    let iterations = figure(&found, "iterations");
    for functions in ["H = 3", "H = 4", "H = 5"] {
        near_model(iterations, functions, "model", |space| space > 1.4, 0.1);
        let median = curve(iterations, &format!("{functions}, median"), false);
        assert!(median.iter().all(|point| [1.0, 2.0].contains(&point.1)), "the paper's one or two: {median:?}");
    }
    // A search moves at most as many keys as a chain, and succeeds whenever random functions permit a table.
    let search = figure(&found, "search");
    for functions in ["H = 2", "H = 3", "H = 4", "H = 5"] {
        let (chains, ways) = (
            curve(search, &format!("{functions}, chains"), false),
            curve(search, &format!("{functions}, search"), false),
        );
        assert!(ways.len() >= chains.len() && ways.len() >= 2, "{functions}: {search}");
        for (space, chain) in chains {
            assert!(
                ways.iter().any(|&(at, way)| (at - space).abs() < 1e-9 && way <= chain),
                "{functions} in {space} N"
            );
        }
    }
    let absent: Vec<f64> = curve(figure(&found, "failed-queries"), "two-level", false).iter().map(|p| p.0).collect();
    assert_eq!(absent, (0..=100).step_by(10).map(f64::from).collect::<Vec<_>>());
    // A table cannot be smaller than random functions permit, and is at most a tenth larger.
    let smallest = figure(&found, "smallest-space");
    for kind in ["classic", "canonical"] {
        near_model(smallest, kind, "threshold", |_| true, 0.12);
    }
    assert_eq!(curve(smallest, "paper", true), [(2.0, 2.1), (3.0, 1.1), (4.0, 1.03), (5.0, 1.02)]);
    assert!(curve(figure(&found, "restarts"), "2.5 N", false).iter().all(|point| point.1 <= 20.0));
    // The paper's model reaches half of its bound at 1.3 N and 76% at 4.5 N, and ascends in between.
    let model = curve(figure(&found, "4.7-model"), "model, GTX 480", true);
    assert!(model.windows(2).take(12).all(|two| two[0].1 < two[1].1) && (model[13].1 / 666.7 - 0.76).abs() < 0.01);
}

#[test]
fn every_figure_of_breslow() {
    let found = figures("breslow", "--device cpu --n 40000");
    check(
        &found,
        &[
            ("8-0.75", "keys of a home", "share of buckets", 8),
            ("8-0.95", "keys of a home", "share of buckets", 8),
            ("9", "load", "storage", 8),
            ("10", "load", "buckets", 10),
            ("11", "load", "buckets", 11),
            ("12a", "table", "throughput", 5),
            ("12b", "table", "data a query", 7),
            ("13a", "table", "throughput", 5),
            ("13b", "table", "data a query", 7),
            ("14a", "load", "storage", 3),
            ("14b", "load", "buckets", 3),
            ("14c", "load", "buckets", 3),
        ],
    );
    for part in ["8-0.75", "8-0.95"] {
        for function in ["mixer", "Jenkins", "FNV-1a", "Wang", "lookup3", "SpookyHash", "CityHash"] {
            let middle = |keys: f64| (4.0..=9.0).contains(&keys);
            near_model(figure(&found, part), function, "Equation 3", middle, 0.2);
            let all: f64 = curve(figure(&found, part), function, false).iter().map(|point| point.1).sum();
            assert!((all - 100.0).abs() < 1e-6, "{part}, {function}: {all}");
        }
    }
    // Costs are close to one, so one percent of a cost is a large part of its excess over one.
    for slots in ["S = 4", "S = 8", "S = 16"] {
        near_model(figure(&found, "9"), slots, slots, |load| load >= 0.8, 0.12);
        near_model(figure(&found, "10"), slots, slots, |_| true, 0.01);
        near_model(figure(&found, "11"), slots, slots, |_| true, 0.01);
    }
    near_model(figure(&found, "10"), "BCHT, load-balancing", "BCHT", |_| true, 0.06);
    near_model(figure(&found, "11"), "BCHT, load-balancing", "BCHT", |_| true, 0.001);
    for kind in ["classic", "canonical"] {
        near_model(figure(&found, "14a"), kind, "Equation 4", |load| load >= 0.8, 0.12);
        near_model(figure(&found, "14b"), kind, "Equation 7", |_| true, 0.01);
        near_model(figure(&found, "14c"), kind, "Equation 9", |_| true, 0.01);
    }
    // Tables of 16 KiB, 32 KiB and so on, with 64 bytes per bucket and 8 bytes per pair.
    let (hits, misses) = (figure(&found, "12b"), figure(&found, "13b"));
    let tables: Vec<f64> = curve(hits, "Horton, canonical", false).iter().map(|point| point.0).collect();
    assert_eq!(tables, [16384.0, 32768.0, 65536.0, 131_072.0, 262_144.0]);
    let large = |bytes: f64| bytes > 1e5;
    near_model(hits, "Horton", "Horton", large, 0.02);
    near_model(misses, "Horton", "Horton", large, 0.02);
    assert!(curve(misses, "BCHT, first-fit", false).iter().all(|point| point.1 == 2.0 * 64.0 + 8.0));
}

#[test]
fn every_figure_of_garcia() {
    let found = figures("garcia", "--device cpu --n 20000");
    check(
        &found,
        &[
            ("3", "age", "share of keys", 3),
            ("3-maximum", "keys", "greatest age", 4),
            ("average-age", "load", "places a hit", 6),
            ("5-insertion", "keys", "insertion rate", 5),
            ("5-retrieval", "keys", "retrieval rate", 5),
            ("6-random", "load", "construction time", 4),
            ("7-random", "load", "access time", 4),
            ("6-image", "load", "construction time", 4),
            ("7-image", "load", "access time", 4),
            ("8", "load", "requests that hit", 4),
            ("9-requests", "load", "lines a query", 6),
            ("10", "order of cells", "access time", 2),
        ],
    );
    let greatest = |label: &str| curve(figure(&found, "3"), label, false).last().map(|point| point.0);
    assert!(
        greatest("open addressing") > Some(15.0) && greatest("h_coh") < Some(9.0),
        "maximum ages of Robin Hood tables are low"
    );
    for label in ["open addressing", "h_coh", "h_rand"] {
        let all: f64 = curve(figure(&found, "3"), label, false).iter().map(|point| point.1).sum();
        assert!((all - 100.0).abs() < 1e-6, "{label}: {all}");
    }
    let ages = figure(&found, "average-age");
    for label in ["h_coh", "h_rand"] {
        let last = |what: &str| curve(ages, &format!("{label}, {what}"), false).last().copied().unwrap();
        assert!(last("from the average").1 < last("from the first").1, "at load 0.99 most keys are old: {ages}");
    }
    // With random slots, the hit rate of a cache is its share of the table; coherent slots share cache lines. These
    // tables are so small that the larger cache contains up to 30% of them.
    for (size, bytes, times) in [("16 KiB", 16_384.0, 3.0), ("48 KiB", 49_152.0, 1.15)] {
        let both = |id: &str| {
            let of = |label: &str| curve(figure(&found, id), &format!("{label}, {size}"), false);
            of("h_coh").into_iter().zip(of("h_rand"))
        };
        for ((load, near), (_, random)) in both("8") {
            let held = 100.0 * bytes / (20_000.0 / load * 8.0);
            assert!((random / held - 1.0).abs() < 0.1, "{size}, load {load}: {random}% beside {held}%");
            assert!(near > times * random && near < 100.0, "{size}, load {load}: {near}% beside {random}%");
        }
        for ((load, near), (_, random)) in both("9-requests") {
            assert!(near >= 1.0 / 16.0 && random > 3.0 * near, "{size}, load {load}: {near} and {random} lines");
        }
    }
    assert_eq!(curve(figure(&found, "9-requests"), "h_coh, paper", true)[0].0, 0.85);
    let order = figure(&found, "10");
    assert_eq!(order["x"]["names"][1], "Morton");
    assert_eq!(curve(order, "h_coh", false).iter().map(|point| point.0).collect::<Vec<_>>(), [0.0, 1.0, 2.0, 3.0]);
}

#[test]
fn every_figure_of_the_two_level_table() {
    let found = figures("poster", "--device cpu --n 8192");
    let iterations = ("iterations", "items", "iterations", 5);
    check(&found, &[iterations, ("voxels", "voxels", "time", 4), ("stages", "pairs", "time", 5)]);
    let rounds = curve(figure(&found, "iterations"), "2 sub-tables, 2.5 N", false);
    assert!(rounds.iter().all(|&(items, rounds)| rounds <= 3.0 * items.log2()), "{rounds:?}");
    assert_eq!(curve(figure(&found, "stages"), "fks_cuckoo", false).len(), 5, "512, 1024 and so on");
    let found = figures("sahu", "--device cpu --n 8192");
    check(&found, &[("1", "entries", "time", 5), ("2", "entries", "share of a build", 5)]);
    let stages = found[1]["series"].as_array().unwrap();
    let share = |stage: &Value| curve(&found[1], stage["label"].as_str().unwrap(), false)[0].1;
    assert!((stages.iter().map(share).sum::<f64>() - 100.0).abs() < 1e-6);
}

/// Figures are measured on every device, and can be selected, for output as text too.
#[test]
fn some_figures_on_every_device() {
    let found = figures("alcantara2011", "--device all --n 2000 --figure 4.7");
    assert_eq!(found.len(), 2 * devices().len());
    let on = |id: &str| found.iter().filter(|figure| figure["device"] == id).count();
    assert!(devices().iter().all(|device| on(device) == 2));
    let printed = Folder::new().ok("--paper breslow --device cpu --n 2000 --repeats 1 --figure 8,14");
    assert!(printed.contains("8-0.95: homes of 2000 keys"), "{printed}");
    assert!(printed.contains("14b: ") && printed.contains("[Equation 7]") && !printed.contains("13a: "), "{printed}");
}

#[test]
fn options_without_effect_on_papers_are_refused() {
    let folder = Folder::new();
    for rest in [
        "--scheme cuckoo",
        "--kind classic",
        "--functions 3",
        "--load 0.5",
        "--hits 50",
        "--stages",
        "--table multi",
        "--domain 9x9 --defined 9",
        "--no-peers",
        "--queries 9",
        "--heavy 0.5",
        "--order sorted",
    ] {
        folder.refused(&format!("--paper breslow {rest}"), "cannot be used with");
    }
    folder.refused("--paper breslow --n 2^20,2^21", "--n is one number");
    folder.refused("--paper breslow --n 10", "1000 or more");
    folder.refused("--paper breslow --figure 99", "there are 8-0.75, 8-0.95, 9, 10");
    folder.refused("--figure 8", "--paper");
    folder.refused("--paper horton", "alcantara2011");
}
