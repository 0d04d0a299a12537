//! Cutting text into pieces of whole rows, each by a thread of its own, though quotes may hold line ends.
//!
//! Whether a byte is in quotes depends on all bytes before it. So each piece is gone through as from every state that the
//! one before may leave it in; then the true states are known one after the other, and with them where the rows begin.

use std::io;
use std::ops::Range;

use rayon::prelude::*;

use super::text::Text;

/// Where a reader of text is.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum State {
    /// At the start of a field.
    Start,
    /// In a field without quotes.
    Plain,
    /// In quotes.
    Quoted,
    /// Behind a quote in quotes: the end of them, or the first of two.
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

/// What a piece is to one who enters it in some state.
#[derive(Clone, Copy)]
struct Passage {
    leaves: State,
    /// Behind the first row that ends in it.
    row: Option<usize>,
}

/// Ranges of whole lines from a place on, in their order, of about so many bytes each: of whole rows, as long as there are no
/// quotes. A text without lines has none.
pub(super) fn lines(text: &Text<'_>, start: usize, size: usize) -> io::Result<Vec<Range<usize>>> {
    let mut starts = vec![start];
    while let Some(next) = starts.last().and_then(|last| last.checked_add(size.max(1) - 1)) {
        let Some(next) = text.behind_line(next)? else { break };
        starts.push(next);
    }
    Ok(ranges(&starts, text.length()))
}

/// Ranges of whole rows from a place on, where a row begins; whatever stands in quotes.
pub(super) fn rows(text: &Text<'_>, start: usize, delimiter: u8, size: usize) -> io::Result<Vec<Range<usize>>> {
    let (size, length) = (size.max(1), text.length());
    let pieces: Vec<_> = (start..length).step_by(size).collect();
    let passages =
        pieces.par_iter().map(|&at| text.look(at..length.min(at + size), |piece| passages(piece, delimiter)));
    let passages = passages.collect::<io::Result<Vec<_>>>()?;
    let mut starts = vec![start];
    let mut state = State::Start;
    for (&at, passages) in pieces.iter().zip(&passages) {
        let passage = passages[state as usize];
        if let Some(row) = passage.row.filter(|_| at > start) {
            starts.push(at + row);
        }
        state = passage.leaves;
    }
    Ok(ranges(&starts, length))
}

/// From each start to the next.
fn ranges(starts: &[usize], end: usize) -> Vec<Range<usize>> {
    let ends = starts.iter().skip(1).copied().chain([end]);
    starts.iter().copied().zip(ends).filter(|(start, end)| start < end).map(|(start, end)| start..end).collect()
}

/// What a piece is to those who enter it in each of the states.
fn passages(piece: &[u8], delimiter: u8) -> [Passage; 4] {
    let mut passages = STATES.map(|state| Passage { leaves: state, row: None });
    for (at, &byte) in piece.iter().enumerate() {
        for passage in &mut passages {
            if passage.row.is_none() && passage.leaves.ends_row(byte) {
                passage.row = Some(at + 1);
            }
            passage.leaves = passage.leaves.behind(byte, delimiter);
        }
    }
    passages
}

#[cfg(test)]
mod tests {
    use super::super::Data;
    use super::*;

    /// Ranges of rows, and of lines where there are no quotes, which are others.
    fn pieces(text: &str, size: usize) -> Vec<Range<usize>> {
        let data = Data::from(text.as_bytes().to_vec());
        let text = Text::of(&data).expect("a length");
        rows(&text, 0, b',', size).expect("memory")
    }

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
                let pieces = pieces(text, size);
                let mut end = 0;
                for piece in &pieces {
                    assert!(piece.start == end && piece.end > end && rows.contains(&piece.start), "{text:?}, {size}");
                    end = piece.end;
                }
                assert_eq!(end, text.len(), "{text:?}, {size}");
            }
        }
        assert_eq!(pieces("\"1\"\n2\n3\n", 1), [0..4, 4..6, 6..8]);
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
