//! Primes for the number of slots.
//!
//! Rows of an image and layers of voxels often have lengths with small factors: powers of two, or multiples of ten. If
//! the length of the table shared a factor with them, keys that are one row apart would collide. A prime shares none.

/// Trial divisors, which rule out about three of four odd numbers.
const SMALL: [u32; 10] = [3, 5, 7, 11, 13, 17, 19, 23, 29, 31];

/// Whether `n` is prime: the test of Miller and Rabin. With the bases 2, 7 and 61 it is exact below 4,759,123,141
/// (Jaeschke 1993), so for every `u32`.
pub fn is_prime(n: u32) -> bool {
    if n < 2 || n.is_multiple_of(2) {
        return n == 2;
    }
    if let Some(&factor) = SMALL.iter().find(|&&factor| n.is_multiple_of(factor)) {
        return n == factor;
    }
    let twos = (n - 1).trailing_zeros();
    let odd = (n - 1) >> twos;
    [2, 7, 61].into_iter().filter(|base| n != *base).all(|base| {
        let mut x = power(base, odd, n);
        if x == 1 {
            return true;
        }
        for _ in 1..twos {
            if x == n - 1 {
                return true;
            }
            x = product(x, x, n);
        }
        x == n - 1
    })
}

/// Prime number `skip`, counted from 0, among the primes of at least `least`. `None` past the last `u32`.
pub fn prime_from(least: u32, skip: u32) -> Option<u32> {
    (least..=u32::MAX).filter(|&n| is_prime(n)).nth(skip as usize)
}

/// `a b mod m`, for `m` above 0.
pub fn product(a: u32, b: u32, m: u32) -> u32 {
    (u64::from(a) * u64::from(b) % u64::from(m)) as u32
}

/// `base^exponent mod m`, for `m` above 0.
pub fn power(base: u32, exponent: u32, m: u32) -> u32 {
    let (mut result, mut square, mut left) = (1 % m, base % m, exponent);
    while left > 0 {
        if left % 2 == 1 {
            result = product(result, square, m);
        }
        square = product(square, square, m);
        left /= 2;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_agrees_with_a_sieve() {
        const END: usize = 200_000;
        let mut composite = vec![false; END];
        for n in 2..END {
            assert_eq!(is_prime(n as u32), !composite[n], "{n}");
            (2 * n..END).step_by(n).for_each(|multiple| composite[multiple] = true);
        }
        assert!(!is_prime(0) && !is_prime(1));
    }

    /// The least strong pseudoprimes to the bases 2; 2 and 3; 2, 3 and 5; 2, 3, 5 and 7. Products of two large primes.
    /// The known primes at the ends of the range.
    #[test]
    fn it_is_exact_at_the_ends_and_for_pseudoprimes() {
        for composite in [2047, 1_373_653, 25_326_001, 3_215_031_751, 65_521 * 65_519, 46_337 * 46_337, u32::MAX] {
            assert!(!is_prime(composite), "{composite}");
        }
        for prime in [61, 67, 65_521, (1 << 31) - 1, 4_294_967_291] {
            assert!(is_prime(prime), "{prime}");
        }
        assert_eq!(prime_from(4_294_967_292, 0), None);
    }

    #[test]
    fn primes_are_counted_from_the_least() {
        let found: Vec<_> = (0..6).map(|skip| prime_from(62, skip)).collect();
        assert_eq!(found, [67, 71, 73, 79, 83, 89].map(Some));
        assert_eq!((prime_from(67, 0), prime_from(68, 0)), (Some(67), Some(71)));
    }
}
