//! One part of a new table: `scheme/signpost/rule.rs` in a core's cache.
//!
//! ```text
//! take    stores each pair in a slot of its home's line, or queues it as late if the line is full
//! fill    for each part of the plan, of which a part here has several:
//!           lines    are sorted; homes with late pairs are gathered                                  (`homes.rs`)
//!           guests   offers are made (`offers.rs`); accepted keys are written to the lines, which are sorted again
//!           natives  the remaining keys of gathered homes are written to their lines; entries
//! ```
//!
//! Two lines in three have capacity for all their natives, and their pairs are sorted in place, by a network. There are
//! no branches on whether a line is full, on the result of a comparison, or on rejections: these are unpredictable.

use super::homes::Homes;
use super::offers::{MOST_HOMES, MOST_TAGS, Offers};
use crate::backend::Word;
use crate::cpu::bucketized::wide::line::sort;
use crate::cpu::bucketized::wide::parts::{PART_BITS, Rows};
use crate::cpu::parts::try_with_capacity;
use crate::scheme::bucketized::wide::{Layout, Line, SlotKey, put};
use crate::scheme::signpost::SignpostFunctions;
use crate::scheme::signpost::post::{self, Posts};
use crate::scheme::signpost::rule::write_entries;

const PART_LINES: usize = 1 << PART_BITS;
// A table whose signposts are stored after its lines has one part.
const _: () = assert!(post::MIN_BUCKETS_WITHIN as usize <= PART_LINES);

/// A pair whose line was full.
#[derive(Clone, Copy)]
struct Late<V> {
    word: u64,
    value: V,
    /// The previous late pair of the same home, if there is one.
    before: u32,
}

/// The scratch space of a thread, and the results of its parts.
pub(super) struct Scratch<L: Layout> {
    /// The pairs of each line in order of arrival, as words of age 1, and a line for late pairs.
    table: Vec<Line>,
    /// The number of arrivals at each line.
    counts: Vec<u32>,
    late: Vec<Late<L::Value>>,
    /// The last late pair of each line, if there is one, and a further element, to which pairs that are not late write.
    last: Vec<u32>,
    /// The lines of a part of the plan with more arrivals than slots.
    full: Vec<u16>,
    offers: Offers<L>,
    pub(super) homes: Homes<L>,
    /// The entries of a table whose words do not contain them.
    pub(super) behind: Vec<u128>,
}

impl<L: Layout> Scratch<L> {
    /// `None` if memory is short.
    pub(super) fn new() -> Option<Self> {
        const { assert!(PART_BITS >= L::PART_BITS && MOST_HOMES >= 1 << L::PART_BITS, "parts are whole ones of the plan") }
        const { assert!(2 * L::SLOTS <= MOST_TAGS, "tags are at most two a slot") }
        let (mut table, mut counts, mut last, mut full) = (
            try_with_capacity(PART_LINES + 1)?,
            try_with_capacity(PART_LINES)?,
            try_with_capacity(PART_LINES + 1)?,
            try_with_capacity(MOST_HOMES + 1)?,
        );
        table.resize(PART_LINES + 1, [0; 8]);
        counts.resize(PART_LINES, 0);
        last.resize(PART_LINES + 1, 0);
        full.resize(MOST_HOMES + 1, 0);
        let (offers, homes) = (Offers::default(), Homes::default());
        Some(Scratch { table, counts, late: Vec::new(), last, full, offers, homes, behind: Vec::new() })
    }

    /// Takes the rows of the part that begins with this bucket, at most this many.
    #[inline(always)]
    pub(super) fn take(
        &mut self,
        functions: &SignpostFunctions<L::Key>,
        start: u32,
        partitioned: [(&[u64], usize); 2],
        escapes: &[(L::Key, L::Value)],
    ) -> Option<()> {
        let most = partitioned[0].1 + partitioned[1].1 + escapes.len() + 1;
        if self.late.len() < most {
            self.late.try_reserve(most - self.late.len()).ok()?;
            self.late.resize(most, Late { word: 0, value: L::Value::low(0), before: 0 });
        }
        self.counts.fill(0);
        let Scratch { table, counts, late, last, .. } = self;
        let (table, counts, late, last) =
            (&mut table[..=PART_LINES], &mut counts[..PART_LINES], &mut late[..], &mut last[..=PART_LINES]);
        let mut lates = 0;
        Rows::<L>::each_of(
            partitioned,
            escapes,
            #[inline(always)]
            |(mixed, value)| {
                let (home, low) = mixed.split(functions.buckets);
                let word = functions.fields.word(1, L::Key::low(low.into() >> functions.fields.post_bits));
                let line = (home - start) as usize % PART_LINES;
                let rank = counts[line] as usize;
                counts[line] += 1;
                let is_late = rank >= L::SLOTS;
                put::<L>(&mut table[if is_late { PART_LINES } else { line }], rank.min(L::SLOTS - 1), (word, value));
                late[lates] = Late { word, value, before: last[line] };
                last[if is_late { line } else { PART_LINES }] = lates as u32;
                lates += usize::from(is_late);
            },
        );
        Some(())
    }

    /// Writes the lines of the part that was taken, which begins with this bucket.
    #[inline(always)]
    pub(super) fn fill(&mut self, functions: &SignpostFunctions<L::Key>, start: u32, lines: &mut [Line]) -> Option<()> {
        for (number, lines) in lines.chunks_mut(1 << L::PART_BITS).enumerate() {
            self.part(functions, start, number << L::PART_BITS, lines)?;
        }
        Some(())
    }

    /// As [`fill`](Self::fill), for one part of the plan.
    #[inline(always)]
    fn part(
        &mut self,
        functions: &SignpostFunctions<L::Key>,
        start: u32,
        first: usize,
        lines: &mut [Line],
    ) -> Option<()> {
        let Scratch { table, counts, late, last, full, offers, homes, behind } = self;
        let counts = &mut counts[first..first + lines.len()];
        homes.clear(start + first as u32);
        let width = lines.len() as u32;
        offers.steps.set(width, |tag, function| functions.step(tag, function, width))?;
        let mut fulls = 0;
        for (at, (line, there)) in lines.iter_mut().zip(&mut table[first..]).enumerate() {
            *line = std::mem::take(there);
            let has_duplicates = sort::<L>(line);
            full[fulls] = at as u16;
            fulls += usize::from((counts[at] as usize > L::SLOTS) | has_duplicates);
        }
        for &at in &full[..fulls] {
            let at = usize::from(at);
            let mut next = last[first + at];
            let lates = (0..counts[at].saturating_sub(L::SLOTS as u32)).map(|_| {
                let Late { word, value, before } = late[next as usize];
                next = before;
                (word, value)
            });
            let natives = homes.gather(functions, at as u32, &mut lines[at], counts[at] as usize, lates)?;
            counts[at] = natives as u32;
        }
        offers.clear(lines.len())?;
        counts.iter().for_each(|&natives| offers.line(natives as usize));
        for number in 0..homes.homes.len() {
            for token in homes.tokens(number) {
                offers.token(number, token)?;
            }
        }
        offers.settle(homes, functions)?;
        for (at, line) in lines.iter_mut().enumerate() {
            let mut slot = counts[at] as usize;
            let natives = slot;
            for offer in offers.kept(at, natives) {
                let Some(guest) = homes.leave(offer) else {
                    homes.lost += 1;
                    continue;
                };
                put::<L>(line, slot, guest);
                slot += 1;
            }
            if slot > natives {
                sort::<L>(line);
            }
        }
        for home in &homes.homes {
            let line = &mut lines[home.line as usize];
            homes.natives(home, line);
            write_entries::<L>(functions.posts, line, home.entries);
        }
        if functions.posts == Posts::Behind {
            behind.try_reserve(lines.len()).ok()?;
            behind.resize(behind.len() + lines.len(), 0);
            let first = behind.len() - lines.len();
            homes.homes.iter().for_each(|home| behind[first + home.line as usize] = home.entries);
        }
        Some(())
    }
}
