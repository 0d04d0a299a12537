//! Keys by first occurrence, by each strategy.

use super::{device, small};
use crate::error::Result;
use crate::group::first_seen::tests::{check, check_few};

#[test]
fn strategies_agree_with_a_plain_loop() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let wide = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    // The simulator takes a second for each pass over a few rows.
    if small() {
        check_few::<_, u32>(cl, 33, |number| number as u32)?;
        return check_few::<_, u64>(cl, 33, wide);
    }
    let sizes = [0, 1, 16, 33, 1000, 20_000];
    check::<_, u32>(cl, &sizes, |number| number as u32)?;
    check::<_, u64>(cl, &sizes, wide)
}
