//! Tests of Robin Hood tables of 64-bit keys or values on the device.

use super::{device, small};
use crate::backend::wide_table_tests::{digests_of_robin_hood_tables, tables};
use crate::backend::wide_tests::{cells, duplicates, every_layout, greatest_of_duplicates, images, structures};
use crate::error::Result;
use crate::scheme::{RobinHood, Sequence};

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn slots_of_64_bits_equal_the_rule() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let sizes = |load: f64| {
        if small() { vec![(7, 0.3), (121, 0.9 * load)] } else { vec![(0, 0.5), (66, 0.985), (20_001, load)] }
    };
    every_layout!(images, cl, RobinHood::canonical(), &sizes(0.99));
    for (sequence, load) in [(Sequence::Random, 0.99), (Sequence::PaperRandom, 0.8)] {
        let scheme = RobinHood::canonical().sequence(sequence);
        images(cl, &scheme.of::<u64, u64>(), &sizes(load))?;
        images(cl, &scheme.of::<u32, u64>(), &sizes(load))?;
    }
    duplicates(cl, &RobinHood::default().of::<u64, u64>(), if small() { 60 } else { 5000 })?;
    greatest_of_duplicates(cl, &RobinHood::default().of::<u64, u32>(), if small() { 200 } else { 30_000 })
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn tables_of_64_bits_are_queried_and_changed() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    if small() {
        return tables(cl, &RobinHood::default().of::<u64, u32>(), 41);
    }
    every_layout!(tables, cl, RobinHood::default(), 10_001);
    tables(cl, &RobinHood::canonical().sequence(Sequence::Random).of::<u64, u64>(), 1001)
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn digests_are_those_written_down_and_structures_the_standard_librarys() -> Result<()> {
    let Some(cl) = device().filter(|_| !small()) else { return Ok(()) };
    digests_of_robin_hood_tables(cl)?;
    cells(cl, &RobinHood::default().of::<u64, u64>(), 20)?;
    let random = RobinHood::canonical().sequence(Sequence::Random);
    structures(cl, &random.of::<u64, u32>(), &random.of::<u64, ()>(), 9000)
}
