//! Signatures of documents: equal words of two signatures estimate the Jaccard similarity of their sets of shingles.
//!
//! ```text
//! word       a run of characters without white space      -> 64-bit hash (XXH3, with the seed)
//! shingle    n consecutive words, or all words of a shorter text -> 64-bit hash of the hashes of its words
//! round t    hashes each shingle to a word of the signature and to a value; a word keeps its value if an earlier round has
//!            written it, and otherwise gets the least value of the round
//! rounds     repeat until all words are written; round k + i writes word i from all shingles
//! ```
//!
//! This is the fast similarity sketching of Dahlgaard, Knudsen and Thorup (FOCS 2017). The estimate is unbiased and
//! about as accurate as that of MinHash with k permutations, but a document of m shingles costs O(m + k log k) hashes
//! instead of O(m k). All arithmetic is on integers, so a signature is a function of the text, the parameters and the
//! seed.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::Near;

/// A word of a signature. Two words that should differ are equal with a probability of 2^-32.
pub(super) type Word = u32;

/// Computes signatures. Each thread has a separate sketcher.
#[derive(Debug)]
pub(super) struct Sketcher {
    near: Near,
    /// The hashes of the words of a text, and of its shingles.
    words: Vec<u64>,
    shingles: Vec<u64>,
    /// The round that wrote each word of a signature.
    rounds: Vec<usize>,
}

impl Sketcher {
    pub(super) fn new(near: &Near) -> Sketcher {
        Sketcher { near: *near, words: Vec::new(), shingles: Vec::new(), rounds: Vec::new() }
    }

    /// The signature of a text; all texts without words have the same signature.
    pub(super) fn sketch(&mut self, text: &str, signature: &mut [Word]) {
        let seed = self.near.seed;
        self.words.clear();
        // The bytes of a hash are in the same order on every machine.
        self.words.extend(text.split_whitespace().map(|word| xxh3_64_with_seed(word.as_bytes(), seed).to_le()));
        let length = self.near.ngram.min(self.words.len());
        self.shingles.clear();
        if length > 0 {
            let hash = |words: &[u64]| xxh3_64_with_seed(bytemuck::cast_slice(words), seed);
            self.shingles.extend(self.words.windows(length).map(hash));
        }
        self.fill(signature);
    }

    fn fill(&mut self, signature: &mut [Word]) {
        const UNWRITTEN: usize = usize::MAX;
        let count = signature.len();
        signature.fill(Word::MAX);
        if self.shingles.is_empty() {
            return;
        }
        self.rounds.clear();
        self.rounds.resize(count, UNWRITTEN);
        let mut unwritten = count;
        for round in 0..2 * count {
            let key = mixed(self.near.seed.wrapping_add((round as u64).wrapping_mul(GOLDEN)));
            if round >= count && self.rounds[round - count] != UNWRITTEN {
                continue;
            }
            for &shingle in &self.shingles {
                let hash = mixed(shingle ^ key);
                let (high, value) = ((hash >> 32) as usize, hash as Word);
                let at = if round < count { (high * count) >> 32 } else { round - count };
                if self.rounds[at] == round {
                    signature[at] = signature[at].min(value);
                } else if self.rounds[at] == UNWRITTEN {
                    (self.rounds[at], signature[at]) = (round, value);
                    unwritten -= 1;
                }
            }
            if unwritten == 0 {
                break;
            }
        }
    }
}

/// 2^64 divided by the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finaliser of SplitMix64, a permutation.
fn mixed(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sketched(near: &Near, text: &str) -> Vec<Word> {
        let mut signature = vec![0; near.num_perm];
        Sketcher::new(near).sketch(text, &mut signature);
        signature
    }

    fn equal(a: &[Word], b: &[Word]) -> usize {
        a.iter().zip(b).filter(|(a, b)| a == b).count()
    }

    /// A text of distinct words, `first..end`.
    fn text(first: usize, end: usize) -> String {
        (first..end).map(|word| format!("w{word} ")).collect()
    }

    /// The mean squared error of MinHash is J (1 - J) / k. It is compared over many pairs with the same similarity.
    #[test]
    fn estimates_are_unbiased_and_as_accurate_as_those_of_minhash() {
        const PAIRS: usize = 300;
        for (size, shared) in [(12, 10), (40, 20), (200, 180), (1000, 100)] {
            let near = Near { ngram: 1, ..Near::default() };
            let jaccard = shared as f64 / (2 * size - shared) as f64;
            let errors: Vec<f64> = (0..PAIRS)
                .map(|pair| {
                    let start = pair * 3 * size;
                    let (a, b) = (text(start, start + size), text(start + size - shared, start + 2 * size - shared));
                    equal(&sketched(&near, &a), &sketched(&near, &b)) as f64 / near.num_perm as f64 - jaccard
                })
                .collect();
            let variance = jaccard * (1.0 - jaccard) / near.num_perm as f64;
            let mean = errors.iter().sum::<f64>() / PAIRS as f64;
            let squares = errors.iter().map(|error| error * error).sum::<f64>() / PAIRS as f64;
            // Four standard deviations of the mean; the standard deviation of the mean square is 8 % of it.
            assert!(mean.abs() < 4.0 * (variance / PAIRS as f64).sqrt(), "{size}: {mean}");
            assert!(squares < 1.35 * variance, "{size}: {squares} {variance}");
        }
    }

    #[test]
    fn signatures_depend_on_words_parameters_and_seed_alone() {
        let near = Near::default();
        let signature = sketched(&near, &text(0, 50));
        let mut sketcher = Sketcher::new(&near);
        let mut again = vec![0; near.num_perm];
        sketcher.sketch("other words", &mut again);
        sketcher.sketch(&text(0, 50).replace(' ', "\n\t"), &mut again);
        assert_eq!(again, signature);
        for other in [Near { seed: 1, ..near }, Near { ngram: 4, ..near }] {
            assert!(equal(&sketched(&other, &text(0, 50)), &signature) < 8, "{other:?}");
        }
        // Texts with fewer words than a shingle are compared as a whole, and all texts without words are equal.
        assert_eq!(sketched(&near, "a b"), sketched(&near, " a  b "));
        assert!(equal(&sketched(&near, "a b"), &sketched(&near, "b a")) < 8);
        assert_eq!(sketched(&near, ""), sketched(&near, " \n"));
        // Computed by a Python program. The values must be the same on every platform and in every later version.
        assert_eq!(
            sketched(&Near { num_perm: 4, ..near }, "one fig and two plums"),
            [1995766737, 1458995796, 4214247270, 3660887081]
        );
    }
}
