//! Compacting tables: builds in both orders of ids, and from a set in table order; ids of keys, and keys of ids.

use koel::backend::{HashBackend, Runs};
use koel::device::Any;
use koel::{AnyScheme, CompactingTable, Cuckoo, CuckooSet, HashSet, IdOrder, Scheme};

use super::sized;
use super::timing::{Doing, Timing, all_right, same};
use crate::data::Copies;
use crate::wrong;
use koel_cli::answers;
use koel_cli::failure::Result;

pub(super) fn measure(timing: &mut Timing<'_>, scheme: AnyScheme) -> Result<()> {
    if let AnyScheme::CuckooSet(set) = &scheme {
        // A set does not store ids, so it is converted to a compacting table.
        return from_set(timing, set);
    }
    let (device, columns) = (timing.device, timing.columns);
    let builder = sized!(CompactingTable::builder(scheme), timing.args);
    let keys = device.upload(&columns.keys)?;
    for order in [IdOrder::Ascending, IdOrder::FirstSeen] {
        let ids = Ids::by(columns, order);
        let what = if order == IdOrder::FirstSeen { "build, ids as first seen" } else { "build, ids ascending" };
        let builder = builder.clone().ids(order);
        let check = |table: &CompactingTable<Any, AnyScheme>| same("the list of keys", &table.unique()?, &ids.keys);
        let doing = Doing::build(what, columns.keys.len());
        let table = timing.on_device(doing, || builder.build_on(device, &keys), check)?;
        timing.loaded(table.table().load_factor());
        drop(table);
        let table = timing.end_to_end(doing, || builder.build(device, &columns.keys), check)?;
        // Lookups do not depend on the order of ids, so they are measured for one order only.
        if order == IdOrder::FirstSeen {
            asks(timing, &table, &ids, &keys)?;
        }
    }
    Ok(())
}

/// The paper's algorithm: a set of the keys, whose slots are numbered and interleaved with their numbers.
fn from_set(timing: &mut Timing<'_>, scheme: &CuckooSet) -> Result<()> {
    let (device, columns) = (timing.device, timing.columns);
    let builder = sized!(HashSet::builder(scheme.clone()), timing.args);
    let keys = device.upload(&columns.keys)?;
    let check = |table: &CompactingTable<Any, Cuckoo>| {
        let mut keys = table.unique()?;
        keys.sort_unstable();
        same("the keys of a set", &keys, &columns.unique)
    };
    let doing = Doing::build("build, ids in table order", columns.keys.len());
    let work = || CompactingTable::from_set(builder.build_on(device, &keys)?);
    let table = timing.on_device(doing, work, check)?;
    timing.loaded(table.table().load_factor());
    drop(table);
    let work = || CompactingTable::from_set(builder.build(device, &columns.keys)?);
    let table = timing.end_to_end(doing, work, check)?;
    asks(timing, &table, &Ids::of_keys(columns, table.unique()?), &keys)
}

/// Measures the ids of keys, the ids of all rows, and the keys of ids.
fn asks<S: Scheme<Key = u32, Value = u32>>(
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
        timing.lookups(
            Doing::answers("ids", Some(hits), count),
            |(values, found)| table.ids_on_into(&there, values, found),
            |values, found| {
                answers::check(&queries, values, found, |i| ids.of(queries[i])).map_err(|reason| wrong("ids", reason))
            },
        )?;
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

/// The expected ids.
struct Ids<'a> {
    columns: &'a Copies,
    /// The key of each id.
    keys: Vec<u32>,
    /// The id of each distinct key, by its number.
    ids: Vec<u32>,
}

impl Ids<'_> {
    fn by(columns: &Copies, order: IdOrder) -> Ids<'_> {
        let keys = match order {
            IdOrder::FirstSeen => {
                columns.first_seen().into_iter().map(|number| columns.unique[number as usize]).collect()
            }
            _ => columns.unique.clone(),
        };
        Ids::of_keys(columns, keys)
    }

    /// The ids of keys by their positions; the keys are the distinct ones in some order.
    fn of_keys(columns: &Copies, keys: Vec<u32>) -> Ids<'_> {
        let mut ids = vec![0; columns.unique.len()];
        for (id, &key) in (0u32..).zip(&keys) {
            if let Some(number) = columns.find(key) {
                ids[number] = id;
            }
        }
        Ids { columns, keys, ids }
    }

    fn of(&self, key: u32) -> Option<u32> {
        self.columns.find(key).map(|number| self.ids[number])
    }
}
