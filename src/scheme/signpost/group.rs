//! The keys of one home bucket, and the rule that selects the keys that leave it.
//!
//! ```text
//! group    the keys of a home, each once, in the order of their remainders, and so of their tags
//! c <= S   all stay
//! c > S    T = c - S leave.  m = tags that occur;  a tag's representative = its least remainder
//!          min(T, m) tokens;  sorted tag i belongs to token i mod min(T, m)
//!          T > m: the least T - m keys that are not representatives are surplus; they and the representatives of their
//!                 tags go to the stash, and those tags' tokens offer nothing
//! offers   position p of a token with q tags, 0 to 2 * 13 q - 1 and at most 64:  function p mod 13 + 1, and number
//!          (p / 13) mod q among its tags
//! ```
//!
//! A token represents one key that must leave. Which of the representatives of its tags leaves depends on the bucket
//! that accepts it. So a token with q tags can try 13 q places, and sets the entry of one of its tags.

use super::post::FUNCTIONS;

/// The number of passes of a token over its list, ..
pub(crate) const CYCLES: u32 = 2;
/// .. and the maximum number of its offers. If the part has free slots, a token finds one long before that; if it has
/// none, as is possible in a short part, this bounds the build.
pub(crate) const MOST_OFFERS: u32 = 64;

/// The keys that leave, by the tags of a group's keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Leavers {
    /// A bit for each tag that occurs.
    pub tags: u32,
    /// A bit for each tag whose representative is moved to the stash with the surplus.
    pub stashed: u32,
    /// The number of tokens.
    pub tokens: u32,
    /// The number of surplus keys: the first ones that are not representatives.
    pub surplus: u32,
}

impl Leavers {
    /// The leavers of a group with these tags, in order, in buckets of this many slots.
    pub(crate) fn of(tags: impl Iterator<Item = u32> + Clone, slots: usize) -> Leavers {
        let leave = (tags.clone().count() as u32).saturating_sub(slots as u32);
        let present = tags.clone().fold(0u32, |bits, tag| bits | 1 << tag);
        let tokens = leave.min(present.count_ones());
        let mut leavers = Leavers { tags: present, stashed: 0, tokens, surplus: leave - tokens };
        let (mut before, mut left) = (None, leavers.surplus);
        for tag in tags {
            if before == Some(tag) && left > 0 {
                leavers.stashed |= 1 << tag;
                left -= 1;
            }
            before = Some(tag);
        }
        leavers
    }

    /// Tag number `number` of a token.
    pub(crate) fn tag(&self, token: u32, number: u32) -> u32 {
        nth_bit(self.tags, token + number * self.tokens)
    }

    /// Tag and function of a token's offer; `None` past its last one.
    pub(crate) fn offer(&self, token: u32, position: u32) -> Option<(u32, u32)> {
        let (n, function) = offered(self.tags.count_ones(), self.tokens, token, position)?;
        Some((nth_bit(self.tags, n), function))
    }

    /// Whether a token makes offers.
    pub(crate) fn offers(&self, token: u32) -> bool {
        self.surplus == 0 || self.stashed >> self.tag(token, 0) & 1 == 0
    }
}

/// The number of the sorted tag, of `tags`, and the function of an offer of one of `tokens` tokens at a position;
/// `None` past the last one.
///
/// The functions change first, because a division by their number is a product.
#[inline(always)]
pub(crate) fn offered(tags: u32, tokens: u32, token: u32, position: u32) -> Option<(u32, u32)> {
    let (number, function) = (position / FUNCTIONS, position % FUNCTIONS + 1);
    let n = token + number * tokens;
    if position >= MOST_OFFERS {
        return None;
    }
    if n < tags {
        return Some((n, function));
    }
    let own = (tags - token).div_ceil(tokens.max(1));
    (number < CYCLES * own).then(|| (token + number % own * tokens, function))
}

/// The number of the n-th bit that is set, from 0; 32 if fewer are set.
pub(crate) fn nth_bit(mut bits: u32, n: u32) -> u32 {
    (0..n).for_each(|_| bits &= bits.wrapping_sub(1));
    bits.trailing_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_keys_leave_with_a_choice_and_many_without() {
        let of = |tags: &[u32], slots| Leavers::of(tags.iter().copied(), slots);
        assert_eq!(of(&[0, 1, 1, 5], 4), Leavers { tags: 0b10_0011, stashed: 0, tokens: 0, surplus: 0 });
        // One leaves: of three tags, the one that finds a place.
        let one = of(&[0, 1, 1, 5, 5], 4);
        assert_eq!((one.tokens, one.offers(0)), (1, true));
        let offers: Vec<_> = (0..4).map(|position| one.offer(0, position)).collect();
        assert_eq!(offers, [Some((0, 1)), Some((0, 2)), Some((0, 3)), Some((0, 4))]);
        assert_eq!((one.offer(0, 38), one.offer(0, 39), one.offer(0, 77)), (Some((5, 13)), Some((0, 1)), None));
        assert_eq!((one.offer(0, 63), one.offer(0, 64)), (Some((1, 12)), None));
        // Two leave: token 0 has tags 0 and 5, token 1 has tag 1.
        let two = of(&[0, 1, 1, 1, 5, 5], 4);
        assert_eq!(two.tokens, 2);
        assert_eq!((two.offer(0, 13), two.offer(1, 13)), (Some((5, 1)), Some((1, 1))));
        // Four leave by two tags: two are surplus, and the representative of their tag leaves with them.
        let four = of(&[3, 3, 3, 3, 7, 7, 7, 7], 4);
        assert_eq!(four, Leavers { tags: 1 << 3 | 1 << 7, stashed: 1 << 3, tokens: 2, surplus: 2 });
        assert_eq!((four.offers(0), four.offers(1)), (false, true));
    }
}
