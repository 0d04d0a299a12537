//! `--wide`: 64-bit keys, and alternatives to tables of them.

use serde_json::Value;

use crate::folder::Folder;

fn rows(folder: &Folder, arguments: &str) -> Vec<Value> {
    let found = folder.json(&format!("{arguments} --repeats 1 --device cpu --json"));
    let rows = found["wide"].as_array().unwrap().clone();
    assert!(rows.iter().all(|row| row["per_second"].as_f64() > Some(0.0)), "{rows:?}");
    rows
}

#[test]
fn wide_tables_are_queried_as_requested_and_compared_with_maps() {
    let folder = Folder::new();
    let rows = rows(&folder, "--wide=u64-u64,u32-u64,sets --n 2000 --queries 5000 --load 0.9");
    let count = |device: &str, what: &str, count: u64| {
        let is_one = |row: &&Value| row["device"] == device && row["what"] == what && row["count"] == count;
        rows.iter().filter(is_one).count()
    };
    // Three kinds of table, two of which store pairs, at three shares of hits, with two schemes; and signpost sets of
    // u32.
    let counts = (count("cpu", "build", 2000), count("cpu", "lookup", 5000), count("cpu", "contains", 5000));
    assert_eq!(counts, (7, 21, 21));
    assert_eq!((count("cpu", "set, insert", 2000), count("hashbrown", "build", 2000)), (3, 2));
    let signposts = rows.iter().filter(|row| row["scheme"] == "signpost" && row["what"] == "build").count();
    assert_eq!(signposts, 4);
    assert_eq!(count("hashbrown", "lookup", 5000), 6);
}

#[test]
fn columns_and_sums_are_measured_if_they_are_requested() {
    let folder = Folder::new();
    let rows = rows(&folder, "--wide=columns,sums --n 2000 --no-peers");
    let mut said: Vec<_> = rows.iter().map(|row| row["what"].as_str().unwrap()).collect();
    said.sort_unstable();
    said.dedup();
    assert_eq!(said, ["ascending", "first", "multi, build", "multi, retrieve", "sort"]);
}
