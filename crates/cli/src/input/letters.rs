//! Letters of DNA and RNA: `A C G T = 0 1 2 3`, U is T, upper and lower case are one; the first letter of a k-mer is its
//! most significant.

/// The most letters that a key of 64 bits holds.
pub(super) const MOST: u32 = 32;

/// The most letters that a key of 32 bits holds, and as many as keys have where nobody says.
pub(super) const MOST_NARROW: u32 = 16;

/// A letter's two bits.
pub(super) fn code(letter: u8) -> Option<u64> {
    match letter.to_ascii_uppercase() {
        b'A' => Some(0),
        b'C' => Some(1),
        b'G' => Some(2),
        b'T' | b'U' => Some(3),
        _ => None,
    }
}

/// Whether a letter stands for one of several bases, or for a gap of unknown length. Genomes have them.
pub(super) fn is_ambiguous(letter: u8) -> bool {
    b"NRYSWKMBDHV-".contains(&letter.to_ascii_uppercase())
}

/// Whether a field is meant as letters: nothing but A, C, G, T, U and N.
pub(super) fn are_letters(field: &[u8]) -> bool {
    !field.is_empty() && field.iter().all(|&letter| code(letter).is_some() || letter.eq_ignore_ascii_case(&b'N'))
}

/// Whether a field is meant as `k` letters, be they legal ones or not. A number is none, and a word of another length may
/// be a name.
pub(super) fn are_meant(field: &[u8], k: u32) -> bool {
    are_letters(field) || (field.len() == k as usize && field.iter().all(u8::is_ascii_alphabetic))
}

/// Exactly `k` letters as a key.
///
/// # Errors
/// What is wrong with them.
pub(super) fn kmer(letters: &[u8], k: u32) -> Result<u64, String> {
    debug_assert!((1..=MOST).contains(&k));
    if letters.len() != k as usize {
        return Err(format!("has {} letters, and the k-mers of this table have {k}", letters.len()));
    }
    letters.iter().try_fold(0, |key, &letter| match code(letter) {
        Some(bits) => Ok(key << 2 | bits),
        None => Err(format!("has the letter {}: give A, C, G, T or U", letter.escape_ascii())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_packed_as_in_fasta() {
        // ACGT = 00 01 10 11
        assert_eq!(kmer(b"ACGT", 4), Ok(27));
        assert_eq!(kmer(b"acgu", 4), Ok(27), "U is T, case is ignored");
        assert_eq!(kmer(&[b'T'; 16], 16), Ok(u32::MAX.into()));
        assert_eq!(kmer(&[b'T'; 32], 32), Ok(u64::MAX));
        assert!(kmer(b"ACG", 4).is_err_and(|reason| reason.contains("3 letters")));
        assert!(kmer(b"ACGN", 4).is_err_and(|reason| reason.contains("letter N")));
        assert!(are_letters(b"acgtun") && !are_letters(b"") && !are_letters(b"ACE") && !are_letters(b"1"));
        assert!(are_meant(b"ACGR", 4) && are_meant(b"word", 4) && are_meant(b"ACG", 4));
        assert!(!are_meant(b"words", 4) && !are_meant(b"AC-T", 4) && !are_meant(b"1234", 4));
    }
}
