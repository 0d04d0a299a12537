//! Tests of cuckoo tables of 64-bit keys or values on the device.

use super::{device, small};
use crate::backend::wide_table_tests::{digests_of_cuckoo_tables, tables};
use crate::backend::wide_tests::{duplicates, every_layout, images, structures};
use crate::error::Result;
use crate::scheme::{Cuckoo, CuckooSet};

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn slots_of_64_bits_equal_the_rule() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let sizes = |load: f64| {
        if small() { vec![(7, 0.3), (121, 0.8 * load)] } else { vec![(0, 0.5), (7, 0.3), (20_001, load)] }
    };
    every_layout!(images, cl, Cuckoo::canonical(4), &sizes(0.93));
    for (functions, load) in [(2, 0.4), (3, 0.85), (5, 0.97)] {
        images(cl, &Cuckoo::canonical(functions).of::<u64, u64>(), &sizes(load))?;
    }
    duplicates(cl, &Cuckoo::default().of::<u64, u64>(), if small() { 60 } else { 5000 })
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn tables_of_64_bits_are_queried_and_changed() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    if small() {
        return tables(cl, &Cuckoo::default().of::<u64, u32>(), 41);
    }
    every_layout!(tables, cl, Cuckoo::default(), 10_001);
    Ok(())
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn digests_are_those_written_down_and_structures_the_standard_librarys() -> Result<()> {
    let Some(cl) = device().filter(|_| !small()) else { return Ok(()) };
    digests_of_cuckoo_tables(cl)?;
    structures(cl, &Cuckoo::default().of::<u64, u32>(), &CuckooSet::default().of::<u64>(), 9000)
}
