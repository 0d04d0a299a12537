//! Cutting text into pieces of whole rows, each by a thread of its own, though quotes may hold line ends.
//!
//! Whether a byte is in quotes depends on all bytes before it. So each piece is gone through as from every state that the
//! one before may leave it in; then the true states are known one after the other, and with them where the rows begin.

use std::ops::Range;

use memchr::memchr;
use rayon::prelude::*;

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

/// Ranges of whole rows, in their order, of about so many bytes each; a text without rows has none.
pub(super) fn pieces(text: &[u8], delimiter: u8, size: usize) -> Vec<Range<usize>> {
    let size = size.max(1);
    let has_quotes = text.par_chunks(size).any(|piece| memchr(b'"', piece).is_some());
    let starts = if has_quotes { starts_among_quotes(text, delimiter, size) } else { plain_starts(text, size) };
    let ends = starts.iter().skip(1).copied().chain([text.len()]);
    starts.iter().copied().zip(ends).filter(|(start, end)| start < end).map(|(start, end)| start..end).collect()
}

/// Every line is a row.
fn plain_starts(text: &[u8], size: usize) -> Vec<usize> {
    let mut starts = vec![0];
    let mut at = size;
    while let Some(line) = text.get(at - 1..).and_then(|rest| memchr(b'\n', rest)) {
        at += line;
        starts.push(at);
        at += size;
    }
    starts
}

fn starts_among_quotes(text: &[u8], delimiter: u8, size: usize) -> Vec<usize> {
    let passages: Vec<_> = text.par_chunks(size).map(|piece| passages(piece, delimiter)).collect();
    let mut starts = vec![0];
    let mut state = State::Start;
    for (i, passages) in passages.iter().enumerate() {
        let passage = passages[state as usize];
        if let Some(row) = passage.row.filter(|_| i > 0) {
            starts.push(i * size + row);
        }
        state = passage.leaves;
    }
    starts
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
                let pieces = pieces(text.as_bytes(), b',', size);
                let mut end = 0;
                for piece in &pieces {
                    assert!(piece.start == end && piece.end > end && rows.contains(&piece.start), "{text:?}, {size}");
                    end = piece.end;
                }
                assert_eq!(end, text.len(), "{text:?}, {size}");
            }
        }
        assert_eq!(pieces(b"1\n2\n3\n", b',', 1), [0..2, 2..4, 4..6]);
        assert_eq!(pieces(b"\"1\"\n2\n3\n", b',', 1), [0..4, 4..6, 6..8]);
    }
}
