//! Keys by first occurrence, by each strategy.

use super::{device, small};
use crate::error::Result;
use crate::group::first_seen::tests::check;

#[test]
fn strategies_agree_with_a_plain_loop() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let all: &[usize] = &[0, 1, 16, 33, 1000, 20_000];
    // The simulator takes a second for each pass over a few rows.
    let (narrow, wide): (&[usize], &[usize]) = if small() { (&[33], &[100]) } else { (all, all) };
    check::<_, u32>(cl, narrow, |number| number as u32)?;
    check::<_, u64>(cl, wide, |number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}
