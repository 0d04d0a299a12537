//! The offers of the tokens of one part of a plan, and the buckets that accept them.
//!
//! ```text
//! slots     for each line, in descending order:  all ones for each native, the accepted offers, zeros
//! queue     the tokens of all homes, each with its first offer
//! generation after generation:  makes each offer of the queue to its line; rejects the least one there; if it is an
//!                               offer, the next one of its token is queued
//! ```
//!
//! An offer has 32 bits that are ordered as the rule requires, `[1][position][!home][!token]`, with the full homes of
//! the part numbered in order. The rejected offer, new or old, is a minimum, so nothing branches on it; and the offers
//! of a queue do not wait for each other, as successive offers of one token would.

use std::marker::PhantomData;

use super::homes::Homes;
use crate::scheme::bucketized::wide::Layout;
use crate::scheme::signpost::SignpostFunctions;
use crate::scheme::signpost::group::{MOST_OFFERS, offered};
use crate::scheme::signpost::post::FUNCTIONS;

const TOKEN_BITS: u32 = 5;
const HOME_BITS: u32 = 9;
const POSITION_SHIFT: u32 = TOKEN_BITS + HOME_BITS;
/// The bit that marks an offer.
const OFFER: u32 = 1 << 31;
const _: () = assert!(MOST_OFFERS < 1 << (31 - POSITION_SHIFT), "positions, and the one past the last");

/// The most homes of a part, and tags of a home.
pub(super) const MOST_HOMES: usize = 1 << HOME_BITS;
pub(super) const MOST_TAGS: usize = 1 << TOKEN_BITS;

/// The slot of a native.
const NATIVE: u32 = u32::MAX;

/// The fields of an offer.
pub(super) struct Offer {
    pub(super) home: usize,
    pub(super) token: u32,
    pub(super) position: u32,
}

impl Offer {
    #[inline(always)]
    fn of(offer: u32) -> Offer {
        let low = |of: u32, bits: u32| of & ((1 << bits) - 1);
        Offer {
            home: low(!offer >> TOKEN_BITS, HOME_BITS) as usize,
            token: low(!offer, TOKEN_BITS),
            position: (offer & !OFFER) >> POSITION_SHIFT,
        }
    }
}

/// The distance of guests of each tag from their homes by each function, in a part of this many lines.
#[derive(Default)]
pub(super) struct Steps {
    width: u32,
    steps: Vec<u16>,
}

impl Steps {
    /// Computes the distances for a part of another width.
    pub(super) fn set(&mut self, width: u32, step: impl Fn(u32, u32) -> u32) -> Option<()> {
        const { assert!(FUNCTIONS < 16 && MOST_HOMES <= 1 << 16) }
        if self.width == width {
            return Some(());
        }
        self.width = width;
        self.steps.clear();
        self.steps.try_reserve(16 * MOST_TAGS).ok()?;
        self.steps.extend((0..16 * MOST_TAGS as u32).map(|at| step(at / 16, at % 16) as u16));
        Some(())
    }

    /// The line to which a function leads a tag's key from its home.
    #[inline(always)]
    fn guest(&self, home: u32, tag: u8, function: u32) -> usize {
        let to = home + u32::from(self.steps[(usize::from(tag) * 16 + function as usize) % (16 * MOST_TAGS)]);
        (if to < self.width { to } else { to - self.width }) as usize
    }
}

/// The offers of one part.
pub(super) struct Offers<L> {
    queue: Vec<u32>,
    /// The slots of all lines.
    slots_of_lines: Vec<u32>,
    pub(super) steps: Steps,
    layout: PhantomData<L>,
}

impl<L> Default for Offers<L> {
    fn default() -> Self {
        Offers { queue: Vec::new(), slots_of_lines: Vec::new(), steps: Steps::default(), layout: PhantomData }
    }
}

impl<L: Layout> Offers<L> {
    /// Begins a part of this many lines, which are then added.
    pub(super) fn clear(&mut self, lines: usize) -> Option<()> {
        self.queue.clear();
        self.slots_of_lines.clear();
        self.slots_of_lines.try_reserve(L::SLOTS * lines).ok()
    }

    /// Adds a line with this many natives.
    #[inline(always)]
    pub(super) fn line(&mut self, natives: usize) {
        self.slots_of_lines.extend((0..L::SLOTS).map(|i| if i < natives { NATIVE } else { 0 }));
    }

    /// Queues a token of a home.
    #[inline(always)]
    pub(super) fn token(&mut self, home: usize, token: u32) -> Option<()> {
        self.queue.try_reserve(1).ok()?;
        self.queue.push(OFFER | ((MOST_HOMES - 1 - home) as u32) << TOKEN_BITS | (MOST_TAGS as u32 - 1 - token));
        Some(())
    }

    /// Makes all offers.
    #[inline(always)]
    pub(super) fn settle(&mut self, homes: &mut Homes<L>, functions: &SignpostFunctions<L::Key>) -> Option<()> {
        let Offers { queue, slots_of_lines, steps, .. } = self;
        while !queue.is_empty() {
            let mut left = 0;
            for i in 0..queue.len() {
                let mine = queue[i];
                let Offer { home: number, token, position } = Offer::of(mine);
                let Some(home) = homes.homes.get(number) else {
                    homes.lost += 1;
                    continue;
                };
                let Some((n, function)) = offered(home.tags, home.tokens, token, position) else {
                    homes.exhausted(functions, number, token)?;
                    continue;
                };
                let to = steps.guest(home.line, home.tag[n as usize % MOST_TAGS], function) * L::SLOTS;
                let Some(slots_of_lines) = slots_of_lines.get_mut(to..to + L::SLOTS) else {
                    homes.lost += 1;
                    continue;
                };
                let least = put(slots_of_lines, mine);
                queue[left] = least.wrapping_add(1 << POSITION_SHIFT);
                left += usize::from(least != 0);
            }
            queue.truncate(left);
        }
        Some(())
    }

    /// The offers that a line of this many natives has accepted, the greatest first.
    #[inline(always)]
    pub(super) fn kept(&self, line: usize, natives: usize) -> impl Iterator<Item = Offer> {
        let slots_of_lines =
            self.slots_of_lines.get(line * L::SLOTS + natives..(line + 1) * L::SLOTS).unwrap_or_default();
        slots_of_lines.iter().take_while(|&&offer| offer != 0).map(|&offer| Offer::of(offer))
    }
}

/// Inserts an offer among those of a line; returns the least, which is rejected.
#[inline(always)]
fn put(slots_of_lines: &mut [u32], mine: u32) -> u32 {
    let mut before = NATIVE;
    for slot in slots_of_lines {
        let there = *slot;
        *slot = there.max(before.min(mine));
        before = there;
    }
    before.min(mine)
}
