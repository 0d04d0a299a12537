//! A model of the reads and the stash of a signpost table, in terms of slots, tags and load.
//!
//! ```text
//! P(c)    = e^-lambda lambda^c / c!,  lambda = load * S      homes of c keys
//! Q(m, c) = probability that c keys have exactly m tags
//! hit     = 1 + sum over c of (c - S)+ P(c) / lambda         a key that has left takes one more line
//! miss    = 1 + sum over c of min(c - S, m)+ P(c) Q(m, c) / tags
//! stash   = sum over c and m of [c - S > m] (c - S - m + 1) P(c) Q(m, c) / lambda
//! ```
//!
//! The model ignores tokens that find no free slot, which are too few at loads to 0.95 to affect the counts; a second
//! and third tag among the surplus of one home, which is a twentieth of the stash at load 0.95; and further lines of
//! the stash. In tables of 32-bit keys, homes have fewer keys to choose from than in a Poisson distribution: with 2^26
//! homes the stash has three quarters of the predicted size.

/// The greatest number of keys of a home in the sums.
const LONGEST: u32 = 200;

/// Calls `each` for every number of surplus keys and of tags, with the share of homes that have them.
fn each_full_home(slots: u32, tags: u32, load: f64, mut each: impl FnMut(u32, u32, f64)) {
    let lambda = load * f64::from(slots);
    let mut share = (-lambda).exp();
    // The probabilities of 0, 1, .. tags.
    let mut of_tags = vec![0.0; tags as usize + 1];
    of_tags[0] = 1.0;
    for keys in 1..=LONGEST {
        share *= lambda / f64::from(keys);
        for m in (0..=tags).rev() {
            let (new, same) = (f64::from(tags + 1 - m) / f64::from(tags), f64::from(m) / f64::from(tags));
            let before = if m > 0 { of_tags[m as usize - 1] * new } else { 0.0 };
            of_tags[m as usize] = of_tags[m as usize] * same + before;
        }
        if keys > slots {
            (1..=tags).for_each(|m| each(keys - slots, m, share * of_tags[m as usize]));
        }
    }
}

/// Lines read by a lookup that hits, without those of the stash beyond the first.
pub fn reads_per_hit(slots: u32, load: f64) -> f64 {
    let mut leave = 0.0;
    each_full_home(slots, 1, load, |leavers, _, share| leave += f64::from(leavers) * share);
    1.0 + leave / (load * f64::from(slots)).max(f64::MIN_POSITIVE)
}

/// Lines read by a lookup that misses.
pub fn reads_per_miss(slots: u32, tags: u32, load: f64) -> f64 {
    let mut signposts = 0.0;
    each_full_home(slots, tags, load, |leavers, m, share| signposts += f64::from(leavers.min(m)) * share);
    1.0 + signposts / f64::from(tags.max(1))
}

/// The share of keys in the stash.
pub fn stash_share(slots: u32, tags: u32, load: f64) -> f64 {
    let mut stash = 0.0;
    each_full_home(slots, tags, load, |leavers, m, share| {
        stash += if leavers > m { f64::from(leavers - m + 1) * share } else { 0.0 };
    });
    stash / (load * f64::from(slots)).max(f64::MIN_POSITIVE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_reads_of_empty_and_full_tables() {
        assert_eq!((reads_per_hit(8, 0.0), reads_per_miss(8, 16, 0.0), stash_share(8, 16, 0.0)), (1.0, 1.0, 0.0));
        // Computed by an independent program: sums over the same distributions.
        for (slots, tags, load, stash) in [(4, 8, 0.9, 1931.4e-6), (5, 8, 0.95, 2411.9e-6), (8, 16, 0.9, 54.5e-6)] {
            assert!((stash_share(slots, tags, load) / stash - 1.0).abs() < 1e-3, "{}", stash_share(slots, tags, load));
        }
        assert!((reads_per_hit(4, 0.9) - 1.158).abs() < 1e-3 && (reads_per_miss(4, 8, 0.9) - 1.071).abs() < 2e-3);
    }
}
