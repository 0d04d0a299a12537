//! Fails the first, a middle and the last call of each OpenCL function that an operation calls.

use std::collections::BTreeMap;
use std::io::Write;

use koel::{HashBackend, OpenCl};

use crate::driver::{self, KNOWN, NO_MEMORY, References, UNKNOWN, arm, disarm};
use crate::operations::{
    Build, Get, GetMany, GetPinned, Group, GroupDoubles, Insert, Join, Operation, Remove, Shards, ShardsOfLists, Timed,
    Transfer, Upsert, is_right,
};
use crate::{device, in_child, is_child};

/// Makes the device free all cached memory except one buffer.
pub fn give_back(device: &OpenCl) {
    arm("clEnqueueFillBuffer", 1, 1, NO_MEMORY);
    // May fail if there was nothing to free.
    let _ = device.filled(64, 0u32);
    disarm();
}

/// Checks the conditions that must hold between two operations.
pub fn settled(before: References) -> Result<(), String> {
    let (now, wrong, pending, hazards) =
        (driver::references(), driver::wrong_releases(), driver::pending(), driver::hazards());
    if now != before {
        return Err(format!("references leak or are lost: {before:?} before, {now:?} now"));
    }
    if (wrong, pending, hazards) != (0, 0, 0) {
        return Err(format!("{wrong} wrong releases, {pending} pending transfers, {hazards} uses of their memory"));
    }
    Ok(())
}

/// The number of calls of each function during an operation.
fn calls_of(run: impl FnOnce()) -> BTreeMap<String, u32> {
    let before = driver::calls();
    run();
    let made = |(name, calls): (String, u32)| {
        let calls = calls - before.get(&name).copied().unwrap_or(0);
        (calls > 0).then_some((name, calls))
    };
    driver::calls().into_iter().filter_map(made).collect()
}

/// The positions of the first, a middle and the last call.
pub fn positions(calls: u32) -> Vec<u32> {
    let mut positions = vec![1, calls.div_ceil(2), calls];
    positions.dedup();
    positions
}

/// [`sweep`] of an operation on an open device, over all functions.
fn on<O: Operation>(device: &OpenCl) -> u32 {
    sweep(|| prepared::<O>(device), || give_back(device), |_| true)
}

/// [`sweep`] of an operation that uses slots, on an open device, over all functions. A slot keeps the end of its last
/// transfer until the next one, so all of them are used before references are counted.
fn on_slots<O: Operation>(device: &OpenCl) -> u32 {
    let rest = || {
        assert!(prepared::<GetMany>(device).run().expect("no fault is left"));
        give_back(device);
    };
    sweep(|| prepared::<O>(device), rest, |_| true)
}

fn prepared<O: Operation>(device: &OpenCl) -> O {
    let made = O::prepare(device).expect("no fault is left");
    give_back(device);
    made
}

/// Fails the functions selected by `chosen` during an operation. Returns the number of faults reached.
pub fn sweep<O: Operation>(prepare: impl Fn() -> O, rest: impl Fn(), chosen: impl Fn(&str) -> bool) -> u32 {
    let name = std::any::type_name::<O>().rsplit("::").next().unwrap_or_default();
    for _ in 0..2 {
        assert!(prepare().run().expect("nothing fails in the warm-up"), "{name}: a wrong result");
    }
    rest();
    let before = driver::references();
    let mut made = prepare();
    let calls = calls_of(|| assert!(made.run().expect("nothing fails"), "{name}: a wrong result"));
    drop(made);
    rest();
    settled(before).unwrap_or_else(|wrong| panic!("{name}, without a fault: {wrong}"));

    let mut reached = 0;
    for (function, &calls) in calls.iter().filter(|(function, _)| chosen(function)) {
        for (call, code) in positions(calls).into_iter().flat_map(|call| [(call, KNOWN), (call, UNKNOWN)]) {
            let which = format!("{name}: call {call} of {calls} of {function} fails with {code}");
            // Shows the current fault if this process hangs or dies.
            println!("{which}");
            let _ = std::io::stdout().flush();
            let mut made = prepare();
            arm(function, call, 1, code);
            let done = made.run();
            reached += disarm();
            if let Err(error) = &done {
                assert!(is_right(error, code == UNKNOWN), "{which}: {error:?}");
                assert!(made.unchanged().expect("no fault is left"), "{which}: the state has changed");
            } else {
                // koel has recovered, by another strategy or another attempt.
                assert!(matches!(done, Ok(true)), "{which}: a wrong result");
                made = prepare();
            }
            let again = made.run().unwrap_or_else(|error| panic!("{which}: then {error:?}"));
            assert!(again, "{which}: a wrong result of the next run");
            drop(made);
            rest();
            settled(before).unwrap_or_else(|wrong| panic!("{which}: {wrong}"));
        }
    }
    reached
}

/// In the parent, runs a test again in a child process; in the child, runs its sweeps on a device. They must reach at
/// least `fewest` faults.
fn reaches(fewest: u32, test: &str, sweeps: impl FnOnce(&OpenCl) -> u32) {
    if is_child() {
        let device = device();
        let reached = sweeps(&device);
        drop(device);
        assert_eq!(driver::references(), NOTHING, "references exist after the device was closed");
        return println!("faults reached: {reached}");
    }
    let Some(said) = in_child(test, &[]) else { return };
    let reached = said.lines().find_map(|line| line.strip_prefix("faults reached: ")).expect("their number");
    eprintln!("faults reached: {reached}");
    assert!(reached.parse::<u32>().expect("a number") >= fewest, "only {reached} faults were reached");
}

// Two tests, so that two processes share the work; each uses one core.

#[test]
fn every_call_of_operations_on_a_table_can_fail() {
    reaches(250, "sweep::every_call_of_operations_on_a_table_can_fail", |device| {
        on::<Build>(device)
            + on::<Insert>(device)
            + on::<Upsert>(device)
            + on::<Remove>(device)
            + on::<Get>(device)
            + on::<Timed>(device)
            + on_slots::<Transfer>(device)
            + on_slots::<GetMany>(device)
            + on_slots::<GetPinned>(device)
    });
}

#[test]
fn every_call_of_shards_joins_and_groups_can_fail() {
    reaches(250, "sweep::every_call_of_shards_joins_and_groups_can_fail", |device| {
        on::<Shards>(device)
            + on::<ShardsOfLists>(device)
            + on::<Join>(device)
            + on::<Group>(device)
            + on::<GroupDoubles>(device)
    });
}

/// The references of a process that has no open device.
pub const NOTHING: References = References { contexts: 0, queues: 0, memory: 0, programs: 0, kernels: 0, events: 0 };
