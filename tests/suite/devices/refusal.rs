//! A device that fails its self-test is refused with a reason, and the CPU is used instead and reports why. A device
//! without 64-bit atomics builds tables of some schemes itself, and the CPU builds those of others.

use std::process::Command;

use koel::backend::{HashBackend, Runs, Tier};
use koel::device::{Any, auto, devices};
use koel::scheme::Scheme;
use koel::{Bucketized, Cpu, Cuckoo, CuckooSet, Error, HashTable, OpenCl, RobinHood, Signpost};

const CHILD: &str = "KOEL_TEST_CHILD";

/// Runs one test of this file again in a child process with another environment.
fn in_child(test: &str, variables: &[(&str, &str)]) {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("devices::refusal::{test}"), "--nocapture"])
        .env(CHILD, "1")
        .envs(variables.iter().copied())
        .env_remove("KOEL_REQUIRE_OPENCL")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout) + String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success(), "{said}");
    assert!(said.contains("1 passed"), "{said}");
}

#[test]
#[cfg(feature = "fault-injection")]
fn a_failed_self_test_of_the_atomics_is_a_typed_refusal() {
    if std::env::var_os(CHILD).is_none() {
        if crate::common::opencl_devices().is_empty() {
            return;
        }
        return in_child("a_failed_self_test_of_the_atomics_is_a_typed_refusal", &[("KOEL_FAULT", "atomics")]);
    }
    let listed = devices();
    assert!(listed.len() > 1, "the device is still listed");
    for device in &listed[1..] {
        let reason = device.refused.as_ref().unwrap();
        assert!(reason.contains("atomics failed"), "{reason}");
    }
    assert!(matches!(OpenCl::nth(0), Err(Error::Unsupported { .. })));
    assert!(OpenCl::best().is_err());
    assert!(koel::device::choose("opencl", None).is_err());
    let choice = auto();
    assert!(matches!(choice.backend, Any::Cpu(_)));
    assert!(choice.why.contains("atomics failed"), "{}", choice.why);
}

#[test]
fn a_missing_library_causes_neither_a_delay_nor_a_panic() {
    if std::env::var_os(CHILD).is_none() {
        let test = "a_missing_library_causes_neither_a_delay_nor_a_panic";
        in_child(test, &[("KOEL_OPENCL", "off")]);
        return in_child(test, &[("KOEL_OPENCL", "/no/such/library.so")]);
    }
    let start = std::time::Instant::now();
    assert_eq!(devices().len(), 1);
    assert!(matches!(OpenCl::best(), Err(Error::NoDevice { .. })));
    assert!(matches!(OpenCl::nth(0), Err(Error::NoDevice { .. })));
    assert!(matches!(OpenCl::by_name("x"), Err(Error::NoDevice { .. })));
    assert!(matches!(auto().backend, Any::Cpu(_)));
    // ocl's own enumeration would stall for ten seconds; the bound is far from both.
    assert!(start.elapsed().as_secs() < 5);
}

/// Builds a nearly full table on the device and on the CPU, and compares their bytes. Returns whether the device itself
/// built the first one.
fn builds<S: Scheme>(device: &OpenCl, scheme: S, keys: &[S::Key], values: &[S::Value]) -> bool
where
    OpenCl: Runs<S>,
    Cpu: Runs<S>,
{
    let build = HashTable::builder(scheme).load_factor(0.9).seed(3);
    device.ledger().take();
    let there = build.clone().build(device, keys, values).unwrap();
    let by_host = device.ledger().take().iter().any(|stage| stage.name == "build" && stage.host > 0);
    let here = build.build(&Cpu::new(), keys, values).unwrap();
    assert_eq!(here.digest().unwrap(), there.digest().unwrap(), "{}", here.scheme().name());
    assert_eq!(there.get(keys).unwrap(), here.get(keys).unwrap());
    !by_host
}

#[test]
fn without_64_bit_atomics_the_device_builds_what_32_bits_decide() {
    if std::env::var_os(CHILD).is_none() {
        if crate::common::opencl_devices().is_empty() {
            return;
        }
        let test = "without_64_bit_atomics_the_device_builds_what_32_bits_decide";
        return in_child(test, &[("KOEL_OPENCL_TIER", "partial")]);
    }
    let device = &OpenCl::best().unwrap();
    let len = if std::env::var_os("KOEL_TEST_SMALL").is_some() { 500 } else { 20_000 };
    let keys: Vec<u32> = (0..len).map(|i: u32| i.wrapping_mul(0x9e37_79b9)).collect();
    let wide: Vec<u64> = (0..u64::from(len)).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    assert!(builds(device, Cuckoo::canonical(4), &keys, &keys));
    assert!(builds(device, CuckooSet::canonical(4), &keys, &vec![0; keys.len()]));
    assert!(builds(device, Bucketized::canonical(8), &keys, &keys));
    assert!(builds(device, Bucketized::canonical(8).of::<u64, u64>(), &wide, &wide));
    assert!(builds(device, Bucketized::canonical(8).of::<u64, u32>(), &wide, &keys));
    assert!(builds(device, Bucketized::canonical(8).of::<u32, u64>(), &keys, &wide));
    assert!(builds(device, Signpost::new(), &keys, &keys));
    assert!(builds(device, Signpost::new().of::<u64, u64>(), &wide, &wide));
    assert!(!builds(device, RobinHood::default(), &keys, &keys), "the CPU builds it");
}

/// The driver is PoCL with a forced tier, or that of a device without the atomics.
#[test]
fn without_64_bit_atomics_the_cpu_changes_tables_and_the_device_answers() {
    if std::env::var_os(CHILD).is_none() {
        if crate::common::opencl_devices().is_empty() {
            return;
        }
        let test = "without_64_bit_atomics_the_cpu_changes_tables_and_the_device_answers";
        return in_child(test, &[("KOEL_OPENCL_TIER", "partial")]);
    }
    let device = OpenCl::best().unwrap();
    assert!(matches!(device.info().tier, Tier::Partial { .. }));
    assert!(matches!(auto().backend, Any::Cpu(_)), "a device of this tier is used only if it is requested by name");
    let (cpu, keys): (_, Vec<u32>) = (Cpu::new(), (0..1000).map(|i| i * 7 + 1).collect());
    let (left, right) = keys.split_at(600);
    let build = HashTable::builder(Cuckoo::canonical(4)).capacity(2000);
    let mut here = build.clone().build(&cpu, left, left).unwrap();
    device.ledger().take();
    let mut there = build.build(&device, left, left).unwrap();
    here.insert(right, right).unwrap();
    there.insert(right, right).unwrap();
    here.remove(&keys[100..200]).unwrap();
    there.remove(&keys[100..200]).unwrap();
    let passes = device.ledger().take();
    let by_host = |name| passes.iter().any(|stage| stage.name == name && stage.host > 0 && stage.kernel == 0);
    assert!(by_host("extend") && by_host("remove"), "{passes:?}");
    assert_eq!(here.digest().unwrap(), there.digest().unwrap());
    assert_eq!(there.get(&keys).unwrap(), here.get(&keys).unwrap());
    let passes = device.ledger().take();
    assert!(passes.iter().all(|stage| stage.host == 0), "the device answers: {passes:?}");
}

/// CI sets `KOEL_EXPECT_PARTIAL` to a platform without 64-bit atomics (Mesa's rusticl).
#[test]
fn a_device_without_64_bit_atomics_is_of_the_partial_tier() {
    let Ok(name) = std::env::var("KOEL_EXPECT_PARTIAL") else {
        return crate::common::skip("a device without 64-bit atomics", "KOEL_EXPECT_PARTIAL is not set");
    };
    let listed = devices();
    let found = listed.iter().find(|device| device.info.driver.contains(&name) || device.info.name.contains(&name));
    let found = found.unwrap_or_else(|| panic!("{name} is not among {listed:#?}"));
    assert_eq!(found.refused, None);
    let reason = found.info.tier.reason();
    assert!(reason.is_some_and(|reason| reason.contains("64-bit atomics")), "{reason:?}");
}

#[test]
fn invalid_variables_are_errors_of_operations_that_use_them() {
    if std::env::var_os(CHILD).is_none() {
        let test = "invalid_variables_are_errors_of_operations_that_use_them";
        return in_child(test, &[("KOEL_BUILD_ROUTE", "sideways"), ("KOEL_OPENCL", "off")]);
    }
    let (cpu, keys) = (Cpu::new(), [1, 2, 3]);
    match HashTable::builder(Bucketized::canonical(8)).build(&cpu, &keys, &keys) {
        Err(Error::InvalidParameter { what: "KOEL_BUILD_ROUTE", given, advice }) => {
            assert_eq!((given.as_str(), advice), ("sideways", "use direct or by-parts"));
        }
        other => panic!("{other:?}"),
    }
    HashTable::builder(Cuckoo::canonical(4)).build(&cpu, &keys, &keys).unwrap();
}
