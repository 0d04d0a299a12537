//! Compares all answers of a device with the right ones, in parallel.

use rayon::prelude::*;

use koel::backend::{Word, bitmap_words};

/// Fills output buffers before a lookup, so that an answer that was never written is detected.
pub const POISON: u32 = 0xdead_beef;

/// Returns buffers for values and for the bitmap of hits, filled with [`POISON`] or its equivalent.
pub fn poisoned<V: Word>(queries: usize) -> (Vec<V>, Vec<u32>) {
    (vec![V::low(0xdead_beef_dead_beef); queries], vec![POISON; bitmap_words(queries)])
}

/// Returns how many of the numbers below `len` are `wrong`, and the first of them. `wrong` is a trait object, so that
/// this is compiled once.
pub fn wrong_ones(len: usize, wrong: &(dyn Fn(usize) -> bool + Sync)) -> Option<(usize, usize)> {
    (0..len).into_par_iter().filter(|&i| wrong(i)).map(|i| (1, i)).reduce_with(|a, b| (a.0 + b.0, a.1.min(b.1)))
}

/// Checks the answers to `queries`; `right(i)` is the right answer to query `i`.
///
/// # Errors
/// A sentence that states the first wrong answer and the number of wrong answers.
pub fn check<K: Word, V: Word>(
    queries: &[K],
    values: &[V],
    found: &[u32],
    right: impl Fn(usize) -> Option<V> + Sync,
) -> Result<(), String> {
    if values.len() != queries.len() || found.len() != bitmap_words(queries.len()) {
        return Err(format!("{} answers to {} queries", values.len(), queries.len()));
    }
    let wrong = |i: usize| {
        let hit = found[i / 32] >> (i % 32) & 1 == 1;
        let expected = right(i);
        hit != expected.is_some() || values[i] != expected.unwrap_or(V::low(0))
    };
    if let Some((count, i)) = wrong_ones(queries.len(), &wrong) {
        let hit = found[i / 32] >> (i % 32) & 1 == 1;
        let said = |hit: bool, value: u64| if hit { format!("found with value {value}") } else { "a miss".to_owned() };
        let (got, expected) =
            (said(hit, values[i].into()), right(i).map_or_else(|| said(false, 0), |value| said(true, value.into())));
        let value: u64 = values[i].into();
        let stray = if !hit && value != 0 { format!(" with the value {value}") } else { String::new() };
        return Err(format!(
            "{count} of {} answers are wrong; the first is key {}: {got}{stray}, and {expected} is right",
            queries.len(),
            queries[i].into()
        ));
    }
    match found.last() {
        Some(&last) if !queries.len().is_multiple_of(32) && last >> (queries.len() % 32) != 0 => {
            Err("the bitmap has bits set after its last answer".into())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_answers_are_seen() {
        let right = |i: usize| [Some(7u32), None, Some(0)][i];
        let queries = [1u32, 2, 3];
        assert_eq!(check(&queries, &[7, 0, 0], &[0b101], right), Ok(()));
        assert!(check(&queries, &[8, 0, 0], &[0b101], right).is_err(), "a wrong value");
        assert!(check(&queries, &[7, 0, 0], &[0b111], right).is_err(), "a false hit");
        assert!(check(&queries, &[7, 0, 0], &[0b001], right).is_err(), "a stored 0 taken for a miss");
        assert!(check(&queries, &[7, 5, 0], &[0b101], right).is_err(), "a miss with a value");
        assert!(check(&queries, &[7, 0, 0], &[0b1101], right).is_err(), "a bit behind the end");
        assert!(check(&queries, &[7, 0], &[0b101], right).is_err(), "too few");
    }
}
