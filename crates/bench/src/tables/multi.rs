//! Multivalue tables: builds, the positions of the values of keys, and the values in one list.

use std::ops::Range;

use koel::backend::{HashBackend, Runs};
use koel::device::Any;
use koel::{MultiTable, Retrieved, Scheme};

use super::sized;
use super::timing::{Doing, Timing, all_right, same};
use crate::data::Copies;
use koel_cli::failure::Result;

pub(super) fn measure<S: Scheme<Key = u32, Value = u32>>(timing: &mut Timing<'_>, scheme: S) -> Result<()>
where
    Any: Runs<S>,
{
    let (device, columns) = (timing.device, timing.columns);
    let builder = sized!(MultiTable::builder(scheme), timing.args);
    let sorted: Vec<u32> = columns.values_of(&columns.rows).collect();
    let check = |table: &MultiTable<Any, S>| {
        same("starts", &table.starts()?, &columns.starts)?;
        same("values", &table.values()?, &sorted)
    };
    let doing = Doing::build("build", columns.keys.len());
    let (keys, values) = (device.upload(&columns.keys)?, device.upload(&columns.values)?);
    let table = timing.on_device(doing, || builder.build_on(device, &keys, &values), check)?;
    timing.loaded(table.table().load_factor());
    drop((table, keys, values));
    let table = timing.end_to_end(doing, || builder.build(device, &columns.keys, &columns.values), check)?;

    let (count, hits) = timing.args.data.lookups(columns.keys.len() as u32);
    for &hits in hits {
        let queries = columns.queries(count, hits);
        let doing = Doing::answers("get", Some(hits), count);
        let there = device.upload(&queries)?;
        timing.on_device(
            doing,
            || table.get_on(&there),
            |spans| {
                let (starts, counts) = (device.download(&spans.starts)?, device.download(&spans.counts)?);
                all_right("get", (counts.len().min(starts.len()), count), &|i| {
                    let run = run_of(columns, queries[i]);
                    counts[i] as usize == run.len() && (run.is_empty() || starts[i] as usize == run.start)
                })
            },
        )?;
        timing.end_to_end(
            doing,
            || table.get(&queries),
            |ranges| {
                all_right("get", (ranges.len(), count), &|i| {
                    let run = run_of(columns, queries[i]);
                    ranges[i] == run || run.is_empty() && ranges[i].is_empty()
                })
            },
        )?;
    }
    retrieves(timing, &table)
}

/// Retrieves all values of all keys: each key is queried once, and as many absent keys.
fn retrieves<S: Scheme<Key = u32, Value = u32>>(timing: &mut Timing<'_>, table: &MultiTable<Any, S>) -> Result<()>
where
    Any: Runs<S>,
{
    let (device, columns) = (timing.device, timing.columns);
    let queries = columns.each_once(true);
    let (mut offsets, mut values) = (vec![0], Vec::with_capacity(columns.values.len()));
    for &query in &queries {
        values.extend(columns.values_of(&columns.rows[run_of(columns, query)]));
        offsets.push(values.len() as u64);
    }
    let check = |got: &Retrieved| {
        same("offsets", &got.offsets, &offsets)?;
        same("retrieve", &got.values, &values)
    };
    let doing = Doing::answers("retrieve (values)", Some(50), values.len());
    let there = device.upload(&queries)?;
    timing.on_device(
        doing,
        || table.retrieve_on(&there),
        |got| {
            same("offsets", &device.download(&got.offsets)?, &offsets)?;
            same("retrieve", &device.download(&got.values)?, &values)
        },
    )?;
    timing.end_to_end(doing, || table.retrieve(&queries), check)?;
    Ok(())
}

/// The positions of the values of a key.
fn run_of(columns: &Copies, key: u32) -> Range<usize> {
    let of = |number: usize| columns.starts[number] as usize..columns.starts[number + 1] as usize;
    columns.find(key).map_or(0..0, of)
}
