//! Keys of k-mers: windows of `k` letters of DNA or RNA, with two bits per letter.
//!
//! ```text
//! Base        A C G T = 0 1 2 3; U is T; upper and lower case are equal
//! key         the codes of the letters, the first one most significant
//! canonical   the lesser of the keys of a window and of its reverse complement, which is the same place on the other strand
//!
//! Window: for each letter of code c
//!     key      = (key << 2 | c) without the bits above 2 k
//!     opposite = opposite >> 2 | (3 - c) << 2 (k - 1)
//!     return   key, or the lesser of both for canonical keys, after k consecutive letters
//! ```

use crate::error::{Error, Result};

/// The greatest number of letters of a 64-bit key; a 32-bit key has at most 16 letters.
pub const MOST: u32 = 32;

/// One of the four bases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Base(u8);

impl Base {
    /// The base of a letter; `None` if the letter is not a base or is ambiguous.
    ///
    /// ```
    /// use koel::layout::kmers::Base;
    /// let codes = [b'A', b'c', b'G', b'u', b'N'].map(|letter| Base::of(letter).map(Base::code));
    /// assert_eq!(codes, [Some(0), Some(1), Some(2), Some(3), None]);
    /// ```
    #[inline]
    pub fn of(letter: u8) -> Option<Base> {
        match letter.to_ascii_uppercase() {
            b'A' => Some(Base(0)),
            b'C' => Some(Base(1)),
            b'G' => Some(Base(2)),
            b'T' | b'U' => Some(Base(3)),
            _ => None,
        }
    }

    /// The two-bit code of the base.
    #[inline]
    pub fn code(self) -> u64 {
        self.0.into()
    }
}

/// Whether a letter denotes one of several bases, or a gap of unknown length. Genomes contain such letters.
pub fn is_ambiguous(letter: u8) -> bool {
    b"NRYSWKMBDHV-".contains(&letter.to_ascii_uppercase())
}

/// The key of the reverse complement of a k-mer. Unspecified if `k` is not from 1 to [`MOST`].
///
/// ```
/// use koel::layout::kmers::reverse_complement;
/// // AACG and CGTT.
/// assert_eq!(reverse_complement(0b00_00_01_10, 4), 0b01_10_11_11);
/// ```
pub fn reverse_complement(key: u64, k: u32) -> u64 {
    // Reverses the order of pairs of bits: first of bytes, then of the halves of bytes, then within the halves.
    const NIBBLES: u64 = 0x0f0f_0f0f_0f0f_0f0f;
    const PAIRS: u64 = 0x3333_3333_3333_3333;
    let bytes = key.swap_bytes();
    let nibbles = (bytes >> 4) & NIBBLES | (bytes & NIBBLES) << 4;
    let pairs = (nibbles >> 2) & PAIRS | (nibbles & PAIRS) << 2;
    !pairs >> (64 - 2 * k.clamp(1, MOST))
}

/// The lesser of the keys of a k-mer and its reverse complement, with `k` as in [`reverse_complement`].
pub fn canonical(key: u64, k: u32) -> u64 {
    key.min(reverse_complement(key, k))
}

/// The strand from which a window is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Strands {
    /// The strand that is given.
    #[default]
    Given,
    /// Either strand: the key is [`canonical`].
    Both,
}

/// The last `k` letters of a sequence.
///
/// ```
/// use koel::layout::kmers::{Base, Strands, Window};
/// let mut window = Window::new(3, Strands::Given)?;
/// let keys: Vec<_> = b"ACGT".iter().filter_map(|&letter| window.push(Base::of(letter)?)).collect();
/// assert_eq!(keys, [0b00_01_10, 0b01_10_11]);
/// # Ok::<(), koel::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Window {
    k: u32,
    strands: Strands,
    mask: u64,
    key: u64,
    /// The key of the reverse complement.
    opposite: u64,
    /// The number of consecutive letters, up to `k`.
    letters: u32,
}

impl Window {
    /// An empty window of `k` letters.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`] unless `k` is from 1 to [`MOST`].
    pub fn new(k: u32, strands: Strands) -> Result<Window> {
        if !(1..=MOST).contains(&k) {
            return Err(Error::parameter("k", k, "use 1 to 32: a letter has 2 of a key's 64 bits"));
        }
        Ok(Window { k, strands, mask: u64::MAX >> (64 - 2 * k), key: 0, opposite: 0, letters: 0 })
    }

    /// The number of letters of a full window.
    #[inline]
    pub fn k(&self) -> u32 {
        self.k
    }

    /// The number of consecutive letters so far, up to `k`.
    #[inline]
    pub fn letters(&self) -> u32 {
        self.letters
    }

    /// Restarts the window: after a letter that is not a base, and at the start of another sequence.
    #[inline]
    pub fn clear(&mut self) {
        self.letters = 0;
    }

    /// Adds a letter, and returns the key of the window that ends with it, if the window is full.
    #[inline]
    pub fn push(&mut self, base: Base) -> Option<u64> {
        let code = base.code();
        self.letters = (self.letters + 1).min(self.k);
        self.key = (self.key << 2 | code) & self.mask;
        self.opposite = self.opposite >> 2 | (3 - code) << (2 * (self.k - 1));
        if self.letters < self.k {
            return None;
        }
        Some(match self.strands {
            Strands::Given => self.key,
            Strands::Both => self.key.min(self.opposite),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computes the key of letters one by one.
    fn key(letters: &[u8]) -> u64 {
        letters.iter().fold(0, |key, &letter| key << 2 | Base::of(letter).expect("a base").code())
    }

    fn windows(text: &[u8], k: u32, strands: Strands) -> Vec<u64> {
        let mut window = Window::new(k, strands).expect("a window");
        let mut keys = Vec::new();
        for &letter in text {
            match Base::of(letter) {
                Some(base) => keys.extend(window.push(base)),
                None => window.clear(),
            }
        }
        keys
    }

    #[test]
    fn windows_are_those_of_a_plain_loop() {
        let drawn = (0..300_u32).map(|i| b"ACGT"[(i.wrapping_mul(0x9e37_79b9) >> 27) as usize & 3]);
        let mut text: Vec<u8> = drawn.collect();
        (text[77], text[78], text[200]) = (b'N', b'-', b'u');
        for k in [1, 2, 5, 16, 17, 31, 32] {
            let there =
                text.windows(k as usize).filter(|window| window.iter().all(|&letter| Base::of(letter).is_some()));
            let plain: Vec<u64> = there.map(key).collect();
            assert_eq!(windows(&text, k, Strands::Given), plain, "{k}");
            let lesser: Vec<u64> = plain.iter().map(|&key| canonical(key, k)).collect();
            assert_eq!(windows(&text, k, Strands::Both), lesser, "{k}");
        }
    }

    #[test]
    fn the_other_strand_is_read_backwards() {
        for (letters, other) in [
            (&b"A"[..], &b"T"[..]),
            (b"ACGT", b"ACGT"),
            (b"AACG", b"CGTT"),
            (b"ACGTACGTACGTACGTA", b"TACGTACGTACGTACGT"),
            (b"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAC", b"GTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTT"),
        ] {
            let k = letters.len() as u32;
            assert_eq!(
                (reverse_complement(key(letters), k), reverse_complement(key(other), k)),
                (key(other), key(letters))
            );
            assert_eq!(canonical(key(letters), k), key(letters).min(key(other)));
        }
    }

    #[test]
    fn lengths_without_a_key_are_refused() {
        assert!([0, MOST + 1, u32::MAX].into_iter().all(|k| Window::new(k, Strands::Both).is_err()));
        assert!(is_ambiguous(b'n') && is_ambiguous(b'-') && !is_ambiguous(b'A') && !is_ambiguous(b'E'));
    }
}
