//! The CPU's cuckoo tables of 64-bit keys or values, compared with the rule of the scheme, on one thread and on
//! several.

use crate::backend::wide_table_tests::{digests_of_cuckoo_tables, tables};
use crate::backend::wide_tests::{duplicates, every_layout, images, structures};
use crate::cpu::Cpu;
use crate::error::Result;
use crate::scheme::{Cuckoo, CuckooSet};

#[test]
fn slots_of_64_bits_equal_the_rule() -> Result<()> {
    for threads in [1, 3] {
        let cpu = Cpu::with_threads(threads)?;
        for (functions, load) in [(2, 0.4), (3, 0.85), (4, 0.93), (5, 0.97)] {
            every_layout!(images, &cpu, Cuckoo::canonical(functions), &[(0, 0.5), (7, 0.3), (20_001, load)]);
        }
        let scheme = Cuckoo::default();
        every_layout!(tables, &cpu, scheme, 10_001);
        digests_of_cuckoo_tables(&cpu)?;
        duplicates(&cpu, &scheme.of::<u64, u64>(), 9000)?;
        structures(&cpu, &scheme.of::<u64, u32>(), &CuckooSet::default().of::<u64>(), 9000)?;
    }
    Ok(())
}
