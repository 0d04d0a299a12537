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
//!
//! Batches of a table without a memory limit may share a dictionary. Its values are looked up once, when the number of
//! rows that were looked up reaches the number of values; before that, only the values of these rows are.

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_buffer::ScalarBuffer;
use koel::{Any, NO_ROW};
use rayon::prelude::*;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::error::Result;
use crate::finder::Finder;
use crate::leaf::{Bytes, Leaf, Piece, Strings, Values};
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
    shared: Mutex<Shared>,
}

/// A dictionary that recent batches of the other column share, and the numbers of its values once they are known.
#[derive(Default)]
struct Shared {
    /// Stored also so that its memory is not freed: no other dictionary can have the same address.
    dictionary: Option<Strings>,
    /// The number of rows of these batches; `None` after a thread has begun to look up the values.
    rows: Option<usize>,
    /// The number of each value, once they were looked up.
    numbers: Option<Arc<Vec<u32>>>,
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
        let (rounds, left, shared) = (Vec::new(), HashMap::new(), Mutex::default());
        let mut numbers = StringNumbers { strings, rounds, left, bits, shared };
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
    pub(crate) fn find(&self, others: &StringColumn) -> Result<Arc<Vec<u32>>> {
        let values = match others.dictionary() {
            Some(dictionary) => self.of_dictionary(dictionary, others.len())?,
            None => None,
        };
        Ok(match (values, &others.picked) {
            (None, _) => self.find_each(others)?.into(),
            (Some(values), None) => values,
            (Some(values), Some(keys)) => {
                mapped(keys, |key: u32| values.get(key as usize).copied().unwrap_or(NO_ROW)).into()
            }
        })
    }

    /// The number of each value of a dictionary, of which `rows` strings are to be looked up. `None` if looking up only
    /// these strings takes less time, or if another thread is looking up the values.
    fn of_dictionary(&self, dictionary: &Strings, rows: usize) -> Result<Option<Arc<Vec<u32>>>> {
        let lock = || -> MutexGuard<'_, Shared> { self.shared.lock().unwrap_or_else(PoisonError::into_inner) };
        let is_shared = |shared: &Shared| shared.dictionary.as_ref().map(Strings::place) == Some(dictionary.place());
        // Dropped after the lock is released, because freeing the memory may run code of another library.
        let _other;
        let mut shared = lock();
        _other = (!is_shared(&shared)).then(|| {
            let dictionary = Some(dictionary.clone());
            std::mem::replace(&mut *shared, Shared { dictionary, rows: Some(0), numbers: None })
        });
        if let Some(numbers) = &shared.numbers {
            return Ok(Some(Arc::clone(numbers)));
        }
        let Some(before) = shared.rows else { return Ok(None) };
        let is_enough = before.max(rows) >= dictionary.len();
        shared.rows = (!is_enough).then_some(before + rows);
        if !is_enough {
            return Ok(None);
        }
        drop(shared);
        // Without the lock: while this thread waits for others, it may begin with another batch, which needs the lock.
        let (strings, rows) = (dictionary.clone(), dictionary.len());
        let values = Piece { values: Values::Bytes(Bytes { strings, keys: None }), nulls: None, rows };
        let values = StringColumn::of(&Leaf { pieces: vec![values], scale: 0 })?;
        let numbers = Arc::new(self.find_each(&values)?);
        let mut shared = lock();
        if is_shared(&shared) {
            shared.numbers = Some(Arc::clone(&numbers));
        }
        Ok(Some(numbers))
    }

    /// As [`find`](Self::find), by looking up each string of the column.
    fn find_each(&self, others: &StringColumn) -> Result<Vec<u32>> {
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
/// occurs once. If the only piece has fewer rows than its dictionary has values, the strings are those of its rows.
pub(crate) struct StringColumn {
    pieces: Vec<Strings>,
    /// For strings of rows: the position of each in the dictionary; unspecified for nulls.
    picked: Option<ScalarBuffer<u32>>,
    is_dictionary: bool,
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
        let dictionary = match &leaf.pieces[..] {
            [Piece { values: Values::Bytes(Bytes { strings, keys: Some(keys) }), .. }] => Some((strings, keys)),
            _ => None,
        };
        if let Some((strings, keys)) = dictionary.filter(|(strings, keys)| strings.len() > keys.len()) {
            let (pieces, starts) = (vec![strings.clone()], Starts::of_lengths(std::iter::empty()));
            let (len, picked) = (keys.len() as u32, Some(keys.clone()));
            return Ok(StringColumn { pieces, picked, is_dictionary: true, starts, len, of_piece: vec![0] });
        }
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
        let is_dictionary = dictionary.is_some();
        Ok(StringColumn { pieces, picked: None, is_dictionary, starts, len: end, of_piece })
    }

    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    /// The dictionary of the only piece.
    fn dictionary(&self) -> Option<&Strings> {
        self.pieces.first().filter(|_| self.is_dictionary)
    }

    #[inline]
    fn get(&self, i: u32) -> &[u8] {
        if let Some(keys) = &self.picked {
            // The key of a null may be any number.
            let (values, key) = (&self.pieces[0], keys[i as usize] as usize);
            return if key < values.len() { values.get(key) } else { &[] };
        }
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
                Values::Bytes(Bytes { strings, keys: Some(keys) }) if self.picked.is_none() => {
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

    use arrow_array::types::Int32Type;
    use arrow_array::{Array, ArrayRef, DictionaryArray, Int32Array, StringArray};
    use arrow_buffer::NullBuffer;
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
            let expected: Vec<u32> = requested.iter().map(first).collect();
            assert_eq!(*numbers.find(&column(&requested)?)?, expected, "{bits} bits");
            assert_eq!(numbers.left.is_empty(), bits == 64, "{bits} bits");
            assert_eq!(*numbers.find(&column(&[])?)?, []);
        }
        let (none, of) = StringNumbers::build(&device, column(&[])?, 64)?;
        assert_eq!((of, &*none.find(&column(&requested[..1])?)?), (vec![], &vec![NO_ROW]));
        Ok(())
    }

    #[test]
    fn values_of_a_shared_dictionary_are_looked_up_once() -> Result<()> {
        let build: Vec<String> = (0..1000).map(|i| format!("{}", 3 * i)).collect();
        let (numbers, _) = StringNumbers::build(&Any::Cpu(Cpu::new()), column(&build)?, 64)?;
        let dictionary = |values: i32| {
            let strings: ArrayRef = Arc::new(StringArray::from_iter_values((0..values).map(|i| format!("{i}"))));
            // Each seventh row is null, and its key is not one of the dictionary.
            let keys: Vec<i32> = (0..6000).map(|row| if row % 7 == 0 { -1 } else { row * 31 % values }).collect();
            let nulls = NullBuffer::from_iter((0..6000).map(|row| row % 7 != 0));
            DictionaryArray::<Int32Type>::new(Int32Array::new(keys.into(), Some(nulls)), strings)
        };
        let expected = |row: i32, values: i32| match (row % 7, row * 31 % values) {
            (0, _) => 7777,
            (_, value) if value % 3 == 0 && value < 3000 => (value / 3) as u32,
            _ => NO_ROW,
        };
        // Batches with fewer rows than the dictionary has values, with as many, and with more.
        for (values, rows, from) in [(4000, 400, 4000), (500, 500, 0), (300, 1000, 0)] {
            let dictionary: ArrayRef = Arc::new(dictionary(values));
            for start in (0..6000).step_by(rows) {
                let batch = dictionary.slice(start, rows);
                let leaf = &leaves("d", batch.data_type(), std::slice::from_ref(&batch)).expect("strings")[0];
                let strings = StringColumn::of(leaf)?;
                let found = strings.by_row(leaf, &numbers.find(&strings)?, 7777, |number| number);
                let rows = start as i32..(start + rows) as i32;
                assert_eq!(found, rows.map(|row| expected(row, values)).collect::<Vec<_>>());
                let known = numbers.shared.lock().expect("no panic").numbers.as_ref().map(|numbers| numbers.len());
                assert_eq!(known, (start >= from).then_some(values as usize), "{values} values, from row {start}");
            }
        }
        Ok(())
    }
}
