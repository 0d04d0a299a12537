//! The parameters: kind, probe sequence, maximum ages, and whether the table has keys only.

use crate::error::{Error, Result};
use crate::scheme::{Kind, Load};

/// The places of a key, in order. All sequences are endless, and computed modulo the number of slots, a prime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Sequence {
    /// `k + o_i`: neighbouring keys have neighbouring places at every age (Garcia 2011, Section 3.1). Keys that are
    /// congruent modulo the number of slots share all their places.
    #[default]
    Coherent,
    /// `mix(k) + o_i`: the same steps from a pseudo-random start, for keys whose order does not matter.
    Random,
    /// `c0 + k c1 + i c2`, the random sequence of the paper's Section 4. Its constant steps cause clusters at high
    /// loads, and so high ages.
    PaperRandom,
}

impl Sequence {
    /// Every sequence.
    pub const ALL: [Sequence; 3] = [Sequence::Coherent, Sequence::Random, Sequence::PaperRandom];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        ["coherent", "random", "paper-random"][self as usize]
    }
}

/// The parameters of a Robin Hood table (Garcia et al. 2011).
///
/// | kind and sequence | default load | builds to load | reads a hit, a miss, at the default |
/// |---|---|---|---|
/// | canonical; coherent (the default) or random | 0.90 | 1 | 2.83, 2.83 |
/// | canonical, paper-random | 0.80 | 0.90 | 3.00, 2.99 |
/// | classic; coherent (the default) or random | 0.80 | 0.99 | 2.20, 1.69 |
/// | classic, paper-random | 0.50 | 0.60 | 1.50, 1.20 |
///
/// Measured with random keys (`docs/canonical-layout.md`).
///
/// Keys that are congruent modulo the number of slots share all their places in the coherent and the paper's sequence,
/// so more than 62 of them (classic: 15) cannot be built. Every attempt has another prime number of slots, which
/// scatters them.
///
/// Keys with a constant stride are not random either. In the coherent sequence a hit takes one read, whatever the
/// stride, as long as the keys do not wrap around 2^32. If they do, their runs may overlap: of 3,000 random odd strides
/// (90,000 keys, load 0.9, the placing rule simulated on 2026-11-22) a hit took 2.7 reads on average, more than 8 at
/// one stride in 26, and 36 at the worst one; 4 could not be built in the first attempt. [`Sequence::Random`] hashes
/// the keys first: use it for strides whose keys wrap. The sequence is not chosen by a sample of the keys, because a
/// table that grows must have the same bytes as one built from all of its keys at once, and a sample of the first keys
/// may differ from one of all keys.
///
/// ```
/// use koel::scheme::{RobinHood, robin_hood::Sequence};
/// let canonical = RobinHood::canonical().sequence(Sequence::Random).max_ages(4);
/// let pixels_alone = RobinHood::classic().keys_alone();
/// assert_ne!(canonical, pixels_alone);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RobinHood {
    pub(super) kind: Kind,
    pub(super) sequence: Sequence,
    pub(super) max_ages: u32,
    pub(super) keys_alone: bool,
}

impl Default for RobinHood {
    fn default() -> Self {
        RobinHood::canonical()
    }
}

/// The possible numbers of bits of a maximum age; 0 for none.
pub(super) const MAX_AGES_BITS: [u32; 4] = [0, 2, 3, 4];

impl RobinHood {
    /// A canonical table: every key and value of 32 bits, ages to 62, no maximum ages.
    pub fn canonical() -> Self {
        RobinHood { kind: Kind::Canonical, sequence: Sequence::default(), max_ages: 0, keys_alone: false }
    }

    /// The paper's table: keys of 32 bits with values of 28, ages to 15, maximum ages of 4 bits.
    pub fn classic() -> Self {
        RobinHood { kind: Kind::Classic, max_ages: 4, ..RobinHood::canonical() }
    }

    /// Sets the probe sequence.
    pub fn sequence(self, sequence: Sequence) -> Self {
        RobinHood { sequence, ..self }
    }

    /// The bits of a maximum age (Equation 1 of the paper): 0 for none, 2, 3 or 4. With maximum ages a lookup has an
    /// upper bound of its probes from the start.
    ///
    /// Canonical tables store them in a separate array after the slots. In classic tables they replace the ages of the
    /// pairs; without them the ages are kept, which the paper calls constrained access.
    pub fn max_ages(self, bits: u32) -> Self {
        RobinHood { max_ages: bits, ..self }
    }

    /// Keys of 28 bits without values, in 4 bytes each (classic tables). Every value must be 0.
    pub fn keys_alone(self) -> Self {
        RobinHood { keys_alone: true, ..self }
    }

    /// The load at which a table takes `1 / density` times the bits of its keys, if each cell has `key_bits` for the
    /// key and `age_bits` in addition: `(k + a) / (p k)` with p = 1 / density (Section 3.1).
    ///
    /// ```
    /// use koel::RobinHood;
    /// // The paper's examples of 1.2 times the bits of the keys: 28 bits and 4, then 60 bits and 4.
    /// assert!((RobinHood::load_for_key_density(1.0 / 1.2, 28, 4)?.get() - 0.952).abs() < 1e-3);
    /// assert!((RobinHood::load_for_key_density(1.0 / 1.2, 60, 4)?.get() - 0.889).abs() < 1e-3);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidParameter`] for a density outside of 0 to 1, for keys without bits, and if the load would exceed
    /// 1.
    pub fn load_for_key_density(density: f64, key_bits: u32, age_bits: u32) -> Result<Load> {
        if !(density > 0.0 && density <= 1.0) {
            return Err(Error::parameter("key density", density, "use a number above 0 and up to 1"));
        }
        if key_bits == 0 {
            return Err(Error::parameter("key bits", key_bits, "a key has at least 1"));
        }
        let (key, age) = (f64::from(key_bits), f64::from(age_bits));
        Load::new(density * (key + age) / key).map_err(|_| {
            let advice = "the table would have to be more than full: use a lower one, or fewer bits of age";
            Error::parameter("key density", density, advice)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_densities_give_the_papers_loads() {
        let load = |density, key, age| RobinHood::load_for_key_density(density, key, age).map(Load::get);
        let near = |density, key, age, expected: f64| {
            let found = load(density, key, age).expect("a load");
            assert!((found - expected).abs() < 0.005, "{found}");
        };
        // Section 3.1. For a key density of 0.7 the paper states 0.82, but its formula gives 0.80.
        near(1.0 / 1.2, 28, 4, 0.95);
        near(0.7, 28, 4, 0.80);
        near(1.0 / 1.2, 60, 4, 0.89);
        near(1.0, 32, 0, 1.0);
        for (density, key, age) in
            [(0.0, 28, 4), (-0.5, 28, 4), (1.01, 28, 4), (f64::NAN, 28, 4), (0.5, 0, 4), (0.95, 28, 4)]
        {
            let refused = RobinHood::load_for_key_density(density, key, age);
            assert!(matches!(refused, Err(Error::InvalidParameter { .. })), "{density} {key} {age}: {refused:?}");
        }
    }
}
