//! Compares sets of the device with the sequential rule.

use super::{every_kernel as device, small};
use crate::backend::set_tests;

#[test]
fn canonical_images_are_the_sequential_ones() {
    let Some(cl) = device() else { return };
    let sizes: &[usize] = if small() { &[0, 1, 65, 300] } else { &[0, 1, 2, 63, 65, 1000, 20_001] };
    set_tests::canonical_images_are_the_sequential_ones(cl, sizes);
    if !small() {
        [32, 256].into_iter().for_each(|group| {
            set_tests::canonical_images_are_the_sequential_ones(&cl.with_group(group), &[65, 1000]);
        });
    }
}

#[test]
fn classic_sets_hold_each_key_once() {
    let Some(cl) = device() else { return };
    set_tests::classic_sets_hold_each_key_once(cl, if small() { &[130] } else { &[0, 1, 65, 5000] });
}

#[test]
fn the_clean_up_empties_the_later_copies() {
    let Some(cl) = device() else { return };
    set_tests::the_clean_up_empties_the_later_copies(cl, if small() { 100 } else { 20_000 });
}

#[test]
fn passes_agree_with_the_rule() {
    let Some(cl) = device() else { return };
    let sizes: &[usize] = if small() { &[65] } else { &[9, 3000] };
    sizes.iter().for_each(|&len| set_tests::passes_agree_with_the_rule(cl, len));
}

#[test]
fn heavy_keys_are_one_key() {
    let Some(cl) = device() else { return };
    set_tests::heavy_keys_are_one_key(cl, if small() { 600 } else { 1 << 18 });
}

#[test]
fn more_keys_than_slots_are_left_over() {
    let Some(cl) = device() else { return };
    set_tests::more_keys_than_slots_are_left_over(cl);
}
