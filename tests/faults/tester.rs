//! Injected mistakes, which the checks must detect.

use koel::HashBackend;

use crate::driver::{self, release_twice};
use crate::sweep::{give_back, settled};
use crate::{device, in_child, is_child};

#[test]
fn a_planted_leak_is_found() {
    if !is_child() {
        in_child("tester::a_planted_leak_is_found", &[]);
        return;
    }
    let device = device();
    give_back(&device);
    let before = driver::references();
    settled(before).expect("nothing is wrong yet");
    std::mem::forget(device.filled(77, 0u32).expect("memory"));
    give_back(&device);
    let found = settled(before).expect_err("a leak");
    assert!(found.contains("leak"), "{found}");
}

#[test]
fn a_planted_wrong_release_is_found() {
    if !is_child() {
        in_child("tester::a_planted_wrong_release_is_found", &[]);
        return;
    }
    let device = device();
    let launches = || device.iota(64).map(drop).expect("a kernel, which is released");
    launches();
    give_back(&device);
    let before = driver::references();
    launches();
    give_back(&device);
    settled(before).expect("nothing is wrong yet");
    release_twice();
    launches();
    give_back(&device);
    // One release of a reference that koel had, or of one that it did not have.
    settled(before).expect_err("a release too many");
}
