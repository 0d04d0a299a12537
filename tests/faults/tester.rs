//! Injected leaks and wrong releases, which the checks must detect.

use koel::HashBackend;

use crate::driver::{self, release_twice};
use crate::sweep::{give_back, settled};
use crate::{device, in_child, is_child};

#[test]
fn an_injected_leak_is_detected() {
    if !is_child() {
        in_child("tester::an_injected_leak_is_detected", &[]);
        return;
    }
    let device = device();
    give_back(&device);
    let before = driver::references();
    settled(before).expect("no fault has been injected yet");
    std::mem::forget(device.filled(77, 0u32).expect("memory"));
    give_back(&device);
    let found = settled(before).expect_err("a leak");
    assert!(found.contains("leak"), "{found}");
}

#[test]
fn an_injected_wrong_release_is_detected() {
    if !is_child() {
        in_child("tester::an_injected_wrong_release_is_detected", &[]);
        return;
    }
    let device = device();
    let launches = || device.iota(64).map(drop).expect("a kernel, which is released");
    launches();
    give_back(&device);
    let before = driver::references();
    launches();
    give_back(&device);
    settled(before).expect("no fault has been injected yet");
    release_twice();
    launches();
    give_back(&device);
    // The release that counts twice is of an object with further references, or it is a wrong release.
    settled(before).expect_err("the additional release is detected");
}
