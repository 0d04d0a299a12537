//! `koel-bench --plots`: plots of measurements.

use std::fs;

use roxmltree::Document;
use serde_json::Value;

use crate::folder::{Folder, devices, stderr};

/// A parsed plot.
struct Drawing {
    title: String,
    texts: Vec<String>,
    /// The number of curves, and how many of them are thin.
    curves: (usize, usize),
}

fn read(folder: &Folder, path: &str) -> Drawing {
    let file = fs::read_to_string(folder.path(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    let document = Document::parse(&file).unwrap_or_else(|error| panic!("{path}: {error}"));
    let all = |name: &'static str| document.descendants().filter(move |node| node.tag_name().name() == name);
    let says = |node: roxmltree::Node<'_, '_>| -> String {
        let says: String = node.descendants().filter(|node| node.is_text()).filter_map(|node| node.text()).collect();
        says.trim().into()
    };
    // Excludes the lines of axes, which are grey or black, and the samples of a legend, which are 30 wide.
    let of_data = |node: &roxmltree::Node<'_, '_>| {
        let places: Vec<_> = node.attribute("points").unwrap().split_whitespace().collect();
        let x = |at: usize| places[at].split(',').next().unwrap().parse::<i32>().unwrap();
        let is_sample = places.len() == 2 && x(1) - x(0) == 30;
        !is_sample && !matches!(node.attribute("stroke"), Some("#E3E3E3" | "#222222"))
    };
    let curves: Vec<_> = all("polyline").filter(of_data).collect();
    let thin = curves.iter().filter(|node| node.attribute("stroke-width") == Some("1")).count();
    Drawing {
        title: all("title").map(says).next().unwrap(),
        texts: all("text").map(says).collect(),
        curves: (curves.len(), thin),
    }
}

/// Returns the files that the JSON names, and checks that they exist and are the only ones.
fn drawn(folder: &Folder, found: &Value, directory: &str) -> Vec<String> {
    let mut named: Vec<_> = found["plots"].as_array().unwrap().iter().map(|p| p.as_str().unwrap().to_owned()).collect();
    let mut there: Vec<_> = fs::read_dir(folder.path(directory)).unwrap().map(|f| f.unwrap().file_name()).collect();
    there.sort_unstable();
    let listed = named.clone();
    named.sort_unstable();
    let names: Vec<_> = there.iter().map(|name| format!("{directory}/{}", name.to_str().unwrap())).collect();
    assert_eq!(named, names, "other files, or incomplete ones");
    listed
}

const QUICK: &str = "--queries 500 --repeats 1 --device cpu";

#[test]
fn rows_are_drawn_over_each_of_their_axes() {
    let folder = Folder::new();
    let bench = format!("--n 1000,2000 --load 0.5,0.7 --hits 100,0 {QUICK}");
    let found = folder.json(&format!("{bench} --plots new/plots --json"));
    let files = drawn(&folder, &found, "new/plots");
    let drawings: Vec<_> = files.iter().map(|file| (file, read(&folder, file))).collect();
    for row in
        found["rows"].as_array().unwrap().iter().filter(|row| !row["what"].as_str().unwrap().starts_with("random"))
    {
        let (what, scheme) = (row["what"].as_str().unwrap(), row["scheme"].as_str().unwrap());
        let kind = row["kind"].as_str().map(|kind| format!(" {kind}")).unwrap_or_default();
        let axes: &[_] = match (what, kind.is_empty()) {
            ("lookup", false) => &["pairs", "load", "queries that hit"],
            ("lookup", true) => &["pairs", "queries that hit"],
            (_, false) => &["pairs", "load"],
            (_, true) => &["pairs"],
        };
        for axis in axes {
            let of = |file: &str, drawing: &Drawing| {
                let end_to_end =
                    row["where"] == "host" || file.contains("end-to-end") == (row["where"] == "end-to-end");
                end_to_end && drawing.title.to_lowercase() == format!("{what}, over {axis}")
            };
            let plots: Vec<_> = drawings.iter().filter(|(file, drawing)| of(file, drawing)).collect();
            let in_legend = |drawing: &Drawing| drawing.texts.iter().any(|t| t.starts_with(&format!("{scheme}{kind}")));
            assert!(!plots.is_empty() && plots.iter().all(|(_, drawing)| in_legend(drawing)), "{row} over {axis}");
            let limited = row["limit"].is_f64();
            assert!(!limited || plots.iter().all(|(_, drawing)| drawing.curves.1 > 0), "limits are thin curves");
        }
    }
    // Without --json the files are reported on stderr, and old ones are replaced.
    let output = folder.koel(&format!("{bench} --no-peers --plots new/plots"));
    assert!(output.status.success() && String::from_utf8_lossy(&output.stdout).contains("n = 2,000"));
    let printed = stderr(&output);
    let named: Vec<_> = printed.lines().filter_map(|line| line.strip_suffix(": drawn")).collect();
    assert!(
        named.contains(&"new/plots/build-over-n.svg") && named.iter().all(|file| folder.path(file).is_file()),
        "{printed}"
    );
    let replaced = read(&folder, "new/plots/build-over-n.svg");
    assert!(!replaced.texts.iter().any(|text| text.starts_with("hashbrown")));
}

#[test]
fn devices_are_drawn_next_to_each_other() {
    let folder = Folder::new();
    let bench = "--n 1000,2000 --scheme cuckoo --kind canonical --hits 50 --queries 500 --repeats 1 --device all";
    let found = folder.json(&format!("{bench} --no-peers --plots plots --json"));
    drawn(&folder, &found, "plots");
    let build = read(&folder, "plots/build-over-n.svg");
    for device in devices() {
        let is_named = build.texts.iter().any(|text| text.starts_with(&format!("{device} (")));
        assert!(is_named, "{device} in {:?}", build.texts);
    }
    assert_eq!(build.curves, (2 * devices().len(), devices().len()), "a rate and a limit each");
    assert_eq!(build.texts.iter().filter(|text| *text == "cuckoo canonical").count(), 1);
}

#[test]
fn tables_of_rows_with_duplicates_are_drawn_over_the_rows_of_a_key() {
    let folder = Folder::new();
    let bench = format!("--table multi --n 2000 --multiplicity 1,4 --heavy 0.5 --scheme cuckoo --hits 50 {QUICK}");
    let found = folder.json(&format!("{bench} --kind canonical --plots plots --json"));
    let files = drawn(&folder, &found, "plots");
    let build = read(&folder, files.iter().find(|file| file.contains("multi-build-over-multiplicity")).unwrap());
    for label in ["cuckoo canonical", "cuckoo canonical, 50% one key", "hashbrown", "hashbrown, 50% one key"] {
        assert!(build.texts.iter().any(|text| text == label), "{label}: {:?}", build.texts);
    }
}

#[test]
fn each_figure_of_a_paper_is_a_file() {
    let folder = Folder::new();
    for (paper, rest) in [("breslow", "--figure 8,12,14 --n 3000"), ("garcia", "--figure 3,8,9,10 --n 3000")] {
        let found = folder.json(&format!("--paper {paper} {rest} --repeats 1 --device cpu --json --plots {paper}"));
        let files = drawn(&folder, &found, paper);
        let figures = found["figures"].as_array().unwrap();
        assert_eq!(files.len(), figures.len());
        for (file, figure) in files.iter().zip(figures) {
            let id = figure["id"].as_str().unwrap();
            assert_eq!(*file, format!("{paper}/{paper}-{id}.svg"));
            let drawing = read(&folder, file);
            let series = figure["series"].as_array().unwrap();
            for series in series {
                assert!(drawing.texts.iter().any(|text| series["label"] == **text), "{id}: {series}");
            }
            let long = |model: bool| {
                let of = series.iter().filter(|series| series["model"] == model);
                of.filter(|series| series["points"].as_array().unwrap().len() > 1).count()
            };
            let right = if id == "10" { (0, 0) } else { (long(true) + long(false), long(true)) };
            assert_eq!(drawing.curves, right, "{id}: models are thin curves, and axes of categories have bars");
            let place = figure["place"].as_str().unwrap();
            assert!(
                drawing.texts.iter().any(|text| text.ends_with(&format!(", {place}"))),
                "{id}: {:?}",
                drawing.texts
            );
        }
    }
}

#[test]
fn rates_are_drawn_with_their_goals() {
    let folder = Folder::new();
    let found = folder.json("--all --n 2^10 --repeats 1 --device cpu --json --plots plots");
    assert_eq!(drawn(&folder, &found, "plots"), ["plots/all.svg"]);
    let drawing = read(&folder, "plots/all.svg");
    for row in found["rows"].as_array().unwrap().iter().filter(|row| row["not_measured"].is_null()) {
        let hits = row["hits"].as_u64().map(|hits| format!(", {hits}% hits")).unwrap_or_default();
        let label = format!("{}{hits}", row["row"].as_str().unwrap());
        assert!(drawing.texts.contains(&label), "{label}: {:?}", drawing.texts);
        if let Some(share) = row["of_limit"].as_f64().filter(|share| *share <= 2.0) {
            assert!(drawing.texts.contains(&format!("{share:.2}")), "{row}");
        }
    }
}

#[test]
fn rates_of_a_file_are_drawn_next_to_each_other() {
    let rate = |by: &str, rate: &str| {
        format!(r#"{{"of": "build", "by": "{by}", "rate": {rate}, "date": "2026-11-23", "source": "a.md"}}"#)
    };
    let file = |more: &str| {
        let (koel, other) = (rate("koel", "20.5"), rate("another", more));
        let columns = format!(r#"[{{"on": "a device, 4 threads", "rates": [{koel}, {other}]}}]"#);
        format!(r#"{{"title": "Rates", "line": "u32", "unit": "G/s", "columns": {columns}, "notes": []}}"#)
    };
    let folder = Folder::new();
    folder.file("rates.json", file("41"));
    let found = folder.json("--draw rates.json --plots plots --json");
    assert_eq!(drawn(&folder, &found, "plots"), ["plots/rates.svg"]);
    let drawing = read(&folder, "plots/rates.svg");
    for text in
        ["build", "koel", "another", "20.5", "41", "a device, 4 threads; 2026-11-23", "rate (G keys or pairs a second)"]
    {
        assert!(drawing.texts.iter().any(|printed| printed == text), "{text}: {:?}", drawing.texts);
    }
    for (wrong, part) in [("0", "0 is not a rate"), ("\"41\"", "wrong.json"), ("1, \"raet\": 2", "raet")] {
        folder.file("wrong.json", file(wrong));
        folder.refused("--draw rates.json,wrong.json --plots new", part);
    }
    folder.refused("--draw nothing.json --plots new", "nothing.json");
    assert!(!folder.path("new").exists());
}

/// Plots that cannot be drawn are an error before anything is measured: these measurements would take hours.
#[test]
fn plots_that_cannot_be_drawn_are_refused_at_once() {
    let folder = Folder::new();
    folder.file("taken", "mine");
    let long = "--n 2^31 --device cpu --repeats 1000";
    for which in ["", "--all", "--paper breslow"] {
        folder.refused(&format!("{which} {long} --plots taken"), "--plots taken: a file is in the way");
        folder.refused(&format!("{which} {long} --plots taken/in"), "taken/in: ");
    }
    assert_eq!(fs::read_to_string(folder.path("taken")).unwrap(), "mine");
    folder.refused(&format!("{long} --hits 50 --plots plots"), "several --n, --load, --hits or --multiplicity");
    folder.refused(&format!("{long} --hits 50,50 --plots plots"), "nothing to draw");
    for (wrong, part) in [
        ("--load 2", "load"),
        ("--scheme nothing", "nothing"),
        ("--scheme cuckoo --functions 9", "functions"),
        ("--order row", "--domain"),
        ("--duplicates first", "--multiplicity"),
        ("--table set --walk", "--walk"),
        ("--table group --load 0.5,0.8", "--load"),
        ("--all --rows nothing", "no row has"),
        ("--all --device nothing", "nothing"),
        ("--paper sahu --figure nothing", "no figure nothing"),
        ("--paper sahu --n 10", "--n 10"),
    ] {
        let n = if wrong.contains("--n") { "" } else { "--n 2^31" };
        folder.refused(&format!("{wrong} {n} --repeats 1000 --plots plots"), part);
    }
    assert!(!folder.path("plots").exists());
}

/// If a file cannot be written, the results are printed before the error.
#[test]
fn results_are_printed_even_if_a_plot_cannot_be_written() {
    let folder = Folder::new();
    fs::create_dir_all(folder.path("plots/build-over-n.svg")).unwrap();
    let output = folder.koel(&format!("--n 1000,2000 --hits 50 --no-peers --plots plots {QUICK}"));
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("koel: plots/build-over-n.svg: ") && !said.contains("panicked"), "{said}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("n = 2,000"));
}
