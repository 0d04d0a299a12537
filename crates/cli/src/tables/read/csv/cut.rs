//! Ranges of whole rows of a text that is not in memory.

use std::io;
use std::ops::Range;

use rayon::prelude::*;

use super::super::text::Text;
use crate::cut::{self, Passages};

/// Ranges of whole rows from `start` on, where a row begins; quotes are respected.
pub(super) fn rows(text: &Text<'_>, start: usize, delimiter: u8, size: usize) -> io::Result<Vec<Range<usize>>> {
    let (size, length) = (size.max(1), text.length());
    let pieces: Vec<_> = (start..length).step_by(size).collect();
    let passages =
        pieces.par_iter().map(|&at| text.look(at..length.min(at + size), |piece| Passages::of(piece, delimiter)));
    let passages = passages.collect::<io::Result<Vec<_>>>()?;
    let (starts, _) = cut::starts(&pieces, &passages);
    Ok(cut::ranges(&starts, length))
}

#[cfg(test)]
mod tests {
    use super::super::Data;
    use super::*;

    #[test]
    fn rows_are_whole_whatever_is_in_quotes() {
        let data = Data::from(b"\"1\n\",2\n3,4\n5,6".to_vec());
        let text = Text::of(&data).expect("a length");
        assert_eq!(rows(&text, 0, b',', 1).expect("memory"), [0..7, 7..11, 11..14]);
        assert_eq!(rows(&text, 7, b',', 3).expect("memory"), [7..11, 11..14]);
        assert_eq!(rows(&text, 14, b',', 1).expect("memory"), []);
    }
}
