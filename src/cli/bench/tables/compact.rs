//! Compacting tables: builds in both orders of ids, ids of keys, and keys of ids.

use koel::backend::{Any, HashBackend, Runs, bitmap_words};
use koel::{CompactingTable, IdOrder, Scheme};

use super::sized;
use super::timing::{Doing, Timing, all_right, same};
use crate::cli::answers::{self, POISON};
use crate::cli::bench::data::Copies;
use crate::cli::bench::wrong;
use crate::cli::failure::Result;

pub(super) fn measure<S: Scheme>(timing: &mut Timing<'_>, scheme: S) -> Result<()>
where
    Any: Runs<S>,
{
    let (device, columns) = (timing.device, timing.columns);
    let builder = sized!(CompactingTable::builder(scheme), timing.args);
    let keys = device.upload(&columns.keys)?;
    for order in [IdOrder::Ascending, IdOrder::FirstSeen] {
        let ids = Ids::new(columns, order);
        let what = if order == IdOrder::FirstSeen { "build, ids as first seen" } else { "build, ids ascending" };
        let builder = builder.clone().ids(order);
        let check = |table: &CompactingTable<Any, S>| same("the list of keys", &table.unique()?, &ids.keys);
        let doing = Doing::build(what, columns.keys.len());
        let table = timing.on_device(doing, || builder.build_on(device, &keys), check)?;
        timing.loaded(table.table().load_factor());
        drop(table);
        let table = timing.end_to_end(doing, || builder.build(device, &columns.keys), check)?;
        // What is asked does not depend on the order.
        if order == IdOrder::FirstSeen {
            asks(timing, &table, &ids, &keys)?;
        }
    }
    Ok(())
}

/// Ids of keys, of all rows, and back.
fn asks<S: Scheme>(
    timing: &mut Timing<'_>,
    table: &CompactingTable<Any, S>,
    ids: &Ids<'_>,
    keys: &<Any as HashBackend>::Buffer<u32>,
) -> Result<()>
where
    Any: Runs<S>,
{
    let (device, columns) = (timing.device, timing.columns);
    let (count, hits) = timing.args.data.lookups(columns.keys.len() as u32);
    for &hits in hits {
        let queries = columns.queries(count, hits);
        let there = device.upload(&queries)?;
        let work = || {
            let (mut values, mut found) = (device.filled(count, POISON)?, device.filled(bitmap_words(count), POISON)?);
            table.ids_on(&there, &mut values, &mut found)?;
            Ok((values, found))
        };
        timing.on_device(Doing::answers("ids", Some(hits), count), work, |(values, found)| {
            let (values, found) = (device.download(values)?, device.download(found)?);
            answers::check(&queries, &values, &found, |i| ids.of(queries[i])).map_err(|reason| wrong("ids", reason))
        })?;
    }
    let rows = Doing::answers("inverse", None, columns.keys.len());
    timing.on_device(
        rows,
        || table.inverse_on(keys),
        |inverse| {
            let inverse = device.download(inverse)?;
            let right = |i: usize| ids.of(columns.keys[i]) == Some(inverse[i]);
            all_right("inverse", (inverse.len(), columns.keys.len()), &right)
        },
    )?;
    let of_rows = table.inverse_on(keys)?;
    let back = Doing::answers("keys of ids", None, columns.keys.len());
    timing.on_device(
        back,
        || table.keys_on(&of_rows),
        |back| same("keys of ids", &device.download(back)?, &columns.keys),
    )?;
    Ok(())
}

/// The right ids.
struct Ids<'a> {
    columns: &'a Copies,
    /// The key of each id.
    keys: Vec<u32>,
    /// The id of each distinct key, by its number.
    ids: Vec<u32>,
}

impl Ids<'_> {
    fn new(columns: &Copies, order: IdOrder) -> Ids<'_> {
        let numbers = match order {
            IdOrder::FirstSeen => columns.first_seen(),
            _ => (0..columns.unique.len() as u32).collect(),
        };
        let mut ids = vec![0; numbers.len()];
        for (id, &number) in (0u32..).zip(&numbers) {
            ids[number as usize] = id;
        }
        let keys = numbers.iter().map(|&number| columns.unique[number as usize]).collect();
        Ids { columns, keys, ids }
    }

    fn of(&self, key: u32) -> Option<u32> {
        self.columns.find(key).map(|number| self.ids[number])
    }
}
