//! Compares sets of the device with the sequential rule.

use super::{device, small};
use crate::backend::set_tests;

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn canonical_images_equal_the_sequential_rule() {
    let Some(cl) = device() else { return };
    let sizes: &[usize] = if small() { &[0, 1, 65, 300] } else { &[0, 1, 2, 63, 65, 1000, 20_001] };
    set_tests::canonical_images_equal_the_sequential_rule(cl, sizes);
    if !small() {
        [32, 256].into_iter().for_each(|group| {
            set_tests::canonical_images_equal_the_sequential_rule(&cl.with_group(group), &[65, 1000]);
        });
    }
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn classic_sets_hold_each_key_once() {
    let Some(cl) = device() else { return };
    set_tests::classic_sets_hold_each_key_once(cl, if small() { &[130] } else { &[0, 1, 65, 5000] });
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn the_clean_up_empties_later_duplicates() {
    let Some(cl) = device() else { return };
    set_tests::the_clean_up_empties_later_duplicates(cl, if small() { 100 } else { 20_000 });
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn passes_agree_with_the_rule() {
    let Some(cl) = device() else { return };
    let sizes: &[usize] = if small() { &[65] } else { &[9, 3000] };
    sizes.iter().for_each(|&len| set_tests::passes_agree_with_the_rule(cl, len));
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn duplicates_of_heavy_keys_are_stored_once() {
    let Some(cl) = device() else { return };
    set_tests::duplicates_of_heavy_keys_are_stored_once(cl, if small() { 600 } else { 1 << 18 });
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn more_keys_than_slots_are_reported() {
    let Some(cl) = device() else { return };
    set_tests::more_keys_than_slots_are_reported(cl);
}
