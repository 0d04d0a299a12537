//! Lookups, overwriting and decoding on threads, compared with the one-key functions.

use crate::backend::Placed;
use crate::backend::scheme_tests::{
    arbitrary_images, arbitrary_images_are_read_and_changed, build_as_by_the_rule, compare_assigned, compare_decoded,
    compare_lookups,
};
use crate::cpu::tests::schemes;
use crate::cpu::{BLOCK, Cpu, Memory};
use crate::error::Result;
use crate::scheme::cuckoo::classic::EMPTY_KEY;
use crate::scheme::hash::SplitMix64;
use crate::scheme::{Perfect, PerfectPlan, Plan, Request, Scheme};
use crate::workload::Workload;

fn cpus() -> [Cpu; 2] {
    schemes::with_threads([1, 3])
}

fn plan(scheme: &Perfect, slots: u64, attempt: u32) -> PerfectPlan {
    scheme.plan(Request { slots, pairs: 0, seed: 2, attempt }).expect("a plan")
}

/// A table of random keys, by the first attempt that succeeds.
fn table(cpu: &Cpu, scheme: &Perfect, load: &Workload) -> Result<(PerfectPlan, Memory<u64>)> {
    let (keys, values) = (load.keys(), load.values());
    let slots = keys.len() as u64 * 10 / 9;
    let (plan, image, placed) = build_as_by_the_rule(cpu, &|attempt| plan(scheme, slots, attempt), &keys, &values)?;
    assert_eq!(placed, Placed::default());
    Ok((plan, image))
}

#[test]
fn lookups_of_any_length_equal_single_lookups() -> Result<()> {
    let load = Workload::new(20_000, 4);
    for cpu in cpus() {
        for scheme in [Perfect::default(), Perfect::volume(2000, 1500)] {
            let (plan, image) = table(&cpu, &scheme, &load)?;
            for plan in [plan, plan.with_outside(Some(77))] {
                for len in [0, 1, 7, 8, 31, 32, 33, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 3 * BLOCK + 5, 40_000] {
                    let mut queries = load.queries(len, 60);
                    queries.iter_mut().skip(5).step_by(97).for_each(|query| *query = EMPTY_KEY);
                    compare_lookups(&cpu, &plan, &image, &queries)?;
                }
            }
        }
    }
    Ok(())
}

#[test]
fn assigning_overwrites_only_values() -> Result<()> {
    let load = Workload::new(9000, 4);
    for cpu in cpus() {
        let (plan, mut image) = table(&cpu, &Perfect::default(), &load)?;
        compare_assigned(&cpu, &plan, &mut image, &load.keys())?;
    }
    Ok(())
}

#[test]
fn decoding_gives_every_pair_and_no_offset() -> Result<()> {
    let load = Workload::new(5000, 4);
    for cpu in cpus() {
        let (plan, image) = table(&cpu, &Perfect::volume(300, 300), &load)?;
        assert_eq!(plan.cells(), plan.slots());
        compare_decoded(&cpu, &plan, &image)?;
    }
    Ok(())
}

#[test]
fn any_image_is_read_within_its_bounds() -> Result<()> {
    let cpu = Cpu::with_threads(2)?;
    for scheme in [Perfect::plane(1000), Perfect::volume(100, 100)] {
        let plan = plan(&scheme, 3000, 2);
        let mut stream = SplitMix64::new(6);
        let queries: Vec<u32> = (0..5000).map(|_| stream.next_u32()).chain([0, EMPTY_KEY]).collect();
        let images = arbitrary_images(&plan, 8);
        arbitrary_images_are_read_and_changed(&cpu, &plan, &images, (&queries, &queries), &queries)?;
    }
    Ok(())
}
