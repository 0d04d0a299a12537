use std::sync::Mutex;

use super::*;
use crate::scheme::hash::SplitMix64;

/// Integers of 2,560 bits in two's complement, least word first, with which sums are checked.
#[derive(Clone, PartialEq, Eq)]
struct Big([u64; 40]);

impl Big {
    /// A double in halves of the unit.
    fn of(value: f64) -> Big {
        let bits = value.abs().to_bits();
        let (exponent, fraction) = (bits >> 52, bits & ((1 << 52) - 1));
        let (mantissa, place) = if exponent == 0 { (fraction, 1) } else { (fraction | 1 << 52, exponent as usize) };
        let mut words = [0; 40];
        let wide = u128::from(mantissa) << (place % 64);
        (words[place / 64], words[place / 64 + 1]) = (wide as u64, (wide >> 64) as u64);
        if value < 0.0 { Big(words).negated() } else { Big(words) }
    }

    fn negated(&self) -> Big {
        Big(self.0.map(|word| !word)).plus(&Big(std::array::from_fn(|at| u64::from(at == 0))))
    }

    fn plus(&self, other: &Big) -> Big {
        let mut carry = 0;
        Big(std::array::from_fn(|at| {
            let sum = u128::from(self.0[at]) + u128::from(other.0[at]) + carry;
            carry = sum >> 64;
            sum as u64
        }))
    }

    fn times(&self, factor: u64) -> Big {
        (0..64).rev().fold(Big([0; 40]), |all, bit| {
            let doubled = all.plus(&all);
            if factor >> bit & 1 == 1 { doubled.plus(self) } else { doubled }
        })
    }

    fn sign(&self) -> i32 {
        if self.0[39] >> 63 == 1 { -1 } else { i32::from(self.0 != [0; 40]) }
    }
}

/// Whether `found` is the double nearest to the sum of the values divided by `count`.
pub(super) fn is_nearest(found: f64, values: &[f64], count: u64) -> bool {
    let exact = values.iter().fold(Big([0; 40]), |sum, &value| sum.plus(&Big::of(value)));
    // A double beyond the largest counts as the next power of two.
    let big = |value: f64| match value {
        f64::INFINITY => Big::of(f64::MAX).plus(&Big::of(2f64.powi(971))),
        f64::NEG_INFINITY => Big::of(f64::MAX).plus(&Big::of(2f64.powi(971))).negated(),
        value => Big::of(value),
    };
    let middle = |other: f64| {
        // 2 * exact - count * (found + other)
        exact.plus(&exact).plus(&big(found).plus(&big(other)).times(count).negated()).sign()
    };
    let is_even = found.to_bits() & 1 == 0;
    let above = if found == f64::INFINITY { -1 } else { middle(found.next_up()) };
    let below = if found == f64::NEG_INFINITY { 1 } else { middle(found.next_down()) };
    (above < 0 || above == 0 && is_even) && (below > 0 || below == 0 && is_even)
}

/// Columns of doubles: of all sizes, of similar sizes, subnormal, ties, and values that cancel out.
pub(super) fn columns() -> Vec<Vec<f64>> {
    let mut random = SplitMix64::new(5);
    let mut columns = vec![
        vec![],
        vec![-0.0],
        vec![0.1; 3000],
        vec![5e-324],
        vec![5e-324, 5e-324, -1e-310],
        vec![1e308, -1e308, 1e-308],
        vec![f64::MAX, 2f64.powi(969)],
        vec![f64::MAX, 2f64.powi(970)],
        vec![-f64::MAX, -2f64.powi(970), -1.0],
        vec![-f64::MAX; 3000],
        vec![1.0, 2f64.powi(-53)],
        vec![1.0, 2f64.powi(-53), 5e-324],
        vec![1.0, 2f64.powi(-52), 2f64.powi(-53)],
    ];
    for round in 0..if cfg!(miri) { 20 } else { 600 } {
        let len = 1 + random.next_u32() as usize % 40;
        let mut column: Vec<f64> = (0..len)
            .map(|_| match round % 4 {
                0 => f64::from_bits(random.next_u64() & !(1 << 62)),
                1 => f64::from_bits(random.next_u64() & !(1 << 54) & !(0x7f << 55)),
                2 => f64::from_bits(random.next_u64() >> 12 << (random.next_u32() % 8)),
                _ => (random.next_u64() as i64 >> 30) as f64 * 0.01,
            })
            .collect();
        if round % 3 == 0 {
            let negated: Vec<f64> = column.iter().skip(1).map(|value| -value).collect();
            column.extend(negated);
        }
        columns.push(column);
    }
    columns
}

#[test]
fn sums_and_means_are_the_nearest_doubles() {
    for values in columns() {
        let mut sum = ExactSum::default();
        values.iter().for_each(|&value| sum.add(value));
        let count = values.len() as u64;
        assert!(is_nearest(sum.sum(), &values, 1), "{values:?}: {:e}", sum.sum());
        if count > 0 {
            assert!(is_nearest(sum.mean(count), &values, count), "{values:?}: mean {:e}", sum.mean(count));
        }
        assert!(sum.sum() != 0.0 || sum.sum().is_sign_positive());
    }
    assert!(ExactSum::default().mean(0).is_nan());
}

#[test]
fn sums_are_the_same_in_any_order_and_in_parts() {
    for values in columns() {
        let (mut whole, mut first) = (ExactSum::default(), ExactSum::default());
        values.iter().for_each(|&value| whole.add(value));
        let (a, b) = values.split_at(values.len() / 3);
        let mut second = ExactSum::default();
        b.iter().rev().for_each(|&value| second.add(value));
        a.iter().rev().for_each(|&value| first.add(value));
        let mut read = ExactSum::from_bytes(&second.to_bytes()).expect("a state");
        read.merge(&first);
        assert_eq!(read.sum().to_bits(), whole.sum().to_bits(), "{values:?}");
    }
}

/// Compares results wherever IEEE 754 defines them.
#[test]
fn infinities_and_nan_follow_ieee_754() {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    for (values, expected) in [
        (vec![inf, 1.0], inf),
        (vec![-inf, f64::MAX], -inf),
        (vec![inf, -inf, 1.0], nan),
        (vec![1.0, -nan], nan),
        (vec![inf; 3], inf),
    ] {
        let mut sum = ExactSum::default();
        values.iter().for_each(|&value| sum.add(value));
        assert_eq!(sum.sum().to_bits(), expected.to_bits(), "{values:?}");
        assert_eq!(sum.mean(values.len() as u64).to_bits(), expected.to_bits(), "{values:?}");
        let read = ExactSum::from_bytes(&sum.to_bytes()).expect("a state");
        assert_eq!(read.sum().to_bits(), expected.to_bits(), "{values:?}");
    }
}

#[test]
fn invalid_states_are_refused() {
    let mut sum = ExactSum::default();
    sum.add(-1.5);
    let bytes = sum.to_bytes();
    assert!(ExactSum::from_bytes(&bytes[1..]).is_none() && ExactSum::from_bytes(&[]).is_none());
    for (at, byte) in [(7, 1), (bytes.len() - 9, 3), (bytes.len() - 1, 0x3f)] {
        let mut wrong = bytes.clone();
        wrong[at] = byte;
        assert!(ExactSum::from_bytes(&wrong).is_none(), "byte {at}");
    }
}

/// Values within a window are added up as integers. Together with the leftovers, the sum is that of all values.
#[test]
fn window_and_leftovers_add_up_to_the_sum() {
    for values in columns() {
        let bits: Vec<u64> = values.iter().map(|value| value.to_bits()).collect();
        for window in [Window::of(&bits), Window::around(0), Window::around(1023), Window::around(2046)] {
            let (mut sum, mut leftovers) = (0, Leftovers::default());
            for &bits in &bits {
                match window.integer(bits) {
                    Some(integer) => sum += integer,
                    None => leftovers.push(7, bits).expect("memory"),
                }
            }
            if leftovers.len() == 0 {
                assert!(is_nearest(window.sum(sum), &values, 1), "{values:?}");
                assert!(values.is_empty() || is_nearest(quotient(sum, window.unit(), 3), &values, 3), "{values:?}");
            }
            let mut all = ExactSum::default();
            all.add_integer(sum, window.unit());
            let (mut ids, mut left) = (vec![0; leftovers.len()], vec![0; leftovers.len()]);
            leftovers.copy_to(&mut ids, &mut left).expect("memory");
            assert!(ids.iter().all(|&id| id == 7));
            left.iter().for_each(|&bits| all.add(f64::from_bits(bits)));
            assert!(is_nearest(all.sum(), &values, 1), "{values:?}");
        }
    }
    let window = Window::around(2046);
    let special = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN].map(f64::to_bits);
    assert!(special.iter().all(|&bits| window.integer(bits).is_none()) && window.integer(1 << 63) == Some(0));
}

/// Rows of several pieces, appended and joined in several ways.
#[test]
fn leftovers_keep_their_rows() -> crate::error::Result<()> {
    let rows: u64 = if cfg!(miri) { 100 } else { 50_000 };
    let mut all = Leftovers::default();
    for (first, end) in [(0, 1), (1, 1), (1, rows / 2), (rows / 2, rows)] {
        let mut some = Leftovers::default();
        (first..end).try_for_each(|row| some.push(row as u32 / 3, row))?;
        all = all.and(some)?;
    }
    all.push(u32::MAX, rows)?;
    let (mut ids, mut values) = (vec![0; all.len()], vec![0; all.len()]);
    all.copy_to(&mut ids, &mut values)?;
    assert!(values.iter().copied().eq(0..=rows));
    assert!(ids[..rows as usize].iter().zip(0..).all(|(&id, row)| id == row / 3) && ids[rows as usize] == u32::MAX);
    Ok(())
}

/// Runs that begin and end anywhere, one of them longer than several chunks.
#[test]
fn runs_are_summed_exactly_once() -> crate::error::Result<()> {
    let lengths = [1, 3, 40_000, 2, 1, 70_000, 16_384, 16_384, 5];
    let lengths = lengths.map(|len: usize| if cfg!(miri) { len.div_ceil(500) } else { len });
    let ids: Vec<u32> = (0..).zip(lengths).flat_map(|(id, len)| std::iter::repeat_n(3 * id, len)).collect();
    let values: Vec<u64> = (0..ids.len()).map(|row| (row as f64 * 1e200 + 0.1).to_bits()).collect();
    let found = Mutex::new(Vec::new());
    let note = |id, rest: Rest<'_>| found.lock().expect("no panic").push((id, rest.results(0, 0, 0)[0]));
    sums_of_runs(&ids, &values, note)?;
    let mut found = found.into_inner().expect("no panic");
    found.sort_by_key(|&(id, _)| id);
    let mut begin = 0;
    let expected = (0..).zip(lengths).map(|(id, len)| {
        let mut sum = ExactSum::default();
        values[begin..begin + len].iter().for_each(|&bits| sum.add(f64::from_bits(bits)));
        begin += len;
        (3 * id, sum.sum())
    });
    assert!(found.iter().copied().eq(expected));
    sums_of_runs(&[], &[], |id, _| panic!("group {id} of no rows"))
}

/// Runs of few values have the results of a superaccumulator, whether or not their leading bits determine them.
#[test]
fn leading_bits_are_used_only_if_they_suffice() {
    let mut random = SplitMix64::new(12);
    let mut all = columns();
    // Halves of the last bit of a sum, and the least values on either side of them.
    for large in [1.0, f64::MAX, 2f64.powi(-960)] {
        let half = large * 2f64.powi(-53);
        for tiny in [5e-324, -5e-324, half * 2f64.powi(-60), half * 2f64.powi(-80)] {
            all.extend([vec![large, half, tiny], vec![-large, -half, tiny], vec![large, half, -half, tiny]]);
            all.push(vec![large, -large, tiny, tiny]);
        }
    }
    all.extend([
        vec![f64::INFINITY, 1.0],
        vec![f64::NAN],
        vec![f64::MAX; 128],
        vec![-f64::MAX; 127],
        vec![5e-324; 128],
    ]);
    let (mut quick, mut slow) = (0, 0);
    for values in all.iter().filter(|values| values.len() <= 128) {
        let bits: Vec<u64> = values.iter().map(|value| value.to_bits()).collect();
        let integer = i128::from(random.next_u64() as i64) << (random.next_u32() % 40);
        for (integer, unit) in [(0, 0), (integer, -300)] {
            for count in [0, 1, 3, values.len() as u64] {
                let mut sum = ExactSum::default();
                values.iter().for_each(|&value| sum.add(value));
                let expected = Rest::Sum(&mut sum).results(integer, unit, count).map(f64::to_bits);
                assert_eq!(Rest::Few(&bits).results(integer, unit, count).map(f64::to_bits), expected, "{values:?}");
            }
        }
        let by_leading_bits = leftovers::by_leading_bits(&bits, 3).is_some();
        *(if by_leading_bits { &mut quick } else { &mut slow }) += 1;
    }
    assert!(quick > all.len() / 4 && slow > 20, "{quick} of {}, {slow}", all.len());
}

/// Compared with quotients of integers that both fit doubles, and with sums of tenths.
#[test]
fn ratios_are_rounded_once() {
    let mut random = SplitMix64::new(9);
    for _ in 0..if cfg!(miri) { 20 } else { 2000 } {
        let (dividend, a, b) =
            (random.next_u64() as i64 >> 12, random.next_u64() >> 39 | 1, random.next_u64() >> 36 | 1);
        let expected = dividend as f64 / (a * b) as f64;
        assert_eq!(exact_ratio(dividend.into(), &[], &[a, b]), expected, "{dividend} / ({a} * {b})");
        let (factor, divisor) = (random.next_u64() >> 54, a * b);
        let product = i128::from(dividend) * i128::from(factor);
        assert_eq!(exact_ratio(dividend.into(), &[factor], &[divisor]), quotient(product, 0, divisor));
    }
    assert_eq!(exact_ratio(i128::MIN, &[], &[1]), -(2f64.powi(127)));
    assert_eq!(exact_ratio(1, &[], &[10u64.pow(19), 10u64.pow(19), 1 << 32]), 1e-38 / 4_294_967_296.0);
    assert_eq!(exact_ratio(0, &[7], &[3]).to_bits(), 0);
}
