//! Verifies compacting tables: the dense id of each key, and the key of each id.

use std::time::Duration;

use koel::backend::Runs;
use koel::{CompactingTable, Error, IdOrder, Kind, Scheme};

use super::model::{equal, numbers, same};
use super::{Case, Device, Subject, sized, timed};
use crate::number::Word;
use crate::verify::row::Row;

pub(super) struct Compacting;

/// One table for each order of ids.
type Both<S> = [(IdOrder, CompactingTable<Device, S>); 2];

impl<S: Scheme<Value = u32>> Subject<S> for Compacting
where
    Device: Runs<S>,
    S::Key: Word,
{
    const TABLE: &'static str = "compact";
    type Built = Both<S>;

    fn left_out(&self, case: &Case<'_, S>) -> Option<String> {
        case.too_narrow()
    }

    fn build(&self, case: &Case<'_, S>, device: &Device) -> koel::Result<Both<S>> {
        let builder = sized(CompactingTable::builder(case.scheme.clone()), case.run);
        let build = |order| builder.clone().ids(order).build(device, &case.data.columns.keys);
        let of = |order| build(order).map(|table| (order, table));
        Ok([of(IdOrder::FirstSeen)?, of(IdOrder::Ascending)?])
    }

    fn check(&self, case: &Case<'_, S>, built: &Both<S>, row: &mut Row) -> Option<(usize, Duration)> {
        let mut first = None;
        for (order, table) in built {
            row.restarts = row.restarts.max(table.table().restarts());
            let unique = case.keys_by(*order);
            let answered = says(case, table, &unique, "", row);
            first = first.or(answered);
            row.expect("audit", table.audit().map(drop).map_err(|error| error.to_string()));
        }
        first
    }

    fn digest(&self, case: &Case<'_, S>, built: &Both<S>) -> Option<koel::Result<String>> {
        let all = || {
            let digests: koel::Result<Vec<_>> =
                built.iter().map(|(_, table)| Ok(table.digest()?.to_string())).collect();
            Ok(digests?.join("-"))
        };
        (case.kind == Kind::Canonical).then(all)
    }

    fn elsewhere(&self, case: &Case<'_, S>, built: &Both<S>, device: &Device, what: &str, row: &mut Row) {
        for (order, table) in built {
            if let Some(there) = row.attempt(what, table.to_backend(device)) {
                says(case, &there, &case.keys_by(*order), what, row);
            }
        }
    }
}

/// Checks all operations on keys and ids of a table in which key `unique[i]` must have id `i`.
pub(super) fn says<C: Scheme<Key = S::Key>, S: Scheme<Value = u32>>(
    case: &Case<'_, C>,
    table: &CompactingTable<Device, S>,
    unique: &[S::Key],
    where_: &str,
    row: &mut Row,
) -> Option<(usize, Duration)>
where
    Device: Runs<S>,
    S::Key: Word,
{
    let what = |what: &str| if where_.is_empty() { what.to_owned() } else { format!("{where_}, {what}") };
    let columns = &case.data.columns;
    let ids = numbers(unique);
    row.expect(&what("len"), equal("it", table.len(), unique.len()));
    if let Some(listed) = row.attempt(&what("unique"), table.unique()) {
        row.expect(&what("unique"), same("keys", &listed, unique));
    }
    let queried = columns.queried(unique);
    let (answers, time) = timed(|| table.ids(&queried));
    if let Some(answers) = row.attempt(&what("ids"), answers) {
        let right: Vec<_> = queried.iter().map(|key| ids.get(key).copied()).collect();
        row.expect(&what("ids"), same("ids", &answers, &right));
    }
    // Every id in descending order, and some ids that do not exist.
    let past = [0, 1, 1000].map(|past| (unique.len() as u32).saturating_add(past));
    let numbers: Vec<u32> = (0..unique.len() as u32).rev().chain(past).chain([u32::MAX]).collect();
    if let Some(keys) = row.attempt(&what("keys"), table.keys(&numbers)) {
        let right: Vec<_> = numbers.iter().map(|&id| unique.get(id as usize).copied()).collect();
        row.expect(&what("keys"), same("keys", &keys, &right));
    }
    if let Some(inverse) = row.attempt(&what("inverse"), table.inverse(&columns.keys)) {
        let right: Vec<_> = columns.keys.iter().filter_map(|key| ids.get(key).copied()).collect();
        row.expect(&what("inverse"), same("ids of rows", &inverse, &right));
    }
    let absent_key = columns.absent.first().map(|&absent| (absent, [&columns.keys[..], &[absent; 2]].concat()));
    if let Some((absent, keys)) = absent_key {
        let refused = match table.inverse(&keys) {
            Err(Error::UnknownKey { key, position })
                if (key, position) == (absent.into(), columns.keys.len() as u64) =>
            {
                Ok(())
            }
            Err(error) => Err(format!("it should name key {absent}, and says: {error}")),
            Ok(_) => Err(format!("key {absent} is not in the table, and was accepted")),
        };
        row.expect(&what("inverse of an absent key"), refused);
    }
    Some((queried.len(), time))
}
