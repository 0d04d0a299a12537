//! Binary search without branches. The number of steps depends on the number of words only.
//!
//! ```text
//! base = 0, len = pairs
//! while len > 1:   half = len / 2 - len / 64
//!                  base += half, if the key of words[base + half] is at most the wanted one
//!                  len -= half
//! found if words[base] has the key
//! ```
//!
//! **Correctness.** All words from `base + len` on are above the key, and `words[base]` is not, unless all words are.
//! Going right preserves both invariants. Going left would leave `half` words; the search keeps `len - half` instead,
//! which is at least as many. So all searches have the same `len` at the same step, and many of them can run in step
//! (`cpu/sorted`, `cl/sorted.cl`).
//!
//! **Off the middle.** With 2^24 pairs, halving would read words at multiples of large powers of two in its first
//! steps, which share a few sets of a cache and evict each other. Dividing a little off the middle costs one more step
//! for 2^24 pairs, and made searches on the CPU twice as fast at 2^20 pairs and three times at 2^24 (batches of random
//! queries). The breadth-first order of Eytzinger was not faster than this.

/// The distance of a division from the middle, as a fraction of the words: 1/64.
pub(crate) const OFF_MIDDLE: usize = 64;

/// The words that a step among `len` words skips when it goes right; at least 1 for `len` above 1, and at most half of
/// it.
pub(crate) fn half(len: usize) -> usize {
    len / 2 - len / OFF_MIDDLE
}

/// The number of steps of a search in `len` words.
pub(crate) fn steps(mut len: usize) -> u32 {
    let mut steps = 0;
    while len > 1 {
        len -= half(len);
        steps += 1;
    }
    steps
}

/// The key of a word; its value is the other half.
pub(crate) fn key(word: u64) -> u32 {
    (word >> 32) as u32
}

/// A pair as a word. Words are ordered by their keys, which are distinct.
pub(crate) fn word(key: u32, value: u32) -> u64 {
    u64::from(key) << 32 | u64::from(value)
}

/// The position of a key. Arbitrary, or `None`, if the words are not sorted.
pub(crate) fn find(words: &[u64], wanted: u32) -> Option<usize> {
    find_by(words, key, wanted)
}

/// [`find`] in cells whose keys are returned by `key`.
pub(crate) fn find_by<T: Copy, K: Ord>(cells: &[T], key: impl Fn(T) -> K, wanted: K) -> Option<usize> {
    let (mut base, mut len) = (0, cells.len());
    while len > 1 {
        let half = half(len);
        if key(cells[base + half]) <= wanted {
            base += half;
        }
        len -= half;
    }
    cells.get(base).is_some_and(|&there| key(there) == wanted).then_some(base)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn searches_find_exactly_the_keys_at_every_length() {
        for len in (0..=300).chain([511, 512, 513, 4095, 4096, 5000]) {
            // Every third number, from the smallest key on or up to the greatest.
            for start in [0, u32::MAX - 3 * 5000] {
                let words: Vec<u64> = (0..len as u32).map(|i| word(start + 3 * i, !i)).collect();
                for (at, &there) in words.iter().enumerate() {
                    assert_eq!(find(&words, key(there)), Some(at), "{len}");
                    assert_eq!(find(&words, key(there).wrapping_add(1)), None, "{len}");
                    assert_eq!(find(&words, key(there).wrapping_sub(1)), None, "{len}");
                }
                assert_eq!(find(&words, start + 3 * len as u32), None, "{len}");
            }
        }
    }

    #[test]
    fn search_steps_shrink_the_range_within_bounds() {
        for len in 2..100_000 {
            assert!(half(len) >= 1 && half(len) <= len - half(len), "{len}");
        }
        let known = [(0, 0), (1, 0), (2, 1), (3, 2), (64, 7), (1 << 16, 17), (1 << 20, 21), (1 << 24, 25)];
        for (len, expected) in known {
            assert_eq!(steps(len), expected, "{len}");
        }
        assert_eq!(steps(u32::MAX as usize), 34);
    }

    #[test]
    fn unsorted_words_are_searched_within_bounds() {
        let words: Vec<u64> = (0..1000u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        for wanted in (0..5000u32).map(|i| i.wrapping_mul(0x85eb_ca6b)).chain([0, u32::MAX]) {
            assert!(find(&words, wanted).is_none_or(|at| key(words[at]) == wanted));
        }
    }
}
