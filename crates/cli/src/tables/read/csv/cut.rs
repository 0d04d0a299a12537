//! Cuts text into pieces of whole rows, one per task, although quoted fields may contain line ends.
//!
//! Whether a byte is in quotes depends on all bytes before it. So each piece is scanned once for all states in which it
//! may begin; the true states then follow from piece to piece, and with them the starts of the rows.

use std::io;
use std::ops::Range;

use memchr::{memchr, memrchr};
use rayon::prelude::*;

use super::super::text::Text;

/// The state of a CSV reader.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum State {
    /// At the start of a field.
    Start,
    /// In a field without quotes.
    Plain,
    /// In quotes.
    Quoted,
    /// After a quote in a quoted field: the closing quote, or the first of two.
    Closed,
}

const STATES: [State; 4] = [State::Start, State::Plain, State::Quoted, State::Closed];

impl State {
    fn behind(self, byte: u8, delimiter: u8) -> State {
        match (self, byte) {
            (State::Quoted, b'"') => State::Closed,
            (State::Quoted, _) => State::Quoted,
            (State::Start | State::Closed, b'"') => State::Quoted,
            (_, b'\n') => State::Start,
            (_, byte) if byte == delimiter => State::Start,
            _ => State::Plain,
        }
    }

    fn ends_row(self, byte: u8) -> bool {
        byte == b'\n' && self != State::Quoted
    }
}

/// The result of scanning a piece that begins in a given state.
#[derive(Clone, Copy)]
struct Passage {
    leaves: State,
    /// The ends of the first and of the last row that end in the piece.
    rows: Option<(usize, usize)>,
}

/// The results of scanning a piece, by the state in which it begins.
struct Passages([Passage; 4]);

impl Passages {
    fn of(piece: &[u8], delimiter: u8) -> Passages {
        let mut passages = STATES.map(|state| Passage { leaves: state, rows: None });
        for (at, &byte) in piece.iter().enumerate() {
            for passage in &mut passages {
                if passage.leaves.ends_row(byte) {
                    passage.rows = Some((passage.rows.map_or(at + 1, |rows| rows.0), at + 1));
                }
                passage.leaves = passage.leaves.behind(byte, delimiter);
            }
        }
        Passages(passages)
    }
}

/// Given the positions of pieces, the first of which begins with a row, returns the start of the first row in each
/// piece that has one, and the end of the last complete row.
fn starts(pieces: &[usize], passages: &[Passages]) -> (Vec<usize>, Option<usize>) {
    let (mut starts, mut end, mut state) = (Vec::new(), None, State::Start);
    for (i, (&at, Passages(passages))) in pieces.iter().zip(passages).enumerate() {
        let passage = passages[state as usize];
        if i == 0 {
            starts.push(at);
        }
        if let Some((first, last)) = passage.rows {
            starts.extend((i > 0).then_some(at + first));
            end = Some(at + last);
        }
        state = passage.leaves;
    }
    (starts, end)
}

/// The ranges from each start to the next.
pub(in super::super) fn ranges(starts: &[usize], end: usize) -> Vec<Range<usize>> {
    let ends = starts.iter().skip(1).copied().chain([end]);
    starts.iter().copied().zip(ends).filter(|(start, end)| start < end).map(|(start, end)| start..end).collect()
}

/// Splits a text that begins with a row into ranges of whole rows, of about `size` bytes each. The ranges do not
/// include an incomplete last row.
pub(super) fn whole_rows(text: &[u8], delimiter: u8, size: usize) -> Vec<Range<usize>> {
    let size = size.max(1);
    let (starts, end) = match memchr(b'"', text) {
        None => {
            let mut starts = vec![0];
            while let Some(next) = starts.last().map(|last| last + size - 1).filter(|&next| next < text.len()) {
                let Some(line) = memchr(b'\n', &text[next..]) else { break };
                starts.push(next + line + 1);
            }
            (starts, memrchr(b'\n', text).map(|line| line + 1))
        }
        Some(_) => {
            let pieces: Vec<_> = (0..text.len()).step_by(size).collect();
            let passages: Vec<_> = text.par_chunks(size).map(|piece| Passages::of(piece, delimiter)).collect();
            starts(&pieces, &passages)
        }
    };
    ranges(&starts, end.unwrap_or(0))
}

/// Ranges of whole rows from `start`, where a row begins. Line ends in quotes are not row ends.
pub(super) fn rows(text: &Text<'_>, start: usize, delimiter: u8, size: usize) -> io::Result<Vec<Range<usize>>> {
    let (size, length) = (size.max(1), text.length());
    let pieces: Vec<_> = (start..length).step_by(size).collect();
    let passages =
        pieces.par_iter().map(|&at| text.look(at..length.min(at + size), |piece| Passages::of(piece, delimiter)));
    let passages = passages.collect::<io::Result<Vec<_>>>()?;
    let (starts, _) = starts(&pieces, &passages);
    Ok(ranges(&starts, length))
}

#[cfg(test)]
mod tests {
    use super::super::Data;
    use super::*;

    #[test]
    fn pieces_are_whole_rows_wherever_the_text_is_cut() {
        for text in [
            "",
            "\n",
            "a,b\n1,2\n",
            "a,b\n1,2",
            "\"x\ny\",1\n\"\"\"\n\"\"\",2\r\n\"\",3\n\n4,\"5\n6\"",
            "5\" pipe,1\n\"a,\n\",b\n6\" pipe,\"\n\"\n",
            "\"never closed\n1\n2\n",
        ] {
            let mut rows = vec![0];
            let mut state = State::Start;
            for (at, &byte) in text.as_bytes().iter().enumerate() {
                if state.ends_row(byte) {
                    rows.push(at + 1);
                }
                state = state.behind(byte, b',');
            }
            for size in 1..=text.len() + 1 {
                let mut end = 0;
                for piece in whole_rows(text.as_bytes(), b',', size) {
                    assert!(piece.start == end && piece.end > end && rows.contains(&piece.start), "{text:?}, {size}");
                    end = piece.end;
                }
                assert_eq!(Some(&end), rows.last(), "{text:?}, {size}");
            }
        }
        let of = |text: &str, size| whole_rows(text.as_bytes(), b',', size);
        assert_eq!(of("1\n2\n3\n4", 1), [0..2, 2..4, 4..6]);
        assert_eq!(of("\"1\"\n2\n3\n4", 1), [0..4, 4..6, 6..8]);
    }

    #[test]
    fn rows_are_whole_whatever_is_in_quotes() {
        let data = Data::from(b"\"1\n\",2\n3,4\n5,6".to_vec());
        let text = Text::of(&data).expect("a length");
        assert_eq!(rows(&text, 0, b',', 1).expect("memory"), [0..7, 7..11, 11..14]);
        assert_eq!(rows(&text, 7, b',', 3).expect("memory"), [7..11, 11..14]);
        assert_eq!(rows(&text, 14, b',', 1).expect("memory"), []);
    }
}
