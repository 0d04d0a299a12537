//! `koel verify --table`: sets, compacting and multivalue tables, joins and groups, over every scheme on every device.

use std::collections::{BTreeMap, BTreeSet};

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
fn every_table_over_every_scheme_is_right_and_the_same_on_every_device() {
    let folder = Folder::new();
    let devices = devices();
    let found = folder.json(&format!("verify --table {TABLES} --n 700 --json"));
    assert_eq!(found["ok"], true, "{found}");
    // Sets of slots without values number no keys.
    let left_out = found["left_out"].as_array().unwrap();
    assert!(left_out.iter().all(|line| line.as_str().unwrap().contains("cuckoo_set")), "{left_out:?}");
    let mut tables: BTreeMap<[&str; 4], Vec<&Value>> = BTreeMap::new();
    for row in rows(&found) {
        assert!(row["checks"].as_u64().unwrap() > 5 && row["pairs"].as_u64() == Some(700) || !row["cut"].is_null());
        tables.entry(["table", "scheme", "kind", "data"].map(|field| text(row, field))).or_default().push(row);
    }
    let mut joined: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for ([table, _, kind, data], rows) in &tables {
        assert_eq!(rows.len(), devices.len(), "a row for each device");
        let digests: BTreeSet<_> = rows.iter().filter_map(|row| row["digest"].as_str()).collect();
        let of_bytes = ["set", "compact", "multi"].contains(table);
        assert_eq!(digests.len(), usize::from(!of_bytes || *kind == "canonical"), "{table} {kind} {data}");
        if *table == "join" {
            joined.entry(data).or_default().extend(digests);
        }
    }
    // Results of joins depend on nothing but the columns.
    assert!(joined.len() == 3 && joined.values().all(|digests| digests.len() == 1), "{joined:?}");
    macro_rules! kinds {
        ($($module:ident, $scheme:ident, $name:literal;)*) => {
            [$(<koel::scheme::$scheme as koel::Scheme>::KINDS.len()),*]
        };
    }
    let schemes: usize = koel::for_each_scheme!(kinds).into_iter().sum();
    let of = |name: &str| tables.keys().filter(|[table, ..]| *table == name).count();
    // Compacting tables of sets of slots without values are made from those.
    assert_eq!((of("set"), of("compact")), (3 * schemes, 3 * schemes));
    assert_eq!(of("group"), 3, "without a scheme");
}

#[test]
fn few_rows_and_none_are_right_too() {
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

/// A heavy key of 4,096 rows and more is also asked for until the answer is longer than 2^32.
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
fn what_cannot_be_held_is_left_out_and_said_so() {
    let folder = Folder::new();
    let alone = "verify --scheme robin_hood --kind classic --keys-alone --n 300 --device cpu";
    folder.refused(&format!("{alone} --table multi"), "values have 0 bits");
    let found = folder.json(&format!("{alone} --table set,multi --json"));
    let left_out = found["left_out"].as_array().unwrap();
    assert!(left_out.len() == 3 && left_out.iter().all(|line| line.as_str().unwrap().starts_with("multi, robin_hood")));
    assert!(rows(&found).len() == 3 && rows(&found).iter().all(|row| text(row, "cut").contains("28 bits")), "{found}");
    let told = folder.ok(&format!("{alone} --table set,multi"));
    assert!(told.contains("left out: multi, robin_hood classic") && told.lines().next().unwrap().starts_with("table"));
}

/// The command that people know prints what it did.
#[test]
fn without_a_table_it_verifies_maps() {
    let folder = Folder::new();
    let maps = "verify --scheme cuckoo --kind canonical --n 500 --device cpu";
    assert!(folder.ok(maps).lines().next().unwrap().starts_with("scheme"));
    let all = folder.json(&format!("{maps} --table all --json"));
    let tables: BTreeSet<_> = rows(&all).iter().map(|row| text(row, "table")).collect();
    assert_eq!(tables.into_iter().collect::<Vec<_>>(), ["compact", "group", "join", "map", "multi", "set"]);
    folder.refused(&format!("{maps} --table heap"), "heap");
}

#[test]
fn images_that_nothing_was_compared_with_are_told_of() {
    let folder = Folder::new();
    for (table, kind, is_told) in [("set", "canonical", true), ("set", "classic", false), ("join", "canonical", false)]
    {
        let verify = format!("verify --table {table} --scheme cuckoo --kind {kind} --n 300 --device cpu");
        assert_eq!(folder.ok(&verify).contains("compared with nothing"), is_told, "{table} {kind}");
    }
}

#[test]
fn a_report_says_what_there_is_and_what_came_out() {
    let folder = Folder::new();
    let said = folder.ok("verify --scheme cuckoo --n 2000 --report report.json");
    assert!(said.contains("checks passed"), "{said}");
    let report: Value = serde_json::from_slice(&std::fs::read(folder.path("report.json")).unwrap()).unwrap();
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
