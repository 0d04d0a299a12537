//! Numbers strings of bytes: two strings have equal numbers if, and only if, the strings are equal, even if hashes
//! collide.
//!
//! ```text
//! build   round 0: the hash of each string, and the first string with that hash (finder.rs)
//!         a string that equals this first string gets its number; the others continue in round 1, with the next seed
//!         after the last round, a map contains the remaining strings
//! find    the same rounds; a hash that is missing ends the search, because each string is in the table of every round in
//!         which it took part
//! ```
//!
//! Hashes of 64 bits usually need one round. Further rounds resolve collisions, by chance or by an attacker: each round
//! leaves fewer strings. The number of a string is the position of its first occurrence, so it does not depend on
//! seeds.
//!
//! The device stores only hashes. Strings remain in host memory, where they are compared.

use std::collections::HashMap;
use std::hint::black_box;

use koel::{Any, NO_ROW};
use rayon::prelude::*;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::error::Result;
use crate::finder::Finder;
use crate::leaf::{Bytes, Leaf, Strings, Values};
use crate::starts::Starts;
use crate::written::{mapped, written};

/// The number of rounds before the map.
const ROUNDS: u64 = 3;
/// The number of strings that a task processes.
const CHUNK: usize = if cfg!(test) { 1 << 10 } else { 1 << 14 };
/// The number of strings that are read before they are compared.
const AT_ONCE: usize = 32;

/// An index of a column of strings that finds the first position of a string.
pub(crate) struct StringNumbers {
    strings: StringColumn,
    rounds: Vec<Round>,
    /// The number of each string that collided in all rounds.
    left: HashMap<Vec<u8>, u32>,
    bits: u32,
}

/// The strings that took part in a round.
struct Round {
    finder: Finder,
    /// The positions of these strings; `None` in the first round, in which all strings take part.
    strings: Option<Vec<u32>>,
}

impl StringNumbers {
    /// Indexes a column, and returns the number of each of its strings. Hashes have `bits` bits.
    pub(crate) fn build(device: &Any, strings: StringColumn, bits: u32) -> Result<(Self, Vec<u32>)> {
        let mut numbers = StringNumbers { strings, rounds: Vec::new(), left: HashMap::new(), bits };
        let len = numbers.strings.len();
        let mut of: Vec<u32> = vec![NO_ROW; len];
        let mut waiting: Option<Vec<u32>> = None;
        for seed in 0..ROUNDS {
            let hashes = numbers.strings.hashes(waiting.as_deref(), seed, bits);
            let (finder, first_occurrences) = Finder::build(device, &hashes)?;
            drop(hashes);
            let column = &numbers.strings;
            let rest = match &waiting {
                None => {
                    // In the first round, the number of each string is the first position with its hash.
                    of = first_occurrences;
                    different(column, column, &of)
                }
                Some(strings) => {
                    let mut rest = Vec::new();
                    for (&i, first) in strings.iter().zip(first_occurrences) {
                        let first = strings[first as usize];
                        if column.get(i) == column.get(first) {
                            of[i as usize] = first;
                        } else {
                            rest.push(i);
                        }
                    }
                    rest
                }
            };
            numbers.rounds.push(Round { finder, strings: waiting });
            if rest.is_empty() {
                return Ok((numbers, of));
            }
            waiting = Some(rest);
        }
        for i in waiting.unwrap_or_default() {
            of[i as usize] = *numbers.left.entry(numbers.strings.get(i).to_vec()).or_insert(i);
        }
        Ok((numbers, of))
    }

    /// The column.
    pub(crate) fn strings(&self) -> &StringColumn {
        &self.strings
    }

    /// The number of each string of another column, or [`NO_ROW`].
    pub(crate) fn find(&self, others: &StringColumn) -> Result<Vec<u32>> {
        let mut of: Vec<u32> = Vec::new();
        let mut waiting: Option<Vec<u32>> = None;
        for (seed, round) in (0..).zip(&self.rounds) {
            let hashes = others.hashes(waiting.as_deref(), seed, self.bits);
            let mut found = round.finder.find(&hashes)?;
            if let Some(strings) = &round.strings {
                found.iter_mut().filter(|first| **first != NO_ROW).for_each(|first| *first = strings[*first as usize]);
            }
            let rest = match &waiting {
                None => {
                    of = found;
                    different(others, &self.strings, &of)
                }
                Some(strings) => {
                    let mut rest = Vec::new();
                    for (&i, first) in strings.iter().zip(found) {
                        if first != NO_ROW && others.get(i) != self.strings.get(first) {
                            rest.push(i);
                        } else {
                            of[i as usize] = first;
                        }
                    }
                    rest
                }
            };
            if rest.is_empty() {
                return Ok(of);
            }
            waiting = Some(rest);
        }
        for i in waiting.unwrap_or_default() {
            of[i as usize] = self.left.get(others.get(i)).copied().unwrap_or(NO_ROW);
        }
        Ok(of)
    }
}

/// The positions of the strings that differ from string `first[position]` of `others`, if that is not [`NO_ROW`].
///
/// The strings of `others` are in random places. Those of a few positions are read in one loop before any is compared,
/// so that the processor waits for several of them at a time.
fn different(strings: &StringColumn, others: &StringColumn, first: &[u32]) -> Vec<u32> {
    let of_chunk = |(number, first): (usize, &[u32])| {
        let (mut rest, mut position) = (Vec::new(), (number * CHUNK) as u32);
        for first in first.chunks(AT_ONCE) {
            let mut read: [&[u8]; AT_ONCE] = [&[]; AT_ONCE];
            for (to, &first) in read.iter_mut().zip(first).filter(|(_, first)| **first != NO_ROW) {
                *to = others.get(first);
            }
            black_box(read.iter().filter_map(|string| string.first()).fold(0, |all, byte| all | byte));
            for (&first, &other) in first.iter().zip(&read) {
                let differs = || {
                    let string = strings.get(position);
                    !std::ptr::eq(string, other) && string != other
                };
                if first != NO_ROW && differs() {
                    rest.push(position);
                }
                position += 1;
            }
        }
        rest
    };
    first.par_chunks(CHUNK).enumerate().map(of_chunk).collect::<Vec<Vec<u32>>>().concat()
}

/// The strings of all pieces of a column. Those of dictionaries are the values; a dictionary that several pieces share
/// occurs once.
pub(crate) struct StringColumn {
    pieces: Vec<Strings>,
    /// The position of the first string of each array of strings.
    starts: Starts,
    /// The number of strings.
    len: u32,
    /// The position of the first string of each piece of the column.
    of_piece: Vec<u32>,
}

impl StringColumn {
    /// The strings of a column.
    ///
    /// # Errors
    /// [`koel::Error::TooLarge`] if dictionaries together have more than 2^32 - 2 strings.
    pub(crate) fn of(leaf: &Leaf) -> Result<Self> {
        let (mut pieces, mut of_piece) = (Vec::new(), Vec::new());
        let mut known = HashMap::new();
        let mut end = 0;
        for piece in &leaf.pieces {
            let Values::Bytes(bytes) = &piece.values else {
                of_piece.push(0);
                continue;
            };
            let start = *known.entry(bytes.strings.place()).or_insert(end);
            if start == end {
                let requested = u64::from(end) + bytes.strings.len() as u64;
                let most = u64::from(NO_ROW) - 1;
                end = u32::try_from(requested).ok().filter(|&end| end < NO_ROW).ok_or(koel::Error::TooLarge {
                    what: "strings of a column and its dictionaries",
                    requested,
                    most,
                })?;
                pieces.push(bytes.strings.clone());
            }
            of_piece.push(start);
        }
        let starts = Starts::of_lengths(pieces.iter().map(Strings::len));
        Ok(StringColumn { pieces, starts, len: end, of_piece })
    }

    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    #[inline]
    fn get(&self, i: u32) -> &[u8] {
        match &self.pieces[..] {
            [one] => one.get(i as usize),
            several => {
                let (piece, place) = self.starts.place(i);
                several[piece].get(place)
            }
        }
    }

    /// The hashes of these strings, or of all strings.
    fn hashes(&self, of: Option<&[u32]>, seed: u64, bits: u32) -> Vec<u64> {
        let mask = u64::MAX >> (64 - bits);
        let hash = |i: u32| xxh3_64_with_seed(self.get(i), seed) & mask;
        match of {
            Some(strings) => mapped(strings, hash),
            None => written(self.len(), |start, to| {
                for (to, i) in to.iter_mut().zip(start as u32..) {
                    *to = hash(i);
                }
            }),
        }
    }

    /// Converts the number of each row's string. The number is [`NO_ROW`] for nulls in the values of dictionaries; the
    /// result is `null` for nulls of the column.
    pub(crate) fn by_row<T: Copy + Default + Send + Sync>(
        &self,
        leaf: &Leaf,
        of_string: &[u32],
        null: T,
        convert: impl Fn(u32) -> T + Sync,
    ) -> Vec<T> {
        leaf.written(|number, row, to| {
            let (piece, start) = (&leaf.pieces[number], self.of_piece[number] as usize);
            match &piece.values {
                Values::Bytes(Bytes { strings, keys: Some(keys) }) => {
                    let own = &of_string[start..start + strings.len()];
                    for (to, &key) in to.iter_mut().zip(&keys[row..]) {
                        *to = convert(own.get(key as usize).copied().unwrap_or(NO_ROW));
                    }
                }
                Values::Bytes(_) => {
                    for (to, &number) in to.iter_mut().zip(&of_string[start + row..]) {
                        *to = convert(number);
                    }
                }
                _ => to.fill(convert(NO_ROW)),
            }
            piece.replace_nulls(row, to, null);
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, StringArray};
    use koel::Cpu;

    use super::*;
    use crate::leaf::leaves;

    fn column(strings: &[String]) -> Result<StringColumn> {
        let array: ArrayRef = Arc::new(StringArray::from_iter_values(strings));
        StringColumn::of(&leaves("s", array.data_type(), std::slice::from_ref(&array)).expect("strings")[0])
    }

    #[test]
    fn strings_are_distinguished_whatever_their_hashes() -> Result<()> {
        let device = Any::Cpu(Cpu::new());
        let build: Vec<String> = (0..3000).map(|i| format!("{}", i * i % 2011)).collect();
        let requested: Vec<String> = (0..3000).map(|i| format!("{i}")).collect();
        let first = |string: &String| build.iter().position(|other| other == string).map_or(NO_ROW, |at| at as u32);
        for bits in [64, 8, 1] {
            let (numbers, of) = StringNumbers::build(&device, column(&build)?, bits)?;
            assert_eq!(of, build.iter().map(first).collect::<Vec<_>>(), "{bits} bits");
            assert_eq!(
                numbers.find(&column(&requested)?)?,
                requested.iter().map(first).collect::<Vec<_>>(),
                "{bits} bits"
            );
            assert_eq!(numbers.left.is_empty(), bits == 64, "{bits} bits");
            assert_eq!(numbers.find(&column(&[])?)?, []);
        }
        let (none, of) = StringNumbers::build(&device, column(&[])?, 64)?;
        assert_eq!((of, none.find(&column(&requested[..1])?)?), (vec![], vec![NO_ROW]));
        Ok(())
    }
}
