//! Numbers of words: 0, 1, .. in order of first occurrence.
//!
//! ```text
//! words    the word of each number
//! Direct   small words: the number is stored at the index that equals the word, without hashes and comparisons
//! Hashed   any words: linear probing from the word's hash on, until a slot has the word or is empty
//! ```
//!
//! [`suit`](Table::suit) chooses: direct indexing is used if there are not many more indices than rows.
//!
//! Words are never removed.

use datafusion::error::{DataFusionError, Result};

use super::hash::Hash;

/// Direct slots that even few rows may have: 1 MiB, which the system allocates as pages are touched.
const LEAST_PLACES: u64 = 1 << 18;
/// The most direct slots per row.
const PLACES_A_ROW: u64 = 8;
/// The most direct slots per word.
const PLACES_A_GROUP: u64 = 64;

/// Words and their numbers.
pub(super) struct Table {
    words: Vec<u64>,
    places: Places,
    hash: Hash,
}

enum Places {
    /// The number plus 1; 0 for a word without a number.
    Direct(Vec<u32>),
    /// In each slot the lower half of the word's hash, and then the number plus 1; 0 if it is free. The number of slots
    /// is a power of two, and more than a quarter are free. Small slots are moved quickly, and new words are rarely
    /// compared.
    Hashed(Vec<u64>),
}

/// Up to this number of slots, tables grow fourfold, which halves the moves; then twofold, which saves memory.
const GROWS_FAST: usize = 1 << 20;

#[inline]
fn place(hash: u64, number: u32) -> u64 {
    hash << 32 | u64::from(number)
}

#[inline]
fn number_at(place: u64) -> u32 {
    place as u32
}

/// The part of the hash that the slot stores.
#[inline]
fn hash_at(place: u64) -> u64 {
    place >> 32
}

impl Table {
    pub(super) fn new() -> Self {
        Table { words: Vec::new(), places: Places::Direct(Vec::new()), hash: Hash::new() }
    }

    /// The words, in the order of their numbers.
    pub(super) fn words(&self) -> &[u64] {
        &self.words
    }

    /// The number of words.
    pub(super) fn len(&self) -> usize {
        self.words.len()
    }

    /// The memory in bytes.
    pub(super) fn size(&self) -> usize {
        let places = match &self.places {
            Places::Direct(places) => places.capacity() * size_of::<u32>(),
            Places::Hashed(places) => places.capacity() * size_of::<u64>(),
        };
        places + self.words.capacity() * size_of::<u64>()
    }

    /// Selects direct or hashed slots for words below `2^bits`, after `rows` rows.
    pub(super) fn suit(&mut self, bits: u32, rows: u64) {
        let wanted = 1_u64.checked_shl(bits).unwrap_or(u64::MAX);
        // Many rows of few groups do not justify many slots.
        let most = rows.saturating_mul(PLACES_A_ROW).min(self.words.len() as u64 * PLACES_A_GROUP);
        if wanted <= LEAST_PLACES.max(most) {
            if !matches!(&self.places, Places::Direct(places) if places.len() as u64 >= wanted) {
                let mut places = vec![0; wanted as usize];
                self.words.iter().zip(1..).for_each(|(&word, number)| places[word as usize] = number);
                self.places = Places::Direct(places);
            }
        } else if matches!(self.places, Places::Direct(_)) {
            self.hash_all(self.words.len() * 2);
        }
    }

    /// Replaces all words; their numbers do not change.
    pub(super) fn reword(&mut self, bits: u32, rows: u64, other: impl Fn(u64) -> u64) {
        self.words.iter_mut().for_each(|word| *word = other(*word));
        self.places = Places::Direct(Vec::new());
        self.suit(bits, rows);
    }

    /// Writes the number of each word to `numbers`, replacing its contents.
    ///
    /// # Errors
    /// An error if there are 2^32 - 1 or more words.
    pub(super) fn number(&mut self, words: &[u64], numbers: &mut Vec<usize>) -> Result<()> {
        if self.words.len() + words.len() >= u32::MAX as usize {
            let what = "koel: groups of a partition are at most 2^32 - 2: raise datafusion.execution.target_partitions";
            return Err(DataFusionError::ResourcesExhausted(what.into()));
        }
        numbers.clear();
        numbers.reserve(words.len());
        if let Places::Direct(places) = &mut self.places {
            for &word in words {
                let place = &mut places[word as usize];
                if *place == 0 {
                    self.words.push(word);
                    *place = self.words.len() as u32;
                }
                numbers.push(*place as usize - 1);
            }
            return Ok(());
        }
        let mut done = 0;
        while done < words.len() {
            done += self.number_some(&words[done..], numbers);
            if done < words.len() {
                let places = self.words.len() / 3 * 4;
                self.hash_all(if places < GROWS_FAST { places * 4 } else { places * 2 });
            }
        }
        Ok(())
    }

    /// Numbers hashed words while slots are free, and returns how many it numbered.
    fn number_some(&mut self, words: &[u64], numbers: &mut Vec<usize>) -> usize {
        let Places::Hashed(places) = &mut self.places else { return 0 };
        let (mask, most) = (places.len() - 1, places.len() / 4 * 3);
        for (done, &word) in words.iter().enumerate() {
            let hash = self.hash.of(word, 0) as u32;
            let mut at = hash as usize & mask;
            let number = loop {
                let known = places[at];
                let number = number_at(known);
                if number == 0 {
                    if self.words.len() >= most {
                        return done;
                    }
                    self.words.push(word);
                    let number = self.words.len() as u32;
                    places[at] = place(hash.into(), number);
                    break number;
                }
                if hash_at(known) == u64::from(hash) && self.words[number as usize - 1] == word {
                    break number;
                }
                at = (at + 1) & mask;
            };
            numbers.push(number as usize - 1);
        }
        words.len()
    }

    /// Hashes all words into at least `least` slots.
    fn hash_all(&mut self, least: usize) {
        let size = (self.words.len() * 3 / 2).max(least).max(1024).next_power_of_two();
        let mask = size - 1;
        let mut new = vec![0; size];
        let mut put = |hash: u64, number| {
            let mut at = hash as usize & mask;
            while new[at] != 0 {
                at = (at + 1) & mask;
            }
            new[at] = place(hash, number);
        };
        match &self.places {
            // In the order of slots: new slots are then written in order too, so they are in the caches.
            Places::Hashed(old) => {
                old.iter().filter(|&&known| known != 0).for_each(|&known| put(hash_at(known), number_at(known)));
            }
            Places::Direct(_) => {
                let hashed = self.words.iter().map(|&word| u64::from(self.hash.of(word, 0) as u32));
                hashed.zip(1..).for_each(|(hash, number)| put(hash, number));
            }
        }
        self.places = Places::Hashed(new);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(table: &mut Table, words: &[u64]) -> Vec<usize> {
        let mut numbers = vec![77];
        table.number(words, &mut numbers).expect("few words");
        numbers
    }

    #[test]
    fn words_are_numbered_by_first_appearance() {
        for bits in [4, 64] {
            let mut table = Table::new();
            table.suit(bits, 0);
            assert_eq!(numbers(&mut table, &[9, 3, 9, 0, 3]), [0, 1, 0, 2, 1]);
            assert_eq!(numbers(&mut table, &[5, 0]), [3, 2]);
            assert_eq!(table.words(), [9, 3, 0, 5]);
        }
    }

    #[test]
    fn tables_grow_and_change_without_new_numbers() {
        let all: Vec<u64> = (0..20_000_u64).map(|i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect();
        let mut table = Table::new();
        table.suit(64, 0);
        assert_eq!(numbers(&mut table, &all), (0..20_000).collect::<Vec<_>>());
        assert_eq!(numbers(&mut table, &all), (0..20_000).collect::<Vec<_>>());
        // Small words again: direct instead of hashed, and back.
        let small: Vec<u64> = (0..20_000).rev().collect();
        let at = std::cell::Cell::new(20_000);
        table.reword(15, 0, |_| {
            at.set(at.get() - 1);
            at.get()
        });
        assert!(matches!(table.places, Places::Direct(_)));
        assert_eq!(numbers(&mut table, &small), (0..20_000).collect::<Vec<_>>());
        table.suit(40, 0);
        assert!(matches!(table.places, Places::Hashed(_)));
        assert_eq!(numbers(&mut table, &small), (0..20_000).collect::<Vec<_>>());
    }
}
