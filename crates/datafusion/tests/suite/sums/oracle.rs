//! Exact sums by algorithms that koel does not use.

/// The sum of finite doubles, rounded once: non-overlapping partial sums, as in Python's `math.fsum`. No partial sum
/// may overflow.
pub(super) fn sum(values: &[f64]) -> f64 {
    let mut partials: Vec<f64> = Vec::new();
    for &value in values {
        let (mut x, mut kept) = (value, Vec::new());
        for &partial in &partials {
            let (large, small) = if x.abs() < partial.abs() { (partial, x) } else { (x, partial) };
            let high = large + small;
            let low = small - (high - large);
            if low != 0.0 {
                kept.push(low);
            }
            x = high;
        }
        kept.push(x);
        partials = kept;
    }
    let mut partials = partials.into_iter().rev();
    let mut high = partials.next().unwrap_or(0.0);
    while let Some(next) = partials.next() {
        let before = high;
        high = before + next;
        let low = next - (high - before);
        if low != 0.0 {
            // The tie was rounded to even above; the next partial sum may decide it otherwise.
            let is_same_side = partials.next().is_some_and(|rest| (rest < 0.0) == (low < 0.0));
            let doubled = high + low * 2.0;
            return if is_same_side && doubled - high == low * 2.0 { doubled } else { high };
        }
    }
    high + 0.0
}

/// The mean of multiples of 2^-20 below 2^43, rounded once: a quotient of integers.
pub(super) fn mean(values: &[f64]) -> f64 {
    let scaled = |value: f64| {
        let integer = value * 2f64.powi(20);
        assert!(integer.fract() == 0.0 && integer.abs() < 2f64.powi(63), "{value}");
        integer as i128
    };
    let sum: i128 = values.iter().map(|&value| scaled(value)).sum();
    let (dividend, count) = (sum.unsigned_abs() << 48, values.len() as u128);
    // The last bit represents all dropped bits. The cast rounds to the nearest double, ties to even.
    let quotient = (dividend / count) << 1 | u128::from(!dividend.is_multiple_of(count));
    let magnitude = quotient as f64 * 2f64.powi(-20 - 49);
    if sum < 0 { -magnitude } else { magnitude }
}

#[test]
fn the_oracle_is_right() {
    assert_eq!(sum(&[1e300, 1.0, -1e300]), 1.0);
    assert_eq!(sum(&[0.1; 10]), 1.0);
    assert_eq!(sum(&[1.0, 2f64.powi(-53), 5e-324]), 1.0f64.next_up());
    assert_eq!(sum(&[1.0, 2f64.powi(-53)]), 1.0);
    assert_eq!(sum(&[1.0, -(2f64.powi(-54)), -5e-324]), 1.0f64.next_down());
    assert_eq!(mean(&[1.0, 1.0, -4.0]), -2.0 / 3.0);
    assert_eq!(mean(&[2f64.powi(42), 2f64.powi(-20), 0.0]), (2f64.powi(42) + 2f64.powi(-20)) / 3.0);
}
