//! Compares aggregates of 64-bit values with plain loops, for the tests of every device.

use std::cmp::Ordering;

use super::numbers::bits_of;
use super::relational_tests::{below, groups_of_every_sort};
use super::{Numbers, Relational, Wanted};
use crate::error::{Error, Result};
use crate::exact::{ExactSum, quotient};
use crate::scheme::hash::SplitMix64;

const NAN: u64 = 0x7ff8_0000_0000_0000;

fn noise(seed: u64, len: usize) -> Vec<u64> {
    let mut stream = SplitMix64::new(seed);
    (0..len).map(|_| stream.next_u64()).collect()
}

/// Doubles of all sizes, first those that are most error-prone.
fn doubles(seed: u64, len: usize) -> Vec<u64> {
    let special = [1e16, 1.0, -1e16, -0.0, 0.0, 5e-324, f64::MAX, f64::INFINITY, f64::NEG_INFINITY, -f64::NAN];
    let double = |bits: u64| match bits % 64 {
        0 => special[(bits >> 8) as usize % special.len()],
        1 => f64::from_bits(bits | f64::INFINITY.to_bits()),
        _ => (bits as i64 >> 20) as f64 * 2f64.powi((bits >> 10 & 63) as i32 - 32),
    };
    noise(seed, len).into_iter().map(|bits| double(bits).to_bits()).collect()
}

/// Columns of each kind of values.
fn columns(of: Numbers, len: usize) -> Vec<Vec<u64>> {
    let some = noise(21, len);
    match of {
        Numbers::Double => vec![
            doubles(22, len),
            some.iter().map(|bits| if bits & 1 == 0 { 0.0 } else { -0.0 }).map(f64::to_bits).collect(),
            some.iter().map(|bits| (*bits as i64 >> 30) as f64).map(f64::to_bits).collect(),
            // All exponents, without NaN and infinity.
            some.iter().map(|bits| bits & !(1 << 62)).collect(),
            // Two magnitudes, only one of which fits in a window.
            some.iter().map(|&bits| if bits & 15 == 0 { 0.1 } else { bits as f64 }).map(f64::to_bits).collect(),
        ],
        // The sums of the first column overflow 64 bits, for signed values in both directions; those of the others do
        // not.
        _ => vec![
            some.clone(),
            some.iter().map(|bits| bits >> 24).collect(),
            some.iter().map(|bits| (*bits as i64 >> 24) as u64).collect(),
            vec![u64::MAX; len],
            vec![1 << 63; len],
            vec![0; len],
        ],
    }
}

/// Compares two numbers without using codes.
fn order(of: Numbers, a: u64, b: u64) -> Ordering {
    match of {
        Numbers::Unsigned => a.cmp(&b),
        Numbers::Signed => (a as i64).cmp(&(b as i64)),
        Numbers::Double => {
            let (a, b) = (f64::from_bits(a), f64::from_bits(b));
            a.partial_cmp(&b).expect("no NaN").then(b.is_sign_negative().cmp(&a.is_sign_negative()))
        }
    }
}

/// The least or greatest of two values, or NaN if either is NaN.
fn extreme(of: Numbers, wins: Ordering, a: u64, b: u64) -> u64 {
    let is_nan = |bits: u64| of == Numbers::Double && f64::from_bits(bits).is_nan();
    if is_nan(a) || is_nan(b) {
        return NAN;
    }
    if order(of, a, b) == wins { a } else { b }
}

/// Aggregates of columns of these lengths. From 1,000 rows, each length takes half of the combinations of groups and
/// values, and half of the sets of aggregates; the next length takes the other half.
pub(crate) fn wide<B: Relational>(backend: &B, sizes: &[usize]) -> Result<()> {
    for (turn, &rows) in sizes.iter().enumerate() {
        for (kind, of) in Numbers::ALL.into_iter().enumerate() {
            // A run with few rows is for simulators, which are about a thousand times slower than a CPU.
            let (sorts, thorough) = if rows < 1000 { (2, false) } else { (usize::MAX, true) };
            let columns = columns(of, rows);
            for (place, (name, (ids, groups))) in groups_of_every_sort(rows).into_iter().enumerate() {
                for (sort, values) in columns.iter().enumerate().take(sorts) {
                    if !thorough || (turn + place + sort).is_multiple_of(2) {
                        agrees(backend, of, (&ids, values), groups, Wanted::ALL, &format!("{name}, values {sort}"))?;
                    }
                }
            }
            let (ids, values) = (below(40, 11, rows), &columns[1]);
            let is_taken = |which: u32| match thorough {
                true => (turn + kind) as u32 % 2 == which.count_ones() % 2,
                false => [0, 6, 11, 17, 25].contains(&which),
            };
            for which in (0..32).filter(|&which| is_taken(which)) {
                let is = |bit: u32| which >> bit & 1 == 1;
                let wanted = Wanted { count: is(0), sum: is(1), least: is(2), greatest: is(3), mean: is(4) };
                agrees(backend, of, (&ids, if wanted.values() { values } else { &[] }), 41, wanted, "some columns")?;
            }
        }
    }
    Ok(())
}

fn agrees<B: Relational>(
    backend: &B,
    of: Numbers,
    (ids, values): (&[u32], &[u64]),
    groups: usize,
    wanted: Wanted,
    name: &str,
) -> Result<()> {
    let (highest, lowest) = match of {
        Numbers::Unsigned => (u64::MAX, 0),
        Numbers::Signed => (i64::MAX as u64, i64::MIN as u64),
        Numbers::Double => (f64::INFINITY.to_bits(), f64::NEG_INFINITY.to_bits()),
    };
    let cells = |wanted: bool| if wanted { groups } else { 0 };
    let (mut counts, mut sums) = (vec![0_u32; groups], vec![0_i128; groups]);
    let mut doubles = vec![ExactSum::default(); if of == Numbers::Double { groups } else { 0 }];
    let (mut least, mut greatest) = (vec![highest; cells(wanted.least)], vec![lowest; cells(wanted.greatest)]);
    for (row, &id) in ids.iter().enumerate() {
        let (id, bits) = (id as usize, values.get(row).copied().unwrap_or(0));
        let integer = if of == Numbers::Signed { i128::from(bits as i64) } else { i128::from(bits) };
        counts.iter_mut().skip(id).take(1).for_each(|count| *count += 1);
        doubles.iter_mut().skip(id).take(1).for_each(|sum| sum.add(f64::from_bits(bits)));
        sums.iter_mut().skip(id).take(1).for_each(|sum| *sum += integer);
        least.iter_mut().skip(id).take(1).for_each(|least| *least = extreme(of, Ordering::Less, bits, *least));
        greatest.iter_mut().skip(id).take(1).for_each(|most| *most = extreme(of, Ordering::Greater, bits, *most));
    }
    let fits = |sum: i128| match of {
        Numbers::Signed => i64::try_from(sum).is_ok(),
        _ => u64::try_from(sum).is_ok(),
    };
    let overflow = match of {
        Numbers::Double => None,
        _ => sums.iter().position(|&sum| wanted.sum && !fits(sum)).map(|group| group as u32),
    };
    // Numbers of these tests are below 2^80. src/exact/tests.rs checks such quotients separately.
    let mean = |group: usize| match counts[group] {
        0 => f64::NAN,
        count if of == Numbers::Double => doubles[group].mean(count.into()),
        count => quotient(sums[group], 0, count.into()),
    };
    let sum = |group: usize| if of == Numbers::Double { bits_of(doubles[group].sum()) } else { sums[group] as u64 };
    let found = backend.accumulate_wide(&backend.upload(ids)?, &backend.upload(values)?, of, groups, wanted)?;
    let said = format!("of {} rows, {of:?}, {name}, {wanted:?}", ids.len());
    assert!(backend.download(&found.counts)? == counts[..cells(wanted.count)], "counts {said}");
    assert!((0..cells(wanted.sum)).map(sum).eq(backend.download(&found.sums)?), "sums {said}");
    assert!((0..cells(wanted.mean)).map(mean).map(bits_of).eq(backend.download(&found.means)?), "means {said}");
    assert!(backend.download(&found.least)? == least, "least {said}");
    assert!(backend.download(&found.greatest)? == greatest, "greatest {said}");
    assert_eq!(found.overflow, overflow, "{said}");
    Ok(())
}

/// Columns that contradict each other.
pub(crate) fn refusals<B: Relational>(backend: &B) -> Result<()> {
    let (none, three, wide) = (backend.filled(0, 0u64)?, backend.filled(3, 0u32)?, backend.filled(3, 0u64)?);
    for (values, wanted) in [(&none, Wanted::ALL), (&wide, Wanted { count: true, ..Wanted::default() })] {
        let refused = backend.accumulate_wide(&three, values, Numbers::Signed, 1, wanted);
        assert!(matches!(refused, Err(Error::LengthMismatch { .. })), "{refused:?}");
    }
    Ok(())
}
