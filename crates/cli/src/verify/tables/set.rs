//! Verifies sets: their members, and operations on two sets.

use std::collections::BTreeSet;
use std::time::Duration;

use koel::backend::Runs;
use koel::{HashSet, Kind, Scheme};

use super::model::{equal, same};
use super::{Case, Device, Subject, sized, timed};
use crate::number::Word;
use crate::verify::row::Row;

pub(super) struct Sets;

impl<S: Scheme> Subject<S> for Sets
where
    Device: Runs<S>,
    S::Key: Word,
{
    const TABLE: &'static str = "set";
    type Built = HashSet<Device, S>;

    fn build(&self, case: &Case<'_, S>, device: &Device) -> koel::Result<Self::Built> {
        sized(HashSet::builder(case.scheme.clone()), case.run).build(device, &case.data.columns.keys)
    }

    fn check(&self, case: &Case<'_, S>, set: &Self::Built, row: &mut Row) -> Option<(usize, Duration)> {
        let right = BTreeSet::from_iter(case.data.model.ascending());
        let queried = case.data.columns.queried(&case.data.model.first_seen);
        row.restarts = set.table().restarts();
        row.expect("audit", set.audit().map(drop).map_err(|error| error.to_string()));
        let (answers, time) = timed(|| set.contains(&queried));
        if let Some(answers) = row.attempt("contains", answers) {
            let right: Vec<_> = queried.iter().map(|key| right.contains(key)).collect();
            row.expect("contains", same("answers", &answers, &right));
        }
        has_keys(set, &right, "keys", row);
        changes(case, set, &right, row);
        algebra(case, set, &right, row);
        Some((queried.len(), time))
    }

    fn digest(&self, case: &Case<'_, S>, set: &Self::Built) -> Option<koel::Result<String>> {
        (case.kind == Kind::Canonical).then(|| set.digest().map(|digest| digest.to_string()))
    }

    fn elsewhere(&self, case: &Case<'_, S>, set: &Self::Built, device: &Device, what: &str, row: &mut Row) {
        if let Some(there) = row.attempt(what, set.to_backend(device)) {
            let right = BTreeSet::from_iter(case.data.model.ascending());
            let queried = case.data.columns.queried(&case.data.model.first_seen);
            if let Some(answers) = row.attempt(what, there.contains(&queried)) {
                let right: Vec<_> = queried.iter().map(|key| right.contains(key)).collect();
                row.expect(what, same("answers", &answers, &right));
            }
        }
    }
}

/// Checks that a set has exactly these keys.
fn has_keys<S: Scheme>(set: &HashSet<Device, S>, right: &BTreeSet<S::Key>, what: &str, row: &mut Row)
where
    Device: Runs<S>,
    S::Key: Word,
{
    row.expect(what, equal("how many", set.len(), right.len()));
    if let Some(mut keys) = row.attempt(what, set.to_keys()) {
        keys.sort_unstable();
        row.expect(what, same("keys", &keys, &Vec::from_iter(right.iter().copied())));
    }
}

/// Some keys of the set, and about as many new keys, as far as they fit.
fn halves<S: Scheme>(case: &Case<'_, S>, right: &BTreeSet<S::Key>) -> (Vec<S::Key>, Vec<S::Key>)
where
    Device: Runs<S>,
    S::Key: Word,
{
    let some: Vec<S::Key> = right.iter().copied().step_by(2).collect();
    // A table whose size was requested may be full.
    let room = if case.run.size.is_fixed() { 0 } else { case.scheme.limits().pairs - right.len() as u64 };
    let absent = &case.data.columns.absent;
    let most = usize::try_from(room).unwrap_or(usize::MAX).min(right.len()).min(absent.len());
    (some, absent[..most].to_vec())
}

/// Removes and inserts keys, some of them twice.
fn changes<S: Scheme>(case: &Case<'_, S>, set: &HashSet<Device, S>, right: &BTreeSet<S::Key>, row: &mut Row)
where
    Device: Runs<S>,
    S::Key: Word,
{
    let Some(mut changed) = row.attempt("copy", set.to_backend(set.backend())) else { return };
    let (some, absent) = halves(case, right);
    let gone: Vec<S::Key> = some.iter().chain(&absent).chain(&some).copied().collect();
    if let Some(removed) = row.attempt("remove", changed.remove(&gone)) {
        row.expect("remove", equal("how many", removed, some.len()));
    }
    let mut left: BTreeSet<S::Key> = right.iter().copied().filter(|key| some.binary_search(key).is_err()).collect();
    has_keys(&changed, &left, "keys after a removal", row);
    if row.attempt("compact", changed.compact()).is_none() {
        return;
    }
    let come: Vec<S::Key> = absent.iter().chain(&left).chain(&absent).copied().collect();
    if let Some(new) = row.attempt("insert", changed.insert(&come)) {
        row.expect("insert", equal("how many", new, absent.len()));
    }
    left.extend(&absent);
    has_keys(&changed, &left, "keys after an insertion", row);
}

/// Checks operations on this set and another, which has half of its keys.
fn algebra<S: Scheme>(case: &Case<'_, S>, set: &HashSet<Device, S>, right: &BTreeSet<S::Key>, row: &mut Row)
where
    Device: Runs<S>,
    S::Key: Word,
{
    let (some, absent) = halves(case, right);
    let of = |keys: &[S::Key]| sized(HashSet::builder(case.scheme.clone()), case.run).build(set.backend(), keys);
    let both: Vec<S::Key> = some.iter().chain(&absent).copied().collect();
    let Some(other) = row.attempt("another set", of(&both)) else { return };
    let there = BTreeSet::from_iter(both);
    for (what, made, right_one) in [
        ("union", set.union(&other), right | &there),
        ("intersection", set.intersection(&other), right & &there),
        ("difference", set.difference(&other), right - &there),
        ("symmetric difference", set.symmetric_difference(&other), right ^ &there),
    ] {
        if let Some(made) = row.attempt(what, made) {
            has_keys(&made, &right_one, what, row);
        }
    }
    for (what, said, right_one) in [
        ("is a subset", set.is_subset(&other), right.is_subset(&there)),
        ("is disjoint", set.is_disjoint(&other), right.is_disjoint(&there)),
        ("is a subset of itself", set.is_subset(set), true),
    ] {
        if let Some(said) = row.attempt(what, said) {
            row.expect(what, equal("it", said, right_one));
        }
    }
}
