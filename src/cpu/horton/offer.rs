//! A token's offer in one word; queues store only this word.
//!
//! ```text
//! word      [age : 16][!home : 32][!token : 5][round : 5][rank : 6]
//! compare   as the rule's proposals do (`tokens.rs`): offers to one bucket never have the same home and token
//! next      rank + tokens, the token's next tag; after the last the first again, with the next function: a new round
//! ```
//!
//! Round and rank could be computed from age and token with divisions; they are stored instead.

use super::build::Header;
use crate::scheme::horton::tokens::CYCLES;

const ROUND_SHIFT: u32 = 6;
const TOKEN_SHIFT: u32 = 11;
const HOME_SHIFT: u32 = 16;
const AGE_SHIFT: u32 = 48;
const RANKS: u32 = 1 << ROUND_SHIFT;
const ROUNDS: u32 = 1 << (TOKEN_SHIFT - ROUND_SHIFT);
const TOKENS: u32 = 1 << (HOME_SHIFT - TOKEN_SHIFT);

/// No offer: the least word.
pub(super) const NO_OFFER: u64 = 0;

/// The fields of an offer.
#[derive(Clone, Copy)]
pub(super) struct Offer {
    pub(super) home: u32,
    pub(super) token: u32,
    /// The number of times that the token has offered all its tags; selects the function, modulo their number.
    pub(super) round: u32,
    /// The number of the tag among those of the home.
    pub(super) rank: u32,
}

impl Offer {
    #[inline(always)]
    pub(super) fn of(word: u64) -> Offer {
        Offer {
            home: !((word >> HOME_SHIFT) as u32),
            token: (!word >> TOKEN_SHIFT) as u32 % TOKENS,
            round: (word >> ROUND_SHIFT) as u32 % ROUNDS,
            rank: word as u32 % RANKS,
        }
    }

    /// The function, out of this many, counted from 1.
    #[inline(always)]
    pub(super) fn function(self, functions: u32) -> u32 {
        const { assert!(CYCLES == 2) }
        self.round + 1 - if self.round < functions { 0 } else { functions }
    }
}

/// The word before a token's first offer: [`next`] of it is the first offer.
#[inline(always)]
pub(super) fn before_first(home: u32, token: u32, tokens: u32) -> u64 {
    u64::from(!home) << HOME_SHIFT
        | u64::from(!token % TOKENS) << TOKEN_SHIFT
        | u64::from(token.wrapping_sub(tokens) % RANKS)
}

/// The next offer of the same token, and its word, for a home with this header and this many tokens. The caller checks
/// the round of the offer to detect whether it exists.
#[inline(always)]
pub(super) fn next(word: u64, header: Header, tokens: u32) -> (Offer, u64) {
    let mut offer = Offer::of(word);
    let rank = (offer.rank + tokens) % RANKS;
    let is_last = rank >= header.mask.count_ones();
    offer.rank = if is_last { offer.token } else { rank };
    offer.round += u32::from(is_last);
    let low = u64::from(offer.round % ROUNDS) << ROUND_SHIFT | u64::from(offer.rank);
    (offer, (word >> TOKEN_SHIFT << TOKEN_SHIFT | low) + (1 << AGE_SHIFT))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheme::horton::tokens::{self, last_age, list_length};

    /// Compares every token of every number of tags with the rule.
    #[test]
    fn offers_equal_the_steps_of_the_rule() {
        for (tags, functions) in (1..=32).flat_map(|tags| [2, 6, 14].map(|functions| (tags, functions))) {
            let mask = u32::MAX >> (32 - tags);
            for (count, token) in (1..=tags).flat_map(|count| (0..count).map(move |token| (count, token))) {
                let header = Header { keys: 0, start: 0, mask };
                let (home, mut word) = (0x8000_0001 + token, before_first(0x8000_0001 + token, token, count));
                for age in 1..=last_age(list_length(mask, count, token), functions) {
                    let (offer, after) = next(word, header, count);
                    word = after;
                    let unpacked = Offer::of(word);
                    assert_eq!((unpacked.home, unpacked.token, unpacked.rank), (home, token, offer.rank));
                    assert!(unpacked.round == offer.round && offer.round < CYCLES * functions);
                    let step = tokens::step(mask, count, token, age, functions);
                    assert_eq!(step, Some((tokens::nth_bit(mask, offer.rank), offer.function(functions))));
                    assert_eq!(word >> HOME_SHIFT, tokens::proposal(age, home, token) >> HOME_SHIFT);
                }
                assert_eq!(next(word, header, count).0.round, CYCLES * functions);
            }
        }
        assert!(before_first(5, 2, 3) > before_first(5, 3, 9) && before_first(5, 9, 9) > before_first(6, 0, 1));
    }
}
