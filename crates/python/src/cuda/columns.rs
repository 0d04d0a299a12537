//! `koel.unique`, `koel.factorize` and `koel.get_indexer` for CUDA arrays.

use koel::device::AnyBuffer;
use koel::group::FirstRows;
use koel::group::wide::{factorize_on, group_by_on, group_rows_on, unique_on};
use koel::opencl::cuda::Cuda;
use koel::scheme::Key;
use koel::{Aggregate, Any, DeviceBuffer as _, HashBackend as _, IdOrder, Runs};
use pyo3::prelude::*;

use super::keys::{self, with_words};
use super::{Array, Keys, on_gpu};
use crate::error::Result;

/// The columns that `koel.unique` returns in addition to the values.
#[derive(Clone, Copy)]
pub(crate) struct Options {
    pub(crate) index: bool,
    pub(crate) inverse: bool,
    pub(crate) counts: bool,
}

/// Returns the columns of the distinct values, and the arrays that the options request.
pub(crate) fn unique(
    py: Python<'_>,
    keys: &Keys,
    options: Options,
    order: IdOrder,
    device: &str,
) -> PyResult<(Vec<Array>, Vec<Array>)> {
    let columns: Vec<_> = keys.placed().collect();
    let mut values = on_gpu(py, device, &columns, |cuda, device| {
        with_words!(cuda, keys, |words, K| distinct::<K>(cuda, device, &words, keys, options, order))
    })?;
    let others = values.split_off(columns.len());
    Ok((values, others))
}

fn distinct<K: Key>(
    cuda: &Cuda,
    device: &Any,
    words: &AnyBuffer<K>,
    keys: &Keys,
    options: Options,
    order: IdOrder,
) -> Result<Vec<Array>>
where
    Any: Runs<K::Rows>,
{
    let Options { index, inverse, counts } = options;
    if !(index || inverse || counts) {
        return keys.arrays(cuda, &unique_on::<Any, K>(device, words, order)?);
    }
    // The first occurrence of a value is its smallest row number.
    let wanted: Vec<Aggregate> = [(index, Aggregate::Min), (counts, Aggregate::Count)]
        .into_iter()
        .filter_map(|(is, of)| is.then_some(of))
        .collect();
    let (groups, ids) = if inverse {
        let (groups, ids) = group_rows_on::<Any, K>(device, words, &wanted, order)?;
        (groups, Some(ids))
    } else {
        let rows = device.iota(if index { words.len() } else { 0 })?;
        (group_by_on::<Any, K, u32>(device, words, &rows, &wanted, order)?, None)
    };
    let mut results = keys.arrays(cuda, &groups.keys)?;
    results.extend(index.then(|| keys::rows(cuda, &groups.mins)).transpose()?);
    results.extend(ids.map(|ids| keys::rows(cuda, &ids)).transpose()?);
    results.extend(counts.then(|| keys::rows(cuda, &groups.counts)).transpose()?);
    Ok(results)
}

/// Returns the code of each row, and the columns of the distinct values.
pub(crate) fn factorize(py: Python<'_>, keys: &Keys, order: IdOrder, device: &str) -> PyResult<(Array, Vec<Array>)> {
    let columns: Vec<_> = keys.placed().collect();
    let mut values = on_gpu(py, device, &columns, |cuda, device| {
        with_words!(cuda, keys, |words, K| {
            let (values, ids) = factorize_on::<Any, K>(device, &words, order)?;
            let mut results = vec![keys::rows(cuda, &ids)?];
            results.extend(keys.arrays(cuda, &values)?);
            Ok(results)
        })
    })?;
    Ok((values.remove(0), values))
}

/// Returns the row of each key in the index. If the index has duplicates, calls `check` with the first occurrence of
/// the key of each row.
pub(crate) fn indexer(
    py: Python<'_>,
    (index, keys): (&Keys, &Keys),
    device: &str,
    check: impl Fn(&[u32]) -> Result<()> + Send + Sync,
) -> PyResult<Array> {
    let columns: Vec<_> = index.placed().chain(keys.placed()).collect();
    let mut results = on_gpu(py, device, &columns, |cuda, device| {
        with_words!(cuda, index, |words, K| {
            let first = FirstRows::<Any, K>::build_on(device, &words)?;
            if first.distinct_len() < first.len() {
                check(&first.rows()?)?;
            }
            Ok(vec![keys::rows(cuda, &first.find_on(&keys.words::<K>(cuda)?)?)?])
        })
    })?;
    Ok(results.remove(0))
}
