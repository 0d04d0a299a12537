//! Fields of DNA or RNA letters as keys; [`koel::layout::kmers`] defines the keys.

use std::sync::Arc;

use arrow_array::{ArrayRef, FixedSizeBinaryArray, StringArray};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow_schema::DataType;
use koel::KeyType;
use koel::layout::kmers::{Base, MOST, canonical, reverse_complement};

use crate::failure::{Failure, Result};
use crate::number::Number;

/// The maximum number of letters of a 32-bit key, which is also the default number of letters.
pub(super) const MOST_NARROW: u32 = 16;

/// Whether a field consists of A, C, G, T, U and N only, so that letters are meant.
pub(crate) fn are_letters(field: &[u8]) -> bool {
    !field.is_empty() && field.iter().all(|&letter| Base::of(letter).is_some() || letter.eq_ignore_ascii_case(&b'N'))
}

/// Whether a field is meant as a k-mer of `k` letters, valid or not. Numbers are not, and a word of another length may
/// be a name.
pub(crate) fn are_meant(field: &[u8], k: u32) -> bool {
    are_letters(field) || (field.len() == k as usize && field.iter().all(u8::is_ascii_alphabetic))
}

/// Converts exactly `k` letters to a key.
///
/// # Errors
/// A description of what is wrong with the letters.
pub(crate) fn kmer(letters: &[u8], k: u32) -> std::result::Result<u64, String> {
    debug_assert!((1..=MOST).contains(&k));
    if letters.len() != k as usize {
        return Err(format!("has {} letters, and the k-mers of the table have {k}", letters.len()));
    }
    letters.iter().try_fold(0, |key, &letter| match Base::of(letter) {
        Some(base) => Ok(key << 2 | base.code()),
        None => Err(format!("has the letter {}: give A, C, G, T or U", letter.escape_ascii())),
    })
}

/// Checks that a number can be a key of a table of such k-mers.
///
/// # Errors
/// The reason why not, and what to do.
pub(crate) fn check(key: Number, key_type: KeyType) -> std::result::Result<(), String> {
    let (KeyType::Kmers { k } | KeyType::CanonicalKmers { k }) = key_type else { return Ok(()) };
    let Some(bits) = u64::try_from(key).ok().filter(|&bits| of_kmer(bits.into(), k).is_some()) else {
        return Err(format!("{key} is not a k-mer of {k} letters: give --kmer K for those of K letters"));
    };
    if matches!(key_type, KeyType::Kmers { .. }) || canonical(bits, k) == bits {
        return Ok(());
    }
    let [own, other] = [bits, reverse_complement(bits, k)]
        .map(|bits| of_kmer(bits.into(), k).into_iter().flatten().map(char::from).collect::<String>());
    Err(format!(
        "{key} is {own}, and the canonical k-mer is its reverse complement {other}: count with --canonical-kmers as well, \
         or build the table without it"
    ))
}

/// The letters of a k-mer; `None` if the key is not a k-mer of `k` letters.
fn of_kmer(key: Number, k: u32) -> Option<impl Iterator<Item = u8>> {
    let key = u64::try_from(key).ok().filter(|key| k == MOST || key >> (2 * k) == 0)?;
    Some((0..k).rev().map(move |place| b"ACGT"[(key >> (2 * place)) as usize & 3]))
}

/// K-mers as a column of text, or of bytes with zeros under nulls.
///
/// # Errors
/// If a key is not a k-mer of `k` letters.
pub(crate) fn column(keys: impl Iterator<Item = Option<Number>>, k: u32, data_type: &DataType) -> Result<ArrayRef> {
    let is_text = *data_type == DataType::Utf8;
    let (mut bytes, mut has_key) = (Vec::new(), Vec::new());
    for key in keys {
        match key {
            Some(key) => bytes.extend(of_kmer(key, k).ok_or_else(|| {
                Failure::Input(format!("the key {key} is not a k-mer of {k} letters: omit --letters"))
            })?),
            None if is_text => {}
            None => bytes.extend(std::iter::repeat_n(0, k as usize)),
        }
        has_key.push(key.is_some());
    }
    let lengths = has_key.iter().map(|&has_key| if has_key { k as usize } else { 0 });
    let (offsets, bytes) = (OffsetBuffer::from_lengths(lengths), Buffer::from(bytes));
    let nulls = Some(NullBuffer::from(has_key)).filter(|nulls| nulls.null_count() > 0);
    let column: std::result::Result<ArrayRef, _> = match is_text {
        true => StringArray::try_new(offsets, bytes, nulls).map(|texts| Arc::new(texts) as ArrayRef),
        false => FixedSizeBinaryArray::try_new(k as i32, bytes, nulls).map(|texts| Arc::new(texts) as ArrayRef),
    };
    Ok(column.map_err(koel_arrow::Error::from)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kmers_are_shown_by_their_letters() {
        for letters in [&b"A"[..], b"ACGT", b"ACGTACGTACGTACGTA", b"GTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTT"] {
            let k = letters.len() as u32;
            let key = kmer(letters, k).expect("bases");
            assert!(of_kmer(key.into(), k).is_some_and(|shown| shown.eq(letters.iter().copied())));
        }
        assert!(of_kmer(255, 4).is_some() && of_kmer(256, 4).is_none() && of_kmer(-1, 4).is_none());
        assert!(of_kmer(u64::MAX.into(), 32).is_some() && of_kmer(Number::from(u64::MAX) + 1, 32).is_none());
    }

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
