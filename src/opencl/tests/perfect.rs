//! Compares lookups, overwriting and decoding on the device with the sequential functions of src/scheme/perfect.

use super::{device, noise, small};
use crate::backend::{Decoded, HashBackend, Kernels, Placed, bitmap_words};
use crate::error::{Error, Result};
use crate::opencl::{Buffer, OpenCl};
use crate::scheme::cuckoo::classic::EMPTY_KEY;
use crate::scheme::{Perfect, PerfectPlan, Placing, Plan as _, Request, Scheme as _};
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
    let pairs: Vec<_> = keys.iter().copied().zip(values.iter().copied()).collect();
    let (keys, values) = (cl.upload(&keys)?, cl.upload(&values)?);
    for attempt in 0..32 {
        let plan = plan(scheme, pairs.len(), attempt);
        let mut words = vec![plan.empty_word(); plan.words() as usize];
        let placing = Perfect::place(&plan, &mut words, &pairs);
        let mut image = cl.filled(words.len(), plan.empty_word())?;
        let placed = Kernels::<Perfect>::place(cl, &plan, &mut image, &keys, &values)?;
        assert_eq!(placed.unplaced > 0, placing == Placing::Unplaced);
        if placed.unplaced == 0 {
            assert_eq!(placed, Placed::default());
            assert!(cl.download(&image)? == words, "{plan:?}");
            return Ok((plan, image));
        }
    }
    panic!("no attempt fits");
}

fn sizes() -> &'static [u32] {
    if small() { &[0, 1, 2, 130] } else { &[0, 1, 2, 63, 64, 65, 1000, 20_000] }
}

fn queries(load: &Workload, len: usize) -> Vec<u32> {
    let mut queries = load.queries(len, 60);
    queries.iter_mut().skip(3).step_by(41).for_each(|query| *query = EMPTY_KEY);
    queries
}

fn compare_lookups(cl: &OpenCl, plan: &PerfectPlan, image: &Buffer<u64>, queries: &[u32]) -> Result<()> {
    let words = cl.download(image)?;
    let expected: Vec<_> = queries.iter().map(|&query| Perfect::find(plan, &words, query)).collect();
    let mut bits = vec![0; bitmap_words(queries.len())];
    expected.iter().enumerate().for_each(|(i, found)| bits[i / 32] |= u32::from(found.is_some()) << (i % 32));
    let mut values = cl.filled(queries.len(), 0xdead_beefu32)?;
    let mut found = cl.filled(bitmap_words(queries.len()), 0xdead_beefu32)?;
    Kernels::<Perfect>::lookup(cl, plan, image, &cl.upload(queries)?, &mut values, &mut found)?;
    let expected: Vec<u32> = expected.into_iter().map(|value| value.unwrap_or(0)).collect();
    assert_eq!(cl.download(&values)?, expected, "{plan:?}");
    assert_eq!(cl.download(&found)?, bits, "{plan:?}");
    Ok(())
}

fn compare_decoded(cl: &OpenCl, plan: &PerfectPlan, image: &Buffer<u64>) -> Result<()> {
    let Decoded { keys, values, taken } = Kernels::<Perfect>::decode(cl, plan, image)?;
    let (keys, values, taken) = (cl.download(&keys)?, cl.download(&values)?, cl.download(&taken)?);
    let image = cl.download(image)?;
    assert_eq!(keys.len() as u64, plan.slots(), "offsets are not cells");
    for at in 0..taken.len() * 32 {
        let pair = Perfect::pair(plan, &image, at as u64);
        assert_eq!(taken[at / 32] >> (at % 32) & 1 == 1, pair.is_some(), "word {at}");
        if at < keys.len() {
            assert_eq!((keys[at], values[at]), pair.unwrap_or((0, 0)), "word {at}");
        }
    }
    Ok(())
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
        let mut changed: Vec<u32> = load.keys().into_iter().step_by(3).chain(load.queries(500, 0)).collect();
        changed.push(EMPTY_KEY);
        changed.sort_unstable();
        changed.dedup();
        let mut expected = cl.download(&image)?;
        for &key in &changed {
            let at = plan.functions().location(&expected, key) as usize;
            if key != EMPTY_KEY && (expected[at] >> 32) as u32 == key {
                expected[at] = u64::from(key) << 32 | u64::from(!key);
            }
        }
        let new: Vec<u32> = changed.iter().map(|key| !key).collect();
        Kernels::<Perfect>::assign(cl, &plan, &mut image, &cl.upload(&changed)?, &cl.upload(&new)?)?;
        assert!(cl.download(&image)? == expected, "{plan:?}");
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
        let words: Vec<u64> = noise(3, 2 * plan.words() as usize)
            .chunks_exact(2)
            .map(|x| u64::from(x[0]) << 32 | u64::from(x[1]))
            .collect();
        let mut image = cl.upload(&words)?;
        let queries = noise(8, if small() { 300 } else { 20_000 });
        compare_lookups(cl, &plan, &image, &queries)?;
        compare_decoded(cl, &plan, &image)?;
        let keys = cl.upload(&queries)?;
        Kernels::<Perfect>::assign(cl, &plan, &mut image, &keys, &keys)?;
        cl.finish()?;
        let removed = Kernels::<Perfect>::remove(cl, &plan, &mut image, &keys);
        assert!(matches!(removed, Err(Error::InvalidParameter { .. })));
        assert!(Kernels::<Perfect>::lift(cl, &plan, &mut image).is_err());
        let short = cl.upload(&words[1..])?;
        assert!(matches!(Kernels::<Perfect>::decode(cl, &plan, &short), Err(Error::LengthMismatch { .. })));
    }
    Ok(())
}
