//! The arithmetic of hashing: seeds, mixers, range reduction, and the hash families of the papers.
//!
//! Every function here is generic over a [`Lane`], so the same code computes one key (`u32`) or eight keys at once
//! (`wide::u32x8`). `cl/scheme.clh` is the only other implementation, in OpenCL C; `opencl/mirror/mod.rs` compares the
//! two bit for bit.
//!
//! ```text
//! seed, attempt --SplitMix64--> keys of mixer 1, 2, .., H          (from attempt 8 on: `constants.rs`)
//! mixer i:  x = (key ^ before_i) * times_i
//!           x ^= x >> 16;  x *= C1;  x ^= between_i;  x ^= x >> 13;  x *= C2;  x ^= x >> 16
//! range:    bucket = high half of x * n,   remainder source = low half of x * n
//! ```
//!
//! A mixer is a bijection of the 32-bit integers (`times` is odd), so bucket and remainder together determine the key
//! ([`unmix`]). Without keys it is MurmurHash3's public 32-bit finaliser, so it can be tested against published values.
//!
//! A mixer has three secret numbers because simpler ones fail:
//! - One mixer with a different seed XOR-ed in first for each function: two keys whose XOR equals that of two seeds
//!   swap their buckets (`h1(k) = h2(k')` and the reverse), and tables of two functions fail to build. `between` breaks
//!   that symmetry.
//! - The finaliser with only `before` and `between`: its first step XORs the halves of a key, so keys whose halves are
//!   equal (or differ by a constant) keep 16 bits of 32, and 40% of tables of 20,000 such keys with two functions at
//!   load 0.45 could not be built, some lacking 7,500 slots. `times` spreads them first: over 26 patterns of keys
//!   (counters, strides, reversed bits, grids, floats, Morton order, ..) and 300 seeds each, the tables then fail as
//!   rarely as with random keys (0 to 1%).

use std::ops::{BitXor, Mul};

use wide::u32x8;

/// The multiplier of a mixer's first half.
pub(crate) const MIX_FIRST: u32 = 0x85eb_ca6b;
/// The multiplier of a mixer's second half.
pub(crate) const MIX_SECOND: u32 = 0xc2b2_ae35;
/// The shifts of a mixer, in order.
pub(crate) const MIX_SHIFTS: [u32; 3] = [16, 13, 16];
/// The prime p of Alcantara 2011, Section 4.3.1.1, for `(a k + b) mod p mod m`.
pub(crate) const ALCANTARA_PRIME: u32 = 334_214_459;

/// 2^32 divided by the golden ratio, made odd: its multiples by adjacent integers are far apart.
pub(crate) const GOLDEN: u32 = 0x9e37_79b9;

/// The inverse of [`MIX_FIRST`] modulo 2^32.
pub(crate) const MIX_FIRST_INVERSE: u32 = inverse(MIX_FIRST);
/// The inverse of [`MIX_SECOND`] modulo 2^32.
pub(crate) const MIX_SECOND_INVERSE: u32 = inverse(MIX_SECOND);

/// The inverse of an odd number modulo 2^32, by Newton's iteration (each step doubles the correct bits).
const fn inverse(odd: u32) -> u32 {
    // Correct to three bits at first.
    let mut x = odd;
    let mut step = 0;
    while step < 4 {
        x = x.wrapping_mul(2u32.wrapping_sub(odd.wrapping_mul(x)));
        step += 1;
    }
    x
}

/// One or several 32-bit unsigned integers, with arithmetic per lane modulo 2^32.
pub trait Lane: Copy + BitXor<Output = Self> {
    /// The same number in every lane.
    fn splat(x: u32) -> Self;
    /// The product modulo 2^32.
    fn times(self, other: Self) -> Self;
    /// The sum modulo 2^32.
    fn plus(self, other: Self) -> Self;
    /// The difference modulo 2^32.
    fn minus(self, other: Self) -> Self;
    /// The lesser number in each lane.
    fn lesser(self, other: Self) -> Self;
    /// The lowest `bits` bits; at most 31.
    fn low_bits(self, bits: u32) -> Self;
    /// The shift right by a constant number of bits.
    fn shifted<const BITS: u32>(self) -> Self;
    /// The high and the low half of the 64-bit product.
    fn halves(self, other: Self) -> (Self, Self);
}

impl Lane for u32 {
    #[inline(always)]
    fn splat(x: u32) -> Self {
        x
    }
    #[inline(always)]
    fn times(self, other: Self) -> Self {
        self.wrapping_mul(other)
    }
    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        self.wrapping_sub(other)
    }
    #[inline(always)]
    fn lesser(self, other: Self) -> Self {
        self.min(other)
    }
    #[inline(always)]
    fn low_bits(self, bits: u32) -> Self {
        self & ((1 << bits) - 1)
    }
    #[inline(always)]
    fn shifted<const BITS: u32>(self) -> Self {
        self >> BITS
    }
    #[inline(always)]
    fn halves(self, other: Self) -> (Self, Self) {
        let product = u64::from(self) * u64::from(other);
        ((product >> 32) as u32, product as u32)
    }
}

impl Lane for u32x8 {
    #[inline(always)]
    fn splat(x: u32) -> Self {
        u32x8::splat(x)
    }
    #[inline(always)]
    fn times(self, other: Self) -> Self {
        self.mul(other)
    }
    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self + other
    }
    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        self - other
    }
    #[inline(always)]
    fn lesser(self, other: Self) -> Self {
        self.min(other)
    }
    #[inline(always)]
    fn low_bits(self, bits: u32) -> Self {
        self & u32x8::splat((1 << bits) - 1)
    }
    #[inline(always)]
    fn shifted<const BITS: u32>(self) -> Self {
        self >> BITS as i32
    }
    #[inline(always)]
    fn halves(self, other: Self) -> (Self, Self) {
        let (low, high) = self.mul_keep_low_high(other);
        (high, low)
    }
}

/// The three secret numbers of one mixer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MixKeys {
    /// XOR-ed in first.
    pub before: u32,
    /// Multiplied by next; odd.
    pub times: u32,
    /// The inverse of `times` modulo 2^32.
    pub back: u32,
    /// XOR-ed in between the two fixed multiplications.
    pub between: u32,
}

impl MixKeys {
    /// Keys of a mixer. The lowest bit of `times` is set.
    pub const fn new(before: u32, times: u32, between: u32) -> Self {
        let times = times | 1;
        MixKeys { before, times, back: inverse(times), between }
    }

    /// Keys of a mixer from random numbers: one of 64 bits and one of 32.
    pub(crate) const fn of_draws(xors: u64, times: u32) -> Self {
        MixKeys::new((xors >> 32) as u32, times, xors as u32)
    }
}

impl Default for MixKeys {
    /// Keys that leave the number unchanged before the finaliser.
    fn default() -> Self {
        MixKeys::new(0, 1, 0)
    }
}

/// A seeded bijection of the 32-bit integers; the higher half of the result depends on every bit of `x`.
#[inline(always)]
pub fn mix<L: Lane>(x: L, keys: MixKeys) -> L {
    let x = (x ^ L::splat(keys.before)).times(L::splat(keys.times));
    let x = (x ^ x.shifted::<{ MIX_SHIFTS[0] }>()).times(L::splat(MIX_FIRST));
    let x = x ^ L::splat(keys.between);
    let x = (x ^ x.shifted::<{ MIX_SHIFTS[1] }>()).times(L::splat(MIX_SECOND));
    x ^ x.shifted::<{ MIX_SHIFTS[2] }>()
}

/// The inverse of [`mix`]: `unmix(mix(x, keys), keys) == x` for every `x`.
#[inline(always)]
pub fn unmix(y: u32, keys: MixKeys) -> u32 {
    let y = y ^ (y >> MIX_SHIFTS[2]);
    let y = y.wrapping_mul(MIX_SECOND_INVERSE);
    let y = y ^ (y >> MIX_SHIFTS[1]) ^ (y >> (2 * MIX_SHIFTS[1]));
    let y = (y ^ keys.between).wrapping_mul(MIX_FIRST_INVERSE);
    let y = y ^ (y >> MIX_SHIFTS[0]);
    y.wrapping_mul(keys.back) ^ keys.before
}

/// The multipliers of a mixer of 64 bits, in order: those of MurmurHash3's public 64-bit finaliser.
pub(crate) const MIX_64: [u64; 2] = [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53];
/// The shift of each step of a 64-bit mixer.
pub(crate) const MIX_64_SHIFT: u32 = 33;
/// The inverses of [`MIX_64`] modulo 2^64.
pub(crate) const MIX_64_INVERSE: [u64; 2] = [inverse_64(MIX_64[0]), inverse_64(MIX_64[1])];

/// The inverse of an odd number modulo 2^64.
const fn inverse_64(odd: u64) -> u64 {
    // The lower half is correct; one more step doubles the number of correct bits.
    let x = inverse(odd as u32) as u64;
    x.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(x)))
}

/// The three secret numbers of one 64-bit mixer, like [`MixKeys`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MixKeys64 {
    /// XOR-ed in first.
    pub before: u64,
    /// Multiplied by next; odd.
    pub times: u64,
    /// The inverse of `times` modulo 2^64.
    pub back: u64,
    /// XOR-ed in between the two fixed multiplications.
    pub between: u64,
}

impl MixKeys64 {
    /// Keys of a mixer. The lowest bit of `times` is set.
    pub const fn new(before: u64, times: u64, between: u64) -> Self {
        let times = times | 1;
        MixKeys64 { before, times, back: inverse_64(times), between }
    }
}

/// A seeded bijection of the 64-bit integers: [`mix`] with 64-bit constants.
#[inline(always)]
pub fn mix_64(x: u64, keys: MixKeys64) -> u64 {
    let x = (x ^ keys.before).wrapping_mul(keys.times);
    let x = (x ^ (x >> MIX_64_SHIFT)).wrapping_mul(MIX_64[0]) ^ keys.between;
    let x = (x ^ (x >> MIX_64_SHIFT)).wrapping_mul(MIX_64[1]);
    x ^ (x >> MIX_64_SHIFT)
}

/// The inverse of [`mix_64`].
#[inline(always)]
pub(crate) fn unmix_64(y: u64, keys: MixKeys64) -> u64 {
    // A shift by more than half of the bits is its own inverse.
    let y = (y ^ (y >> MIX_64_SHIFT)).wrapping_mul(MIX_64_INVERSE[1]);
    let y = ((y ^ (y >> MIX_64_SHIFT)) ^ keys.between).wrapping_mul(MIX_64_INVERSE[0]);
    (y ^ (y >> MIX_64_SHIFT)).wrapping_mul(keys.back) ^ keys.before
}

/// Maps a mixed key to `0..n` by the high half of a product: uniform for any `n`, without a division.
#[inline(always)]
pub fn reduce<L: Lane>(x: L, n: u32) -> L {
    x.halves(L::splat(n)).0
}

/// `x mod n` for `x < 2 n`, without a division or a branch: of `x` and `x - n`, the lesser is the one that did not
/// wrap.
#[inline(always)]
pub fn wrapped<L: Lane>(x: L, n: L) -> L {
    x.lesser(x.minus(n))
}

/// `((a k + b) mod p) mod m` as the papers' CUDA code computes it: the sum wraps modulo 2^32 **before** the first
/// `mod`.
///
/// The wrap is intended. In wider arithmetic all keys that are equal modulo p would share every function, and a set
/// with more such keys than functions could never be built; p is about 2^28.3, so each key would have twelve such
/// companions.
#[inline(always)]
pub(crate) fn linear_family(key: u32, a: u32, b: u32, p: u32, m: u32) -> u32 {
    a.wrapping_mul(key).wrapping_add(b) % p % m
}

/// `(((a ^ k) + b) mod p) mod m`, the variant with XOR of Alcantara 2011, in the same wrapping arithmetic.
#[inline(always)]
pub(crate) fn xor_family(key: u32, a: u32, b: u32, p: u32, m: u32) -> u32 {
    (a ^ key).wrapping_add(b) % p % m
}

/// SplitMix64: the fixed stream from which the constants of a table are drawn, unless they are salted (`constants.rs`).
#[derive(Clone, Debug)]
pub struct SplitMix64 {
    state: u64,
}

/// The step of SplitMix64, by its definition: [`GOLDEN`] with 64 bits.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl SplitMix64 {
    /// The stream whose initial state is `seed`.
    pub fn new(seed: u64) -> Self {
        SplitMix64 { state: seed }
    }

    /// The stream of constants of one attempt, seeded with output number `attempt` of the seed's stream.
    pub fn for_attempt(seed: u64, attempt: u32) -> Self {
        let skipped = STEP.wrapping_mul(u64::from(attempt));
        let first = SplitMix64::new(seed.wrapping_add(skipped)).next_u64();
        SplitMix64::new(first)
    }

    /// The next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        let z = self.state;
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// The keys of the next mixer.
    pub fn next_mix_keys(&mut self) -> MixKeys {
        let (xors, times) = (self.next_u64(), self.next_u32());
        MixKeys::of_draws(xors, times)
    }

    /// The next 32 bits.
    pub fn next_u32(&mut self) -> u32 {
        (self.next_u64() >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quickcheck::quickcheck;

    /// MurmurHash3_x86_32 of the empty string with seed s is its finaliser of s; these three are public test vectors.
    #[test]
    fn without_keys_the_mixer_is_murmur3_finaliser() {
        let none = MixKeys::default();
        assert_eq!(mix(0u32, none), 0);
        assert_eq!(mix(1u32, none), 0x514e_28b7);
        assert_eq!(mix(0xffff_ffffu32, none), 0x81f1_6f39);
    }

    /// Computed in Python from the public definition of MurmurHash3's 64-bit finaliser.
    #[test]
    fn without_keys_the_wide_mixer_is_murmur3_finaliser() {
        let none = MixKeys64::new(0, 1, 0);
        assert_eq!(mix_64(0, none), 0);
        assert_eq!(mix_64(1, none), 0xb456_bcfc_34c2_cb2c);
        assert_eq!(mix_64(2, none), 0x3abf_2a20_6506_83e7);
        assert_eq!(mix_64(u64::MAX, none), 0x64b5_720b_4b82_5f21);
    }

    /// The public vectors of SplitMix64 for seed 1234567.
    #[test]
    fn splitmix64_known_answers() {
        let mut stream = SplitMix64::new(1_234_567);
        let expected = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        assert_eq!(expected.map(|_| stream.next_u64()), expected);
    }

    #[test]
    fn attempts_take_consecutive_outputs_of_the_seed() {
        let mut seeds = SplitMix64::new(42);
        for attempt in 0..5 {
            let direct = SplitMix64::for_attempt(42, attempt).next_u64();
            assert_eq!(direct, SplitMix64::new(seeds.next_u64()).next_u64());
        }
    }

    #[test]
    fn families_wrap_before_the_first_modulo() {
        let (a, b, p, m) = (0x1234_5678, 0x0fed_cba9, ALCANTARA_PRIME, 1_000);
        let key = 0xdead_beef;
        let wrapped = ((u64::from(a) * u64::from(key) + u64::from(b)) % (1 << 32)) % u64::from(p) % u64::from(m);
        assert_eq!(u64::from(linear_family(key, a, b, p, m)), wrapped);
        // Two keys that are equal modulo p need not collide; in wider arithmetic they would.
        assert_ne!(linear_family(5, a, b, p, p), linear_family(5 + p, a, b, p, p));
        assert_eq!(xor_family(7, 3, 5, p, 1_000), 9);
    }

    quickcheck! {
        fn unmix_undoes_mix(x: u32, before: u32, times: u32, between: u32) -> bool {
            let keys = MixKeys::new(before, times, between);
            unmix(mix(x, keys), keys) == x && mix(unmix(x, keys), keys) == x
        }

        fn unmix_64_undoes_mix_64(x: u64, before: u64, times: u64, between: u64) -> bool {
            let keys = MixKeys64::new(before, times, between);
            unmix_64(mix_64(x, keys), keys) == x && mix_64(unmix_64(x, keys), keys) == x
        }

        fn wrapping_is_a_modulo(x: u32, n: u32) -> bool {
            // Sums of two numbers below n that do not overflow.
            let n = (n / 2).max(1);
            let x = (u64::from(x) % (2 * u64::from(n))) as u32;
            wrapped(x, n) == x % n && wrapped(u32x8::splat(x), u32x8::splat(n)) == u32x8::splat(x % n)
        }

        fn lanes_agree_with_scalars(x: u32, n: u32, before: u32, times: u32, between: u32) -> bool {
            let keys = MixKeys::new(before, times, between);
            let eight = u32x8::new(std::array::from_fn(|i| x.wrapping_add(i as u32)));
            let mixed = mix(eight, keys).to_array();
            let (high, low) = mix(eight, keys).halves(u32x8::splat(n));
            (0..8).all(|i| {
                let alone = mix(x.wrapping_add(i as u32), keys);
                alone == mixed[i]
                    && alone.halves(n) == (high.to_array()[i], low.to_array()[i])
            })
        }
    }
}
