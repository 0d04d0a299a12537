//! `koel.unique`, `koel.factorize` and `koel.get_indexer` of CUDA arrays.

use koel::device::AnyBuffer;
use koel::group::FirstRows;
use koel::group::wide::{aggregate_on, factorize_on, unique_on};
use koel::opencl::cuda::Cuda;
use koel::scheme::Key;
use koel::{Aggregate, Any, DeviceBuffer as _, HashBackend as _, IdOrder, Runs};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use super::keys::{self, Imported, with_words};
use super::{Array, GpuColumn, Owned, on_gpu};
use crate::error::Result;

/// The columns that `koel.unique` returns in addition to the values.
#[derive(Clone, Copy)]
pub(crate) struct Options {
    pub(crate) index: bool,
    pub(crate) inverse: bool,
    pub(crate) counts: bool,
}

/// The distinct values, and what the options request.
pub(crate) fn unique(
    py: Python<'_>,
    (column, _owner): &Owned<'_>,
    options: Options,
    order: IdOrder,
    device: &str,
) -> PyResult<Vec<Array>> {
    on_gpu(py, device, &[column], |cuda, device| {
        with_words!(cuda, column, |words, K| distinct::<K>(cuda, device, &words, column, options, order))
    })
}

fn distinct<K: Key>(
    cuda: &Cuda,
    device: &Any,
    words: &AnyBuffer<K>,
    column: &GpuColumn,
    options: Options,
    order: IdOrder,
) -> Result<Vec<Array>>
where
    Any: Runs<K::Rows>,
{
    let Options { index, inverse, counts } = options;
    if !(index || inverse || counts) {
        return Ok(vec![keys::keys(cuda, &unique_on::<Any, K>(device, words, order)?, column.of)?]);
    }
    let (values, ids) = factorize_on::<Any, K>(device, words, order)?;
    let mut results = vec![keys::keys(cuda, &values, column.of)?];
    // The first row of a value is the least of its row numbers.
    let rows = if index { device.iota(ids.len())? } else { device.filled(0, 0)? };
    let wanted: Vec<Aggregate> = [(index, Aggregate::Min), (counts, Aggregate::Count)]
        .into_iter()
        .filter_map(|(is, of)| is.then_some(of))
        .collect();
    let groups = aggregate_on::<Any, u32>(device, &ids, values.len(), &rows, &wanted)?;
    if index {
        results.push(keys::rows(cuda, &groups.mins)?);
    }
    if inverse {
        results.push(keys::rows(cuda, &ids)?);
    }
    if counts {
        results.push(keys::rows(cuda, &groups.counts)?);
    }
    Ok(results)
}

/// The number of each row's value, and the values.
pub(crate) fn factorize(
    py: Python<'_>,
    (column, _owner): &Owned<'_>,
    order: IdOrder,
    device: &str,
) -> PyResult<Vec<Array>> {
    on_gpu(py, device, &[column], |cuda, device| {
        with_words!(cuda, column, |words, K| {
            let (values, ids) = factorize_on::<Any, K>(device, &words, order)?;
            Ok(vec![keys::rows(cuda, &ids)?, keys::keys(cuda, &values, column.of)?])
        })
    })
}

/// The row of the index with each key; `check` refuses an index whose rows have these first rows.
pub(crate) fn indexer(
    py: Python<'_>,
    ((index, _index_owner), (column, _owner)): &(Owned<'_>, Owned<'_>),
    device: &str,
    check: impl Fn(&[u32]) -> Result<()> + Send + Sync,
) -> PyResult<Array> {
    if index.of != column.of {
        let (of, other) = (index.of.name(), column.of.name());
        return Err(PyTypeError::new_err(format!("index has {of} and keys {other}: give one type on the GPU")));
    }
    let mut results = on_gpu(py, device, &[index, column], |cuda, device| {
        with_words!(cuda, index, |words, K| {
            let first = FirstRows::<Any, K>::build_on(device, &words)?;
            if first.distinct_len() < first.len() {
                check(&first.rows()?)?;
            }
            let queries = Imported::of(cuda, column)?.words::<K>(index.of, 0)?;
            Ok(vec![keys::rows(cuda, &first.find_on(&queries)?)?])
        })
    })?;
    Ok(results.remove(0))
}
