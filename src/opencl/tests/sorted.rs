//! Compares sorted tables of the device with the sequential functions of src/scheme/sorted.

use super::{device, small};
use crate::backend::sorted_tests;
use crate::backend::wide_table_tests::{digests_of_sorted_tables, tables};
use crate::backend::wide_tests::{every_layout, images, structures};
use crate::error::Result;
use crate::scheme::Sorted;

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn images_and_lookups_equal_the_reference() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let lengths: &[usize] = if small() { &[0, 1, 2, 65, 300] } else { &[0, 1, 2, 3, 63, 64, 65, 1000, 4097, 50_000] };
    sorted_tests::images_and_lookups_equal_the_reference(cl, lengths, |len| vec![len, len + 33], &[])
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn duplicates_are_counted_exactly_and_too_many_pairs_are_reported() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let len = if small() { 300 } else { 30_000 };
    sorted_tests::duplicates_are_counted_exactly_and_too_many_pairs_are_reported(cl, len, 20..120, 100)
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn values_are_overwritten_in_place_and_pairs_are_in_order() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let len = if small() { 300 } else { 20_000 };
    sorted_tests::values_are_overwritten_in_place_and_pairs_are_in_order(cl, len, 40)
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn damaged_images_cause_no_panic() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    sorted_tests::damaged_images_cause_no_panic(cl, 500, 1000)
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn columns_of_64_bits_equal_the_reference() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let sizes: &[(usize, f64)] =
        if small() { &[(65, 1.0)] } else { &[(0, 1.0), (1, 1.0), (7, 0.5), (129, 1.0), (20_000, 0.95)] };
    every_layout!(images, cl, Sorted, sizes);
    // A simulator is too slow for the sorts of all the following tables.
    if small() {
        return Ok(());
    }
    every_layout!(tables, cl, Sorted, 10_001);
    digests_of_sorted_tables(cl)?;
    structures(cl, &Sorted.of::<u64, u32>(), &Sorted.of::<u64, ()>(), 9000)
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn duplicates_of_64_bit_keys_are_counted_exactly() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let keys: u64 = if small() { 60 } else { 30_000 };
    sorted_tests::duplicates_of_64_bit_keys_are_counted_exactly(cl, keys, keys + keys / 2, 10)
}
