//! Operations on one line: sorting its pairs, and offering another one. Only duplicates cause branches, because the
//! order of two words is unpredictable.

use crate::backend::Word;
use crate::cpu::network::{sort_descending, sort_pairs_descending};
use crate::scheme::bucketized::wide::{Layout, Line, pair, put};
use crate::scheme::slot::EMPTY;

/// The most slots of a line.
const MOST_SLOTS: usize = 16;

/// Sorts the pairs of a line by their words in descending order. Returns whether there are duplicates among them.
#[inline(always)]
pub(in crate::cpu) fn sort<L: Layout>(line: &mut Line) -> bool {
    let (mut words, mut values) = ([0; MOST_SLOTS], [L::Value::default(); MOST_SLOTS]);
    (0..L::SLOTS).for_each(|i| (words[i], values[i]) = pair::<L>(line, i));
    let value_bits = if L::VALUES.is_some() { L::Value::BITS } else { 0 };
    if L::Key::BITS + value_bits <= u64::BITS {
        // One word of 64 bits holds both, which halves the number of exchanges.
        (0..L::SLOTS).for_each(|i| words[i] = words[i] << value_bits | values[i].into());
        match L::SLOTS {
            4 => sort_descending::<4, _>(&mut words),
            5 => sort_descending::<5, _>(&mut words),
            8 => sort_descending::<8, _>(&mut words),
            _ => sort_descending::<MOST_SLOTS, _>(&mut words),
        }
        (0..L::SLOTS).for_each(|i| (words[i], values[i]) = (words[i] >> value_bits, L::Value::low(words[i])));
    } else {
        match L::SLOTS {
            4 => sort_pairs_descending::<4, _, _>(&mut words, &mut values),
            5 => sort_pairs_descending::<5, _, _>(&mut words, &mut values),
            8 => sort_pairs_descending::<8, _, _>(&mut words, &mut values),
            _ => sort_pairs_descending::<MOST_SLOTS, _, _>(&mut words, &mut values),
        }
    }
    (0..L::SLOTS).for_each(|i| put::<L>(line, i, (words[i], values[i])));
    // All pairs of neighbours are compared, without a branch between them.
    (1..L::SLOTS).fold(false, |any, i| any | ((words[i - 1] == words[i]) & (words[i] != EMPTY)))
}

/// The result of an offer to a line.
pub(super) enum Offered<V> {
    /// The word was there; the greater of the two values is kept.
    Duplicate,
    /// The pair with the least word of the line and `mine`, which is not kept; it may be an empty slot.
    Out((u64, V)),
}

/// Offers a pair to a line in descending order, and keeps that order.
#[inline(always)]
pub(super) fn offer<L: Layout>(line: &mut Line, mut mine: (u64, L::Value)) -> Offered<L::Value> {
    if (0..L::SLOTS).fold(false, |same, i| same | (L::word(line, i) == mine.0)) {
        raise::<L>(line, mine);
        return Offered::Duplicate;
    }
    for i in 0..L::SLOTS {
        let there = pair::<L>(line, i);
        let less = there.0 < mine.0;
        put::<L>(line, i, if less { mine } else { there });
        mine = if less { there } else { mine };
    }
    Offered::Out(mine)
}

/// Raises the value of a word in the line.
#[cold]
fn raise<L: Layout>(line: &mut Line, (word, value): (u64, L::Value)) {
    if let Some(i) = (0..L::SLOTS).find(|&i| L::word(line, i) == word) {
        L::put_value(line, i, value.max(L::value(line, i)));
    }
}
