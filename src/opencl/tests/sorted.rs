//! Compares sorted tables of the device with the sequential functions of src/scheme/sorted.

use super::{device, noise, small};
use crate::backend::wide_table_tests::{digests_of_sorted_tables, tables};
use crate::backend::wide_tests::{every_layout, images, structures};
use crate::backend::{HashBackend, Kernels, Placed, bitmap_words};
use crate::error::{Error, Result};
use crate::opencl::{Buffer, OpenCl};
use crate::scheme::{Placing, Plan, Request, Scheme, Sorted, SortedOf, SortedPlan};
use crate::workload::Workload;

/// Distinct keys, the extreme ones among them, with values.
fn pairs(len: usize) -> (Vec<u32>, Vec<u32>) {
    let all = Workload::new(len as u32 + 2, 8).keys();
    let mut keys: Vec<u32> = all.into_iter().filter(|key| ![0, u32::MAX].contains(key)).take(len).collect();
    keys.iter_mut().zip([0, u32::MAX]).for_each(|(key, extreme)| *key = extreme);
    (keys, noise(len as u64, len))
}

fn plan(slots: usize, pairs: usize) -> SortedPlan {
    Sorted.plan(Request { slots: slots as u64, pairs: pairs as u64, seed: 5, attempt: 0 }).expect("a plan")
}

fn place(cl: &OpenCl, plan: &SortedPlan, keys: &[u32], values: &[u32]) -> Result<(Buffer<u64>, Placed)> {
    // Earlier contents must not be visible.
    let mut image = cl.filled(plan.words() as usize, 0x1234_5678_9abc_def0u64)?;
    let placed = Kernels::<Sorted>::place(cl, plan, &mut image, &cl.upload(keys)?, &cl.upload(values)?)?;
    Ok((image, placed))
}

fn sizes() -> &'static [usize] {
    if small() { &[0, 1, 2, 65, 300] } else { &[0, 1, 2, 3, 63, 64, 65, 1000, 4097, 50_000] }
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn images_and_lookups_equal_the_reference() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    for &len in sizes() {
        let (keys, values) = pairs(len);
        for slots in [len, len + 33] {
            let plan = plan(slots, len);
            let mut expected = vec![plan.empty_word(); plan.words() as usize];
            let columns: Vec<_> = keys.iter().copied().zip(values.iter().copied()).collect();
            assert_eq!(Sorted::place(&plan, &mut expected, &columns), Placing::Placed);
            let (image, placed) = place(cl, &plan, &keys, &values)?;
            assert_eq!(placed, Placed::default());
            assert!(cl.download(&image)? == expected, "{len} of {slots}");
            let near = keys.iter().flat_map(|key| [key.wrapping_add(1), *key, !key]);
            let queries: Vec<u32> = near.chain([0, 1, u32::MAX, u32::MAX - 1]).collect();
            let mut answers = cl.filled(queries.len(), 0xdead_beefu32)?;
            let mut found = cl.filled(bitmap_words(queries.len()), u32::MAX)?;
            let on_device = cl.upload(&queries)?;
            Kernels::<Sorted>::lookup(cl, &plan, &image, &on_device, &mut answers, &mut found)?;
            let (answers, found) = (cl.download(&answers)?, cl.download(&found)?);
            for (i, &query) in queries.iter().enumerate() {
                let hit = found[i / 32] >> (i % 32) & 1 == 1;
                let expected = Sorted::find(&plan, &expected, query);
                assert_eq!((hit, answers[i]), (expected.is_some(), expected.unwrap_or(0)), "{len}: {query}");
            }
            assert!((queries.len()..32 * found.len()).all(|i| found[i / 32] >> (i % 32) & 1 == 0));
        }
    }
    Ok(())
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn duplicates_are_counted_exactly_and_too_many_pairs_are_reported() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let len = if small() { 300 } else { 30_000 };
    let (mut keys, _) = pairs(len);
    let twice = keys[20..120].to_vec();
    keys.extend(&twice);
    keys.extend([twice[7]; 5]);
    let values = noise(1, keys.len());
    let expected = Placed { duplicates: 105, least_duplicate: twice.into_iter().min(), ..Placed::default() };
    assert_eq!(place(cl, &plan(keys.len(), keys.len()), &keys, &values)?.1, expected);
    let expected = Placed { duplicates: len as u64 - 1, least_duplicate: Some(9), ..Placed::default() };
    assert_eq!(place(cl, &plan(len, len), &vec![9; len], &values[..len])?.1, expected);
    assert_eq!(place(cl, &plan(100, keys.len()), &keys, &values)?.1.unplaced, keys.len() as u64 - 100);
    let refused = place(cl, &plan(10, 5), &[1, 2, 3], &[4, 5, 6]);
    assert!(matches!(refused, Err(Error::LengthMismatch { .. })), "other pairs than the plan's: {refused:?}");
    Ok(())
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn values_are_overwritten_in_place_and_pairs_are_in_order() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let len = if small() { 300 } else { 20_000 };
    let (keys, values) = pairs(len);
    let plan = plan(len + 40, len);
    let (mut image, _) = place(cl, &plan, &keys, &values)?;
    let some: Vec<u32> = keys.iter().copied().step_by(3).chain([12_345]).collect();
    let other: Vec<u32> = some.iter().map(|key| !key).collect();
    Kernels::<Sorted>::assign(cl, &plan, &mut image, &cl.upload(&some)?, &cl.upload(&other)?)?;
    let changed = |(i, (&key, &value)): (usize, (&u32, &u32))| (key, if i % 3 == 0 { !key } else { value });
    let mut expected: Vec<(u32, u32)> = keys.iter().zip(&values).enumerate().map(changed).collect();
    expected.sort_unstable();
    let decoded = Kernels::<Sorted>::decode(cl, &plan, &image)?;
    let taken = cl.download(&decoded.taken)?;
    assert!((0..32 * taken.len()).all(|i| (taken[i / 32] >> (i % 32) & 1 == 1) == (i < len)));
    let pairs = cl.download(&decoded.keys)?.into_iter().zip(cl.download(&decoded.values)?);
    let past = vec![(0, 0); 40];
    assert!(pairs.eq(expected.into_iter().chain(past)));
    Ok(())
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn damaged_images_cause_no_panic() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let plan = plan(500, 400);
    let damaged: Vec<u64> = (0..500u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    let mut image = cl.upload(&damaged)?;
    let queries = noise(4, 1000);
    let (mut values, mut found) = (cl.filled(1000, 0)?, cl.filled(bitmap_words(1000), 0)?);
    Kernels::<Sorted>::lookup(cl, &plan, &image, &cl.upload(&queries)?, &mut values, &mut found)?;
    let found = cl.download(&found)?;
    for (i, &query) in queries.iter().enumerate() {
        assert_eq!(found[i / 32] >> (i % 32) & 1 == 1, Sorted::find(&plan, &damaged, query).is_some());
    }
    let nothing = cl.filled(0, 0u32)?;
    assert!(matches!(Kernels::<Sorted>::remove(cl, &plan, &mut image, &nothing), Err(Error::InvalidParameter { .. })));
    assert!(matches!(Kernels::<Sorted>::lift(cl, &plan, &mut image), Err(Error::InvalidParameter { .. })));
    let short = cl.filled(499, 0u64)?;
    assert!(matches!(Kernels::<Sorted>::decode(cl, &plan, &short), Err(Error::LengthMismatch { .. })));
    Ok(())
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn columns_of_64_bits_equal_the_reference() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let sizes: &[(usize, f64)] =
        if small() { &[(65, 1.0)] } else { &[(0, 1.0), (1, 1.0), (7, 0.5), (129, 1.0), (20_000, 0.95)] };
    every_layout!(images, cl, Sorted, sizes);
    // A simulator is too slow for the sorts of all the following tables.
    if small() {
        return Ok(());
    }
    every_layout!(tables, cl, Sorted, 10_001);
    digests_of_sorted_tables(cl)?;
    structures(cl, &Sorted.of::<u64, u32>(), &Sorted.of::<u64, ()>(), 9000)
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn duplicates_of_64_bit_keys_are_counted_exactly() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let keys: u64 = if small() { 60 } else { 30_000 };
    let column: Vec<u64> = (0..keys + keys / 2).map(|i| (i % keys) << 33 | 7).collect();
    let request = Request { slots: column.len() as u64, pairs: column.len() as u64, seed: 0, attempt: 0 };
    let plan = Sorted.of::<u64, u64>().plan(request)?;
    let mut image = cl.filled(plan.words() as usize, 9u64)?;
    let (column, values) = (cl.upload(&column)?, cl.upload(&column)?);
    let placed = Kernels::<SortedOf<u64, u64>>::place(cl, &plan, &mut image, &column, &values)?;
    assert_eq!((placed.duplicates, placed.least_duplicate, placed.unplaced), (keys / 2, Some(7), 0));
    let few = Sorted.of::<u64, u64>().plan(Request { slots: 10, ..request })?;
    let mut image = cl.filled(few.words() as usize, 9u64)?;
    let placed = Kernels::<SortedOf<u64, u64>>::place(cl, &few, &mut image, &column, &values)?;
    assert_eq!(placed.unplaced, keys + keys / 2 - 10);
    Ok(())
}
