//! The passes of grouping and joining, compared with plain loops.

use super::cpus;
use crate::backend::{aggregate_tests as wide, relational_tests as reference};
use crate::error::Result;

/// Lengths around the borders of words and of chunks.
const SIZES: [usize; 9] = [0, 1, 31, 32, 33, 1000, 16_383, 16_385, 50_000];

#[test]
fn bitmaps_agree_with_plain_loops() -> Result<()> {
    cpus().iter().try_for_each(|cpu| reference::bitmaps(cpu, &SIZES))
}

#[test]
fn distinct_keys_have_distinct_slots() -> Result<()> {
    cpus().iter().try_for_each(|cpu| reference::key_slots(cpu, &SIZES))
}

#[test]
fn shards_equal_the_rule() -> Result<()> {
    cpus().iter().try_for_each(|cpu| reference::shards(cpu, &SIZES))
}

#[test]
fn runs_agree_with_plain_loops() -> Result<()> {
    cpus().iter().try_for_each(|cpu| reference::spans(cpu, &SIZES).and_then(|()| reference::lists(cpu, &SIZES, 20_011)))
}

#[test]
fn lists_may_exceed_memory() -> Result<()> {
    cpus().iter().try_for_each(reference::long_lists)
}

#[test]
fn aggregates_agree_with_plain_loops() -> Result<()> {
    cpus().iter().try_for_each(|cpu| reference::aggregates(cpu, &SIZES))
}

#[test]
fn aggregates_of_wide_values_agree_with_plain_loops() -> Result<()> {
    cpus().iter().try_for_each(|cpu| wide::wide(cpu, &[0, 1, 33, 1000, 16_385]))
}

#[test]
fn values_are_scattered_to_their_places() -> Result<()> {
    cpus().iter().try_for_each(|cpu| reference::moves(cpu, &SIZES))
}

#[test]
fn lengths_that_contradict_each_other_are_refused() -> Result<()> {
    cpus().iter().try_for_each(reference::refusals)?;
    cpus().iter().try_for_each(wide::refusals)
}
