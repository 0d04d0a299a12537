//! Tests of tables of lines and columns of 64 bits on the device.

use super::{device, small};
use crate::backend::wide_table_tests::tables;
use crate::backend::wide_tests::{self, every_layout, images};
use crate::error::Result;
use crate::opencl::LookupShape;
use crate::scheme::Bucketized;

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn lines_are_those_of_the_rule() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let sizes: &[(usize, f64)] = if small() { &[(150, 0.95)] } else { &[(0, 0.5), (7, 0.5), (20_000, 0.95)] };
    every_layout!(images, cl, Bucketized::default(), sizes);
    // As on GPUs: several work-items read a line.
    let together = cl.with_group(64);
    together.set_lookup_shape(Some(LookupShape::Together));
    if small() {
        images(&together, &Bucketized::default().of::<u64, u32>(), sizes)?;
    } else {
        every_layout!(images, &together, Bucketized::default(), &sizes[1..]);
    }
    wide_tests::duplicates(cl, &Bucketized::default().of::<u64, u64>(), if small() { 60 } else { 5000 })?;
    wide_tests::greatest_of_duplicates(cl, &Bucketized::default().of::<u64, u32>(), if small() { 200 } else { 30_000 })
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn tables_of_lines_answer_and_change() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    if small() {
        return tables(cl, &Bucketized::default().of::<u64, u32>(), 40);
    }
    every_layout!(tables, cl, Bucketized::default(), 10_000);
    Ok(())
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn structures_of_64_bit_keys_are_the_cpus() -> Result<()> {
    let Some(cl) = device().filter(|_| !small()) else { return Ok(()) };
    let scheme = Bucketized::default();
    wide_tests::structures(cl, &scheme.of::<u64, u32>(), &scheme.of::<u64, ()>(), 9000)
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn columns_of_64_bits_are_moved_and_sorted() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    // In a simulator only keys whose digits are the same except for two: others take the same kernels.
    if small() {
        wide_tests::sorts(cl, &[70], 1)?;
    } else {
        wide_tests::sorts(cl, &[0, 1, 33, 4097, 70_000], usize::MAX)?;
    }
    wide_tests::columns(cl, if small() { &[1, 70] } else { &[0, 1, 31, 33, 9000, 70_000] })?;
    wide_tests::chunks(&cl.with_slots(1 << 12), if small() { 5000 } else { 70_000 })
}
