//! The CPU's sorted tables compared with the sequential reference, on one thread and on more than the machine has.

use crate::backend::wide_table_tests::{digests_of_sorted_tables, tables};
use crate::backend::wide_tests::{every_layout, images, structures};
use crate::backend::{HashBackend, Kernels, Placed, bitmap_words};
use crate::cpu::{Cpu, Memory};
use crate::error::{Error, Result};
use crate::scheme::{Placing, Plan, Request, Scheme, Sorted, SortedOf, SortedPlan};
use crate::workload::Workload;

fn cpus() -> [Cpu; 3] {
    [1, 2, 5].map(|threads| Cpu::with_threads(threads).expect("threads"))
}

/// Distinct keys, including the extreme ones.
fn distinct(count: usize) -> (Vec<u32>, Vec<u32>) {
    let load = Workload::new(count as u32 + 2, 3);
    let mut keys: Vec<u32> = load.keys().into_iter().filter(|key| ![0, u32::MAX].contains(key)).take(count).collect();
    keys.iter_mut().zip([u32::MAX, 0]).for_each(|(key, extreme)| *key = extreme);
    (keys, load.values()[..count].to_vec())
}

fn planned(slots: usize, pairs: usize) -> SortedPlan {
    Sorted.plan(Request { slots: slots as u64, pairs: pairs as u64, seed: 5, attempt: 0 }).expect("a plan")
}

fn place(cpu: &Cpu, plan: &SortedPlan, keys: &[u32], values: &[u32]) -> Result<(Vec<u64>, Placed)> {
    // The previous contents of the image must not affect the result.
    let mut image = cpu.filled(plan.words() as usize, 0x1234_5678_9abc_def0u64)?;
    let placed = Kernels::<Sorted>::place(cpu, plan, &mut image, &cpu.upload(keys)?, &cpu.upload(values)?)?;
    Ok((image.words().to_vec(), placed))
}

fn reference(plan: &SortedPlan, keys: &[u32], values: &[u32]) -> (Vec<u64>, Placing) {
    let mut image = vec![plan.empty_word(); plan.words() as usize];
    let pairs: Vec<_> = keys.iter().copied().zip(values.iter().copied()).collect();
    let placing = Sorted::place(plan, &mut image, &pairs);
    (image, placing)
}

fn looked_up(cpu: &Cpu, plan: &SortedPlan, image: &[u64], queries: &[u32]) -> Result<Vec<Option<u32>>> {
    let (image, queries) = (cpu.upload(image)?, cpu.upload(queries)?);
    let len = queries.words().len();
    let mut values: Memory<u32> = cpu.filled(len, 77)?;
    let mut found = cpu.filled(bitmap_words(len), u32::MAX)?;
    Kernels::<Sorted>::lookup(cpu, plan, &image, &queries, &mut values, &mut found)?;
    let bit = |i: usize| found.words()[i / 32] >> (i % 32) & 1 == 1;
    assert!((len..32 * found.words().len()).all(|i| !bit(i)), "bits past the end");
    assert!((0..len).all(|i| bit(i) || values.words()[i] == 0), "a miss is 0");
    Ok((0..len).map(|i| bit(i).then_some(values.words()[i])).collect())
}

#[test]
fn images_and_lookups_equal_the_reference() -> Result<()> {
    for len in (0..=70).chain([127, 128, 129, 1000, 16_384, 50_000]) {
        let (keys, values) = distinct(len);
        for slots in [len, len + 1, 2 * len] {
            let plan = planned(slots, len);
            let (expected, placing) = reference(&plan, &keys, &values);
            assert_eq!(placing, Placing::Placed);
            let near = keys.iter().flat_map(|key| [key.wrapping_add(1), *key, !key]);
            let queries: Vec<u32> = near.chain([0, 1, u32::MAX, u32::MAX - 1]).collect();
            let answers: Vec<_> = queries.iter().map(|&query| Sorted::find(&plan, &expected, query)).collect();
            for cpu in cpus() {
                let (image, placed) = place(&cpu, &plan, &keys, &values)?;
                assert_eq!(placed, Placed::default());
                assert!(image == expected, "{len} of {slots}");
                for count in [0, 1, 31, 32, 33, 127, 128, 129, queries.len()] {
                    let count = count.min(queries.len());
                    assert!(looked_up(&cpu, &plan, &image, &queries[..count])? == answers[..count], "{len}, {count}");
                }
            }
        }
    }
    Ok(())
}

#[test]
fn duplicates_are_counted_exactly_and_too_many_pairs_are_reported() -> Result<()> {
    let (mut keys, _) = distinct(60_000);
    let mut twice = keys[100..20_100].to_vec();
    twice.extend([twice[7]; 5]);
    let least = twice.iter().copied().min();
    keys.extend(&twice);
    let values = keys.clone();
    let plan = planned(keys.len(), keys.len());
    for cpu in cpus() {
        let expected = Placed { duplicates: 20_005, least_duplicate: least, ..Placed::default() };
        assert_eq!(place(&cpu, &plan, &keys, &values)?.1, expected);
        let equal = planned(50_000, 50_000);
        let expected = Placed { duplicates: 49_999, least_duplicate: Some(9), ..Placed::default() };
        assert_eq!(place(&cpu, &equal, &[9; 50_000], &values[..50_000])?.1, expected);
        let few = planned(1000, keys.len());
        assert_eq!(place(&cpu, &few, &keys, &values)?.1.unplaced, keys.len() as u64 - 1000);
    }
    let refused = place(&Cpu::new(), &planned(10, 5), &[1, 2, 3], &[4, 5, 6]);
    assert!(matches!(refused, Err(Error::LengthMismatch { .. })), "other pairs than the plan's: {refused:?}");
    Ok(())
}

#[test]
fn values_are_overwritten_in_place_and_pairs_are_in_order() -> Result<()> {
    let (keys, values) = distinct(30_000);
    let plan = planned(31_000, keys.len());
    for cpu in cpus() {
        let (words, _) = place(&cpu, &plan, &keys, &values)?;
        let mut image = cpu.upload(&words)?;
        let some: Vec<u32> = keys.iter().copied().step_by(3).chain([12_345]).collect();
        let other: Vec<u32> = some.iter().map(|key| !key).collect();
        Kernels::<Sorted>::assign(&cpu, &plan, &mut image, &cpu.upload(&some)?, &cpu.upload(&other)?)?;
        let changed = |(i, (&key, &value)): (usize, (&u32, &u32))| (key, if i % 3 == 0 { !key } else { value });
        let mut expected: Vec<(u32, u32)> = keys.iter().zip(&values).enumerate().map(changed).collect();
        expected.sort_unstable();
        let decoded = Kernels::<Sorted>::decode(&cpu, &plan, &image)?;
        let pairs = decoded.keys.words().iter().copied().zip(decoded.values.words().iter().copied());
        let taken = |i: usize| decoded.taken.words()[i / 32] >> (i % 32) & 1 == 1;
        assert!((0..31_000).all(|i| taken(i) == (i < 30_000)));
        assert!(pairs.take(30_000).eq(expected));
    }
    Ok(())
}

#[test]
fn damaged_images_cause_no_panic() -> Result<()> {
    let cpu = Cpu::with_threads(2)?;
    let plan = planned(5000, 4000);
    let noise: Vec<u64> = (0..5000u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    let queries: Vec<u32> = (0..10_000u32).map(|i| i.wrapping_mul(0x85eb_ca6b)).collect();
    let answers = looked_up(&cpu, &plan, &noise, &queries)?;
    assert!(answers.iter().zip(&queries).all(|(answer, &query)| *answer == Sorted::find(&plan, &noise, query)));
    let mut image = cpu.upload(&noise)?;
    let short = cpu.filled(4999, 0u64)?;
    let nothing = cpu.filled(0, 0u32)?;
    let lengths = Kernels::<Sorted>::decode(&cpu, &plan, &short);
    assert!(matches!(lengths, Err(Error::LengthMismatch { .. })));
    assert!(matches!(
        Kernels::<Sorted>::remove(&cpu, &plan, &mut image, &nothing),
        Err(Error::InvalidParameter { .. })
    ));
    assert!(matches!(Kernels::<Sorted>::lift(&cpu, &plan, &mut image), Err(Error::InvalidParameter { .. })));
    Ok(())
}

#[test]
fn columns_of_64_bits_equal_the_reference() -> Result<()> {
    for cpu in cpus() {
        every_layout!(images, &cpu, Sorted, &[(0, 1.0), (1, 1.0), (7, 0.5), (129, 1.0), (40_000, 0.95)]);
        every_layout!(tables, &cpu, Sorted, 10_001);
        digests_of_sorted_tables(&cpu)?;
        structures(&cpu, &Sorted.of::<u64, u32>(), &Sorted.of::<u64, ()>(), 9000)?;
    }
    Ok(())
}

#[test]
fn duplicates_of_64_bit_keys_are_counted_exactly() -> Result<()> {
    let keys: Vec<u64> = (0..50_000u64).map(|i| (i % 30_000) << 33 | 7).collect();
    for cpu in cpus() {
        let request = Request { slots: 50_000, pairs: 50_000, seed: 0, attempt: 0 };
        let plan = Sorted.of::<u64, u64>().plan(request)?;
        let mut image = cpu.filled(plan.words() as usize, 9u64)?;
        let (keys, values) = (cpu.upload(&keys)?, cpu.upload(&keys)?);
        let placed = Kernels::<SortedOf<u64, u64>>::place(&cpu, &plan, &mut image, &keys, &values)?;
        assert_eq!((placed.duplicates, placed.least_duplicate, placed.unplaced), (20_000, Some(7), 0));
        let few = Sorted.of::<u64, u64>().plan(Request { slots: 1000, ..request })?;
        let mut image = cpu.filled(few.words() as usize, 9u64)?;
        assert_eq!(Kernels::<SortedOf<u64, u64>>::place(&cpu, &few, &mut image, &keys, &values)?.unplaced, 49_000);
    }
    Ok(())
}
