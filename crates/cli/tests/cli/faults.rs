//! `koel verify` must exit with status 1 if an error is planted on one side. Needs the feature `fault-injection`.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Output};

fn koel(arguments: &str, fault: Option<&str>) -> Output {
    koel_by(None, arguments, fault)
}

/// With a route of builds, where a scheme has several.
fn koel_by(route: Option<&str>, arguments: &str, fault: Option<&str>) -> Output {
    let mut command = Command::new(crate::PROGRAM);
    command.args(arguments.split_whitespace()).env_remove("KOEL_FAULT").env_remove("KOEL_BUILD_ROUTE");
    if let Some(route) = route {
        command.env("KOEL_BUILD_ROUTE", route);
    }
    if let Some(fault) = fault {
        command.env("KOEL_FAULT", fault);
    }
    command.output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Whether there is an OpenCL device to plant errors in. A skip says why, and is a failure where OpenCL is required.
fn has_opencl(test: &str) -> bool {
    let listed: serde_json::Value = serde_json::from_slice(&koel("devices --json", None).stdout).unwrap();
    let usable = |device: &serde_json::Value| device["id"] != "cpu" && device["usable"] == true;
    if listed["devices"].as_array().unwrap().iter().any(usable) {
        return true;
    }
    let reason = format!("{test} skipped: no usable OpenCL device; {}\n", listed["opencl"]);
    // Past the capture of libtest, so that a skip is seen.
    std::io::stderr().write_all(reason.as_bytes()).unwrap();
    assert!(std::env::var_os("KOEL_REQUIRE_OPENCL").is_none(), "KOEL_REQUIRE_OPENCL is set: {reason}");
    false
}

#[test]
fn without_a_fault_all_is_well() {
    let output = koel("verify --n 5000", None);
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
}

/// Whether this fault is none to these tables.
fn is_harmless(scheme: &str, fault: &str) -> bool {
    // An array that is sorted by keys has no hash function.
    scheme == "sorted" && fault == "hash"
}

/// Every scheme, kind and device of that side must have a row that failed, by itself.
fn is_noticed(side: &str) {
    for fault in ["hash", "stale", "drop"] {
        let planted = format!("{side}:{fault}");
        let output = koel("verify --n 5000 --json", Some(&planted));
        assert_eq!(output.status.code(), Some(1), "KOEL_FAULT={planted}:\n{}", stdout(&output));
        let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(found["ok"], false, "KOEL_FAULT={planted}");
        let mut noticed: BTreeMap<[&str; 3], bool> = BTreeMap::new();
        for row in found["rows"].as_array().unwrap() {
            let [scheme, kind, device] = ["scheme", "kind", "device"].map(|field| row[field].as_str().unwrap());
            if device.starts_with(side) {
                *noticed.entry([scheme, kind, device]).or_default() |= row["verdict"] != "ok";
            }
        }
        let tables = koel::AnyScheme::all().count();
        assert!(noticed.len() >= tables, "every scheme and kind: {noticed:?}");
        for ([scheme, kind, device], noticed) in noticed {
            let expected = !is_harmless(scheme, fault);
            assert_eq!(noticed, expected, "KOEL_FAULT={planted}, {kind} {scheme} on {device}");
        }
    }
}

#[test]
fn faults_of_the_cpu_are_noticed() {
    is_noticed("cpu");
}

#[test]
fn faults_of_opencl_are_noticed() {
    if has_opencl("faults_of_opencl_are_noticed") {
        is_noticed("opencl");
    }
}

/// The errors are around the passes, whichever way these go.
#[test]
fn faults_are_noticed_on_any_route_of_builds() {
    if !has_opencl("faults_are_noticed_on_any_route_of_builds") {
        return;
    }
    for scheme in ["bucketized", "horton"] {
        let verify = format!("verify --scheme {scheme} --kind canonical --n 5000");
        assert_eq!(koel_by(Some("by-parts"), &verify, None).status.code(), Some(0), "{scheme}");
        for fault in ["opencl:stale", "opencl:drop", "opencl:hash"] {
            let output = koel_by(Some("by-parts"), &verify, Some(fault));
            assert_eq!(output.status.code(), Some(1), "KOEL_FAULT={fault}, {scheme}:\n{}", stdout(&output));
        }
    }
}

/// Whether this fault is none to what is made of these tables.
fn is_harmless_to(table: &str, scheme: &str, fault: &str) -> bool {
    match fault {
        // Sets are not made of the passes over rows.
        "rows" => table == "set",
        // A sort has no hash function; and rows of groups do not depend on where keys are stored, if they are found.
        "hash" => is_harmless(scheme, fault) || table == "group",
        // The last row is of a key that other rows have, so its group is there without it; and where all keys are
        // distinct, no table numbers them.
        "drop" => table == "group",
        _ => false,
    }
}

/// Every table, scheme, kind and device of that side must have a row that failed, by itself. What is grouped has no
/// scheme.
fn is_noticed_in_tables(side: &str) {
    for fault in ["hash", "stale", "drop", "rows"] {
        let planted = format!("{side}:{fault}");
        let verify = "verify --table set,compact,multi,join,group --scheme cuckoo,fks,sorted --n 1000 --json";
        let output = koel(verify, Some(&planted));
        assert_eq!(output.status.code(), Some(1), "KOEL_FAULT={planted}:\n{}", stdout(&output));
        let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let mut noticed: BTreeMap<[&str; 4], bool> = BTreeMap::new();
        for row in found["rows"].as_array().unwrap() {
            let place = ["table", "scheme", "kind", "device"].map(|field| row[field].as_str().unwrap());
            if place[3].starts_with(side) {
                *noticed.entry(place).or_default() |= row["verdict"] != "ok";
            }
        }
        assert!(noticed.len() > 4 * 5, "every table, scheme and kind: {noticed:?}");
        for (place, noticed) in noticed {
            let expected = !is_harmless_to(place[0], place[1], fault);
            assert_eq!(noticed, expected, "KOEL_FAULT={planted}, {place:?}");
        }
    }
}

#[test]
fn faults_of_the_cpu_are_noticed_in_what_is_made_of_tables() {
    is_noticed_in_tables("cpu");
}

#[test]
fn faults_of_opencl_are_noticed_in_what_is_made_of_tables() {
    if has_opencl("faults_of_opencl_are_noticed_in_what_is_made_of_tables") {
        is_noticed_in_tables("opencl");
    }
}

#[test]
fn devices_with_bad_atomics_are_refused() {
    if !has_opencl("devices_with_bad_atomics_are_refused") {
        return;
    }
    let listed = koel("devices --json", Some("atomics"));
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    for device in listed["devices"].as_array().unwrap().iter().filter(|device| device["id"] != "cpu") {
        assert_eq!(device["usable"], false, "{device}");
        assert!(device["reason"].as_str().unwrap().contains("atomic"), "{device}");
    }
    assert_eq!(listed["auto"]["id"], "cpu");
    let output = koel("verify --n 5000", Some("atomics"));
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
    assert!(stdout(&output).contains("not used: opencl:0"), "{}", stdout(&output));
}

#[test]
fn shards_on_a_faulty_device_are_detected() {
    for fault in ["cpu:hash", "cpu:stale", "cpu:drop"] {
        for tables in ["--kind canonical", "--table set,multi"] {
            let verify = format!("verify --shards 4 --n 3000 --scheme bucketized {tables} --device cpu --json");
            let output = koel(&verify, Some(fault));
            assert_eq!(output.status.code(), Some(1), "{fault}: {}", stdout(&output));
        }
    }
}
