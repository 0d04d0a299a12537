//! A new table, part by part.
//!
//! ```text
//! deal      the pairs to the lines of the parts                                     (`cpu/parts.rs`)
//! parts     each part by one thread, in its cache: who leaves, who takes them in    (`part.rs`)
//! stash     the few that found no place: a bucketized table behind the lines, on one thread
//! ```
//!
//! Guests stay in the part of their home, so parts know nothing of each other, and threads exchange nothing but the keys of
//! the stash, whose table does not depend on their order. Pairs whose part has no room when they are dealt are handed to it
//! apart: there is no other way to build.

use super::Built;
use super::part::{PART_BITS, Room};
use crate::backend::{DeviceBuffer, HashBackend, Placed, Word};
use crate::cpu::lanes::at_best;
use crate::cpu::memory::{Memory, no_room};
use crate::cpu::parts::{Batch, Slices, deal};
use crate::cpu::{CHUNK, Cpu};
use crate::error::Result;
use crate::parallel::{each, threads};
use crate::scheme::bucketized::wide::{LINE_WORDS, Layout, Line, SlotKey, canonical, lines_mut, pair, put};
use crate::scheme::signpost::post::{Posts, behind};
use crate::scheme::signpost::{SignpostFunctions, SignpostPlan};
use crate::scheme::{Placing, Plan};

/// Keys that are hashed before the first of them is dealt.
const AT_ONCE: usize = 16;

/// One line of stash for so many lines is set aside before the keys of it are counted.
const LINES_A_STASH_LINE: usize = 64;

/// Keys and values as they are dealt: mixed key and value.
struct Rows<'a, L: Layout> {
    functions: &'a SignpostFunctions<L::Key>,
    keys: &'a [L::Key],
    values: &'a [L::Value],
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
    fn some(self, range: std::ops::Range<usize>) -> Self {
        // Sets have no values.
        let values = if L::VALUES.is_some() { &self.values[range.clone()] } else { &[] };
        Rows { keys: &self.keys[range], values, ..self }
    }
    #[inline(always)]
    fn each_row(self, mut each: impl FnMut(usize, Self::Row)) {
        let SignpostFunctions { mixer, buckets, .. } = *self.functions;
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

impl Cpu {
    pub(super) fn build_signposts<L: Layout>(
        &self,
        plan: &SignpostPlan<L>,
        keys: &[L::Key],
        values: &[L::Value],
    ) -> Result<Built<L>> {
        let plan = plan.with_stash(0);
        if keys.is_empty() {
            return Ok((Memory::zeroed(plan.word_count()?)?, Placed::default()));
        }
        let functions = plan.functions();
        let lines = plan.buckets() as usize * LINE_WORDS;
        let rest = plan.word_count()? - lines;
        let aside = (plan.buckets() as usize / LINES_A_STASH_LINE + 2 * 16) * LINE_WORDS;
        let mut image = Memory::zeroed(lines + aside + rest)?;
        let words = &mut image.words_mut()?[..lines];
        self.ledger().kernel("signpost_deal", keys.len());
        let short = || no_room(size_of_val(keys) + size_of_val(values));
        let slices = Slices::new(lines, PART_BITS + LINE_WORDS.ilog2(), L::SLOTS);
        let rows = Rows::<L> { functions: &functions, keys, values };
        let mut dealt = self.run(|| deal(rows, words, slices, keys.len()))?.ok_or_else(short)?;
        // By their parts.
        let part_of = |&(mixed, _): &(L::Key, L::Value)| mixed.split(functions.buckets).0 >> PART_BITS;
        dealt.escapes.sort_unstable_by_key(part_of);
        let escapes = &dealt.escapes[..];
        self.ledger().kernel("signpost_parts", keys.len());
        let of_slice = |room: &mut Room<L>, number: usize, slice: &mut [u64], count| {
            let begin = escapes.partition_point(|row| (part_of(row) as usize) < number);
            let end = escapes.partition_point(|row| part_of(row) as usize <= number);
            at_best(
                #[inline(always)]
                || {
                    room.take(
                        &functions,
                        (number as u32) << PART_BITS,
                        slices.dealt(number, slice, count),
                        &escapes[begin..end],
                    )?;
                    room.fill(&functions, lines_mut(slice))
                },
            )
        };
        let rooms = self
            .run(|| slices.each(words, &dealt.counts, threads(), || Some(Room::<L>::default()), of_slice))?
            .ok_or_else(short)?;
        let mut placed = Placed::default();
        for room in &rooms {
            placed.copies += room.copies;
            placed.least_copy = placed.least_copy.into_iter().chain(room.least_copy).min();
            placed.stash += room.stash.len() as u64;
        }
        let plan = plan.with_stash(placed.stash);
        let (stash, entries) = plan.sections();
        let needed = plan.word_count()?;
        let mut image = if needed <= image.len() {
            image.shortened(needed)
        } else {
            let mut longer = Memory::zeroed(needed)?;
            let pages = (&mut longer.words_mut()?[..lines], &image.words()[..lines]);
            self.run(|| each(pages, CHUNK, |_, (to, from)| to.copy_from_slice(from)))?;
            longer
        };
        let words = image.words_mut()?;
        self.ledger().host("signpost_stash", placed.stash as usize);
        let stash_functions = plan.functions().stash;
        for &(key, value) in rooms.iter().flat_map(|room| &room.stash) {
            if canonical::place::<L>(&stash_functions, &mut words[stash..entries], key, value) == Placing::Unplaced {
                placed.unplaced += 1;
            }
        }
        canonical::sort::<L>(&mut words[stash..entries]);
        if functions.posts == Posts::Behind {
            // Such a table has one part.
            for (bucket, &of_bucket) in rooms.iter().flat_map(|room| &room.behind).enumerate() {
                for tag in 0..2 * L::SLOTS as u32 {
                    let (word, shift) = behind::<L>(bucket as u32, tag);
                    words[entries + word] |= ((of_bucket >> (4 * tag)) as u64 & 15) << shift;
                }
            }
        }
        Ok((image, placed))
    }
}
