//! `koel verify --table`: sets, compacting and multivalue tables, joins and groups, for every scheme on every device.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::folder::{Folder, devices};

const TABLES: &str = "set,compact,multi,join,group";

fn text<'a>(row: &'a Value, field: &str) -> &'a str {
    row[field].as_str().unwrap()
}

fn rows(found: &Value) -> &[Value] {
    found["rows"].as_array().unwrap()
}

#[test]
fn every_table_of_every_scheme_is_right_and_equal_on_every_device() {
    let folder = Folder::new();
    let devices = devices();
    let found = folder.json(&format!("verify --table {TABLES} --n 700 --json"));
    assert_eq!(found["ok"], true, "{found}");
    // The cuckoo set has no values, so it cannot number keys.
    let left_out = found["left_out"].as_array().unwrap();
    assert!(left_out.iter().all(|line| line.as_str().unwrap().contains("cuckoo_set")), "{left_out:?}");
    let mut tables: BTreeMap<[&str; 5], Vec<&Value>> = BTreeMap::new();
    for row in rows(&found) {
        assert!(row["checks"].as_u64().unwrap() > 5 && row["pairs"].as_u64() == Some(700) || !row["cut"].is_null());
        let at = ["table", "scheme", "kind", "data", "types"].map(|field| text(row, field));
        tables.entry(at).or_default().push(row);
    }
    let mut joined: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for ([table, _, kind, data, types], rows) in &tables {
        assert_eq!(rows.len(), devices.len(), "a row for each device");
        let digests: BTreeSet<_> = rows.iter().filter_map(|row| row["digest"].as_str()).collect();
        let of_bytes = ["set", "compact", "multi"].contains(table);
        assert_eq!(digests.len(), usize::from(!of_bytes || *kind == "canonical"), "{table} {kind} {data}");
        if *table == "join" {
            // Wide keys have the order and the multiplicities of narrow ones, so joins have the same rows.
            assert!(["u32, u32", "u64"].contains(types));
            joined.entry(data).or_default().extend(digests);
        }
    }
    // Results of joins depend only on the columns.
    assert!(joined.len() == 3 && joined.values().all(|digests| digests.len() == 1), "{joined:?}");
    let schemes = koel::AnyScheme::all().count();
    let of =
        |name: &str, width: &str| tables.keys().filter(|[table, .., types]| *table == name && *types == width).count();
    // Compacting tables of the cuckoo set are converted from sets.
    assert_eq!((of("set", "u32, u32"), of("compact", "u32, u32")), (3 * schemes, 3 * schemes));
    assert_eq!(of("group", "u32, u32"), 3, "groups have no scheme");
    for table in ["set", "compact", "multi", "join"] {
        assert_eq!(of(table, "u64"), 3, "{table} of u64 keys: bucketized");
    }
    assert_eq!(of("group", "u64"), 3);
}

#[test]
#[ignore = "slow: verification of 0 to 33 rows, and of given sizes; CI runs it"]
fn tables_of_few_or_no_rows_are_right() {
    let folder = Folder::new();
    for n in [0, 1, 2, 3, 33] {
        let found = folder.json(&format!("verify --table {TABLES} --scheme cuckoo,horton,sorted --n {n} --json"));
        assert_eq!(found["ok"], true, "{n} rows: {found}");
    }
    let sized = "verify --table set,multi --scheme cuckoo --n 500 --device cpu --json";
    for size in ["--load 0.5", "--capacity 1000", "--slots 1500", "--load 0.4 --capacity 700", "--functions 3 --seed 9"]
    {
        assert_eq!(folder.json(&format!("{sized} {size}"))["ok"], true, "{size}");
    }
}

/// A heavy key with at least 4,096 rows is also queried until the answer has more than 2^32 rows.
#[test]
fn results_past_32_bits_are_verified() {
    let found =
        Folder::new().json("verify --table multi,join --scheme cuckoo --kind canonical --n 8192 --device cpu --json");
    assert_eq!(found["ok"], true, "{found}");
    let checks = |data: &str| {
        let of = rows(&found).iter().filter(|row| text(row, "data") == data);
        of.map(|row| row["checks"].as_u64().unwrap()).max().unwrap()
    };
    assert!(checks("heavy") > checks("distinct"), "{found}");
}

#[test]
fn tables_that_cannot_hold_the_values_are_omitted_and_reported() {
    let folder = Folder::new();
    let alone = "verify --scheme robin_hood --kind classic --keys-alone --n 300 --device cpu";
    folder.refused(&format!("{alone} --table multi"), "values have 0 bits");
    let found = folder.json(&format!("{alone} --table set,multi --json"));
    let left_out = found["left_out"].as_array().unwrap();
    assert!(left_out.len() == 3 && left_out.iter().all(|line| line.as_str().unwrap().starts_with("multi, robin_hood")));
    assert!(rows(&found).len() == 3 && rows(&found).iter().all(|row| text(row, "cut").contains("28 bits")), "{found}");
    let printed = folder.ok(&format!("{alone} --table set,multi"));
    assert!(
        printed.contains("left out: multi, robin_hood classic") && printed.lines().next().unwrap().starts_with("table")
    );
}

/// Maps of wide keys and values: each of the four tables, also keys with equal halves, a reference and the devices.
#[test]
fn wide_maps_are_verified_for_schemes_that_support_them() {
    let folder = Folder::new();
    for scheme in ["bucketized", "robin_hood"] {
        let verify = format!("verify --scheme {scheme} --kind canonical");
        let found = folder.json(&format!("{verify} --n 3000 --json"));
        assert_eq!(found["ok"], true, "{found}");
        let of =
            |types: &str| -> Vec<&Value> { rows(&found).iter().filter(|row| text(row, "types") == types).collect() };
        for (types, sets) in [("u64, u64", 2), ("u64, u32", 2), ("u32, u64", 1), ("u64", 2), ("u32, u32", 2)] {
            let rows = of(types);
            assert_eq!(rows.len(), sets * (devices().len() + 1), "{types}: a row for each device and the reference");
            let digests: BTreeSet<_> = rows.iter().map(|row| text(row, "digest")).collect();
            assert_eq!(digests.len(), sets, "{types}");
        }
        let printed = folder.ok(&format!("{verify} --n 500 --device cpu"));
        assert!(printed.contains("u64, u64  random") && printed.contains("u64       halves"), "{printed}");
    }
    let printed = folder.ok("verify --scheme robin_hood --kind canonical --sequence random --n 500 --device cpu");
    assert!(printed.contains("u64, u64"), "{printed}");
    for narrow in ["bucketized --bucket-slots 16", "robin_hood --max-ages 4"] {
        let narrow = folder.ok(&format!("verify --scheme {narrow} --kind canonical --n 500 --device cpu"));
        assert!(!narrow.contains("u64"), "these parameters apply only to 32-bit tables: {narrow}");
    }
}

/// Without `--table` the command verifies maps, and `all` selects every table.
#[test]
fn the_default_is_to_verify_maps() {
    let folder = Folder::new();
    let maps = "verify --scheme cuckoo --kind canonical --n 500 --device cpu";
    assert!(folder.ok(maps).lines().next().unwrap().starts_with("table"));
    let all = folder.json(&format!("{maps} --table all --json"));
    let tables: BTreeSet<_> = rows(&all).iter().map(|row| text(row, "table")).collect();
    assert_eq!(tables.into_iter().collect::<Vec<_>>(), ["compact", "group", "join", "map", "multi", "set"]);
    folder.refused(&format!("{maps} --table heap"), "heap");
}

#[test]
fn images_that_were_compared_with_nothing_are_reported() {
    let folder = Folder::new();
    for (table, kind, is_reported) in
        [("set", "canonical", true), ("set", "classic", false), ("join", "canonical", false)]
    {
        let verify = format!("verify --table {table} --scheme cuckoo --kind {kind} --n 300 --device cpu");
        assert_eq!(folder.ok(&verify).contains("compared with nothing"), is_reported, "{table} {kind}");
    }
}

#[test]
fn a_report_lists_the_devices_and_the_results() {
    let folder = Folder::new();
    let said = folder.ok("verify --scheme cuckoo --n 2000 --report report.json");
    assert!(said.contains("checks passed"), "{said}");
    let report: Value = serde_json::from_slice(&folder.bytes("report.json")).unwrap();
    assert_eq!((&report["ok"], &report["koel"]), (&true.into(), &env!("CARGO_PKG_VERSION").into()));
    assert_eq!(report["machine"]["system"], std::env::consts::OS);
    let listed = report["listed"].as_array().unwrap();
    assert_eq!((&listed[0]["id"], &listed[0]["refused"]), (&"cpu".into(), &Value::Null));
    for device in listed.iter().filter(|device| device["id"] != "cpu") {
        assert!(device["extensions"].as_array().is_some_and(|extensions| !extensions.is_empty()), "{device}");
    }
    let rows = rows(&report);
    assert!(rows.iter().all(|row| row["build_per_second"].as_f64() > Some(0.0)), "{report}");
    assert!(rows.iter().any(|row| row["digest"].as_str().is_some_and(|digest| digest.len() == 64)), "{report}");
    folder.refused("verify --scheme cuckoo --n 2000 --report .", "folder");
    folder.refused("verify --scheme cuckoo --n 2000 --report nowhere/report.json", "nowhere: there is no such folder");
}

/// Each line is written to a pipe as soon as its table is verified.
#[test]
fn lines_are_printed_as_soon_as_tables_are_verified() {
    let folder = Folder::new();
    let mut verify = folder.command("verify --table all --n 20000 --device cpu");
    let mut child = verify.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut first = || lines.next().unwrap().unwrap();
    assert!(first().starts_with("table    scheme      kind"));
    assert!(first().starts_with("map      "));
    assert!(child.try_wait().unwrap().is_none(), "the command still verifies tables");
    child.kill().unwrap();
    child.wait().unwrap();
}

/// The same if stdout is a file.
#[test]
fn lines_are_written_to_files_as_soon_as_tables_are_verified() {
    let folder = Folder::new();
    let file = File::create(folder.path("lines.txt")).unwrap();
    let mut verify = folder.command("verify --table all --n 20000 --device cpu");
    let mut child = verify.stdout(file).stderr(Stdio::null()).spawn().unwrap();
    while folder.text("lines.txt").lines().count() < 2 {
        assert!(child.try_wait().unwrap().is_none(), "the lines are written before the command ends");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(child.try_wait().unwrap().is_none(), "the command still verifies tables");
    child.kill().unwrap();
    child.wait().unwrap();
}
