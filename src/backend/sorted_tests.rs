//! Cases of sorted tables for every backend, compared with the sequential functions of `scheme/sorted`.

use std::ops::Range;

use super::scheme_tests::{POISON, assign, compare_decoded, compare_lookups, place_over, remove, sequential, zipped};
use super::{Kernels, Placed};
use crate::error::{Error, Result};
use crate::scheme::{Placing, Plan as _, Request, Scheme as _, Sorted, SortedOf, SortedPlan};
use crate::workload::Workload;

/// Distinct keys, the extreme ones among them, with values.
fn pairs(len: usize) -> (Vec<u32>, Vec<u32>) {
    let load = Workload::new(len as u32 + 2, 8);
    let mut keys: Vec<u32> = load.keys().into_iter().filter(|key| ![0, u32::MAX].contains(key)).take(len).collect();
    keys.iter_mut().zip([u32::MAX, 0]).for_each(|(key, extreme)| *key = extreme);
    (keys, load.values()[..len].to_vec())
}

fn plan(slots: usize, pairs: usize) -> SortedPlan {
    Sorted.plan(Request { slots: slots as u64, pairs: pairs as u64, seed: 5, attempt: 0 }).expect("a plan")
}

/// Images of these numbers of pairs, with various numbers of slots, and lookups of these numbers of queries and of all.
/// The previous contents of an image do not affect the result.
pub(crate) fn images_and_lookups_equal_the_reference<B: Kernels<Sorted>>(
    backend: &B,
    lengths: &[usize],
    slots: impl Fn(usize) -> Vec<usize>,
    counts: &[usize],
) -> Result<()> {
    for &len in lengths {
        let (keys, values) = pairs(len);
        for slots in slots(len) {
            let plan = plan(slots, len);
            let (expected, placing) = sequential(&plan, &zipped(&keys, &values));
            assert_eq!(placing, Placing::Placed);
            let (image, placed) = place_over(backend, POISON, &plan, &keys, &values)?;
            assert_eq!(placed, Placed::default());
            assert!(backend.download(&image)? == expected, "{len} of {slots}");
            let near = keys.iter().flat_map(|key| [key.wrapping_add(1), *key, !key]);
            let queries: Vec<u32> = near.chain([0, 1, u32::MAX, u32::MAX - 1]).collect();
            for &count in counts.iter().chain([&queries.len()]) {
                compare_lookups(backend, &plan, &image, &queries[..count.min(queries.len())])?;
            }
        }
    }
    Ok(())
}

/// `len` pairs and duplicates of the keys `twice`; equal keys; and more pairs than `few` slots.
pub(crate) fn duplicates_are_counted_exactly_and_too_many_pairs_are_reported<B: Kernels<Sorted>>(
    backend: &B,
    len: usize,
    twice: Range<usize>,
    few: usize,
) -> Result<()> {
    let place = |plan, keys: &[u32], values: &[u32]| Ok(place_over(backend, POISON, &plan, keys, values)?.1);
    let (mut keys, _) = pairs(len);
    let twice = keys[twice].to_vec();
    keys.extend(&twice);
    keys.extend([twice[7]; 5]);
    let values: Vec<u32> = super::wide_tests::noise(1, keys.len());
    let duplicates = twice.len() as u64 + 5;
    let expected = Placed { duplicates, least_duplicate: twice.into_iter().min(), ..Placed::default() };
    assert_eq!(place(plan(keys.len(), keys.len()), &keys, &values)?, expected);
    let expected = Placed { duplicates: len as u64 - 1, least_duplicate: Some(9), ..Placed::default() };
    assert_eq!(place(plan(len, len), &vec![9; len], &values[..len])?, expected);
    assert_eq!(place(plan(few, keys.len()), &keys, &values)?.unplaced, (keys.len() - few) as u64);
    let refused = place(plan(10, 5), &[1, 2, 3], &[4, 5, 6]);
    assert!(matches!(refused, Err(Error::LengthMismatch { .. })), "other pairs than the plan's: {refused:?}");
    Ok(())
}

/// Overwrites a third of the values of `len` pairs, in an image with some `free` slots.
pub(crate) fn values_are_overwritten_in_place_and_pairs_are_in_order<B: Kernels<Sorted>>(
    backend: &B,
    len: usize,
    free: usize,
) -> Result<()> {
    let (keys, values) = pairs(len);
    let plan = plan(len + free, len);
    let (mut image, _) = place_over(backend, POISON, &plan, &keys, &values)?;
    let some: Vec<u32> = keys.iter().copied().step_by(3).chain([12_345]).collect();
    let other: Vec<u32> = some.iter().map(|key| !key).collect();
    assign(backend, &plan, &mut image, &some, &other)?;
    let changed = |(i, (key, value)): (usize, (u32, u32))| (key, if i % 3 == 0 { !key } else { value });
    let mut expected: Vec<(u32, u32)> = zipped(&keys, &values).into_iter().enumerate().map(changed).collect();
    expected.sort_unstable();
    let decoded = Kernels::<Sorted>::decode(backend, &plan, &image)?;
    let taken = backend.download(&decoded.taken)?;
    assert!((0..32 * taken.len()).all(|i| (taken[i / 32] >> (i % 32) & 1 == 1) == (i < len)));
    expected.resize(len + free, (0, 0));
    assert!(zipped(&backend.download(&decoded.keys)?, &backend.download(&decoded.values)?) == expected);
    Ok(())
}

/// Lookups in an image whose words are in no order equal those of the rule; what sorted tables cannot do is refused.
pub(crate) fn damaged_images_cause_no_panic<B: Kernels<Sorted>>(
    backend: &B,
    slots: usize,
    queries: usize,
) -> Result<()> {
    let plan = plan(slots, slots * 4 / 5);
    let damaged: Vec<u64> = (0..slots as u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    let mut image = backend.upload(&damaged)?;
    compare_lookups(backend, &plan, &image, &super::wide_tests::noise(4, queries))?;
    compare_decoded(backend, &plan, &image)?;
    assert!(matches!(remove(backend, &plan, &mut image, &[]), Err(Error::InvalidParameter { .. })));
    let lifted = Kernels::<Sorted>::lift(backend, &plan, &mut image);
    assert!(matches!(lifted, Err(Error::InvalidParameter { .. })));
    let decoded = Kernels::<Sorted>::decode(backend, &plan, &backend.upload(&damaged[1..])?);
    assert!(matches!(decoded, Err(Error::LengthMismatch { .. })));
    Ok(())
}

/// `rows` pairs of `keys` distinct keys that differ in their upper halves; and the same for `few` slots.
pub(crate) fn duplicates_of_64_bit_keys_are_counted_exactly<B: Kernels<SortedOf<u64, u64>>>(
    backend: &B,
    keys: u64,
    rows: u64,
    few: u64,
) -> Result<()> {
    let column: Vec<u64> = (0..rows).map(|i| (i % keys) << 33 | 7).collect();
    let column = backend.upload(&column)?;
    let place = |slots| {
        let plan = Sorted.of::<u64, u64>().plan(Request { slots, pairs: rows, seed: 0, attempt: 0 })?;
        backend.place(&plan, &mut backend.filled(plan.words() as usize, 9u64)?, &column, &column)
    };
    let placed = place(rows)?;
    assert_eq!((placed.duplicates, placed.least_duplicate, placed.unplaced), (rows - keys, Some(7), 0));
    assert_eq!(place(few)?.unplaced, rows - few);
    Ok(())
}
