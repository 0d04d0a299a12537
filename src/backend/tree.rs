//! The order in which doubles are added up, the same on every device.
//!
//! Additions of doubles round, so a sum is a matter of their order. Ours is a tree over the positions in a group, which
//! depends on the number of values and on nothing else:
//!
//! ```text
//! positions        0   1   2   3   4   5   6        the values of a group, in the order of their rows
//! runs of 2        0 + 1   2 + 3   4 + 5   6        each run of 2^k positions that begins at a multiple of 2^k
//! runs of 4        (0 + 1) + (2 + 3)   (4 + 5) + 6      is the sum of its two halves, the first one on the left;
//! runs of 8        ((0 + 1) + (2 + 3)) + ((4 + 5) + 6)  a half that has no values adds nothing, not even a zero
//! ```
//!
//! Each `+` is one addition of IEEE 754, rounded to nearest, with subnormal numbers. So a sum of one value is that value,
//! -0.0 among them, and the sum of none is 0.0. Of a sum that is NaN the bits are [`NAN`](super::numbers::NAN), because
//! processors differ in which NaN they make.
//!
//! The error of such a sum grows with the logarithm of the number of values, as in numpy's sums; one after the other it
//! grows with the number itself.
//!
//! How it is done: sums of aligned blocks are the leaves of the same tree, so work can be cut at any power of two.
//! [`tree_sum`] keeps one sum for each size of run, as the digits of a binary counter.

/// Values that are added up as one, without a loop that depends on them. OpenCL's blocks have as many.
pub(crate) const LEAVES: usize = 16;

const _: () = assert!(LEAVES.is_power_of_two());

/// The sum of the leaves. They may be sums of blocks of as many leaves each, a power of two, the last of which may have
/// fewer.
pub(crate) fn tree_sum(leaves: &[f64]) -> f64 {
    let (blocks, rest) = leaves.as_chunks::<LEAVES>();
    // Digit k: the sum of the latest 2^k blocks that begin at a multiple of that, if that many have come and are not
    // part of more.
    let mut digits = [0.0; usize::BITS as usize];
    for (number, block) in blocks.iter().enumerate() {
        let mut sum = sum_of_few(&mut { *block });
        let whole = number.trailing_ones() as usize;
        for digit in &digits[..whole] {
            sum += digit;
        }
        digits[whole] = sum;
    }
    let mut sum = (!rest.is_empty()).then(|| sum_of_few(&mut rest_of(rest)[..rest.len()]));
    for (_, digit) in digits.iter().enumerate().filter(|(level, _)| blocks.len() >> level & 1 == 1) {
        sum = Some(sum.map_or(*digit, |sum| digit + sum));
    }
    sum.unwrap_or(0.0)
}

/// The last leaves, and room.
fn rest_of(rest: &[f64]) -> [f64; LEAVES] {
    let mut leaves = [0.0; LEAVES];
    leaves[..rest.len()].copy_from_slice(rest);
    leaves
}

/// The sum of some leaves of one block, which are used up. There is one.
#[inline(always)]
fn sum_of_few(leaves: &mut [f64]) -> f64 {
    let mut apart = 1;
    while apart < leaves.len() {
        for i in (0..leaves.len() - apart).step_by(2 * apart) {
            leaves[i] += leaves[i + apart];
        }
        apart *= 2;
    }
    leaves[0]
}

/// The order as it is written above, and no faster than that: what the sums of every device are compared with.
#[cfg(test)]
pub(crate) fn plain_sum(values: &[f64]) -> f64 {
    match values {
        [] => 0.0,
        [one] => *one,
        _ => {
            let half = values.len().next_power_of_two() / 2;
            let (first, second) = values.split_at(half);
            plain_sum(first) + plain_sum(second)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheme::hash::SplitMix64;

    /// Doubles of all sizes, so that a sum tells its order.
    fn noise(len: usize) -> Vec<f64> {
        let mut stream = SplitMix64::new(len as u64);
        (0..len).map(|_| (stream.next_u64() as i64 as f64) * 2f64.powi((stream.next_u32() % 64) as i32)).collect()
    }

    #[test]
    fn sums_are_those_of_the_tree() {
        for len in (0..300).chain([1023, 1024, 1025, 4095, 4097, 50_000, 65_536]) {
            let values = noise(len);
            assert_eq!(tree_sum(&values).to_bits(), plain_sum(&values).to_bits(), "{len}");
        }
    }

    #[test]
    fn sums_of_blocks_are_leaves_of_the_same_tree() {
        for len in [1, 63, 64, 65, 1000, 5000] {
            for block in [16, 64, 4096] {
                let values = noise(len);
                let sums: Vec<f64> = values.chunks(block).map(tree_sum).collect();
                assert_eq!(tree_sum(&sums).to_bits(), plain_sum(&values).to_bits(), "{len} by {block}");
            }
        }
    }

    #[test]
    fn the_order_shows_and_zeros_keep_their_sign() {
        assert_eq!(tree_sum(&[1e16, 1.0, -1e16]), 0.0);
        assert_eq!(tree_sum(&[1e16, -1e16, 1.0]), 1.0);
        assert_eq!(tree_sum(&[1.0, 2.0, 1e16, -1e16]), 3.0);
        assert!(tree_sum(&[-0.0]).is_sign_negative() && tree_sum(&[-0.0; 35]).is_sign_negative());
        assert!(tree_sum(&[]).is_sign_positive() && tree_sum(&[-0.0, 0.0]).is_sign_positive());
    }
}
