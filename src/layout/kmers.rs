//! Keys of k-mers: windows of `k` letters of DNA or RNA, two bits a letter.
//!
//! ```text
//! code        A C G T = 0 1 2 3; U is T; upper and lower case are one
//! key         the codes of the letters, the first one most significant
//! canonical   the lesser of a window's key and of that of its reverse complement, which is the same place on the other strand
//!
//! Window: for each letter of code c
//!     key      = (key << 2 | c) without the bits above 2 k
//!     opposite = opposite >> 2 | (3 - c) << 2 (k - 1)
//!     give     key, or the lesser of both, once k letters stand in a row
//! ```

use crate::error::{Error, Result};

/// The most letters that a key of 64 bits holds; one of 32 holds 16.
pub const MOST: u32 = 32;

/// A letter's two bits; none of what is no base, or may be several.
///
/// ```
/// use koel::layout::kmers::code;
/// assert_eq!([b'A', b'c', b'G', b'u', b'N'].map(code), [Some(0), Some(1), Some(2), Some(3), None]);
/// ```
#[inline]
pub fn code(letter: u8) -> Option<u64> {
    match letter.to_ascii_uppercase() {
        b'A' => Some(0),
        b'C' => Some(1),
        b'G' => Some(2),
        b'T' | b'U' => Some(3),
        _ => None,
    }
}

/// Whether a letter stands for one of several bases, or for a gap of unknown length. Genomes have them.
pub fn is_ambiguous(letter: u8) -> bool {
    b"NRYSWKMBDHV-".contains(&letter.to_ascii_uppercase())
}

/// The key of the reverse complement of a k-mer, `k` from 1 to [`MOST`].
///
/// ```
/// use koel::layout::kmers::reverse_complement;
/// // AACG and CGTT.
/// assert_eq!(reverse_complement(0b00_00_01_10, 4), 0b01_10_11_11);
/// ```
pub fn reverse_complement(key: u64, k: u32) -> u64 {
    // Pairs of bits in the other order: of bytes, of halves of a byte, and within those.
    const NIBBLES: u64 = 0x0f0f_0f0f_0f0f_0f0f;
    const PAIRS: u64 = 0x3333_3333_3333_3333;
    let bytes = key.swap_bytes();
    let nibbles = (bytes >> 4) & NIBBLES | (bytes & NIBBLES) << 4;
    let pairs = (nibbles >> 2) & PAIRS | (nibbles & PAIRS) << 2;
    !pairs >> (64 - 2 * k.clamp(1, MOST))
}

/// The last `k` letters of a sequence.
///
/// ```
/// use koel::layout::kmers::{Window, code};
/// let mut window = Window::new(3, false)?;
/// let keys: Vec<_> = b"ACGT".iter().filter_map(|&letter| window.push(code(letter)?)).collect();
/// assert_eq!(keys, [0b00_01_10, 0b01_10_11]);
/// # Ok::<(), koel::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Window {
    k: u32,
    is_canonical: bool,
    mask: u64,
    key: u64,
    /// The reverse complement.
    opposite: u64,
    /// Letters in a row, up to `k`.
    letters: u32,
}

impl Window {
    /// Of `k` letters, of which none has come yet.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`] unless `k` is from 1 to [`MOST`].
    pub fn new(k: u32, is_canonical: bool) -> Result<Window> {
        if !(1..=MOST).contains(&k) {
            return Err(Error::parameter("k", k, "give 1 to 32: a letter has 2 of a key's 64 bits"));
        }
        Ok(Window { k, is_canonical, mask: u64::MAX >> (64 - 2 * k), key: 0, opposite: 0, letters: 0 })
    }

    /// Letters of a window.
    pub fn k(&self) -> u32 {
        self.k
    }

    /// Letters that stand in a row, up to `k`.
    pub fn letters(&self) -> u32 {
        self.letters
    }

    /// Begins anew: behind what is no base, and where another sequence begins.
    #[inline]
    pub fn clear(&mut self) {
        self.letters = 0;
    }

    /// Goes on by a letter, given as its [`code`], and gives the key of the window that ends with it.
    #[inline]
    pub fn push(&mut self, code: u64) -> Option<u64> {
        let code = code & 3;
        self.letters = (self.letters + 1).min(self.k);
        self.key = (self.key << 2 | code) & self.mask;
        self.opposite = self.opposite >> 2 | (3 - code) << (2 * (self.k - 1));
        if self.letters < self.k {
            return None;
        }
        Some(if self.is_canonical { self.key.min(self.opposite) } else { self.key })
    }
}
