//! The CPU's sets compared with the sequential rule, on one thread and on more than the machine has.

use crate::backend::set_tests;
use crate::cpu::Cpu;

fn on_each(test: impl Fn(&Cpu)) {
    [1, 2, 8].into_iter().for_each(|threads| test(&Cpu::with_threads(threads).expect("threads")));
}

#[test]
fn canonical_images_equal_the_sequential_rule() {
    let sizes = [0, 1, 2, 7, 127, 129, 1000, 30_001];
    on_each(|cpu| set_tests::canonical_images_equal_the_sequential_rule(cpu, &sizes));
}

#[test]
fn classic_sets_hold_each_key_once() {
    on_each(|cpu| set_tests::classic_sets_hold_each_key_once(cpu, &[0, 1, 300, 20_001]));
}

#[test]
fn the_clean_up_empties_later_duplicates() {
    on_each(|cpu| [50, 30_000].into_iter().for_each(|len| set_tests::the_clean_up_empties_later_duplicates(cpu, len)));
}

#[test]
fn passes_agree_with_the_rule() {
    on_each(|cpu| [9, 5000].into_iter().for_each(|len| set_tests::passes_agree_with_the_rule(cpu, len)));
}

#[test]
fn duplicates_of_heavy_keys_are_stored_once() {
    on_each(|cpu| set_tests::duplicates_of_heavy_keys_are_stored_once(cpu, 100_000));
}

#[test]
fn more_keys_than_slots_are_reported() {
    on_each(set_tests::more_keys_than_slots_are_reported);
}
