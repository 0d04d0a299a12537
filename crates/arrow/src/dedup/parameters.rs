//! The parameters of near-duplicates.
//!
//! Two documents are candidates if all words of one band of their signatures are equal. With bands of r words,
//! documents of similarity s share one of b bands with the probability 1 - (1 - s^r)^b. By default, b and r minimise
//! the mean of the areas of false positives (below the threshold) and false negatives (above it), as in datasketch.

use crate::error::Result;

/// The unit of text that is compared and removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Unit {
    /// Whole texts.
    #[default]
    Document,
    /// Paragraphs: lines of text that are separated by blank lines.
    Paragraph,
    /// Lines.
    Line,
}

impl Unit {
    /// All units.
    pub const ALL: [Unit; 3] = [Unit::Document, Unit::Paragraph, Unit::Line];

    /// The name of the unit.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Document => "document",
            Unit::Paragraph => "paragraph",
            Unit::Line => "line",
        }
    }
}

/// The parameters of the search for similar documents.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Near {
    /// The number of words of a shingle. A document with fewer words is one shingle.
    pub ngram: usize,
    /// The number of words of a signature, 1 to 4096: the permutations of MinHash.
    pub num_perm: usize,
    /// The least Jaccard similarity of the shingles of duplicates, above 0 and at most 1. It is estimated as the
    /// fraction of equal words of signatures.
    pub threshold: f64,
    /// The number of bands; `None` chooses the best one for the threshold.
    pub bands: Option<usize>,
    /// The seed of all hashes.
    pub seed: u64,
}

impl Default for Near {
    fn default() -> Self {
        Near { ngram: 5, num_perm: 128, threshold: 0.8, bands: None, seed: 0 }
    }
}

impl Near {
    /// Checks the parameters.
    ///
    /// # Errors
    /// [`koel::Error::InvalidParameter`].
    pub fn check(&self) -> Result<()> {
        let wrong = |what, given: String, advice| Err(koel::Error::InvalidParameter { what, given, advice }.into());
        if !(1..=1 << 16).contains(&self.ngram) {
            return wrong("ngram", self.ngram.to_string(), "give 1 to 65536");
        }
        if !(1..=4096).contains(&self.num_perm) {
            return wrong("num_perm", self.num_perm.to_string(), "give 1 to 4096");
        }
        if !(self.threshold > 0.0 && self.threshold <= 1.0) {
            return wrong("threshold", self.threshold.to_string(), "give a number above 0, at most 1");
        }
        match self.bands {
            Some(bands) if !(1..=self.num_perm).contains(&bands) => {
                wrong("bands", bands.to_string(), "give 1 to num_perm")
            }
            _ => Ok(()),
        }
    }

    /// The number of bands, and the number of words of each.
    pub fn banding(&self) -> (usize, usize) {
        match self.bands {
            Some(bands) => (bands, self.num_perm / bands),
            None => best_banding(self.num_perm, self.threshold),
        }
    }

    /// The least number of equal words of similar signatures.
    pub(super) fn least_equal(&self) -> usize {
        (0..self.num_perm).find(|&equal| equal as f64 / self.num_perm as f64 >= self.threshold).unwrap_or(self.num_perm)
    }
}

/// The number of bands and of their words that minimise the mean area of errors; if several do, those with the fewest
/// bands.
fn best_banding(words: usize, threshold: f64) -> (usize, usize) {
    let mut best = (f64::INFINITY, (1, words));
    for bands in 1..=words {
        for rows in 1..=words / bands {
            let shared = |s: f64| 1.0 - power(1.0 - power(s, rows), bands);
            let error = area(shared, 0.0, threshold) + area(|s| 1.0 - shared(s), threshold, 1.0);
            if error < best.0 {
                best = (error, (bands, rows));
            }
        }
    }
    best.1
}

/// The area under a curve, in steps of 0.001.
fn area(curve: impl Fn(f64) -> f64, start: f64, end: f64) -> f64 {
    const STEP: f64 = 0.001;
    let steps = ((end - start) / STEP).ceil() as usize;
    (0..steps).map(|step| curve(start + (step as f64 + 0.5) * STEP) * STEP).sum()
}

/// A power by multiplications only, so that it has the same bits on every machine.
fn power(mut base: f64, mut exponent: usize) -> f64 {
    let mut result = 1.0;
    while exponent > 0 {
        if exponent % 2 == 1 {
            result *= base;
        }
        base *= base;
        exponent /= 2;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `b` and `r` of `datasketch.MinHashLSH(threshold=t, num_perm=k)`, version 1.6.5.
    #[test]
    fn bands_are_those_of_datasketch() {
        for (words, threshold, expected) in
            [(128, 0.8, (9, 13)), (128, 0.5, (25, 5)), (256, 0.9, (9, 28)), (64, 0.7, (8, 8))]
        {
            assert_eq!(
                Near { num_perm: words, threshold, ..Near::default() }.banding(),
                expected,
                "{words} {threshold}"
            );
        }
        assert_eq!(Near { bands: Some(20), ..Near::default() }.banding(), (20, 6));
    }

    #[test]
    fn similar_signatures_reach_the_threshold() {
        for (num_perm, threshold, equal) in [(128, 0.8, 103), (128, 0.5, 64), (10, 1.0, 10), (1, 0.1, 1)] {
            assert_eq!(Near { num_perm, threshold, ..Near::default() }.least_equal(), equal);
        }
    }

    #[test]
    fn wrong_parameters_are_named() {
        let near = Near::default();
        for (wrong, part) in [
            (Near { ngram: 0, ..near }, "ngram"),
            (Near { num_perm: 0, ..near }, "num_perm"),
            (Near { num_perm: 5000, ..near }, "4096"),
            (Near { threshold: f64::NAN, ..near }, "threshold"),
            (Near { threshold: 0.0, ..near }, "threshold"),
            (Near { bands: Some(129), ..near }, "bands"),
        ] {
            assert!(wrong.check().is_err_and(|error| error.to_string().contains(part)), "{wrong:?}");
        }
    }
}
