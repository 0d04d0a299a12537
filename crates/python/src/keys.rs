//! Functions on key columns: distinct values, codes, membership, positions.

use arrow_array::UInt32Array;
use koel::{Aggregate, Any, IdOrder, group};
use koel_arrow::{FirstKeys, NullEquality, NullKeys, distinct, factorize as factorized, mapped};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::device::for_columns;
use crate::error::Result;
use crate::input::{GivenKeys, Nan, unify_types};
use crate::output::{KeyRows, array, found, numbers};
use crate::run::detached_on;
use crate::tables::Index;

/// Returns the distinct values of a column, like `numpy.unique`.
///
/// They are in ascending order, with NaN and nulls last. With `sorted=False`, they are in the
/// order of their first rows, which is faster. -0.0 equals 0.0, and NaN equals NaN.
///
/// Args:
///     a: a NumPy array of one dimension, an Arrow column, a list, or a tuple of columns, whose
///         distinct rows are found.
///     return_index: also return the first row of each value.
///     return_inverse: also return the index of each row's value among the distinct values.
///     return_counts: also return the number of rows of each value.
///     sorted: whether to sort the values.
///     device: "auto", "cpu", "opencl:0", "opencl:NAME".
///
/// Returns:
///     The values in the form of `a`. With options, a tuple of the values and int64 arrays, in
///     the order of the options. For integers in CUDA memory, all are `koel.Array`s on the same
///     GPU.
///
/// >>> import koel, numpy as np
/// >>> koel.unique(np.array([3, 1, 3, 2]))
/// array([1, 2, 3])
/// >>> koel.unique(np.array([3, 1, 3, 2]), return_counts=True, sorted=False)
/// (array([3, 1, 2]), array([2, 1, 1]))
#[pyfunction]
#[pyo3(signature = (a, *, return_index=false, return_inverse=false, return_counts=false, sorted=true, device="auto"))]
pub(crate) fn unique<'py>(
    a: &Bound<'py, PyAny>,
    return_index: bool,
    return_inverse: bool,
    return_counts: bool,
    sorted: bool,
    device: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let py = a.py();
    let order = if sorted { IdOrder::Ascending } else { IdOrder::FirstSeen };
    #[cfg(feature = "opencl")]
    if let Some((keys, _owners)) = crate::cuda::Keys::of("a", a)? {
        let options = crate::cuda::Options { index: return_index, inverse: return_inverse, counts: return_counts };
        let (values, others) = crate::cuda::unique(py, &keys, options, order, device)?;
        let values = keys.result(py, values)?;
        if others.is_empty() {
            return Ok(values);
        }
        let others = others.into_iter().map(|array| Ok(Bound::new(py, array)?.into_any()));
        let all = std::iter::once(Ok(values)).chain(others).collect::<PyResult<Vec<_>>>()?;
        return Ok(PyTuple::new(py, all)?.into_any());
    }
    let given = GivenKeys::of("a", a, Nan::Value)?;
    if sorted {
        given.check_order("sorted=False")?;
    }
    let (keys, is_gathered) = (given.keys()?, given.is_gathered());
    let open = || for_columns(device, keys.columns());
    let (rows, key_rows, inverse, counts) = detached_on(py, open, |device, _| {
        let (rows, codes) = if return_inverse || return_counts {
            let groups = factorized(&device, &keys, order, NullKeys::Group)?;
            (groups.rows, Some(groups.codes))
        } else {
            (distinct(&device, &keys, order, NullKeys::Group)?, None)
        };
        let key_rows = KeyRows::gather(&keys, &is_gathered, &rows)?;
        let counts = codes.as_ref().filter(|_| return_counts);
        let counts = counts.map(|codes| group_sizes(&device, codes, rows.len())).transpose()?;
        let inverse = codes.filter(|_| return_inverse).map(|codes| numbers(&codes));
        let rows = (return_index || is_gathered.contains(&false)).then(|| numbers(&rows));
        Ok((rows, key_rows, inverse, counts))
    })?;
    let rows = rows.map(|rows| array(py, rows));
    let values = key_rows.into_python(py, &given, rows.as_ref())?;
    if !(return_index || return_inverse || return_counts) {
        return Ok(values);
    }
    let mut all = vec![values];
    all.extend(rows.filter(|_| return_index));
    all.extend([inverse, counts].into_iter().flatten().map(|numbers| array(py, numbers)));
    Ok(PyTuple::new(py, all)?.into_any())
}

/// Counts the rows of each group.
fn group_sizes(device: &Any, codes: &UInt32Array, groups: usize) -> Result<Vec<i64>> {
    let found = group::wide::aggregate::<_, u32>(device, codes.values(), groups, &[], &[Aggregate::Count])?;
    Ok(mapped(&found.counts, i64::from))
}

/// Encodes the values of a column as integers, like `pandas.factorize`.
///
/// Args:
///     a: a NumPy array of one dimension, an Arrow column, a list, or a tuple of columns.
///     sort: whether to sort the values; otherwise they are in the order in which they first
///         appear.
///     use_na_sentinel: whether missing values (NaN in NumPy, NaT, null) have the code -1;
///         otherwise they are values like any other.
///     device: "auto", "cpu", "opencl:0", "opencl:NAME".
///
/// Returns:
///     The code of each row's value as an int64 array, and the distinct values in the form of
///     `a`. For integers in CUDA memory, both are `koel.Array`s on the same GPU.
///
/// >>> import koel, numpy as np
/// >>> koel.factorize(np.array([3.0, 1.0, np.nan, 3.0]))
/// (array([ 0,  1, -1,  0]), array([3., 1.]))
#[pyfunction]
#[pyo3(signature = (a, *, sort=false, use_na_sentinel=true, device="auto"))]
pub(crate) fn factorize<'py>(
    a: &Bound<'py, PyAny>,
    sort: bool,
    use_na_sentinel: bool,
    device: &str,
) -> PyResult<Bound<'py, PyTuple>> {
    let py = a.py();
    let order = if sort { IdOrder::Ascending } else { IdOrder::FirstSeen };
    #[cfg(feature = "opencl")]
    if let Some((keys, _owners)) = crate::cuda::Keys::of("a", a)? {
        let (codes, values) = crate::cuda::factorize(py, &keys, order, device)?;
        return (codes, keys.result(py, values)?).into_pyobject(py);
    }
    let given = GivenKeys::of("a", a, Nan::Missing)?;
    if sort {
        given.check_order("sort=False")?;
    }
    let (keys, is_gathered) = (given.keys()?, given.is_gathered());
    let nulls = if use_na_sentinel { NullKeys::Drop } else { NullKeys::Group };
    let open = || for_columns(device, keys.columns());
    let (codes, rows, key_rows) = detached_on(py, open, |device, _| {
        let groups = factorized(&device, &keys, order, nulls)?;
        let key_rows = KeyRows::gather(&keys, &is_gathered, &groups.rows)?;
        let rows = is_gathered.contains(&false).then(|| numbers(&groups.rows));
        Ok((numbers(&groups.codes), rows, key_rows))
    })?;
    let values = key_rows.into_python(py, &given, rows.map(|rows| array(py, rows)).as_ref())?;
    PyTuple::new(py, [array(py, codes), values])
}

/// Returns whether each row of `a` is among `values`, like `pandas.Series.isin`. Missing values
/// equal each other.
///
/// Args:
///     a: a NumPy array of one dimension, an Arrow column, a list, or a tuple of columns.
///     values: the values to search in, in the same form.
///     device: "auto", "cpu", "opencl:0", "opencl:NAME".
///
/// Returns:
///     A NumPy array of bool; for integers in CUDA memory, a `koel.Array` on the same GPU.
///
/// >>> import koel, numpy as np
/// >>> koel.isin(np.array([3, 1, 4]), [1, 4])
/// array([False,  True,  True])
#[pyfunction]
#[pyo3(signature = (a, values, *, device="auto"))]
pub(crate) fn isin<'py>(
    a: &Bound<'py, PyAny>,
    values: &Bound<'py, PyAny>,
    device: &str,
) -> PyResult<Bound<'py, PyAny>> {
    #[cfg(feature = "opencl")]
    if let Some(found) = crate::cuda::isin(a, values, device)? {
        return Ok(found);
    }
    let py = a.py();
    let (mut given, mut values) = (GivenKeys::of("a", a, Nan::Value)?, GivenKeys::of("values", values, Nan::Value)?);
    unify_types(&mut given, &mut values)?;
    let (left, right) = (given.keys()?, values.keys()?);
    let open = || for_columns(device, left.columns().iter().chain(right.columns()));
    let found = detached_on(py, open, |device, _| {
        Ok(FirstKeys::new(&device, &right, NullEquality::NullEquals)?.contains(&left)?)
    })?;
    Ok(array(py, found))
}

/// Returns the position of each key in `index`, like `pandas.Index.get_indexer`: as int64, with
/// -1 for keys that are not found. If both arguments are in CUDA memory, the result is a
/// `koel.Array` on the same GPU.
///
/// Args:
///     index: the keys to search in, without duplicates: a column, a tuple of columns, or a
///         `koel.Index`.
///     keys: the keys to look up, in the same form.
///     device: "auto", "cpu", "opencl:0", "opencl:NAME".
///
/// Raises:
///     ValueError: if `index` has duplicate keys. `koel.join` returns all positions of a key.
///
/// >>> import koel, numpy as np
/// >>> koel.get_indexer(np.array([30, 10, 20]), np.array([10, 5, 30]))
/// array([ 1, -1,  0])
#[pyfunction]
#[pyo3(signature = (index, keys, *, device="auto"))]
pub(crate) fn get_indexer<'py>(
    index: &Bound<'py, PyAny>,
    keys: &Bound<'py, PyAny>,
    device: &str,
) -> PyResult<Bound<'py, PyAny>> {
    let py = keys.py();
    if let Ok(index) = index.cast::<Index>() {
        return index.get().indexer(py, keys);
    }
    #[cfg(feature = "opencl")]
    if let Some(((index, _index_owners), (keys, _owners))) = crate::cuda::key_pair(("index", index), ("keys", keys))? {
        let found = crate::cuda::indexer(py, (&index, &keys), device, check_unique)?;
        return Ok(Bound::new(py, found)?.into_any());
    }
    let (mut index, mut given) = (GivenKeys::of("index", index, Nan::Value)?, GivenKeys::of("keys", keys, Nan::Value)?);
    unify_types(&mut given, &mut index)?;
    let (right, left) = (index.keys()?, given.keys()?);
    let open = || for_columns(device, left.columns().iter().chain(right.columns()));
    let rows = detached_on(py, open, |device, _| {
        let first = FirstKeys::new(&device, &right, NullEquality::NullEquals)?;
        check_unique(&first.rows()?)?;
        Ok(found(&first.find(&left)?))
    })?;
    Ok(array(py, rows))
}

/// Rejects duplicate keys. `first` is the first row with the key of each row.
fn check_unique(first: &[u32]) -> crate::error::Result<()> {
    match (0..).zip(first).find(|&(row, &first): &(u32, _)| row != first) {
        None => Ok(()),
        Some((row, first)) => Err(PyValueError::new_err(format!(
            "rows {first} and {row} of the index have the same key: make it unique with koel.unique, or use koel.join, which \
             returns all rows of a key"
        ))
        .into()),
    }
}
