//! Builds one part of a table: moves every pair to its home bucket, in a core's cache.
//!
//! ```text
//! take    stores each pair in its home's bucket in a copy of the part, or queues it as late if the bucket is full
//! fill    writes the buckets to the slice, in any order of pairs; homes with late pairs get a record   (`group.rs`)
//! ```
//!
//! There are no branches on the number of pairs of a home, which is unpredictable. Late pairs are chained by home, and
//! crowded homes are gathered after all others.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use wide::u32x8;

use super::build::Header;
use super::group::{Group, MOST};
use crate::backend::{DeviceBuffer, Placed};
use crate::cpu::memory::Memory;
use crate::cpu::parts::{LINE, try_with_capacity};
use crate::scheme::horton::Functions;
use crate::scheme::horton::tokens;

/// A pair whose bucket was full.
#[derive(Clone, Copy)]
struct Late {
    word: u64,
    /// The previous late pair of the same home, if there is one.
    before: u32,
}

/// The position of a part's block.
pub(super) struct Found {
    /// The number of the part.
    pub(super) number: usize,
    pub(super) page: usize,
    pub(super) start: usize,
    pub(super) end: usize,
    /// The end of the free slots, counted from the start.
    pub(super) free_end: usize,
}

/// The scratch space of a thread, and the results of its parts.
pub(super) struct Scratch<const S: usize> {
    /// The pairs of each bucket in order of arrival, and a bucket for late pairs. Between parts all other words are
    /// empty: they are not offers.
    table: Vec<[u64; S]>,
    /// The number of arrivals at each bucket.
    counts: Vec<u32>,
    late: Vec<Late>,
    /// The last late pair of each bucket, if there is one, and a further element, to which pairs that are not late
    /// write.
    last: Vec<u32>,
    /// Buckets with more arrivals than slots.
    full: Vec<u32>,
    group: Group,
    /// The data of each part (`build.rs`), and its position. The words after the last are zero.
    pub(super) pages: Vec<Memory<u64>>,
    pub(super) blocks: Vec<Found>,
    /// The least number of words of a page.
    page: usize,
    /// The counts of duplicates, and of homes with too many keys.
    pub(super) placed: Placed,
}

impl<const S: usize> Scratch<S> {
    /// Scratch space for parts of this many buckets, and pages of this many words. `None` if memory is short.
    pub(super) fn new(buckets: usize, page: usize) -> Option<Self> {
        let (mut table, mut counts, mut last, mut full) = (
            try_with_capacity(buckets + 1)?,
            try_with_capacity(buckets)?,
            try_with_capacity(buckets + 1)?,
            try_with_capacity(buckets + 1)?,
        );
        table.resize(buckets + 1, [0; S]);
        counts.resize(buckets, 0);
        last.resize(buckets + 1, 0);
        full.resize(buckets + 1, 0);
        let (late, pages, blocks) = (Vec::new(), Vec::new(), Vec::new());
        let group = Group::default();
        Some(Scratch { table, counts, late, last, full, group, pages, blocks, page, placed: Placed::default() })
    }

    /// Takes the pairs of the part that begins with this bucket.
    #[inline(always)]
    pub(super) fn take(
        &mut self,
        functions: &Functions,
        start: u32,
        partitioned: [(&[u64], usize); 2],
        escapes: &[u64],
    ) -> Option<()> {
        let most = partitioned[0].1 + partitioned[1].1 + escapes.len() + 1;
        if self.late.len() < most {
            self.late.try_reserve(most - self.late.len()).ok()?;
            self.late.resize(most, Late { word: 0, before: 0 });
        }
        self.counts.fill(0);
        let Scratch { table, counts, late, last, .. } = self;
        let nobody = counts.len();
        let (table, counts, late, last) = (&mut table[..=nobody], &mut counts[..], &mut late[..], &mut last[..=nobody]);
        let mut lates = 0;
        let words = [&partitioned[0].0[..partitioned[0].1], &partitioned[1].0[..partitioned[1].1], escapes];
        each_home(
            functions,
            words,
            #[inline(always)]
            |word, home| {
                let bucket = (home - start) as usize;
                let Some(count) = counts.get_mut(bucket) else { return };
                let rank = *count as usize;
                *count += 1;
                let is_late = rank >= S;
                table[if is_late { nobody } else { bucket }][rank.min(S - 1)] = word;
                late[lates] = Late { word, before: last[bucket] };
                last[if is_late { bucket } else { nobody }] = lates as u32;
                lates += usize::from(is_late);
            },
        );
        Some(())
    }

    /// Writes the buckets of the part that was taken; `number` is its number.
    #[inline(always)]
    pub(super) fn fill(
        &mut self,
        functions: &Functions,
        number: usize,
        headers: &[AtomicU64],
        buckets: &mut [[u64; S]],
    ) -> Option<()> {
        let Scratch { table, counts, late, last, full, group, pages, blocks, page, placed } = self;
        let counts = &counts[..buckets.len()];
        let (mut fulls, mut free_slots, mut records) = (0, 0, 0);
        for (at, ((bucket, there), &count)) in buckets.iter_mut().zip(table).zip(counts).enumerate() {
            *bucket = std::mem::replace(there, [0; S]);
            full[fulls] = at as u32;
            let (count, is_full) = (count as usize, count as usize > S);
            fulls += usize::from(is_full);
            free_slots += S - count.min(S);
            records += if is_full { 1 + count.min(MOST) } else { 0 };
        }
        // Readers of free slots read S words: from the first one on, or up to the last one.
        let free_end = S + free_slots;
        let len = free_end + records + S;
        let start = position_for(pages, blocks, len, *page)?;
        blocks.try_reserve(1).ok()?;
        blocks.push(Found { number, page: pages.len() - 1, start, end: start + len, free_end });
        let words = &mut pages.last_mut()?.words_mut().ok()?[start..start + len];
        let mut free_slot = S as u32;
        for (header, &count) in headers.iter().zip(counts) {
            let keys = count.min(S as u32);
            header.store(Header { keys, start: free_slot, mask: 0 }.word(), Relaxed);
            free_slot += S as u32 - keys;
        }
        let mut behind = &mut words[free_end..];
        let mut start = free_end as u32;
        for &at in &full[..fulls] {
            let at = at as usize;
            let keys = counts[at] as usize;
            if keys > MOST {
                placed.unplaced += 1;
                continue;
            }
            group.pairs[..S].copy_from_slice(&buckets[at]);
            let mut next = last[at];
            for pair in &mut group.pairs[S..keys] {
                let Late { word, before } = late[next as usize];
                (*pair, next) = (word, before);
            }
            let (record, others) = behind.split_at_mut(1 + keys);
            behind = others;
            let mask = group.record::<S>(functions, keys, record, placed);
            headers[at].store(Header { keys: keys as u32, start, mask }.word(), Relaxed);
            start += 1 + keys as u32;
        }
        Some(())
    }
}

/// Calls `visit` with each word and its home. Plain loops, because `for_each` is not always inlined.
#[inline(always)]
fn each_home(functions: &Functions, columns: [&[u64]; 3], mut visit: impl FnMut(u64, u32)) {
    for words in columns {
        let (lines, rest) = words.as_chunks::<LINE>();
        for line in lines {
            let homes = functions.mixed_home(u32x8::new(line.map(tokens::key))).0.to_array();
            for (&word, home) in line.iter().zip(homes) {
                visit(word, home);
            }
        }
        for &word in rest {
            visit(word, functions.mixed_home(tokens::key(word)).0);
        }
    }
}

/// The position of this many words in the last page, or in a new page of at least `page` words if they do not fit.
fn position_for(pages: &mut Vec<Memory<u64>>, blocks: &[Found], len: usize, page: usize) -> Option<usize> {
    let end = blocks.last().map_or(0, |found| found.end);
    if pages.last().is_some_and(|page| end + len <= page.len()) {
        return Some(end);
    }
    pages.try_reserve(1).ok()?;
    pages.push(Memory::zeroed(len.max(page)).ok()?);
    Some(0)
}
