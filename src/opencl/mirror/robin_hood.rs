//! Compares cl/robin_hood.clh with src/scheme/robin_hood, bit for bit: every sequence, layout and number of bits, sizes
//! from the smallest to the greatest.

use crate::backend::HashBackend;
use crate::error::Result;
use crate::opencl::Buffer;
use crate::opencl::runtime::program::MIRROR_ROBIN_HOOD;
use crate::opencl::runtime::sizes::GROUP;
use crate::opencl::tests::{device, noise, robin_hood, small};
use crate::scheme::hash::reduce;
use crate::scheme::robin_hood::max_ages::MaxAges;
use crate::scheme::robin_hood::{MOST_SLOTS, RobinHoodPlan};
use crate::scheme::{Request, Scheme};

/// Inputs of one work-item: key, place, age, value.
const INPUTS: usize = 4;
const OUTPUTS: usize = 9;

/// Random rows; every third key and place is an extreme.
fn rows(plan: &RobinHoodPlan, seed: u64) -> Vec<[u32; INPUTS]> {
    let (slots, ages) = (plan.slot_count(), 1 << plan.layout().age_bits);
    let keys = [0, 1, u32::MAX, slots, slots - 1, slots + 1, 1 << 28, u32::MAX / slots * slots];
    let random = noise(seed, INPUTS * if small() { 200 } else { 10_000 });
    let row = |(at, x): (usize, &[u32])| {
        let &[key, place, age, value] = x else { panic!("a row") };
        let key = if at % 3 == 0 { keys[at / 3 % keys.len()] } else { key };
        let place = if at % 3 == 1 { [0, slots - 1][at % 2] } else { reduce(place, slots) };
        [key, place, age % ages, value]
    };
    random.chunks_exact(INPUTS).enumerate().map(row).collect()
}

/// The results that `mirror_robin_hood` in cl/mirror_robin_hood.cl must compute.
fn expected(plan: &RobinHoodPlan, [key, place, age, value]: [u32; INPUTS]) -> [u64; OUTPUTS] {
    let rule = plan.rule();
    let (functions, layout) = (&rule.functions, rule.layout);
    let two = |(high, low): (u32, u32)| u64::from(high) << 32 | u64::from(low);
    let (split, goal) = (functions.split(key), rule.aim(key));
    let made = layout.cell(age, goal.1, value);
    let any = two((key, value)) & u64::MAX >> (64 - layout.cell_bits());
    let taken = rule.pair(place, any).is_some();
    let last = match rule.max_ages {
        MaxAges::Array(levels) | MaxAges::Packed(levels) => two((levels.bound(age), levels.code(age))),
        // Key and name at an invalid age are meaningless, but must be equal.
        MaxAges::None if rule.names_keys => layout.name(made).into(),
        MaxAges::None => functions.key(functions.home(place, age), layout.name(made)).into(),
    };
    [
        two(split),
        two(goal),
        two((functions.place(place, age), functions.home(place, age))),
        functions.key(place, split.1).into(),
        made,
        two((layout.age(any), layout.name(any))),
        two((layout.value(any), u32::from(layout.is_pair(any)) << 1 | u32::from(taken))),
        layout.with_age(any, age) ^ layout.upper(any),
        last,
    ]
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn every_function_of_robin_hood_tables_is_its_twin() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    for scheme in robin_hood::schemes() {
        for (seed, slots) in [67, 1000, 65_521, 77_777, 1 << 28, MOST_SLOTS].into_iter().enumerate() {
            let plan = scheme.plan(Request { slots, pairs: 0, seed: seed as u64, attempt: seed as u32 })?;
            let rows = rows(&plan, seed as u64);
            let from: Buffer<u32> = cl.upload(rows.as_flattened())?;
            let to: Buffer<u64> = cl.filled(rows.len() * OUTPUTS, u64::MAX)?;
            let program = cl.program(MIRROR_ROBIN_HOOD, &crate::opencl::robin_hood::parameters(&plan, GROUP))?;
            let launch = cl.kernel(&program, "mirror_robin_hood")?.buffer(&from);
            let launch =
                crate::opencl::robin_hood::table(launch, &plan.rule().functions).buffer(&to).value(rows.len() as u64);
            launch.over_groups_of(GROUP, rows.len(), rows.len())?;
            for (row, found) in rows.iter().zip(cl.download(&to)?.chunks_exact(OUTPUTS)) {
                assert_eq!(found, expected(&plan, *row), "{plan:?}, inputs {row:x?}");
            }
        }
    }
    Ok(())
}
