//! Keys with duplicates, for tests of builds that report the least duplicate key.

/// The number of duplicated keys among `len`, their distance, and their number of occurrences: one and many, adjacent
/// and far apart, and enough of one key to fill what has capacity for `crowd`.
pub(super) fn sorts(len: usize, crowd: usize) -> [(usize, usize, usize); 5] {
    [(1, 1, 1), (1, len / 2, 1), (9, 50, 2), (len / 3, len / 3, 1), (1, 7, crowd)]
}

/// Overwrites some of the keys with duplicates.
pub(super) fn plant<K: Copy>(keys: &mut [K], (copied, apart, each): (usize, usize, usize)) {
    for i in 0..copied {
        for copy in 1..=each {
            keys[(i + apart * copy) % keys.len()] = keys[i];
        }
    }
}

/// The key of each duplicate, ascending.
pub(super) fn of<K: Copy + Ord>(keys: &[K]) -> Vec<K> {
    let mut sorted = keys.to_vec();
    sorted.sort_unstable();
    sorted.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect()
}
