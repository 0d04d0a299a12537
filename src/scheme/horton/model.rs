//! The model of Section 6 of the paper (Equations 3 to 9), in terms of slots per bucket, load and tags.
//!
//! ```text
//! lambda    = load * S                              keys with one home, on average
//! P(x)      = e^-lambda lambda^x / x!               (3)  the share of buckets that are the home of exactly x keys
//! type B    = sum over x > S of P(x)
//! O_re      = type B / S                            (4)  the share of the table that remap entries take
//! I_remap   = sum over x > S of (x - S + 1) P(x) / lambda                    (5)
//! I_primary = (sum over 1 <= x <= S of x P(x) + (S - 1) type B) / lambda     (6)
//! hit       = 1 + I_remap                           (7)
//! I_alias   = sum over S < x <= S - 1 + C of (x - S + 1) P(x) / C            (8)  C tags in a bucket
//! miss      = 1 + I_alias                           (9)
//! ```
//!
//! The model ignores keys of one bucket that share a tag. Equation 8 counts an entry for each remapped key, so if
//! several keys share one, the measured cost of a miss is slightly lower.

/// The greatest number of keys of one home in the sums. Beyond it P is below 10^-100 for every load up to 1.
const LONGEST: u32 = 200;

/// The mean number of keys with one home.
pub fn lambda(slots: u32, load: f64) -> f64 {
    load * f64::from(slots)
}

/// Equation 3 without the number of buckets: the share of buckets that are the home of exactly `x` keys.
pub fn share_with(slots: u32, load: f64, x: u32) -> f64 {
    let lambda = lambda(slots, load);
    // Multiplies one factor per key: neither the power nor the factorial is computed, so nothing overflows.
    (1..=x).fold((-lambda).exp(), |share, i| share * lambda / f64::from(i))
}

/// The sum of `weight(x) * P(x)` over a range of x.
fn sum(slots: u32, load: f64, range: std::ops::RangeInclusive<u32>, weight: impl Fn(u32) -> u32) -> f64 {
    range.map(|x| f64::from(weight(x)) * share_with(slots, load, x)).sum()
}

/// The share of buckets that are Type B.
pub fn type_b_share(slots: u32, load: f64) -> f64 {
    sum(slots, load, slots + 1..=LONGEST, |_| 1)
}

/// Equation 4, O_re: the share of the table's storage that remap entries take.
pub fn entry_storage(slots: u32, load: f64) -> f64 {
    type_b_share(slots, load) / f64::from(slots)
}

/// Equation 5, I_remap: the share of keys that are not stored at home.
pub fn remapped_share(slots: u32, load: f64) -> f64 {
    sum(slots, load, slots + 1..=LONGEST, |x| x - slots + 1) / lambda(slots, load).max(f64::MIN_POSITIVE)
}

/// Equation 6, I_primary: the share of keys that are stored at home.
pub fn primary_share(slots: u32, load: f64) -> f64 {
    let type_a = sum(slots, load, 1..=slots, |x| x);
    let type_b = sum(slots, load, slots + 1..=LONGEST, |_| slots - 1);
    (type_a + type_b) / lambda(slots, load).max(f64::MIN_POSITIVE)
}

/// Equation 7: buckets read by a lookup that hits.
pub fn positive_cost(slots: u32, load: f64) -> f64 {
    1.0 + remapped_share(slots, load)
}

/// Equation 8, I_alias: the share of lookups that miss, but find the entry of their tag set.
pub fn alias_share(slots: u32, load: f64, tags: u32) -> f64 {
    let most = (slots + tags).saturating_sub(1).min(LONGEST);
    sum(slots, load, slots + 1..=most, |x| x - slots + 1) / f64::from(tags.max(1))
}

/// Equation 9: buckets read by a lookup that misses.
pub fn negative_cost(slots: u32, load: f64, tags: u32) -> f64 {
    1.0 + alias_share(slots, load, tags)
}

/// The greatest load at which the keys and the remap entries of a table fit together: `load <= 1 - O_re`.
pub fn load_bound(slots: u32) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    // The gap decreases as the load grows, so bisection finds its zero.
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if middle <= 1.0 - entry_storage(slots, middle) { low = middle } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::super::canonical_tests::distinct_pairs;
    use super::super::{Horton, bucket, canonical};
    use super::*;
    use crate::scheme::{Load, Placing, Plan, Request, Scheme};

    const SLOTS: [u32; 5] = [1, 2, 4, 8, 16];

    #[test]
    fn the_shares_are_a_distribution_and_hits_divide_into_two_kinds() {
        for slots in SLOTS {
            for load in [0.1, 0.5, 0.9, 1.0] {
                let all: f64 = (0..=LONGEST).map(|x| share_with(slots, load, x)).sum();
                assert!((all - 1.0).abs() < 1e-12);
                assert!((primary_share(slots, load) + remapped_share(slots, load) - 1.0).abs() < 1e-9);
                assert!((entry_storage(slots, load) * f64::from(slots) - type_b_share(slots, load)).abs() < 1e-12);
            }
        }
        assert_eq!((positive_cost(8, 0.0), negative_cost(8, 0.0, 21)), (1.0, 1.0));
    }

    /// The paper reads 1.18 and 1.1 off Figure 10; Equation 7 itself gives 1.166 and 1.102.
    #[test]
    fn the_numbers_of_the_paper() {
        assert!((positive_cost(8, 0.95) - 1.18).abs() < 0.015);
        assert!((positive_cost(16, 0.95) - 1.10).abs() < 0.005);
        for (slots, bound) in [(4, 0.91), (8, 0.95), (16, 0.96)] {
            assert!((bound..bound + 0.02).contains(&load_bound(slots)), "{slots} {}", load_bound(slots));
        }
        assert!(load_bound(1) < 0.9 && load_bound(2) < 0.9, "neither is viable above 90%");
        // "aliases occur less than 8% of the time under feasible load factors"
        assert!(SLOTS.iter().all(|&slots| alias_share(slots, load_bound(slots).min(0.96), 21) < 0.08));
        // "the expected lookup cost is under 1.1 buckets for hash tables that are up to 60% full": 1.101 for four slots
        assert!([4, 8, 16].iter().all(|&slots| positive_cost(slots, 0.6) < 1.105));
    }

    #[test]
    fn canonical_tables_agree_with_the_model() {
        for (slots, load) in [(4, 0.85), (8, 0.9), (16, 0.93)] {
            let pairs = distinct_pairs(100_000, 1);
            let requested = Load::new(load).expect("a load").slots_for(100_000);
            let request = Request { slots: requested, pairs: 100_000, seed: 1, attempt: 0 };
            let plan = Horton::canonical(slots).plan(request).expect("a plan");
            let functions = plan.functions();
            let mut image = vec![plan.empty_word(); plan.words() as usize];
            assert_eq!(canonical::place(&functions, &mut image, &pairs), Placing::Placed);
            let of_type_b = (0..plan.buckets()).filter(|&b| bucket::is_type_b(&functions, &image, b)).count();
            let share = of_type_b as f64 / f64::from(plan.buckets());
            assert!((share / type_b_share(slots, load) - 1.0).abs() < 0.03, "{slots}: {share}");
            let mean = |keys: &mut dyn Iterator<Item = u32>| {
                keys.map(|key| f64::from(Horton::reads(&plan, &image, key) - 1)).sum::<f64>() / 100_000.0
            };
            let hits = mean(&mut pairs.iter().map(|pair| pair.0));
            let misses = mean(&mut (0..100_000u32).map(|i| i.wrapping_mul(0x9e37_79b9)));
            let model = Horton::model(&plan, 100_000).expect("it has one");
            assert!((hits / (model.reads_per_hit - 1.0) - 1.0).abs() < 0.03, "{slots}: {hits}");
            // Shared entries make misses cheaper than in the model; a hundred keys that share one are hits.
            let ratio = misses / (model.reads_per_miss - 1.0);
            assert!((0.8..1.03).contains(&ratio), "{slots}: {ratio}");
        }
    }
}
