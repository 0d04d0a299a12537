//! Builds a table one partition at a time.
//!
//! ```text
//! split     partitions the pairs into the lines of the parts                        (`cpu/parts.rs`)
//! parts     one thread per part, in its cache: which keys leave, and which lines accept them (`part.rs`)
//! stash     the few keys without a place: a bucketized table after the lines, on one thread
//! ```
//!
//! Guests stay in the part of their home, so parts are independent, and threads exchange only the keys of the stash,
//! whose table does not depend on their order. Pairs that do not fit into the slice of their part are passed to it
//! separately. This is the only build algorithm.

use super::Built;
use super::part::Scratch;
use crate::backend::{DeviceBuffer, HashBackend, Placed};
use crate::cpu::Cpu;
use crate::cpu::bucketized::wide::parts::{PART_BITS, Rows};
use crate::cpu::lanes::at_best;
use crate::cpu::memory::{Memory, copy, out_of_memory};
use crate::cpu::parts::{Slices, partition};
use crate::error::Result;
use crate::parallel::threads;
use crate::scheme::bucketized::wide::{LINE_WORDS, Layout, SlotKey, canonical, lines_mut};
use crate::scheme::signpost::SignpostPlan;
use crate::scheme::signpost::post::Posts;
use crate::scheme::signpost::rule::write_behind;
use crate::scheme::{Placing, Plan};

/// Memory for one line of stash per this many lines is allocated before the keys of the stash are counted.
const LINES_A_STASH_LINE: usize = 64;

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
        let short = || out_of_memory(size_of_val(keys) + size_of_val(values));
        let slices = Slices::new(lines, PART_BITS + LINE_WORDS.ilog2(), L::SLOTS);
        let rows = Rows::<L> { mixer: functions.mixer, buckets: functions.buckets, keys, values };
        let mut partitioned = self.run(|| partition(rows, words, slices, keys.len()))?.ok_or_else(short)?;
        // In the order of their parts.
        let part_of = |&(mixed, _): &(L::Key, L::Value)| mixed.split(functions.buckets).0 >> PART_BITS;
        partitioned.escapes.sort_unstable_by_key(part_of);
        let escapes = &partitioned.escapes[..];
        self.ledger().kernel("signpost_parts", keys.len());
        let of_slice = |scratch: &mut Scratch<L>, number: usize, slice: &mut [u64], count| {
            let begin = escapes.partition_point(|row| (part_of(row) as usize) < number);
            let end = escapes.partition_point(|row| part_of(row) as usize <= number);
            at_best(
                #[inline(always)]
                || {
                    scratch.take(
                        &functions,
                        (number as u32) << PART_BITS,
                        slices.partitioned(number, slice, count),
                        &escapes[begin..end],
                    )?;
                    scratch.fill(&functions, (number as u32) << PART_BITS, lines_mut(slice))
                },
            )
        };
        let scratches = self
            .run(|| slices.each(words, &partitioned.counts, threads(), Scratch::<L>::new, of_slice))?
            .ok_or_else(short)?;
        let mut placed = Placed::default();
        for scratch in &scratches {
            placed.unplaced += scratch.homes.lost;
            placed.duplicates += scratch.homes.duplicates;
            placed.least_duplicate = placed.least_duplicate.into_iter().chain(scratch.homes.least_duplicate).min();
            placed.stash += scratch.homes.stash.len() as u64;
        }
        let plan = plan.with_stash(placed.stash);
        let (stash, entries) = plan.sections();
        let needed = plan.word_count()?;
        let mut image = if needed <= image.len() {
            image.shortened(needed)
        } else {
            let mut longer = Memory::zeroed(needed)?;
            let to = &mut longer.words_mut()?[..lines];
            self.run(|| copy(&image.words()[..lines], to))?;
            longer
        };
        let words = image.words_mut()?;
        self.ledger().kernel("signpost_stash", placed.stash as usize);
        let stash_functions = plan.functions().stash;
        for &(key, value) in scratches.iter().flat_map(|scratch| &scratch.homes.stash) {
            if canonical::place::<L>(&stash_functions, &mut words[stash..entries], key, value) == Placing::Unplaced {
                placed.unplaced += 1;
            }
        }
        canonical::sort::<L>(&mut words[stash..entries]);
        if functions.posts == Posts::Behind {
            // A table whose entries are stored after its lines has one part.
            scratches.iter().for_each(|scratch| write_behind::<L>(&mut words[entries..], &scratch.behind));
        }
        Ok((image, placed))
    }
}
