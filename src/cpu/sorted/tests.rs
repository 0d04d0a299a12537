//! The CPU's sorted tables compared with the sequential reference, on one thread and on more than the machine has.

use crate::backend::sorted_tests;
use crate::backend::wide_table_tests::{digests_of_sorted_tables, tables};
use crate::backend::wide_tests::{every_layout, images, structures};
use crate::cpu::Cpu;
use crate::cpu::tests::schemes;
use crate::error::Result;
use crate::scheme::Sorted;

fn cpus() -> [Cpu; 3] {
    schemes::with_threads([1, 2, 5])
}

#[test]
fn images_and_lookups_equal_the_reference() -> Result<()> {
    let lengths: Vec<usize> = (0..=70).chain([127, 128, 129, 1000, 16_384, 50_000]).collect();
    let slots = |len| vec![len, len + 1, 2 * len];
    let counts = [0, 1, 31, 32, 33, 127, 128, 129];
    cpus()
        .iter()
        .try_for_each(|cpu| sorted_tests::images_and_lookups_equal_the_reference(cpu, &lengths, slots, &counts))
}

#[test]
fn duplicates_are_counted_exactly_and_too_many_pairs_are_reported() -> Result<()> {
    cpus().iter().try_for_each(|cpu| {
        sorted_tests::duplicates_are_counted_exactly_and_too_many_pairs_are_reported(cpu, 60_000, 100..20_100, 1000)
    })
}

#[test]
fn values_are_overwritten_in_place_and_pairs_are_in_order() -> Result<()> {
    cpus()
        .iter()
        .try_for_each(|cpu| sorted_tests::values_are_overwritten_in_place_and_pairs_are_in_order(cpu, 30_000, 1000))
}

#[test]
fn damaged_images_cause_no_panic() -> Result<()> {
    sorted_tests::damaged_images_cause_no_panic(&Cpu::with_threads(2)?, 5000, 10_000)
}

#[test]
fn columns_of_64_bits_equal_the_reference() -> Result<()> {
    for cpu in cpus() {
        every_layout!(images, &cpu, Sorted, &[(0, 1.0), (1, 1.0), (7, 0.5), (129, 1.0), (40_000, 0.95)]);
        every_layout!(tables, &cpu, Sorted, 10_001);
        digests_of_sorted_tables(&cpu)?;
        structures(&cpu, &Sorted.of::<u64, u32>(), &Sorted.of::<u64, ()>(), 9000)?;
    }
    Ok(())
}

#[test]
fn duplicates_of_64_bit_keys_are_counted_exactly() -> Result<()> {
    cpus()
        .iter()
        .try_for_each(|cpu| sorted_tests::duplicates_of_64_bit_keys_are_counted_exactly(cpu, 30_000, 50_000, 1000))
}
