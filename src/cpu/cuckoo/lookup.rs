//! Lookups in blocks: every key asks its first function, and those that cannot be told yet wait for a block of the
//! next.
//!
//! The result of a probe is a coin toss to the branch predictor, and a wrong guess costs more than a whole probe. So
//! nothing here branches on it: every probe writes an answer (0 for "not yet") and a place in the next queue, and only
//! the queue's length depends on what was found. The answer of a key's last probe is the one that stays.
//!
//! Each key that is looked at asks for the line of one key of the next block: asking for all of them at once would only
//! make them wait for each other, and cost a third of the speed.
//!
//! Compared with finishing each block before the next is begun: later probes have full blocks too, so that a hundred
//! lines are on their way at all times and not only after the first probe.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::cpu::block::{Block, Lists, Waiting, Workspace, fetch};
use crate::cpu::{BLOCK, CHUNK};

/// Words that can be read: an image at rest, or one whose values others are changing.
pub(super) trait Words {
    fn word(&self, at: u32) -> u64;
}

impl Words for [u64] {
    #[inline(always)]
    fn word(&self, at: u32) -> u64 {
        self[at as usize]
    }
}

impl Words for [AtomicU64] {
    #[inline(always)]
    fn word(&self, at: u32) -> u64 {
        self[at as usize].load(Relaxed)
    }
}

/// Looks `keys` up and calls `answer(number of the key, hit, slot, word)` after every probe, the last one of a key
/// last.
#[inline(always)]
pub(super) fn search<T>(
    lists: &impl Lists,
    image: &[T],
    keys: &[u32],
    workspace: &mut Workspace,
    mut answer: impl FnMut(usize, bool, u32, u64),
) where
    [T]: Words,
{
    let Workspace { flying, next, waiting } = workspace;
    let mut fresh = 0;
    loop {
        if !waiting.take_whole(next) {
            match next.fill(&keys[fresh..], fresh as u32..) {
                0 => _ = waiting.take_any(next),
                taken => fresh += taken,
            }
        }
        next.hash(lists);
        let ahead = &next.slots[..next.len];
        fetch(lists, image, ahead.get(flying.len..).unwrap_or_default());
        resolve(lists, image, flying, ahead, waiting, &mut answer);
        std::mem::swap(flying, next);
        // Without a block on its way, nothing has been queued since the last look either.
        if flying.len == 0 && next.len == 0 {
            return;
        }
    }
}

/// Asks for every key of a block, and queues those that must ask again. Each key asks for one of the lines `ahead`.
///
/// One key at a time: reading all words first and judging eight of them with `wide` was measured, and is no faster,
/// because the words still have to be picked up and the answers dealt out one by one.
#[inline(always)]
fn resolve<T>(
    lists: &impl Lists,
    image: &[T],
    block: &Block,
    ahead: &[u32],
    waiting: &mut Waiting,
    answer: &mut impl FnMut(usize, bool, u32, u64),
) where
    [T]: Words,
{
    let judge = lists.judge(block.age);
    let is_last = block.age >= lists.last_age();
    waiting.extend(block.age + 1, |keys, tags| {
        let mut unresolved = 0;
        for i in 0..block.len.min(BLOCK) {
            fetch(lists, image, ahead.get(i..i + 1).unwrap_or_default());
            let (slot, tag) = (block.slots[i], block.tags[i]);
            let word = image.word(slot);
            let (hit, end) = judge(block.uppers[i], word);
            answer(tag as usize, hit, slot, word);
            (keys[unresolved % BLOCK], tags[unresolved % BLOCK]) = (block.keys[i], tag);
            unresolved += usize::from(!hit & !end);
        }
        if is_last { 0 } else { unresolved }
    });
}

/// Values and found bits of one chunk of queries.
pub(super) fn answer(
    lists: &impl Lists,
    image: &[u64],
    queries: &[u32],
    values: &mut [u32],
    found: &mut [u32],
    workspace: &mut Workspace,
) {
    // A byte a query on the way: adding bits to a word of the bitmap would make each probe wait for the one before.
    let mut hits = [0u8; CHUNK];
    search(lists, image, queries, workspace, |i, hit, _, word| {
        values[i] = if hit { word as u32 } else { 0 };
        hits[i] = u8::from(hit);
    });
    for (found, hits) in found.iter_mut().zip(hits.as_chunks::<32>().0) {
        *found = hits.iter().rev().fold(0, |bits, &hit| bits << 1 | u32::from(hit));
    }
}
