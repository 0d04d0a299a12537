//! Sorts one bucket without branches, because the branch predictor cannot foresee the order of its words.

/// Comparators of Batcher's network for 16 words; 8 need 19 and 4 need 5.
const MOST: usize = 63;

/// The comparators of Batcher's odd-even merge sort of S words, in order, and their number.
const fn network<const S: usize>() -> ([(usize, usize); MOST], usize) {
    let (mut pairs, mut len) = ([(0, 0); MOST], 0);
    let mut run = 1;
    while run < S {
        let mut apart = run;
        while apart > 0 {
            let mut low = apart % run;
            while low + apart < S {
                let is_right = low / (2 * run) == (low + apart) / (2 * run);
                if is_right && (low - apart % run) / apart % 2 == 0 {
                    pairs[len] = (low, low + apart);
                    len += 1;
                }
                low += 1;
            }
            apart /= 2;
        }
        run *= 2;
    }
    (pairs, len)
}

struct Network<const S: usize>;

impl<const S: usize> Network<S> {
    const PAIRS: [(usize, usize); MOST] = network::<S>().0;
    const LEN: usize = network::<S>().1;
}

/// Sorts S words (4, 8 or 16), the least first.
#[inline(always)]
pub(super) fn sort<const S: usize>(words: &mut [u64; S]) {
    exchange_all::<S, S, false>(words);
}

/// Sorts the first S words (up to 16), the greatest first.
#[inline(always)]
pub(super) fn sort_descending<const S: usize, const N: usize>(words: &mut [u64; N]) {
    exchange_all::<S, N, true>(words);
}

/// Sorts the first S words (up to 16), the greatest first, and moves the values with them.
#[inline(always)]
pub(super) fn sort_pairs_descending<const S: usize, V: Copy, const N: usize>(
    words: &mut [u64; N],
    values: &mut [V; N],
) {
    const { assert!(S <= N) }
    let mut at = 0;
    while at < Network::<S>::LEN {
        let (low, high) = Network::<S>::PAIRS[at];
        let (a, b) = ((words[low], values[low]), (words[high], values[high]));
        let less = a.0 < b.0;
        (words[low], words[high]) = (a.0.max(b.0), a.0.min(b.0));
        (values[low], values[high]) = (if less { b.1 } else { a.1 }, if less { a.1 } else { b.1 });
        at += 1;
    }
}

#[inline(always)]
fn exchange_all<const S: usize, const N: usize, const DESCENDING: bool>(words: &mut [u64; N]) {
    const { assert!(S <= N) }
    let mut at = 0;
    while at < Network::<S>::LEN {
        let (low, high) = Network::<S>::PAIRS[at];
        let (a, b) = (words[low], words[high]);
        (words[low], words[high]) = if DESCENDING { (a.max(b), a.min(b)) } else { (a.min(b), a.max(b)) };
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A network that sorts all sequences of zeros and ones sorts all sequences (the 0-1 principle).
    fn sorts_all<const S: usize>() {
        for bits in 0..1u32 << S {
            let mut words: [u64; S] = std::array::from_fn(|i| u64::from(bits >> i & 1));
            sort(&mut words);
            assert!(words.is_sorted(), "{bits:b}");
        }
    }

    /// Each value stays with its word.
    fn sorts_pairs<const S: usize>() {
        for bits in 0..1u32 << S {
            let mut words = [7; 8];
            let mut values: [u64; 8] = std::array::from_fn(|i| 2 * i as u64);
            (0..S).for_each(|i| words[i] = u64::from(bits >> i & 1));
            (0..S).for_each(|i| values[i] |= words[i]);
            sort_pairs_descending::<S, _, _>(&mut words, &mut values);
            assert!(words[..S].is_sorted_by(|a, b| a >= b) && words[S..].iter().all(|&word| word == 7), "{bits:b}");
            assert!((0..S).all(|i| values[i] & 1 == words[i]), "{bits:b}");
            values.sort_unstable();
            assert!(values.iter().zip(0..).all(|(value, i)| value / 2 == i), "{bits:b}");
        }
    }

    #[test]
    fn every_network_sorts() {
        sorts_pairs::<4>();
        sorts_pairs::<5>();
        sorts_pairs::<8>();
        sorts_all::<4>();
        sorts_all::<8>();
        sorts_all::<16>();
        assert_eq!((Network::<4>::LEN, Network::<8>::LEN, Network::<16>::LEN), (5, 19, 63));
    }
}
