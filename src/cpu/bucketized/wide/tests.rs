//! The CPU's lines beside the scheme's own rule, on one thread and on several.

use crate::backend::wide_tests;
use crate::cpu::Cpu;
use crate::error::Result;

#[test]
fn builds_batches_and_answers_are_those_of_the_rule() -> Result<()> {
    for threads in [1, 3] {
        let cpu = Cpu::with_threads(threads)?;
        wide_tests::every_layout(&cpu, &[(0, 0.5), (7, 0.5), (40_000, 0.95)])?;
        wide_tests::duplicates(&cpu, 9000)?;
        wide_tests::tables(&cpu, 10_000)?;
        wide_tests::structures(&cpu, 9000)?;
    }
    Ok(())
}

#[test]
fn columns_of_64_bits_are_moved_and_sorted() -> Result<()> {
    for threads in [1, 3] {
        let cpu = Cpu::with_threads(threads)?;
        wide_tests::sorts(&cpu, &[0, 1, 33, 2049, 16_385, 300_000])?;
        wide_tests::columns(&cpu, &[0, 1, 31, 33, 70_000])?;
        wide_tests::chunks(&cpu, 70_000)?;
    }
    Ok(())
}
