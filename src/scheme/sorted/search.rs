//! Binary search without branches, in a number of steps that depends on the number of words alone.
//!
//! ```text
//! base = 0, len = pairs
//! while len > 1:   half = len / 2 - len / 64
//!                  base += half, if the key of words[base + half] is not above the one that is sought
//!                  len -= half
//! found if words[base] has the key
//! ```
//!
//! Why it is right: all words from `base + len` on are above the key, and `words[base]` is not, unless none is. Going
//! right keeps both. Going left would leave `half` words; it keeps `len - half`, which are no fewer, because then all
//! searches are at the same `len` in the same step, and many of them can go in step (`cpu/sorted`, `cl/sorted.cl`).
//!
//! Why not in the middle: with 2^24 pairs, all first steps would read words at multiples of large powers of two, which
//! share a few sets of a cache and drive each other out. A little off the middle costs one step more in 2^24 pairs and
//! made searches on the CPU twice as fast at 2^20 pairs and three times at 2^24 (batches of random queries). It also
//! made the breadth-first order of Eytzinger, which was tried beside it, no faster than the plain one.

/// How far off the middle a step divides: by this part of the words.
pub const OFF_MIDDLE: usize = 64;

/// By how much a step in `len` words may go right; at least 1 for `len` above 1, and at most half of it.
pub fn half(len: usize) -> usize {
    len / 2 - len / OFF_MIDDLE
}

/// The steps of a search in `len` words.
pub fn steps(mut len: usize) -> u32 {
    let mut steps = 0;
    while len > 1 {
        len -= half(len);
        steps += 1;
    }
    steps
}

/// The key of a word; its value is the other half.
pub fn key(word: u64) -> u32 {
    (word >> 32) as u32
}

/// A pair as a word. Words compare as their keys do, and keys are distinct.
pub fn word(key: u32, value: u32) -> u64 {
    u64::from(key) << 32 | u64::from(value)
}

/// Where a key stands. In words that do not ascend, somewhere or nowhere.
pub fn find(words: &[u64], wanted: u32) -> Option<usize> {
    find_by(words, key, wanted)
}

/// [`find`] among cells that say their keys by `key`.
pub fn find_by<T: Copy, K: Ord>(cells: &[T], key: impl Fn(T) -> K, wanted: K) -> Option<usize> {
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
    fn every_key_is_found_and_no_other_at_every_length() {
        for len in (0..=300).chain([511, 512, 513, 4095, 4096, 5000]) {
            // Every third number, from the least key or up to the greatest.
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
    fn steps_are_few_and_each_leaves_some_and_not_too_much() {
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
    fn words_that_do_not_ascend_are_searched_within_bounds() {
        let words: Vec<u64> = (0..1000u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        for wanted in (0..5000u32).map(|i| i.wrapping_mul(0x85eb_ca6b)).chain([0, u32::MAX]) {
            assert!(find(&words, wanted).is_none_or(|at| key(words[at]) == wanted));
        }
    }
}
