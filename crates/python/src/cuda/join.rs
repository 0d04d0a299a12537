//! `koel.join` of CUDA arrays, and the joins of `koel.Index`.

use koel::device::AnyBuffer;
use koel::opencl::cuda::Cuda;
use koel::scheme::{Key, Scheme};
use koel::{Any, JoinIndex, JoinKind, Runs};
use pyo3::prelude::*;

use super::keys::{self, with_words};
use super::{Array, Keys, on_gpu};
use crate::error::Result;
use crate::join::check_len;

/// The rows of both sides, or of the left one only.
pub(crate) fn join(
    py: Python<'_>,
    (left, right): (&Keys, &Keys),
    kind: JoinKind,
    device: &str,
) -> PyResult<Vec<Array>> {
    let columns: Vec<_> = left.placed().chain(right.placed()).collect();
    on_gpu(py, device, &columns, |cuda, device| {
        with_words!(cuda, right, |words, K| {
            let index = JoinIndex::builder(<K as Key>::Rows::default()).build_on(device, &words)?;
            drop(words);
            joined(cuda, &index, &left.words::<K>(cuda)?, kind)
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
