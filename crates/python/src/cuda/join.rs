//! `koel.join` and `koel.Index.join` for CUDA arrays.

use koel::device::AnyBuffer;
use koel::join::JoinRowsOn;
use koel::opencl::cuda::Cuda;
use koel::scheme::Scheme;
use koel::{Any, ColumnIndex, JoinIndex, JoinKind, Runs};
use pyo3::prelude::*;

use super::keys::{self, with_words};
use super::{Array, Keys, on_gpu};
use crate::error::Result;
use crate::join::check_len;

/// Returns the row numbers of both sides, or of the left side only.
pub(crate) fn join(
    py: Python<'_>,
    (left, right): (&Keys, &Keys),
    kind: JoinKind,
    device: &str,
) -> PyResult<Vec<Array>> {
    let columns: Vec<_> = left.placed().chain(right.placed()).collect();
    on_gpu(py, device, &columns, |cuda, device| {
        with_words!(cuda, right, |words, K| {
            let index = ColumnIndex::build_on(device, &words)?;
            drop(words);
            let join = index.join_on(&left.words::<K>(cuda)?, kind)?;
            check_len(join.len())?;
            arrays(cuda, &join.collect_on()?, kind)
        })
    })
}

/// Returns the row numbers of a join with an index.
pub(crate) fn joined<S: Scheme<Value = u32>>(
    cuda: &Cuda,
    index: &JoinIndex<Any, S>,
    left: &AnyBuffer<S::Key>,
    kind: JoinKind,
) -> Result<Vec<Array>>
where
    Any: Runs<S>,
{
    let join = index.join_on(left, kind)?;
    check_len(join.len())?;
    arrays(cuda, &join.collect_on()?, kind)
}

fn arrays(cuda: &Cuda, rows: &JoinRowsOn<Any>, kind: JoinKind) -> Result<Vec<Array>> {
    let mut sides = vec![keys::rows(cuda, &rows.left)?];
    if kind.has_right() {
        sides.push(keys::rows(cuda, &rows.right)?);
    }
    Ok(sides)
}
