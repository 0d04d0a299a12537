//! The CPU's Robin Hood tables of 64-bit keys or values, compared with the rule of the scheme, on one thread and on
//! several.

use crate::backend::wide_table_tests::{digests_of_robin_hood_tables, tables};
use crate::backend::wide_tests::{cells, duplicates, every_layout, greatest_of_duplicates, images, structures};
use crate::cpu::Cpu;
use crate::error::Result;
use crate::scheme::{RobinHood, Sequence};

#[test]
fn slots_of_64_bits_equal_the_rule() -> Result<()> {
    for threads in [1, 2, 3] {
        let cpu = Cpu::with_threads(threads)?;
        for sequence in Sequence::ALL {
            let load = if sequence == Sequence::PaperRandom { 0.8 } else { 0.99 };
            let scheme = RobinHood::canonical().sequence(sequence);
            every_layout!(images, &cpu, scheme, &[(0, 0.5), (7, 0.3), (66, 0.985), (20_001, load)]);
        }
        let scheme = RobinHood::default();
        duplicates(&cpu, &scheme.of::<u64, u64>(), 9000)?;
        greatest_of_duplicates(&cpu, &scheme.of::<u64, u32>(), 30_000)?;
    }
    Ok(())
}

#[test]
fn tables_of_64_bits_are_queried_and_changed() -> Result<()> {
    for threads in [1, 3] {
        let cpu = Cpu::with_threads(threads)?;
        let random = RobinHood::canonical().sequence(Sequence::Random);
        every_layout!(tables, &cpu, RobinHood::default(), 10_001);
        every_layout!(tables, &cpu, random, 1001);
        digests_of_robin_hood_tables(&cpu)?;
        cells(&cpu, &RobinHood::default().of::<u64, u64>(), 20)?;
        structures(&cpu, &random.of::<u64, u32>(), &random.of::<u64, ()>(), 9000)?;
    }
    Ok(())
}
