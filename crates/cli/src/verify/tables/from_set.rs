//! Verifies compacting tables that are built from a set, as in the paper: ids are in table order.

use std::time::Duration;

use koel::backend::HashBackend;
use koel::{AnyScheme, CompactingTable, Cuckoo, CuckooSet, HashSet, Kind};

use super::compact::says;
use super::model::same;
use super::{Case, Device, Subject, sized};
use crate::verify::row::Row;

/// The parameters of the set.
pub(super) struct FromSet(pub(super) CuckooSet);

impl Subject<AnyScheme> for FromSet {
    const TABLE: &'static str = "compact";
    type Built = (CompactingTable<Device, Cuckoo>, Vec<u32>);

    fn left_out(&self, _: &Case<'_>) -> Option<String> {
        None
    }

    fn build(&self, case: &Case<'_>, device: &Device) -> koel::Result<Self::Built> {
        let set = sized(HashSet::builder(self.0.clone()), case.run).build(device, &case.data.columns.keys)?;
        let keys = set.to_keys()?;
        Ok((CompactingTable::from_set(set)?, keys))
    }

    /// Checks that ids number the keys in the order of the set.
    fn check(&self, case: &Case<'_>, (table, keys): &Self::Built, row: &mut Row) -> Option<(usize, Duration)> {
        let mut sorted = keys.clone();
        sorted.sort_unstable();
        row.expect("the set's keys", same("keys", &sorted, &case.data.model.ascending()));
        row.expect("audit", table.audit().map(drop).map_err(|error| error.to_string()));
        row.restarts = table.table().restarts();
        says(case, table, keys, "", row)
    }

    fn digest(&self, case: &Case<'_>, (table, _): &Self::Built) -> Option<koel::Result<String>> {
        (case.kind == Kind::Canonical).then(|| table.digest().map(|digest| digest.to_string()))
    }

    fn elsewhere(&self, case: &Case<'_>, (table, keys): &Self::Built, device: &Device, what: &str, row: &mut Row) {
        if let Some(there) = row.attempt(what, table.to_backend(device)) {
            debug_assert_eq!(there.table().backend().info().id, device.info().id);
            says(case, &there, keys, what, row);
        }
    }
}
