//! Keys of which some come again, for tests of builds that tell which is the least of them.

/// How many of `len` keys come again, how far from each other, and how often: one and many, next to each other and far
/// apart, and so many of one that they fill what has room for `crowd`.
pub(super) fn sorts(len: usize, crowd: usize) -> [(usize, usize, usize); 5] {
    [(1, 1, 1), (1, len / 2, 1), (9, 50, 2), (len / 3, len / 3, 1), (1, 7, crowd)]
}

/// Writes copies over some of the keys.
pub(super) fn plant<K: Copy>(keys: &mut [K], (copied, apart, each): (usize, usize, usize)) {
    for i in 0..copied {
        for copy in 1..=each {
            keys[(i + apart * copy) % keys.len()] = keys[i];
        }
    }
}

/// The key of each copy, ascending.
pub(super) fn of<K: Copy + Ord>(keys: &[K]) -> Vec<K> {
    let mut sorted = keys.to_vec();
    sorted.sort_unstable();
    sorted.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect()
}
