//! Lookups in blocks, for tables of single slots: every key probes its first place, and unresolved keys wait for a
//! block that probes the next one.
//!
//! The branch predictor cannot foresee the result of a probe, and a misprediction costs more than a whole probe.
//! Nothing here branches on it: every probe writes an answer (0 for "not yet") and an entry of the next queue, and only
//! the length of the queue depends on the result. The answer of a key's last probe remains.
//!
//! Each key prefetches the line of one key of the next block. Prefetching all of them at once would make them wait for
//! each other, and cost a third of the speed.
//!
//! Finishing each block before the next is begun would leave few lines in flight after the first probe. Here, later
//! probes have full blocks too, so a hundred lines are in flight at all times.

use std::ops::Add;

use super::block::{Block, GREATEST_AGE, Lists, NUMBER_BITS, Pairs, Waiting, Workspace, fetch};
use super::lanes::at_best;
use super::lines::pack;
use super::place::{Place, Shared};
use super::{BLOCK, CHUNK, Cpu};
use crate::parallel::{Per, each_with, fold_with};

/// Looks `keys` up and calls `answer(number of the key, hit, slot, word)` after every probe. The last call for a key is
/// that of its last probe.
#[inline(always)]
pub(super) fn search<L: Lists>(
    lists: &L,
    image: &[impl Place],
    keys: &[u32],
    workspace: &mut Workspace,
    mut answer: impl FnMut(usize, bool, u32, u64),
) {
    debug_assert!(lists.last_age() <= GREATEST_AGE, "answers of the last age would be lost");
    let Workspace { flying, next, waiting } = workspace;
    let mut fresh = 0;
    loop {
        if !waiting.take_whole(next) {
            match next.fill(&keys[fresh..], fresh as u32..) {
                0 => _ = waiting.take_any(next),
                taken => {
                    fresh += taken;
                    next.age = L::FIRST_AGE;
                }
            }
        }
        next.hash(lists);
        let ahead = &next.slots[..next.len];
        fetch(lists, image, ahead.get(flying.len..).unwrap_or_default());
        resolve(lists, image, flying, ahead, waiting, &mut answer);
        std::mem::swap(flying, next);
        // Without a block in flight, nothing was queued since the last check.
        if flying.len == 0 && next.len == 0 {
            return;
        }
    }
}

/// Probes every key of a block, and queues those that must probe again. Each key prefetches one of the lines `ahead`.
///
/// One key at a time: reading all words first and comparing eight of them with `wide` was measured, and is not faster,
/// because the words must still be collected and the results distributed one by one.
#[inline(always)]
fn resolve(
    lists: &impl Lists,
    image: &[impl Place],
    block: &Block,
    ahead: &[u32],
    waiting: &mut Waiting,
    answer: &mut impl FnMut(usize, bool, u32, u64),
) {
    let judge = lists.answer(block.age);
    let is_last = block.age >= lists.last_age();
    waiting.extend(
        block.age + 1,
        #[inline(always)]
        |keys, tags| {
            let mut unresolved = 0;
            for i in 0..block.len.min(BLOCK) {
                fetch(lists, image, ahead.get(i..i + 1).unwrap_or_default());
                let slot = block.slots[i];
                let word = image[slot as usize].word();
                let (hit, end, tag) = judge(block.uppers[i], word, block.tags[i]);
                answer((tag & ((1 << NUMBER_BITS) - 1)) as usize, hit, slot, word);
                (keys[unresolved % BLOCK], tags[unresolved % BLOCK]) = (block.keys[i], tag);
                unresolved += usize::from(!hit & !end);
            }
            if is_last { 0 } else { unresolved }
        },
    );
}

/// The bits of a word that are its value.
const fn value_bits<L: Lists>() -> u64 {
    (1 << L::VALUE_BITS) - 1
}

/// Values and found bits of one chunk of queries.
#[inline(always)]
fn answer<L: Lists>(
    lists: &L,
    image: &[impl Place],
    queries: &[u32],
    values: &mut [u32],
    found: &mut [u32],
    workspace: &mut Workspace,
) {
    // One byte per query first: setting bits in a word of the bitmap would make each probe wait for the previous one.
    let mut hits = [0u8; CHUNK];
    search(
        lists,
        image,
        queries,
        workspace,
        #[inline(always)]
        |i, hit, _, word| {
            values[i] = if hit { (word & value_bits::<L>()) as u32 } else { 0 };
            hits[i] = u8::from(hit);
        },
    );
    pack(&hits, found);
}

impl Cpu {
    /// Lookup on all threads. `outside` is the sentinel pair.
    pub(super) fn look_up(
        &self,
        lists: &impl Lists,
        outside: Option<(u32, u32)>,
        image: &[impl Place],
        queries: &[u32],
        values: &mut [u32],
        found: &mut [u32],
    ) {
        each_with(
            (queries, values, Per(32, found)),
            CHUNK,
            || self.workspaces().lend(),
            |loan, _, (queries, values, Per(_, found))| {
                let Some(loan) = loan else { return };
                let workspace = loan.workspace();
                at_best(
                    #[inline(always)]
                    || answer(lists, image, queries, values, found, workspace),
                );
                let Some((key, value)) = outside else { return };
                for i in (0..queries.len()).filter(|&i| queries[i] == key) {
                    values[i] = value;
                    found[i / 32] |= 1 << (i % 32);
                }
            },
        );
    }

    /// Overwrites values on all threads. Keys are distinct, so no two threads change one slot; and values do not affect
    /// the search for other keys, so concurrent readers of the slot are correct.
    pub(super) fn overwrite<L: Lists>(&self, lists: &L, image: &[impl Shared], pairs: Pairs<'_>) {
        each_with(
            (pairs.keys, pairs.values),
            CHUNK,
            || self.workspaces().lend(),
            |loan, _, (keys, values)| {
                let Some(loan) = loan else { return };
                let write = |i: usize, hit, slot: u32, word: u64| {
                    if hit {
                        let value = u64::from(values[i]) & value_bits::<L>();
                        image[slot as usize].put(word & !value_bits::<L>() | value);
                    }
                };
                search(lists, image, keys, loan.workspace(), write);
            },
        );
    }

    /// Replaces the pairs of keys by `mark`, on all threads, and counts them. Of several threads with one key, one
    /// finds the pair and the others the mark.
    pub(super) fn vacate(&self, lists: &impl Lists, image: &[impl Shared], keys: &[u32], mark: u64) -> u64 {
        fold_with(
            keys,
            CHUNK,
            || self.workspaces().lend(),
            |loan, _, keys| {
                let Some(loan) = loan else { return 0 };
                let mut vacated = 0;
                let take = |_, hit, slot: u32, _| {
                    if hit {
                        vacated += u64::from(image[slot as usize].swap(mark) != mark);
                    }
                };
                search(lists, image, keys, loan.workspace(), take);
                vacated
            },
            u64::add,
        )
        .unwrap_or(0)
    }
}
