//! Builds a table of lines one partition at a time: one thread places each part in its cache, with plain reads and
//! writes, and values move with their words.
//!
//! ```text
//! split     partitions the pairs into the lines of the parts, as many per line as it has slots   (`cpu/parts.rs`)
//! then, one thread per part:
//!   arrive  each pair takes the next slot of its line 1 in a copy of the part; those beyond the last are queued
//!   order   each line is sorted, and written to the slice; duplicates are adjacent in it
//!   settle  the queued pairs are offered to their line 1; displaced pairs are offered to their line 2, and so on
//! at last   pairs that left their part continue in the whole image                               (`escapes.rs`)
//! ```
//!
//! A part here consists of some of the parts of the plan, so lines 1 and 2 of a key are in one part. A pair that needs
//! its third line leaves: at load 0.9 one in 150 (four slots per line), in 500 (five), or in 20,000 (eight).
//!
//! **Why it is correct.** As in `cpu/bucketized/parts.rs`, where words contain their values: it is the sequential rule
//! for each part, with one order of the same offers, and then the rule for the whole image. Only words are compared.
//! Duplicates of a key have equal words at every age and the same lines, so they meet before either place is final; the
//! greatest value is kept.
//!
//! **Why it is fast.** Each line of the image is written when its pairs are partitioned, and read and written once when
//! its part is placed. Values need not be found afterwards, as is necessary if threads exchange only words.
//!
//! This module cannot insert into an existing image. `place.rs` and `values.rs` do, and they also build small tables,
//! tables with crowded keys, and tables for which memory is short.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use wide::u32x8;

use super::escapes::{Open, next};
use super::line::{Offered, offer, sort};
use super::place::count_duplicate;
use crate::backend::{Placed, Word};
use crate::cpu::block::sum;
use crate::cpu::lanes::at_best;
use crate::cpu::parts::{Batch, Partitioned, Slices, array, partition, try_with_capacity};
use crate::parallel::threads;
use crate::scheme::bucketized::wide::{
    LINE_WORDS, Layout, Line, LineFunctions, SlotKey, lines, lines_mut, pair, put, slot,
};
use crate::scheme::slot::EMPTY;

/// The base-2 logarithm of the lines of a part. The slice and the copy take 512 KiB: half an L2 cache or more.
pub(in crate::cpu) const PART_BITS: u32 = 12;
const PART_LINES: usize = 1 << PART_BITS;
/// The most pairs of a part: those of eight slots a line.
const MOST_PAIRS: usize = PART_LINES * LINE_WORDS;

/// Keys that are hashed before the first of them is partitioned or offered, so that hashes do not wait for memory.
const AT_ONCE: usize = 16;

/// One pair in this many may leave its part; if more do, the table is built directly.
const ESCAPES_SHARE: usize = 16;

/// Keys and values for partitioning: a row is the mixed key, stored in the place of a word, and the value.
pub(in crate::cpu) struct Rows<'a, L: Layout> {
    pub(in crate::cpu) mixer: <L::Key as SlotKey>::Mixer,
    pub(in crate::cpu) buckets: u32,
    pub(in crate::cpu) keys: &'a [L::Key],
    pub(in crate::cpu) values: &'a [L::Value],
}

impl<L: Layout> Clone for Rows<'_, L> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<L: Layout> Copy for Rows<'_, L> {}

impl<L: Layout> Batch for Rows<'_, L> {
    type Row = (L::Key, L::Value);
    const EACH: usize = L::SLOTS;

    fn len(self) -> usize {
        self.keys.len()
    }
    fn some(self, range: Range<usize>) -> Self {
        // Sets do not have values.
        let values = if L::VALUES.is_some() { &self.values[range.clone()] } else { &[] };
        Rows { keys: &self.keys[range], values, ..self }
    }
    #[inline(always)]
    fn each_row(self, mut each: impl FnMut(usize, Self::Row)) {
        let Rows { mixer, buckets, .. } = self;
        let mut mixed = [Word::low(0); AT_ONCE];
        let mut parts = [0; AT_ONCE];
        for (n, keys) in self.keys.chunks(AT_ONCE).enumerate() {
            for (i, &key) in keys.iter().enumerate() {
                mixed[i] = key.mixed(mixer);
                parts[i] = mixed[i].split(buckets).0 >> PART_BITS;
            }
            let values = if L::VALUES.is_some() { &self.values[n * AT_ONCE..][..keys.len()] } else { &[] };
            for i in 0..keys.len() {
                let value = if L::VALUES.is_some() { values[i] } else { Word::low(0) };
                each(parts[i] as usize, (mixed[i], value));
            }
        }
    }
    #[inline(always)]
    fn put(line: &mut Line, at: usize, (mixed, value): Self::Row) {
        put::<L>(line, at, (mixed.into(), value));
    }
    #[inline(always)]
    fn row(line: &Line, at: usize) -> Self::Row {
        let (mixed, value) = pair::<L>(line, at);
        (Word::low(mixed), value)
    }
}

impl<L: Layout> Rows<'_, L> {
    /// Calls `each` for the rows of a part: those in its slice, and others. Plain loops, because `for_each` is not
    /// always inlined.
    #[inline(always)]
    pub(in crate::cpu) fn each_of(
        partitioned: [(&[u64], usize); 2],
        others: &[(L::Key, L::Value)],
        mut each: impl FnMut((L::Key, L::Value)),
    ) {
        for (words, count) in partitioned {
            let (whole, rest) = lines(words).split_at(count / L::SLOTS);
            for line in whole {
                for i in 0..L::SLOTS {
                    each(Self::row(line, i));
                }
            }
            if let Some(line) = rest.first() {
                for i in 0..count % L::SLOTS {
                    each(Self::row(line, i));
                }
            }
        }
        for &row in others {
            each(row);
        }
    }
}

/// A build in progress.
pub(super) struct Parts<'a, L: Layout> {
    functions: &'a LineFunctions<L::Key>,
    slices: Slices,
    pairs: usize,
    partitioned: Partitioned<(L::Key, L::Value)>,
}

/// The result of placing: the pairs that have left their parts, and the counts of the others.
type Left<L> = (Vec<Open<L>>, Placed<<L as Layout>::Key, <L as Layout>::Value>);

fn most_escapes(pairs: usize) -> usize {
    pairs / ESCAPES_SHARE + 4096
}

/// Partitions the pairs into the lines of an image of zeros. `None` if one part has too many pairs or memory is short;
/// another strategy must then build the table.
pub(super) fn partitioned<'a, L: Layout>(
    functions: &'a LineFunctions<L::Key>,
    image: &mut [u64],
    keys: &[L::Key],
    values: &[L::Value],
) -> Option<Parts<'a, L>> {
    const { assert!(PART_BITS >= L::PART_BITS, "parts are whole ones of the plan") }
    let slices = Slices::new(image.len(), PART_BITS + LINE_WORDS.ilog2(), L::SLOTS);
    let rows = Rows::<L> { mixer: functions.mixer, buckets: functions.steps.buckets, keys, values };
    let partitioned = partition(rows, image, slices, most_escapes(keys.len()))?;
    Some(Parts { functions, slices, pairs: keys.len(), partitioned })
}

impl<L: Layout> Parts<'_, L> {
    /// Places every part; `None` if memory is short or too many pairs leave their parts.
    pub(super) fn place(self, image: &mut [u64]) -> Option<Left<L>> {
        let Parts { functions, slices, pairs, partitioned } = self;
        // The scratch space of all threads must fit in three quarters of an image; memory estimates include a second
        // image.
        let threads = threads().min(size_of_val(image) / 4 * 3 / Scratch::<L>::BYTES).max(1);
        let leaving = AtomicUsize::new(partitioned.escapes.len());
        let scratch = || Some((Scratch::<L>::new()?, Found::default()));
        let of_slice = |(scratch, found): &mut (Scratch<L>, Found<L>), number: usize, slice: &mut [u64], count| {
            let before = found.open.len();
            let start = (number << PART_BITS) as u32;
            at_best(
                #[inline(always)]
                || {
                    let late = arrive(functions, start, scratch, slices.partitioned(number, slice, count));
                    let mut part = Part::<L> { functions, start, lines: lines_mut(slice), found };
                    part.order(scratch);
                    part.settle(scratch, late)
                },
            )?;
            let leave = found.open.len() - before;
            (leaving.fetch_add(leave, Relaxed) + leave <= most_escapes(pairs)).then_some(())
        };
        let scratches = slices.each(image, &partitioned.counts, threads, scratch, of_slice)?;
        let mut open = try_with_capacity(leaving.into_inner())?;
        open.extend(partitioned.escapes.into_iter().map(|(mixed, value)| {
            let (home, remainder) = mixed.split(functions.steps.buckets);
            Open { home, age: 1, remainder, value }
        }));
        let mut placed = Placed::default();
        for (_, mut found) in scratches {
            placed = sum(placed, found.placed);
            open.append(&mut found.open);
        }
        Some((open, placed))
    }
}

/// The results of a thread's parts.
struct Found<L: Layout> {
    placed: Placed<L::Key, L::Value>,
    /// Pairs that need their third line.
    open: Vec<Open<L>>,
}

impl<L: Layout> Default for Found<L> {
    fn default() -> Self {
        Found { placed: Placed::default(), open: Vec::new() }
    }
}

/// The scratch space of a thread.
struct Scratch<L: Layout> {
    /// The part's pairs in order of arrival, and a line for those beyond the last slot. Between parts all other lines
    /// are empty.
    table: Box<[Line; PART_LINES + 1]>,
    /// The number of arrivals at each line.
    counts: Box<[u8; PART_LINES]>,
    /// Displaced words of age 1 with their values, and the number of their line in the part. A word is queued at most
    /// once, so the capacity suffices.
    words: Box<[u64; MOST_PAIRS]>,
    values: Box<[L::Value; MOST_PAIRS]>,
    lost_in: Box<[u16; MOST_PAIRS]>,
}

impl<L: Layout> Scratch<L> {
    /// The approximate size in bytes.
    const BYTES: usize = 65 * PART_LINES + (10 + size_of::<L::Value>()) * MOST_PAIRS;

    fn new() -> Option<Self> {
        Some(Scratch { table: array()?, counts: array()?, words: array()?, values: array()?, lost_in: array()? })
    }

    #[inline(always)]
    fn queue(&mut self, at: usize, (word, value): (u64, L::Value), lost_in: usize) {
        let at = at % MOST_PAIRS;
        (self.words[at], self.lost_in[at]) = (word, lost_in as u16);
        if L::VALUES.is_some() {
            self.values[at] = value;
        }
    }

    #[inline(always)]
    fn queued(&self, at: usize) -> ((u64, L::Value), usize) {
        let at = at % MOST_PAIRS;
        let value = if L::VALUES.is_some() { self.values[at] } else { Word::low(0) };
        ((self.words[at], value), self.lost_in[at].into())
    }
}

/// Stores every pair in its line, or queues it if the line is full; returns the number of queued pairs. There is no
/// branch, because whether a line is full is unpredictable.
#[inline(always)]
fn arrive<L: Layout>(
    functions: &LineFunctions<L::Key>,
    start: u32,
    scratch: &mut Scratch<L>,
    partitioned: [(&[u64], usize); 2],
) -> usize {
    scratch.counts.fill(0);
    let mut late = 0;
    Rows::<L>::each_of(
        partitioned,
        &[],
        #[inline(always)]
        |row| late += take(functions, start, scratch, row, late),
    );
    late
}

/// Stores one pair in its line; if the line is full, queues it as number `late`, and returns 1.
#[inline(always)]
fn take<L: Layout>(
    functions: &LineFunctions<L::Key>,
    start: u32,
    scratch: &mut Scratch<L>,
    (mixed, value): (L::Key, L::Value),
    late: usize,
) -> usize {
    let (home, remainder) = mixed.split(functions.steps.buckets);
    let line = home.wrapping_sub(start) as usize % PART_LINES;
    let mine = (slot::word(1, remainder), value);
    let rank = usize::from(scratch.counts[line]);
    let full = rank >= L::SLOTS;
    put::<L>(&mut scratch.table[if full { PART_LINES } else { line }], rank.min(L::SLOTS - 1), mine);
    scratch.counts[line] = (rank + usize::from(!full)) as u8;
    scratch.queue(late, mine, line);
    usize::from(full)
}

/// A part whose pairs have arrived.
struct Part<'a, L: Layout> {
    functions: &'a LineFunctions<L::Key>,
    /// The number of its first line.
    start: u32,
    lines: &'a mut [Line],
    found: &'a mut Found<L>,
}

impl<L: Layout> Part<'_, L> {
    /// Writes the lines to the slice, sorted, and clears the copy.
    #[inline(always)]
    fn order(&mut self, scratch: &mut Scratch<L>) {
        for at in 0..self.lines.len().min(PART_LINES) {
            let mut line = std::mem::take(&mut scratch.table[at]);
            let same = sort::<L>(&mut line);
            self.lines[at] = line;
            if same {
                self.drop_duplicates(at);
            }
        }
    }

    /// Of pairs with equal words, the one with the greatest value is kept.
    #[cold]
    fn drop_duplicates(&mut self, at: usize) {
        let all = std::mem::take(&mut self.lines[at]);
        for mine in (0..L::SLOTS).map(|i| pair::<L>(&all, i)).filter(|pair| pair.0 != EMPTY) {
            if let Offered::Duplicate = offer::<L>(&mut self.lines[at], mine) {
                self.count_duplicate(at as u32, mine.0);
            }
        }
    }

    #[cold]
    fn count_duplicate(&mut self, at: u32, word: u64) {
        count_duplicate(&mut self.found.placed, self.functions.key_of(self.start + at, word));
    }

    /// Offers queued pairs to their line 1, and then those that are displaced there, or later in a line 2, to their
    /// line 2. All are in one queue: offers are independent of each other, so the processor works on several at once.
    /// `None` if there is no memory for the pairs that leave.
    #[inline(always)]
    fn settle(&mut self, scratch: &mut Scratch<L>, late: usize) -> Option<()> {
        let mut end = 0;
        for i in 0..late {
            let (mine, at) = scratch.queued(i);
            let Some(line) = self.lines.get_mut(at) else {
                // This cannot happen; if it did, the lost pair would be reported.
                self.found.placed.unplaced += 1;
                continue;
            };
            match offer::<L>(line, mine) {
                Offered::Duplicate => self.count_duplicate(at as u32, mine.0),
                Offered::Out(pair) => {
                    scratch.queue(end, pair, at);
                    // A duplicate may have left an empty place.
                    end += usize::from(pair.0 != EMPTY);
                }
            }
        }
        let (mut at, mut folded) = ([0; AT_ONCE], [0; AT_ONCE]);
        let mut first = 0;
        while first < end {
            let len = AT_ONCE.min(end - first);
            self.found.open.try_reserve(len).ok()?;
            for i in 0..len {
                let ((lost, _), home) = scratch.queued(first + i);
                (at[i], folded[i]) = (self.start + home as u32, slot::remainder::<L::Key>(lost).folded());
            }
            // Elements past the end are leftovers.
            for (at, folded) in
                at.as_chunks_mut::<8>().0.iter_mut().zip(folded.as_chunks::<8>().0).take(len.div_ceil(8))
            {
                *at = self.functions.steps.bucket(1, u32x8::new(*at), u32x8::new(*folded)).to_array();
            }
            for (queued, &at) in (first..).zip(&at[..len]) {
                end = self.second(scratch, queued, at.wrapping_sub(self.start), end);
            }
            first += len;
        }
        Some(())
    }

    /// Offers a queued pair to its line 2. Returns the new end of the queue.
    #[inline(always)]
    fn second(&mut self, scratch: &mut Scratch<L>, queued: usize, at: u32, end: usize) -> usize {
        let ((lost, value), _) = scratch.queued(queued);
        let mine = (slot::word::<L::Key>(2, slot::remainder(lost)), value);
        let Some(line) = self.lines.get_mut(at as usize) else {
            self.found.placed.unplaced += 1;
            return end;
        };
        match offer::<L>(line, mine) {
            Offered::Duplicate => {
                self.count_duplicate(at, mine.0);
                end
            }
            Offered::Out(pair) => {
                let age = slot::age::<L::Key>(pair.0);
                scratch.queue(end, pair, at as usize);
                if age > 1 {
                    self.found.open.push(next(self.functions, self.start + at, pair));
                }
                end + usize::from(age == 1)
            }
        }
    }
}
