//! Passes over all keys, one block ahead: the places of a block's keys are computed eight at a time, and their lines
//! prefetched, before the previous block is processed.
//!
//! In contrast to `block.rs`, each key has only one place, and is never queued again.

use wide::u32x8;

use super::BLOCK;

/// Calls `ahead(number, place)` for every key, and `visit` with the same arguments one or two blocks later.
#[inline(always)]
pub(super) fn each_place(
    keys: &[u32],
    aim: impl Fn(u32x8) -> u32x8,
    mut ahead: impl FnMut(usize, u32),
    mut visit: impl FnMut(usize, u32),
) {
    let mut places = [[0; BLOCK]; 2];
    let mut flying = 0..0;
    for block in 0..=keys.len().div_ceil(BLOCK) {
        let (from, until) = (block * BLOCK, keys.len().min((block + 1) * BLOCK));
        let next = from.min(until)..until;
        let aimed = &mut places[block % 2];
        // After the last key, the remaining lanes contain leftovers.
        aimed[..next.len()].copy_from_slice(&keys[next.clone()]);
        aimed.as_chunks_mut::<8>().0.iter_mut().take(next.len().div_ceil(8)).for_each(|lanes| {
            *lanes = aim(u32x8::new(*lanes)).to_array();
        });
        next.clone().zip(aimed.iter()).for_each(|(i, &place)| ahead(i, place));
        flying.clone().zip(places[(block + 1) % 2].iter()).for_each(|(i, &place)| visit(i, place));
        flying = next;
    }
}
