//! `koel verify` must exit with status 1 if a fault is planted in one backend. Needs the feature `fault-injection`.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Output};

fn koel(arguments: &str, fault: Option<&str>) -> Output {
    koel_by(None, arguments, fault)
}

/// Runs the command with a build route, for schemes that have several, and a planted fault.
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

/// Whether there is an OpenCL device to plant faults in. Otherwise prints the reason, and panics if
/// `KOEL_REQUIRE_OPENCL` is set.
fn has_opencl(test: &str) -> bool {
    let listed: serde_json::Value = serde_json::from_slice(&koel("devices --json", None).stdout).unwrap();
    let usable = |device: &serde_json::Value| device["id"] != "cpu" && device["usable"] == true;
    if listed["devices"].as_array().unwrap().iter().any(usable) {
        return true;
    }
    let reason = format!("{test} skipped: no usable OpenCL device; {}\n", listed["opencl"]);
    // Written directly, because libtest would capture `eprintln!`.
    std::io::stderr().write_all(reason.as_bytes()).unwrap();
    assert!(std::env::var_os("KOEL_REQUIRE_OPENCL").is_none(), "KOEL_REQUIRE_OPENCL is set: {reason}");
    false
}

#[test]
fn verify_succeeds_without_a_fault() {
    let output = koel("verify --n 5000", None);
    assert_eq!(output.status.code(), Some(0), "{}", stdout(&output));
}

/// Whether this fault has no effect on tables of this scheme.
fn has_no_effect(scheme: &str, fault: &str) -> bool {
    // A sorted array has no hash function.
    scheme == "sorted" && fault == "hash"
}

/// Checks that `verify` fails for every scheme and kind on every device of a backend, `cpu` or `opencl`, with each
/// planted fault.
fn check_maps(side: &str) {
    for fault in ["hash", "stale", "drop"] {
        let planted = format!("{side}:{fault}");
        let output = koel("verify --n 5000 --json", Some(&planted));
        assert_eq!(output.status.code(), Some(1), "KOEL_FAULT={planted}:\n{}", stdout(&output));
        let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(found["ok"], false, "KOEL_FAULT={planted}");
        let mut detected: BTreeMap<[&str; 3], bool> = BTreeMap::new();
        for row in found["rows"].as_array().unwrap() {
            let [scheme, kind, device] = ["scheme", "kind", "device"].map(|field| row[field].as_str().unwrap());
            if device.starts_with(side) {
                *detected.entry([scheme, kind, device]).or_default() |= row["verdict"] != "ok";
            }
        }
        let tables = koel::AnyScheme::all().count();
        assert!(detected.len() >= tables, "every scheme and kind: {detected:?}");
        for ([scheme, kind, device], detected) in detected {
            let expected = !has_no_effect(scheme, fault);
            assert_eq!(detected, expected, "KOEL_FAULT={planted}, {kind} {scheme} on {device}");
        }
    }
}

#[test]
fn faults_of_the_cpu_are_detected() {
    check_maps("cpu");
}

#[test]
fn faults_of_opencl_are_detected() {
    if has_opencl("faults_of_opencl_are_detected") {
        check_maps("opencl");
    }
}

/// Faults are planted around the passes of a build, so builds by parts must detect them too.
#[test]
fn faults_are_detected_in_builds_by_parts() {
    if !has_opencl("faults_are_detected_in_builds_by_parts") {
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

/// Whether this fault has no effect on a structure (`table`) that is built from tables of this scheme.
fn has_no_effect_on(table: &str, scheme: &str, fault: &str) -> bool {
    match fault {
        // Sets do not use the passes over rows.
        "rows" => table == "set",
        // Sorting needs no hash function, and the rows of groups do not depend on where keys are stored.
        "hash" => has_no_effect(scheme, fault) || table == "group",
        // Other rows have the key of the last row, so its group exists without that row; if all keys are distinct, no
        // table is built to number them.
        "drop" => table == "group",
        _ => false,
    }
}

/// Like [`check_maps`], for structures that are built from tables. Groups have no scheme.
fn check_structures(side: &str) {
    for fault in ["hash", "stale", "drop", "rows"] {
        let planted = format!("{side}:{fault}");
        let verify = "verify --table set,compact,multi,join,group --scheme cuckoo,fks,sorted --n 1000 --json";
        let output = koel(verify, Some(&planted));
        assert_eq!(output.status.code(), Some(1), "KOEL_FAULT={planted}:\n{}", stdout(&output));
        let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let mut detected: BTreeMap<[&str; 4], bool> = BTreeMap::new();
        for row in found["rows"].as_array().unwrap() {
            let place = ["table", "scheme", "kind", "device"].map(|field| row[field].as_str().unwrap());
            if place[3].starts_with(side) {
                *detected.entry(place).or_default() |= row["verdict"] != "ok";
            }
        }
        assert!(detected.len() > 4 * 5, "every table, scheme and kind: {detected:?}");
        for (place, detected) in detected {
            let expected = !has_no_effect_on(place[0], place[1], fault);
            assert_eq!(detected, expected, "KOEL_FAULT={planted}, {place:?}");
        }
    }
}

#[test]
fn faults_of_the_cpu_are_detected_in_structures() {
    check_structures("cpu");
}

#[test]
fn faults_of_opencl_are_detected_in_structures() {
    if has_opencl("faults_of_opencl_are_detected_in_structures") {
        check_structures("opencl");
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
