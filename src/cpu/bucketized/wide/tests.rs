//! The CPU's lines compared with the rule of the scheme, on one thread and on several.

mod parts;

use crate::backend::{wide_table_tests, wide_tests};
use crate::cpu::Cpu;
use crate::error::Result;
use crate::scheme::Bucketized;

#[test]
fn builds_batches_and_lookups_equal_the_rule() -> Result<()> {
    for threads in [1, 3] {
        let cpu = Cpu::with_threads(threads)?;
        let scheme = Bucketized::default();
        let sizes = &[(0, 0.5), (7, 0.5), (40_000, 0.95)];
        wide_tests::every_layout!(wide_tests::images, &cpu, scheme, sizes);
        wide_tests::every_layout!(wide_table_tests::tables, &cpu, scheme, 10_000);
        wide_tests::duplicates(&cpu, &scheme.of::<u64, u64>(), 9000)?;
        wide_tests::greatest_of_duplicates(&cpu, &scheme.of::<u64, u32>(), 100_000)?;
        wide_tests::structures(&cpu, &scheme.of::<u64, u32>(), &scheme.of::<u64, ()>(), 9000)?;
    }
    Ok(())
}

#[test]
fn columns_of_64_bits_are_moved_and_sorted() -> Result<()> {
    for threads in [1, 3] {
        let cpu = Cpu::with_threads(threads)?;
        wide_tests::sorts(&cpu, &[0, 1, 33, 2049, 16_385, 300_000], usize::MAX)?;
        wide_tests::columns(&cpu, &[0, 1, 31, 33, 70_000])?;
        wide_tests::chunks(&cpu, 70_000)?;
    }
    Ok(())
}
