//! Verifies multivalue tables: all values of each key, in the order of the rows.

use std::time::Duration;

use koel::backend::{HashBackend, Runs};
use koel::{Error, Kind, MultiTable, Scheme};

use super::model::{equal, same};
use super::{Case, Device, Subject, sized, timed};
use crate::answers::POISON;
use crate::number::Word;
use crate::verify::row::Row;

pub(super) struct Multi;

/// Values of a piece of a streamed list.
const PIECE: usize = 1009;

impl<S: Scheme<Value = u32>> Subject<S> for Multi
where
    Device: Runs<S>,
    S::Key: Word,
{
    const TABLE: &'static str = "multi";
    type Built = MultiTable<Device, S>;

    fn left_out(&self, case: &Case<'_, S>) -> Option<String> {
        case.too_narrow()
    }

    fn build(&self, case: &Case<'_, S>, device: &Device) -> koel::Result<Self::Built> {
        let columns = &case.data.columns;
        sized(MultiTable::builder(case.scheme.clone()), case.run).build(device, &columns.keys, &columns.values)
    }

    fn check(&self, case: &Case<'_, S>, table: &Self::Built, row: &mut Row) -> Option<(usize, Duration)> {
        row.restarts = table.table().restarts();
        row.expect("audit", table.audit().map(drop).map_err(|error| error.to_string()));
        let queried = case.data.columns.queried(&case.data.model.first_seen);
        let answered = ranges(case, table, &queried, "get", row);
        counts(case, table, &queried, row);
        retrieves(case, table, row);
        past_32_bits(case, table, row);
        removes(case, table, row);
        answered
    }

    fn digest(&self, case: &Case<'_, S>, table: &Self::Built) -> Option<koel::Result<String>> {
        (case.kind == Kind::Canonical).then(|| table.digest().map(|digest| digest.to_string()))
    }

    fn elsewhere(&self, case: &Case<'_, S>, table: &Self::Built, device: &Device, what: &str, row: &mut Row) {
        if let Some(there) = row.attempt(what, table.to_backend(device)) {
            ranges(case, &there, &case.data.columns.queried(&case.data.model.first_seen), what, row);
        }
    }
}

/// The values of a key, in the order of its rows.
fn values_of<S: Scheme>(case: &Case<'_, S>, key: S::Key) -> Vec<u32>
where
    S::Key: Word,
{
    case.data.model.of(key).iter().map(|&row| case.data.columns.values[row as usize]).collect()
}

/// Checks `get`, which returns ranges of `values`.
fn ranges<S: Scheme<Value = u32>>(
    case: &Case<'_, S>,
    table: &MultiTable<Device, S>,
    queried: &[S::Key],
    what: &str,
    row: &mut Row,
) -> Option<(usize, Duration)>
where
    Device: Runs<S>,
    S::Key: Word,
{
    let values = row.attempt(what, table.values())?;
    let (ranges, time) = timed(|| table.get(queried));
    let ranges = row.attempt(what, ranges)?;
    let got: Vec<_> = ranges.into_iter().map(|range| values.get(range).map(<[u32]>::to_vec)).collect();
    let right: Vec<_> = queried.iter().map(|&key| Some(values_of(case, key))).collect();
    // Lists may be long, so only the key of a wrong one is reported.
    let wrong = got.iter().zip(&right).position(|(got, right)| got != right);
    let outcome = match wrong {
        _ if got.len() != queried.len() => Err(format!("{} answers to {} queries", got.len(), queried.len())),
        Some(i) => Err(format!(
            "the values of key {} are wrong: {} right ones",
            queried[i],
            case.data.model.of(queried[i]).len()
        )),
        None => Ok(()),
    };
    row.expect(what, outcome);
    Some((queried.len(), time))
}

fn counts<S: Scheme<Value = u32>>(case: &Case<'_, S>, table: &MultiTable<Device, S>, queried: &[S::Key], row: &mut Row)
where
    Device: Runs<S>,
    S::Key: Word,
{
    let model = &case.data.model;
    row.expect("len", equal("pairs", table.len(), case.data.columns.keys.len()));
    row.expect("keys_len", equal("keys", table.keys_len(), model.rows.len()));
    if let Some(counts) = row.attempt("count", table.count(queried)) {
        let right: Vec<_> = queried.iter().map(|&key| model.of(key).len() as u32).collect();
        row.expect("count", same("counts", &counts, &right));
    }
}

/// Retrieves values as one list, into slices that are too short and long enough, and in pieces.
fn retrieves<S: Scheme<Value = u32>>(case: &Case<'_, S>, table: &MultiTable<Device, S>, row: &mut Row)
where
    Device: Runs<S>,
    S::Key: Word,
{
    // Absent keys, and each key once: heavy keys have too many values to be looked up often.
    let queried: Vec<S::Key> = case.data.columns.absent.iter().chain(&case.data.model.first_seen).copied().collect();
    let (mut offsets, mut values) = (vec![0], Vec::new());
    for &key in &queried {
        values.extend(values_of(case, key));
        offsets.push(values.len() as u64);
    }
    if let Some(got) = row.attempt("retrieve", table.retrieve(&queried)) {
        row.expect("retrieve", same("offsets", &got.offsets, &offsets).and(same("values", &got.values, &values)));
    }
    let mut into = (vec![u64::MAX; offsets.len()], vec![POISON; values.len() + 3]);
    if let Some(len) = row.attempt("retrieve_into", table.retrieve_into(&queried, &mut into.0, &mut into.1)) {
        let (filled, behind) = into.1.split_at(values.len());
        let right = same("offsets", &into.0, &offsets).and(same("values", filled, &values));
        let right = right.and(same("behind the values", behind, &[POISON; 3]));
        row.expect("retrieve_into", right.and(equal("values", len, values.len() as u64)));
    }
    if !values.is_empty() {
        let mut short = (vec![u64::MAX; offsets.len()], vec![POISON; values.len() - 1]);
        let outcome = match table.retrieve_into(&queried, &mut short.0, &mut short.1) {
            Err(Error::TooShort { needed, .. }) => equal("the length needed", needed, values.len() as u64),
            Err(error) => Err(format!("it should say what length is needed, and says: {error}")),
            Ok(_) => Err("it went through".into()),
        };
        let untouched = short.1.iter().all(|&value| value == POISON);
        let outcome = outcome.and(if untouched { Ok(()) } else { Err("something was written to it".into()) });
        row.expect("retrieve_into a slice that is too short", outcome);
    }
    if let Some(chunks) = row.attempt("retrieve_chunks", table.retrieve_chunks(&queried, PIECE)) {
        let (mut queries, mut streamed) = (Vec::new(), Vec::new());
        for chunk in chunks {
            let Some(chunk) = row.attempt("a piece", chunk) else { return };
            queries.extend(chunk.queries);
            streamed.extend(chunk.values);
        }
        let runs = (0u32..).zip(offsets.windows(2));
        let right: Vec<_> = runs.flat_map(|(i, run)| (run[0]..run[1]).map(move |_| i)).collect();
        row.expect("retrieve_chunks", same("queries", &queries, &right).and(same("values", &streamed, &values)));
    }
}

/// Looks up the heaviest key so often that there are more than 2^32 values: `retrieve` must return an error
/// immediately, and `retrieve_chunks` their number.
fn past_32_bits<S: Scheme<Value = u32>>(case: &Case<'_, S>, table: &MultiTable<Device, S>, row: &mut Row)
where
    Device: Runs<S>,
    S::Key: Word,
{
    let Some((queried, total)) = case.data.model.past_32_bits() else { return };
    let refused = match table.retrieve(&queried) {
        Err(Error::TooLarge { .. }) => Ok(()),
        Err(error) => Err(format!("it should be refused as too large, and says: {error}")),
        Ok(_) => Err("more than 2^32 values were given at once".into()),
    };
    row.expect("retrieve past 2^32", refused);
    if let Some(chunks) = row.attempt("retrieve_chunks past 2^32", table.retrieve_chunks(&queried, PIECE)) {
        row.expect("retrieve_chunks past 2^32", equal("values", chunks.total(), total));
    }
}

/// Removes half of the keys with all their values. The result must be the table of the remaining rows.
fn removes<S: Scheme<Value = u32>>(case: &Case<'_, S>, table: &MultiTable<Device, S>, row: &mut Row)
where
    Device: Runs<S>,
    S::Key: Word,
{
    let columns = &case.data.columns;
    let Some(mut rest) = row.attempt("copy", table.to_backend(table.backend())) else { return };
    let gone: Vec<S::Key> = case.data.model.rows.keys().copied().step_by(2).collect();
    let queried: Vec<S::Key> = gone.iter().chain(&columns.absent).chain(&gone).copied().collect();
    let Some(removed) = row.attempt("remove", rest.remove(&queried)) else { return };
    let pairs: usize = gone.iter().map(|&key| case.data.model.of(key).len()).sum();
    row.expect("remove", equal("pairs", removed, pairs));
    let stays = |key: &S::Key| gone.binary_search(key).is_err();
    let kept = columns.keys.iter().zip(&columns.values).filter(|(key, _)| stays(key));
    let (keys, values): (Vec<S::Key>, Vec<u32>) = kept.map(|(&key, &value)| (key, value)).unzip();
    let again = sized(MultiTable::builder(case.scheme.clone()), case.run).build(table.backend(), &keys, &values);
    let Some(again) = row.attempt("a table of the rest", again) else { return };
    let outcome = || {
        let said = |table: &MultiTable<Device, S>| Ok::<_, Error>((table.to_pairs()?, table.starts()?));
        let (of_rest, of_again) = (said(&rest)?, said(&again)?);
        let mut right: Vec<_> = keys.iter().copied().zip(values.iter().copied()).collect();
        right.sort_by_key(|&(key, _)| key);
        let pairs = same("pairs", &of_rest.0, &right).and(same("starts", &of_rest.1, &of_again.1));
        let digests = case.kind == Kind::Classic || rest.digest()? == again.digest()?;
        rest.backend().finish()?;
        Ok(pairs.and(if digests { Ok(()) } else { Err("its digest is not that of a table of the rest".into()) }))
    };
    if let Some(outcome) = row.attempt("what is left", outcome().map_err(|error: Error| error)) {
        row.expect("what is left", outcome);
    }
}
