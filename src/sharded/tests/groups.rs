//! Groups over several devices equal those of one, bit for bit.

use super::cpus;
use crate::cpu::Cpu;
use crate::error::{Error, Result};
use crate::group::{Aggregate, IdOrder, wide};
use crate::scheme::hash::SplitMix64;
use crate::sharded::group::{factorize, group_by, unique};

fn column(count: usize, distinct: u64) -> Vec<u64> {
    let mut stream = SplitMix64::new(distinct);
    (0..count).map(|_| (stream.next_u64() % distinct) << 33 | 1).collect()
}

#[test]
fn groups_on_several_devices_equal_groups_on_one() -> Result<()> {
    let cpu = Cpu::new();
    // Sums of doubles depend on the order in which they are added up.
    let value = |row: usize| (row as f64 * 0.1 - 500.0) * if row.is_multiple_of(7) { 1e15 } else { 1.0 };
    for keys in [column(20_000, 3000), column(5000, 1), column(400, 1 << 40), Vec::new()] {
        let narrow: Vec<u32> = keys.iter().map(|&key| (key >> 33) as u32).collect();
        let values: Vec<f64> = (0..keys.len()).map(value).collect();
        for order in IdOrder::ALL {
            for devices in cpus() {
                assert_eq!(unique(&devices, &keys, order)?, wide::unique(&cpu, &keys, order)?);
                assert_eq!(factorize(&devices, &keys, order)?, wide::factorize(&cpu, &keys, order)?);
                assert_eq!(factorize(&devices, &narrow, order)?, wide::factorize(&cpu, &narrow, order)?);
                for wanted in [&Aggregate::ALL[..], &[Aggregate::Count], &[]] {
                    let (found, one) = (
                        group_by(&devices, &keys, &values, wanted, order)?,
                        wide::group_by(&cpu, &keys, &values, wanted, order)?,
                    );
                    let bits = |sums: &[f64]| sums.iter().map(|sum| sum.to_bits()).collect::<Vec<_>>();
                    assert_eq!(bits(&found.sums), bits(&one.sums));
                    assert_eq!(found, one);
                }
            }
        }
    }
    let counted = group_by::<_, u64, u32>(&cpus()[2], &[9, 8, 9], &[], &[Aggregate::Count], IdOrder::FirstSeen)?;
    assert_eq!((counted.keys, counted.counts), (vec![9, 8], vec![2, 1]));
    Ok(())
}

#[test]
fn the_first_sum_that_does_not_fit_is_reported() -> Result<()> {
    // 200 keys, most of whose sums overflow.
    let keys: Vec<u64> = (0..2000).map(|row| (row * 7919 % 200) << 20 | 5).collect();
    let values: Vec<u64> = keys.iter().map(|key| if key % 3 == 0 { 1 } else { u64::MAX / 3 }).collect();
    for order in IdOrder::ALL {
        let one = wide::group_by(&Cpu::new(), &keys, &values, &[Aggregate::Sum], order);
        let Err(Error::SumTooLarge { key: expected }) = one else { panic!("{one:?}") };
        for devices in cpus() {
            let found = group_by(&devices, &keys, &values, &[Aggregate::Sum], order);
            assert!(matches!(found, Err(Error::SumTooLarge { key }) if key == expected), "{found:?}");
        }
    }
    Ok(())
}

#[test]
fn invalid_arguments_are_refused() {
    assert!(matches!(unique::<Cpu, u32>(&[], &[1], IdOrder::FirstSeen), Err(Error::InvalidParameter { .. })));
    assert!(matches!(factorize::<Cpu, u32>(&[], &[1], IdOrder::FirstSeen), Err(Error::InvalidParameter { .. })));
    let short = group_by(&cpus()[1], &[1_u32, 2], &[1_u32], &[Aggregate::Sum], IdOrder::FirstSeen);
    assert!(matches!(short, Err(Error::LengthMismatch { .. })));
}
