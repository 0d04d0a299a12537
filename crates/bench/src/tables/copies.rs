//! Maps of rows with duplicate keys that keep the first or the last pair.

use koel::backend::{HashBackend, Runs};
use koel::device::Any;
use koel::{Duplicates, HashTable, Scheme};

use super::sized;
use super::timing::{Doing, Timing};
use crate::wrong;
use koel_cli::answers;
use koel_cli::failure::Result;

pub(super) fn measure<S: Scheme<Key = u32, Value = u32>>(timing: &mut Timing<'_>, scheme: S) -> Result<()>
where
    Any: Runs<S>,
{
    let (device, columns, rule) = (timing.device, timing.columns, timing.args.duplicates);
    // If values are narrow, only their low bits are used.
    let greatest = scheme.limits().greatest_value();
    let values: Vec<u32> = columns.values.iter().map(|value| value & greatest).collect();
    let right = |query: u32| {
        let rows = columns.rows_of(columns.find(query)?);
        let row = if rule == Duplicates::KeepLast { rows.last() } else { rows.first() };
        row.map(|&row| values[row as usize])
    };
    let builder = sized!(HashTable::builder(scheme).duplicates(rule), timing.args);
    let check = |table: &HashTable<Any, S>| {
        let queries = &columns.unique;
        let (mut values, mut found) = answers::poisoned(queries.len());
        table.get_into(queries, &mut values, &mut found)?;
        let checked = answers::check(queries, &values, &found, |i| right(queries[i]));
        let whole = if table.len() == queries.len() { Ok(()) } else { Err(format!("{} keys", table.len())) };
        checked.and(whole).map_err(|reason| wrong("a lookup of every key", reason))
    };
    let what = if rule == Duplicates::KeepLast { "build, the last stays" } else { "build, the first stays" };
    let doing = Doing::build(what, columns.keys.len());
    let there = (device.upload(&columns.keys)?, device.upload(&values)?);
    let table = timing.on_device(doing, || builder.build_on(device, &there.0, &there.1), check)?;
    timing.loaded(table.load_factor());
    drop((table, there));
    let table = timing.end_to_end(doing, || builder.build(device, &columns.keys, &values), check)?;

    let (count, hits) = timing.args.data.lookups(columns.keys.len() as u32);
    for &hits in hits {
        let queries = columns.queries(count, hits);
        let there = device.upload(&queries)?;
        timing.lookups(
            Doing::answers("lookup", Some(hits), count),
            |(values, found)| table.get_on_into(&there, values, found),
            |values, found| {
                let checked = answers::check(&queries, values, found, |i| right(queries[i]));
                checked.map_err(|reason| wrong("a lookup", reason))
            },
        )?;
    }
    Ok(())
}
