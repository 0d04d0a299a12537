//! Ranges of whole rows of a text that is not in memory.

use std::io;
use std::ops::Range;

use rayon::prelude::*;

use super::text::Text;
use crate::cut::{self, Passages};

/// Ranges of whole lines from `start` on, in order, of about `size` bytes each. They are whole rows if the text has no
/// quotes. An empty text has no range.
pub(super) fn lines(text: &Text<'_>, start: usize, size: usize) -> io::Result<Vec<Range<usize>>> {
    let mut starts = vec![start];
    while let Some(next) = starts.last().and_then(|last| last.checked_add(size.max(1) - 1)) {
        let Some(next) = text.behind_line(next)? else { break };
        starts.push(next);
    }
    Ok(cut::ranges(&starts, text.length()))
}

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

    #[test]
    fn lines_are_whole_wherever_the_text_is_cut() {
        let lines = |text: &str, start, size| {
            let data = Data::from(text.as_bytes().to_vec());
            lines(&Text::of(&data).expect("a length"), start, size).expect("memory")
        };
        assert_eq!(lines("1\n2\n3\n", 0, 1), [0..2, 2..4, 4..6]);
        assert_eq!(lines("1\n2\n3", 2, 1), [2..4, 4..5]);
        assert_eq!(lines("1\n2\n3", 0, 3), [0..4, 4..5]);
        assert_eq!(lines("1\n2", 4, 3), []);
        assert_eq!(lines("", 0, 3), []);
        let long = format!("a\n{}\nb\n", "x".repeat(10_000));
        assert_eq!(lines(&long, 0, 10), [0..10_003, 10_003..10_005]);
    }
}
