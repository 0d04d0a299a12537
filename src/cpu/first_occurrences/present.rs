//! A bitmap of the keys of a range: it resolves most queries that do not match in the second-level cache.
//!
//! ```text
//! sift    selects the queries of a block whose bits are set, looks up only these, and moves the answers to their rows;
//!         if nearly all queries of a block pass, the following blocks are looked up without this selection
//! ```
//!
//! It is used for keys that are too far apart to be addressed directly, but whose bits fit into the cache: for example,
//! the orders of some customers among all orders.

use std::sync::atomic::Ordering::Relaxed;

use super::{Memory, grain};
use crate::backend::join_rows::NO_ROW;
use crate::cpu::memory::atomic_u32;
use crate::error::Result;
use crate::parallel::each;
use crate::scheme::Key;

/// The most bits: 1 MiB, and this number per row.
const MOST: u64 = 1 << 23;
const A_ROW: u64 = 512;
/// Queries of a block.
const BLOCK: usize = 512;
/// If more than this many in four queries of a block pass, [`BLOCKS`] blocks after it are looked up unfiltered.
const BLOCKS: usize = 15;
const IN_FOUR: usize = 3;

/// The longest range for this number of rows.
pub(super) fn most(rows: usize) -> u64 {
    MOST.min(A_ROW.saturating_mul(rows as u64))
}

pub(super) struct Present {
    least: u64,
    bits: Memory<u32>,
}

impl Present {
    /// A bitmap of keys in `least..least + range`.
    pub(super) fn of<K: Key>(keys: &[K], least: K, range: usize) -> Result<Self> {
        // Further bits stay zero, for keys outside of the range.
        let (mut bits, least) = (Memory::zeroed(range / 32 + 1)?, least.into());
        let words = atomic_u32(bits.words_mut()?);
        each(keys, grain(keys.len()), |_, keys: &[K]| {
            for &key in keys {
                let at = key.into().wrapping_sub(least);
                let Some(word) = words.get((at / 32) as usize) else { continue };
                // Most bits of a column with duplicate keys are set already.
                if word.load(Relaxed) >> (at % 32) & 1 == 0 {
                    word.fetch_or(1 << (at % 32), Relaxed);
                }
            }
        });
        Ok(Present { least, bits })
    }

    /// Calls `look` for the queries whose bits are set; the answer for all others is [`NO_ROW`].
    #[inline(always)]
    pub(super) fn sift<K: Key>(&self, queries: &[K], to: &mut [u32], look: impl Fn(&[K], &mut [u32])) {
        let words = self.bits.words();
        let (mut some, mut at, mut found) = ([K::default(); BLOCK], [0_u16; BLOCK], [0; BLOCK]);
        let (mut queries, mut to) = (queries, to);
        while !queries.is_empty() {
            let (block, rest) = queries.split_at(queries.len().min(BLOCK));
            let (own, behind) = to.split_at_mut(block.len());
            let mut passed = 0;
            for (i, &key) in (0..).zip(block) {
                let place = key.into().wrapping_sub(self.least);
                let word = words.get((place / 32) as usize).copied().unwrap_or(0);
                (some[passed], at[passed]) = (key, i);
                passed += (word >> (place % 32) & 1) as usize;
            }
            let mut next = 0;
            if passed * 4 > block.len() * IN_FOUR {
                next = rest.len().min(BLOCKS * BLOCK);
                look(block, own);
                look(&rest[..next], &mut behind[..next]);
            } else {
                look(&some[..passed], &mut found[..passed]);
                own.fill(NO_ROW);
                at[..passed].iter().zip(&found[..passed]).for_each(|(&at, &row)| own[usize::from(at)] = row);
            }
            (queries, to) = (&rest[next..], &mut behind[next..]);
        }
    }
}
