//! Lists and opens devices while a call fails.

use koel::opencl::devices;

use crate::driver::{self, KNOWN, UNKNOWN, arm, disarm};
use crate::operations::{Open, Operation};
use crate::sweep::{NOTHING, positions, settled, sweep};
use crate::{in_child, is_child};

/// The variable that contains the function, the number of the call and the code.
const FAULT: &str = "KOEL_TEST_FAULT";

/// Functions that are called only when a device is opened; sweep.rs tests the others.
fn of_opening(function: &str) -> bool {
    let prefixes = ["clCreateContext", "clCreateCommandQueue", "clCreateProgram", "clBuildProgram", "clGetProgram"];
    let others =
        ["clGetDeviceInfo", "clGetCommandQueueInfo", "clGetContextInfo", "clReleaseContext", "clReleaseProgram"];
    prefixes.iter().any(|prefix| function.starts_with(prefix)) || others.contains(&function)
}

#[test]
fn every_call_of_opening_can_fail() {
    if is_child() {
        let reached = sweep(|| Open, || (), of_opening);
        assert_eq!(driver::references(), NOTHING);
        return println!("faults reached: {reached}");
    }
    in_child("opening::every_call_of_opening_can_fail", &[]);
}

/// Devices are listed once per process, so each fault has its own process.
#[test]
fn every_call_of_listing_can_fail() {
    const NAME: &str = "opening::every_call_of_listing_can_fail";
    if is_child() {
        return match std::env::var(FAULT) {
            Ok(fault) => list_with(&fault),
            Err(_) => list(),
        };
    }
    let Some(said) = in_child(NAME, &[]) else { return };
    let calls = said.lines().filter_map(|line| line.strip_prefix("calls: ")?.split_once(' '));
    let mut reached = 0;
    for (function, calls) in calls {
        for call in positions(calls.parse().expect("a number")) {
            for code in [KNOWN, UNKNOWN] {
                in_child(NAME, &[(FAULT, &format!("{function} {call} {code}"))]);
                reached += 1;
            }
        }
    }
    assert!(reached >= 12, "only {reached} faults");
}

/// Reports how often each function is called.
fn list() {
    assert!(!devices().is_empty());
    for (function, calls) in driver::calls() {
        if ["clGetPlatformIDs", "clGetDeviceIDs", "clGetPlatformInfo", "clGetDeviceInfo"].contains(&&function[..]) {
            println!("calls: {function} {calls}");
        }
    }
}

fn list_with(fault: &str) {
    let [function, call, code] = fault.split(' ').collect::<Vec<_>>()[..] else { panic!("{fault}") };
    arm(function, call.parse().expect("a number"), 1, code.parse().expect("a number"));
    for listed in devices() {
        println!("{} {:?}", listed.info, listed.refused);
    }
    assert_eq!(disarm(), 1, "the faulty call was not made");
    settled(NOTHING).expect("no reference is left");
    assert!(Open.run().expect("the device opens without a fault"));
}
