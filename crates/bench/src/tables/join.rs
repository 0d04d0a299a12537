//! Joins of a left column, which has each key once and as many absent keys, with rows with duplicate keys.

use koel::backend::{HashBackend, Runs};
use koel::device::Any;
use koel::{JoinIndex, JoinKind, JoinRows, NO_ROW, Scheme};

use super::sized;
use super::timing::{Doing, Timing, same};
use crate::data::Copies;
use crate::wrong;
use koel_cli::failure::Result;

pub(super) fn measure<S: Scheme<Key = u32, Value = u32>>(timing: &mut Timing<'_>, scheme: S) -> Result<()>
where
    Any: Runs<S>,
{
    let (device, columns) = (timing.device, timing.columns);
    let builder = sized!(JoinIndex::builder(scheme), timing.args);
    let check = |index: &JoinIndex<Any, S>| match (index.len(), index.keys_len()) {
        (rows, keys) if (rows, keys) == (columns.keys.len(), columns.unique.len()) => Ok(()),
        (rows, keys) => Err(wrong("an index", format!("it has {rows} rows of {keys} keys"))),
    };
    let doing = Doing::build("index", columns.keys.len());
    let right = device.upload(&columns.keys)?;
    let index = timing.on_device(doing, || builder.build_on(device, &right), check)?;
    timing.loaded(index.table().load_factor());
    drop((index, right));
    let index = timing.end_to_end(doing, || builder.build(device, &columns.keys), check)?;

    let left = columns.each_once(true);
    let there = device.upload(&left)?;
    for kind in JoinKind::ALL {
        let (left_rows, right_rows) = result(columns, &left, kind);
        // Rows of the left side or of the result, whichever are more.
        let len = left_rows.len();
        let doing = Doing::answers(kind.name(), None, len.max(left.len()));
        let work = || index.join_on(&there, kind)?.chunk_on(0, len + 1);
        timing.on_device(doing, work, |rows| {
            same("left rows", &device.download(&rows.left)?, &left_rows)?;
            same("right rows", &device.download(&rows.right)?, &right_rows)
        })?;
        timing.end_to_end(
            doing,
            || index.join(&left, kind)?.collect(),
            |rows: &JoinRows| {
                same("left rows", &rows.left, &left_rows)?;
                same("right rows", &rows.right, &right_rows)
            },
        )?;
    }
    Ok(())
}

/// The rows of the expected result, in order.
pub(super) fn result(columns: &Copies, left: &[u32], kind: JoinKind) -> (Vec<u32>, Vec<u32>) {
    let mut rows = (Vec::new(), Vec::new());
    for (row, &key) in (0u32..).zip(left) {
        let matches = columns.find(key).map_or(&[][..], |number| columns.rows_of(number));
        match kind {
            JoinKind::Semi if !matches.is_empty() => rows.0.push(row),
            JoinKind::Anti if matches.is_empty() => rows.0.push(row),
            JoinKind::Semi | JoinKind::Anti => {}
            _ => {
                let missing: &[u32] = if matches.is_empty() && kind.keeps_left() { &[NO_ROW] } else { &[] };
                rows.1.extend(matches.iter().chain(missing));
                rows.0.resize(rows.1.len(), row);
            }
        }
    }
    if kind.keeps_right() {
        let mut met = vec![false; columns.keys.len()];
        rows.1.iter().filter(|&&row| row != NO_ROW).for_each(|&row| met[row as usize] = true);
        rows.1.extend((0u32..).zip(met).filter(|(_, met)| !met).map(|(row, _)| row));
        rows.0.resize(rows.1.len(), NO_ROW);
    }
    rows
}
