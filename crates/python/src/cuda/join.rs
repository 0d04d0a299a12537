//! `koel.join` of CUDA arrays, and the joins of `koel.Index`.

use koel::device::AnyBuffer;
use koel::opencl::cuda::Cuda;
use koel::scheme::{Key, Scheme};
use koel::{Any, JoinIndex, JoinKind, Runs};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use super::keys::{self, Imported, with_words};
use super::{Array, Owned, on_gpu};
use crate::error::Result;
use crate::join::check_len;

/// The rows of both sides, or of the left one only.
pub(crate) fn join(
    py: Python<'_>,
    ((left, _left_owner), (right, _right_owner)): &(Owned<'_>, Owned<'_>),
    kind: JoinKind,
    device: &str,
) -> PyResult<Vec<Array>> {
    if left.of != right.of {
        let [left, right] = [left, right].map(|side| format!("{} has {}", side.name, side.of.name()));
        let text = format!("{left} and {right}: give one type on the GPU");
        return Err(PyTypeError::new_err(text));
    }
    on_gpu(py, device, &[left, right], |cuda, device| {
        with_words!(cuda, right, |words, K| {
            let index = JoinIndex::builder(<K as Key>::Rows::default()).build_on(device, &words)?;
            drop(words);
            joined(cuda, &index, &Imported::of(cuda, left)?.words::<K>(right.of, 0)?, kind)
        })
    })
}

/// The rows of a join with an index.
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
    let rows = join.chunk_on(0, check_len(join.len())?)?;
    let mut sides = vec![keys::rows(cuda, &rows.left)?];
    if kind.has_right() {
        sides.push(keys::rows(cuda, &rows.right)?);
    }
    Ok(sides)
}
