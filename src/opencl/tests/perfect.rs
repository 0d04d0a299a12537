//! Compares lookups, overwriting and decoding on the device with the sequential functions of src/scheme/perfect.

use super::{device, noise, small};
use crate::backend::scheme_tests::{
    arbitrary_images, assign, build_as_by_the_rule, compare_assigned, compare_decoded, compare_lookups, remove,
};
use crate::backend::{HashBackend, Kernels, Placed};
use crate::error::{Error, Result};
use crate::opencl::{Buffer, OpenCl};
use crate::scheme::cuckoo::classic::EMPTY_KEY;
use crate::scheme::{Perfect, PerfectPlan, Plan as _, Request, Scheme as _};
use crate::workload::Workload;

fn schemes() -> [Perfect; 3] {
    [Perfect::default(), Perfect::plane(1000), Perfect::volume(2048, 700)]
}

/// Every program compiled from cl/perfect.cl.
pub(super) fn plans(pairs: usize) -> Vec<PerfectPlan> {
    schemes().map(|scheme| plan(scheme, pairs, 0)).to_vec()
}

fn plan(scheme: Perfect, pairs: usize, attempt: u32) -> PerfectPlan {
    let slots = pairs as u64 * 10 / 9;
    scheme.plan(Request { slots, pairs: pairs as u64, seed: 5, attempt }).expect("a plan")
}

/// A table at the first attempt that succeeds, which must be the sequential one.
fn built(cl: &OpenCl, scheme: Perfect, load: &Workload) -> Result<(PerfectPlan, Buffer<u64>)> {
    let (keys, values) = (load.keys(), load.values());
    let (plan, image, placed) = build_as_by_the_rule(cl, &|attempt| plan(scheme, keys.len(), attempt), &keys, &values)?;
    assert_eq!(placed, Placed::default());
    Ok((plan, image))
}

fn sizes() -> &'static [u32] {
    if small() { &[0, 1, 2, 130] } else { &[0, 1, 2, 63, 64, 65, 1000, 20_000] }
}

fn queries(load: &Workload, len: usize) -> Vec<u32> {
    let mut queries = load.queries(len, 60);
    queries.iter_mut().skip(3).step_by(41).for_each(|query| *query = EMPTY_KEY);
    queries
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn tables_are_built_looked_up_and_decoded_as_one_key_at_a_time() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    for cl in [cl.clone(), cl.with_group(256)] {
        for scheme in schemes() {
            for &len in sizes() {
                let load = Workload::new(len, 6);
                let (plan, image) = built(&cl, scheme, &load)?;
                assert_eq!(plan.cells(), plan.slots(), "offsets are not cells");
                compare_decoded(&cl, &plan, &image)?;
                for count in [0, 1, 33, if small() { 200 } else { 1000 }] {
                    compare_lookups(&cl, &plan, &image, &queries(&load, count))?;
                    compare_lookups(&cl, &plan.with_outside(Some(9)), &image, &queries(&load, count))?;
                }
            }
        }
    }
    Ok(())
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn assigning_overwrites_only_values() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let load = Workload::new(if small() { 300 } else { 9000 }, 4);
    for scheme in schemes() {
        let (plan, mut image) = built(cl, scheme, &load)?;
        compare_assigned(cl, &plan, &mut image, &load.keys())?;
    }
    Ok(())
}

/// Offsets and slots that no build creates: every read stays in the image, and returns what the sequential lookup
/// returns.
#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn any_image_is_read_within_its_bounds() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    for plan in plans(1000) {
        let [words, ..] = arbitrary_images(&plan, 3);
        let mut image = cl.upload(&words)?;
        let queries = noise(8, if small() { 300 } else { 20_000 });
        compare_lookups(cl, &plan, &image, &queries)?;
        compare_decoded(cl, &plan, &image)?;
        assign(cl, &plan, &mut image, &queries, &queries)?;
        cl.finish()?;
        let removed = remove(cl, &plan, &mut image, &queries);
        assert!(matches!(removed, Err(Error::InvalidParameter { .. })));
        assert!(Kernels::<Perfect>::lift(cl, &plan, &mut image).is_err());
        let short = cl.upload(&words[1..])?;
        assert!(matches!(Kernels::<Perfect>::decode(cl, &plan, &short), Err(Error::LengthMismatch { .. })));
    }
    Ok(())
}
