//! Verifies groups: distinct keys, the number of each row's key, and aggregates, in both orders.

use std::time::Duration;

use koel::backend::Runs;
use koel::group::wide as group;
use koel::scheme::Key;
use koel::{Aggregate, Groups as Aggregated, IdOrder, Scheme};

use super::model::{numbers, same};
use super::{Case, Data, Device, Subject, timed};
use crate::number::Word;
use crate::verify::row::Row;

pub(super) struct Groups;

/// The results for one order.
pub(super) struct Results<K> {
    order: IdOrder,
    unique: Vec<K>,
    factorized: (Vec<K>, Vec<u32>),
    groups: Aggregated<K>,
}

impl<S: Scheme> Subject<S> for Groups
where
    Device: Runs<<S::Key as Key>::Rows>,
    S::Key: Word,
{
    const TABLE: &'static str = "group";
    const HAS_SCHEME: bool = false;
    type Built = (Device, Vec<Results<S::Key>>);

    fn build(&self, case: &Case<'_, S>, device: &Device) -> koel::Result<Self::Built> {
        let (keys, values) = (&case.data.columns.keys, &case.data.columns.values);
        let of = |order| {
            Ok(Results {
                order,
                unique: group::unique(device, keys, order)?,
                factorized: group::factorize(device, keys, order)?,
                groups: group::group_by(device, keys, values, &Aggregate::ALL, order)?,
            })
        };
        Ok((device.clone(), IdOrder::ALL.into_iter().map(of).collect::<koel::Result<_>>()?))
    }

    fn check(&self, case: &Case<'_, S>, (device, all): &Self::Built, row: &mut Row) -> Option<(usize, Duration)> {
        let (keys, values) = (&case.data.columns.keys, &case.data.columns.values);
        let mut counted = None;
        for Results { order, unique, factorized, groups } in all {
            let right = case.keys_by(*order);
            let name = order.name();
            row.expect(&format!("unique, {name}"), same("keys", unique, &right));
            let ids = numbers(&right);
            let inverse: Vec<_> = keys.iter().filter_map(|key| ids.get(key).copied()).collect();
            let outcome = same("keys", &factorized.0, &right).and(same("ids of rows", &factorized.1, &inverse));
            row.expect(&format!("factorize, {name}"), outcome);
            row.expect(&format!("group_by, {name}"), right_groups(case.data, &right, groups));
            // Computes each aggregate separately, with the same results. Counts do not need values.
            for aggregate in Aggregate::ALL {
                let values = if aggregate == Aggregate::Count { &[] } else { &values[..] };
                let (alone, time) = timed(|| group::group_by(device, keys, values, &[aggregate], *order));
                counted = counted.or(Some((keys.len(), time)));
                if let Some(alone) = row.attempt("one aggregate", alone) {
                    let right = only(aggregate, groups);
                    let outcome = if alone == right { Ok(()) } else { Err("it is not as with the others".into()) };
                    row.expect(&format!("{} alone, {name}", aggregate.name()), outcome);
                }
            }
        }
        counted
    }

    /// The digest of all results, which are equal on all devices.
    fn digest(&self, _: &Case<'_, S>, (_, all): &Self::Built) -> Option<koel::Result<String>> {
        let mut hasher = blake3::Hasher::new();
        for Results { unique, factorized, groups, .. } in all {
            for keys in [unique, &factorized.0, &groups.keys] {
                hasher.update(bytemuck::cast_slice(keys));
            }
            for column in [&factorized.1, &groups.counts, &groups.mins, &groups.maxs] {
                hasher.update(bytemuck::cast_slice(column));
            }
            hasher.update(bytemuck::cast_slice(&groups.sums));
        }
        Some(Ok(hasher.finalize().to_string()))
    }

    fn elsewhere(&self, _: &Case<'_, S>, _: &Self::Built, _: &Device, _: &str, _: &mut Row) {}
}

/// Compares all aggregates of the groups of these keys with those of the model.
pub(super) fn right_groups<K: Word>(data: &Data<K>, unique: &[K], groups: &Aggregated<K>) -> Result<(), String> {
    let values = |key: K| data.model.of(key).iter().map(|&row| data.columns.values[row as usize]);
    let column = |of: &dyn Fn(K) -> u32| unique.iter().map(|&key| of(key)).collect::<Vec<_>>();
    let sums: Vec<u64> = unique.iter().map(|&key| values(key).map(u64::from).sum()).collect();
    same("keys", &groups.keys, unique)?;
    same("counts", &groups.counts, &column(&|key| data.model.of(key).len() as u32))?;
    same("sums", &groups.sums, &sums)?;
    let means = sums.iter().zip(&groups.counts).map(|(&sum, &count)| sum as f64 / f64::from(count));
    same("means", &groups.means, &means.collect::<Vec<_>>())?;
    same("least values", &groups.mins, &column(&|key| values(key).min().unwrap_or(u32::MAX)))?;
    same("greatest values", &groups.maxs, &column(&|key| values(key).max().unwrap_or(0)))
}

/// The groups with only one of the aggregates.
fn only<K: Word>(aggregate: Aggregate, all: &Aggregated<K>) -> Aggregated<K> {
    let mut only = Aggregated::default();
    only.keys.clone_from(&all.keys);
    match aggregate {
        Aggregate::Count => only.counts.clone_from(&all.counts),
        Aggregate::Sum => only.sums.clone_from(&all.sums),
        Aggregate::Mean => only.means.clone_from(&all.means),
        Aggregate::Min => only.mins.clone_from(&all.mins),
        _ => only.maxs.clone_from(&all.maxs),
    }
    only
}
