//! Groups: distinct keys, the number of each row's key, and aggregates, in both orders.

use koel::backend::HashBackend;
use koel::device::Any;
use koel::group::{factorize_on, group_by, group_by_on, unique_on};
use koel::{Aggregate, DeviceGroups, Groups, IdOrder};

use super::timing::{Doing, Timing, all_right, same};
use crate::data::Copies;
use koel_cli::failure::Result;

/// The aggregates, and their names for each order of the groups.
const WANTED: [(&[Aggregate], [&str; 2]); 2] = [
    (&[Aggregate::Count], ["count, as first seen", "count, ascending"]),
    (&[Aggregate::Count, Aggregate::Sum], ["count and sum, as first seen", "count and sum, ascending"]),
];

pub(super) fn measure(timing: &mut Timing<'_>) -> Result<()> {
    let (device, columns) = (timing.device, timing.columns);
    let (keys, values) = (device.upload(&columns.keys)?, device.upload(&columns.values)?);
    let rows = columns.keys.len();
    for (at, order) in [IdOrder::FirstSeen, IdOrder::Ascending].into_iter().enumerate() {
        let numbers = match order {
            IdOrder::FirstSeen => columns.first_seen(),
            _ => (0..columns.unique.len() as u32).collect(),
        };
        let unique: Vec<u32> = numbers.iter().map(|&number| columns.unique[number as usize]).collect();
        let mut ids = vec![0; rows];
        for (id, &number) in (0u32..).zip(&numbers) {
            columns.rows_of(number as usize).iter().for_each(|&row| ids[row as usize] = id);
        }
        let doing = Doing::answers(["unique, as first seen", "unique, ascending"][at], None, rows);
        timing.on_device(
            doing,
            || unique_on(device, &keys, order),
            |got| same("unique", &device.download(got)?, &unique),
        )?;
        let doing = Doing::answers(["factorize, as first seen", "factorize, ascending"][at], None, rows);
        timing.on_device(
            doing,
            || factorize_on(device, &keys, order),
            |(got, inverse)| {
                same("factorize", &device.download(got)?, &unique)?;
                same("factorize", &device.download(inverse)?, &ids)
            },
        )?;
        for (wanted, names) in WANTED {
            let doing = Doing::answers(names[at], None, rows);
            let check = |groups: &DeviceGroups<Any>| is_right(columns, &numbers, wanted, &groups.download(device)?);
            timing.on_device(doing, || group_by_on(device, &keys, &values, wanted, order), check)?;
            let work = || group_by(device, &columns.keys, &columns.values, wanted, order);
            timing.end_to_end(doing, work, |groups| is_right(columns, &numbers, wanted, groups))?;
        }
    }
    Ok(())
}

/// Compares groups; group `i` must be that of key number `numbers[i]`.
fn is_right(columns: &Copies, numbers: &[u32], wanted: &[Aggregate], groups: &Groups) -> Result<()> {
    let rows = |i: usize| columns.rows_of(numbers[i] as usize);
    let len = |column: usize, is_wanted: bool| (column, if is_wanted { numbers.len() } else { 0 });
    let sums = wanted.contains(&Aggregate::Sum);
    all_right("keys of groups", len(groups.keys.len(), true), &|i| {
        groups.keys[i] == columns.unique[numbers[i] as usize]
    })?;
    all_right("counts", len(groups.counts.len(), true), &|i| groups.counts[i] as usize == rows(i).len())?;
    all_right("sums", len(groups.sums.len(), sums), &|i| {
        groups.sums[i] == columns.values_of(rows(i)).map(u64::from).sum::<u64>()
    })
}
