//! Joins, which return row numbers of both sides.

use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_array::{Array, UInt32Array};
use arrow_select::concat::concat;
use koel::{Error, JoinKind};
use koel_arrow::{Joined, Keys, NullEquality, RightKeys, check_types};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::device::for_columns;
use crate::error::{Failure, Result};
use crate::input::{GivenKeys, Nan, unify_types};
use crate::memory;
use crate::output::{array, numbers};
use crate::run::{PIECE, Stop, detached_on};

/// Parses `how`: the kind of a join, and whether its sides are swapped.
pub(crate) fn kind(how: &str) -> PyResult<(JoinKind, bool)> {
    Ok(match how {
        "inner" => (JoinKind::Inner, false),
        "left" => (JoinKind::Left, false),
        // In the order of the right rows, as in pandas: a left join with swapped sides.
        "right" => (JoinKind::Left, true),
        "outer" | "full" => (JoinKind::Full, false),
        "semi" => (JoinKind::Semi, false),
        "anti" => (JoinKind::Anti, false),
        _ => {
            let kinds = "\"inner\", \"left\", \"right\", \"outer\", \"semi\" or \"anti\"";
            return Err(PyValueError::new_err(format!("how is `{}`: pass {kinds}", koel_arrow::shown_name(how))));
        }
    })
}

/// Joins two sides: returns the pairs of rows with equal keys, ordered by left row, then by
/// right row.
///
/// Args:
///     left: a NumPy array of one dimension, an Arrow column, a list, or a tuple of columns.
///     right: the other keys, in the same form; preferably the smaller side.
///     how: "inner"; "left", which keeps all left rows; "right", which keeps all right rows, in
///         their order; "outer", which keeps all rows, with unmatched right rows last; "semi"
///         and "anti", which return the left rows with or without a match, respectively.
///     nulls_equal: whether missing values (NaT, null) equal each other, as in `pandas.merge`.
///         In SQL and in the command `koel join` they do not. NaN always equals NaN.
///     device: "auto", "cpu", "opencl:0", "opencl:NAME".
///
/// Returns:
///     Row numbers of both sides as int64 arrays (`koel.Array`s on the same GPU if both sides
///     are integers in CUDA memory), for `take` or `iloc`. The number is -1 where a row has no
///     match. For semi and anti joins, the second item is None. The result and its order are
///     the same on every device, thread count and run.
///
/// >>> import koel, numpy as np
/// >>> koel.join(np.array([10, 20, 30]), np.array([30, 10, 30]))
/// (array([0, 2, 2]), array([1, 0, 2]))
/// >>> koel.join(np.array([10, 20, 30]), np.array([30, 10, 30]), "left")
/// (array([0, 1, 2, 2]), array([ 1, -1,  0,  2]))
///
/// >>> import torch  # doctest: +SKIP
/// >>> left, right = torch.tensor([10, 20], device="cuda"), torch.tensor([20], device="cuda")  # doctest: +SKIP
/// >>> rows, matches = koel.join(left, right)  # doctest: +SKIP
/// >>> torch.from_dlpack(rows)  # doctest: +SKIP
/// tensor([1], device='cuda:0')
#[pyfunction]
#[pyo3(signature = (left, right, how="inner", *, nulls_equal=true, device="auto"))]
pub(crate) fn join<'py>(
    left: &Bound<'py, PyAny>,
    right: &Bound<'py, PyAny>,
    how: &str,
    nulls_equal: bool,
    device: &str,
) -> PyResult<Bound<'py, PyTuple>> {
    let py = left.py();
    let (how, is_swapped) = kind(how)?;
    #[cfg(feature = "opencl")]
    if let Some(((left, _left_owners), (right, _right_owners))) =
        crate::cuda::key_pair(("left", left), ("right", right))?
    {
        let sides = if is_swapped { (&right, &left) } else { (&left, &right) };
        let mut sides = crate::cuda::join(py, sides, how, device)?;
        if is_swapped {
            sides.reverse();
        }
        return both_sides(py, sides);
    }
    let (mut left, mut right) = (GivenKeys::of("left", left, Nan::Value)?, GivenKeys::of("right", right, Nan::Value)?);
    unify_types(&mut left, &mut right)?;
    let (left_keys, right_keys) = (left.keys()?, right.keys()?);
    let nulls = if nulls_equal { NullEquality::NullEquals } else { NullEquality::NothingEquals };
    let open = || {
        check_types(&left_keys, &right_keys)?;
        for_columns(device, left_keys.columns().iter().chain(right_keys.columns()))
    };
    let sides = detached_on(py, open, |device, stop| {
        let (mut queried, mut index) = (&left_keys, &right_keys);
        if is_swapped {
            std::mem::swap(&mut queried, &mut index);
        }
        let rows = rows(&RightKeys::new(&device, index, nulls)?, queried, how, stop)?;
        let (left, right) = (Some(rows.left), rows.right);
        let (left, right) = if is_swapped { (right, left) } else { (left, right) };
        Ok([left, right].map(|rows| rows.map(|rows| numbers(&rows))))
    })?;
    PyTuple::new(py, sides.map(|rows| rows.map(|rows| array(py, rows))))
}

/// Returns the rows of a join. Long results are computed in pieces, and cancellation is checked between them.
fn rows(index: &RightKeys, left: &Keys, how: JoinKind, stop: &Stop) -> Result<Joined> {
    let mut pieces = Vec::new();
    index.join_pieces::<Failure>(left, how, PIECE, check_result, |piece| {
        pieces.push(piece);
        stop.check()
    })?;
    let concatenated = |parts: Vec<&UInt32Array>| -> Result<UInt32Array> {
        if let [one] = parts[..] {
            return Ok(one.clone());
        }
        if parts.is_empty() {
            return Ok(UInt32Array::new_null(0));
        }
        let parts: Vec<&dyn Array> = parts.into_iter().map(|part| part as &dyn Array).collect();
        let whole = concat(&parts).map_err(koel_arrow::Error::from)?;
        Ok(whole.as_primitive::<UInt32Type>().clone())
    };
    let left = concatenated(pieces.iter().map(|piece| &piece.left).collect())?;
    let right = how.has_right().then(|| concatenated(pieces.iter().filter_map(|piece| piece.right.as_ref()).collect()));
    Ok(Joined { left, right: right.transpose()? })
}

/// Returns the sides as a tuple of two; the second is None if there is only one.
#[cfg(feature = "opencl")]
pub(crate) fn both_sides(py: Python<'_>, sides: Vec<crate::cuda::Array>) -> PyResult<Bound<'_, PyTuple>> {
    let mut sides = sides.into_iter();
    (sides.next(), sides.next()).into_pyobject(py)
}

/// Rejects a result that is too long for a column or for the available memory. Must be called before it is computed.
pub(crate) fn check_result(rows: u64) -> Result<()> {
    check_len(rows)?;
    // Row numbers of both sides: in pieces, concatenated, and as int64.
    memory::check(rows * 40)
}

/// Rejects results that are too long for a column.
pub(crate) fn check_len(rows: u64) -> Result<()> {
    let most = u64::from(u32::MAX) - 1;
    if rows <= most {
        return Ok(());
    }
    Err(Error::TooLarge { what: "rows of a join (join its left side in parts)", requested: rows, most }.into())
}
