//! Verifies joins of two key columns against nested loops over an ordered map.

use std::time::Duration;

use koel::backend::{HashBackend, Runs};
use koel::{JoinIndex, JoinKind, JoinRows, NO_ROW, Scheme};

use super::model::{Model, equal, same};
use super::{Case, Device, Subject, sized, timed};
use crate::number::Word;
use crate::verify::row::Row;

pub(super) struct Joins;

/// Rows of a piece of a streamed result.
const PIECE: usize = 1009;

impl<S: Scheme<Value = u32>> Subject<S> for Joins
where
    Device: Runs<S>,
    S::Key: Word,
{
    const TABLE: &'static str = "join";
    type Built = JoinIndex<Device, S>;

    fn left_out(&self, case: &Case<'_, S>) -> Option<String> {
        case.too_narrow()
    }

    fn build(&self, case: &Case<'_, S>, device: &Device) -> koel::Result<Self::Built> {
        sized(JoinIndex::builder(case.scheme.clone()), case.run).build(device, &case.data.columns.keys)
    }

    fn check(&self, case: &Case<'_, S>, index: &Self::Built, row: &mut Row) -> Option<(usize, Duration)> {
        row.restarts = index.table().restarts();
        row.expect("audit", index.audit().map(drop).map_err(|error| error.to_string()));
        let mut first = None;
        for kind in JoinKind::ALL {
            let answered = joins(case, index, kind, kind.name(), row);
            first = first.or(answered);
        }
        past_32_bits(case, index, row);
        first
    }

    /// The digest of all results, which are equal on all devices and for all schemes and kinds.
    fn digest(&self, case: &Case<'_, S>, index: &Self::Built) -> Option<koel::Result<String>> {
        let left = left_column(case);
        let all = || {
            let mut hasher = blake3::Hasher::new();
            for kind in JoinKind::ALL {
                let JoinRows { left, right, .. } = index.join(&left, kind)?.collect()?;
                hasher.update(bytemuck::cast_slice(&left)).update(bytemuck::cast_slice(&right));
            }
            Ok(hasher.finalize().to_string())
        };
        Some(all())
    }

    fn elsewhere(&self, case: &Case<'_, S>, index: &Self::Built, device: &Device, what: &str, row: &mut Row) {
        if let Some(there) = row.attempt(what, index.to_backend(device)) {
            joins(case, &there, JoinKind::Full, what, row);
        }
    }
}

/// The left column: keys of the right column, some of them twice, and absent keys. Heavy keys occur only a few times,
/// so that the result is not much longer than the columns.
fn left_column<S: Scheme>(case: &Case<'_, S>) -> Vec<S::Key>
where
    S::Key: Word,
{
    let (columns, model) = (&case.data.columns, &case.data.model);
    let again = columns.keys.iter().filter(|&&key| model.of(key).len() < 100).take(1000);
    let some = columns.absent.iter().chain(&columns.wide).chain(again);
    model.first_seen.iter().chain(some).copied().collect()
}

/// The rows of the result: left rows in ascending order, each with its right rows in ascending order, then those of the
/// `rights` right rows that match no left row.
fn right_result<K: Word>(model: &Model<K>, rights: usize, left: &[K], kind: JoinKind) -> (Vec<u32>, Vec<u32>) {
    let mut rows = (Vec::new(), Vec::new());
    let mut met = vec![false; rights];
    for (number, &key) in (0u32..).zip(left) {
        let matches = model.of(key);
        match kind {
            JoinKind::Semi | JoinKind::Anti => {
                if matches.is_empty() == (kind == JoinKind::Anti) {
                    rows.0.push(number);
                }
            }
            _ => {
                for &right in matches {
                    rows.0.push(number);
                    rows.1.push(right);
                    met[right as usize] = true;
                }
                if matches.is_empty() && kind.keeps_left() {
                    rows.0.push(number);
                    rows.1.push(NO_ROW);
                }
            }
        }
    }
    if kind.keeps_right() {
        rows.1.extend((0u32..).zip(met).filter(|(_, met)| !met).map(|(right, _)| right));
        rows.0.resize(rows.1.len(), NO_ROW);
    }
    rows
}

/// Checks one join, with the result at once and in pieces.
fn joins<S: Scheme<Value = u32>>(
    case: &Case<'_, S>,
    index: &JoinIndex<Device, S>,
    kind: JoinKind,
    what: &str,
    row: &mut Row,
) -> Option<(usize, Duration)>
where
    Device: Runs<S>,
    S::Key: Word,
{
    let left = left_column(case);
    let right = right_result(&case.data.model, case.data.columns.keys.len(), &left, kind);
    let (collected, time) = timed(|| index.join(&left, kind).and_then(|join| join.collect()));
    let rows = row.attempt(what, collected)?;
    let compared =
        |rows: &(Vec<u32>, Vec<u32>)| same("left rows", &rows.0, &right.0).and(same("right rows", &rows.1, &right.1));
    row.expect(what, compared(&(rows.left, rows.right)));
    let what = format!("{what}, in pieces");
    let join = row.attempt(&what, index.join(&left, kind))?;
    row.expect(&what, equal("rows", join.len(), right.0.len() as u64));
    let mut streamed = (Vec::new(), Vec::new());
    for piece in join.chunks(PIECE) {
        let piece = row.attempt(&what, piece)?;
        streamed.0.extend(piece.left);
        streamed.1.extend(piece.right);
    }
    row.expect(&what, compared(&streamed));
    Some((right.0.len(), time))
}

/// Checks a join with more than 2^32 rows: their number, and the last of them.
fn past_32_bits<S: Scheme<Value = u32>>(case: &Case<'_, S>, index: &JoinIndex<Device, S>, row: &mut Row)
where
    Device: Runs<S>,
    S::Key: Word,
{
    let Some((left, total)) = case.data.model.past_32_bits() else { return };
    let what = "a join past 2^32";
    let Some(join) = row.attempt(what, index.join(&left, JoinKind::Inner)) else { return };
    row.expect(what, equal("rows", join.len(), total));
    let of_key = case.data.model.of(left[0]);
    let last = of_key.len().min(PIECE);
    let device = index.backend();
    let piece = join.chunk_on(total - last as u64, last);
    let piece = piece.and_then(|piece| Ok((device.download(&piece.left)?, device.download(&piece.right)?)));
    if let Some((left_rows, right_rows)) = row.attempt(what, piece) {
        let right = &of_key[of_key.len() - last..];
        let of_left = vec![left.len() as u32 - 1; last];
        row.expect(what, same("left rows", &left_rows, &of_left).and(same("right rows", &right_rows, right)));
    }
}
