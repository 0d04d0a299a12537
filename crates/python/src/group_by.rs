//! Group-by with aggregates.

use arrow_array::{ArrayRef, UInt32Array};
use arrow_schema::Field;
use koel::IdOrder;
use koel_arrow::{Aggregation, Column, Function, NullKeys, group_by as grouped};
use numpy::PyUntypedArrayMethods;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::device::for_columns;
use crate::input::{Given, GivenKeys, Nan, Origin, check_order};
use crate::output::{ArrowColumn, KeyRows, array, numbers};
use crate::run::detached_on;
use crate::to_numpy::to_numpy;

/// Aggregates columns by key, like `pandas.DataFrame.groupby(.., sort=False).agg(..)`.
///
/// Args:
///     keys: a NumPy array of one dimension, an Arrow column, a list, or a tuple of columns.
///     aggregates: a dict from the name of each result to a column and a function: {"total":
///         (price, "sum")}. Functions are "sum", "min", "max", "mean" or "avg", "count" (values
///         that are not missing), "nunique" or "count_distinct" (distinct values that are not
///         missing), "first" and "last" (the value of a group's first and last row, missing or
///         not). "size" without a column is the number of rows.
///     sort: whether to sort the groups by key; otherwise they are in the order of their first
///         rows.
///     dropna: whether to drop rows with a missing key (NaN in NumPy, NaT, null). `koel
///         groupby` keeps them.
///     device: "auto", "cpu", "opencl:0", "opencl:NAME".
///
/// Integer keys may be in CUDA memory, with columns of integers or floats. The results are
/// `koel.Array`s on the same GPU.
///
/// Returns:
///     The keys of the groups in the form of `keys`, and a dict of results, each in the form of
///     its column ("size" in the form of the keys). Missing values are ignored, except by
///     "first" and "last". If a group has only missing values, "count" and "nunique" are 0, the
///     sum is 0 (null in Arrow columns), and other results are NaN or NaT (null). Sums are
///     int64, uint64 or float64. Sums of floats have the same bits on every device, thread
///     count and run.
///
/// Raises:
///     OverflowError: if a sum of integers does not fit in 64 bits.
///
/// >>> import koel, numpy as np
/// >>> keys, found = koel.group_by(np.array([7, 3, 7]), {"total": (np.array([0.5, 1.0, 2.0]), "sum"), "rows": "size"})
/// >>> keys, found["total"], found["rows"]
/// (array([7, 3]), array([2.5, 1. ]), array([2, 1]))
///
/// >>> import torch  # doctest: +SKIP
/// >>> cards = torch.tensor([7, 3, 7], device="cuda")  # doctest: +SKIP
/// >>> keys, found = koel.group_by(cards, {"most": (torch.rand(3, device="cuda"), "max")})  # doctest: +SKIP
/// >>> torch.from_dlpack(keys)  # doctest: +SKIP
/// tensor([7, 3], device='cuda:0')
#[pyfunction]
#[pyo3(signature = (keys, aggregates, *, sort=false, dropna=true, device="auto"))]
pub(crate) fn group_by<'py>(
    keys: &Bound<'py, PyAny>,
    aggregates: &Bound<'py, PyAny>,
    sort: bool,
    dropna: bool,
    device: &str,
) -> PyResult<Bound<'py, PyTuple>> {
    let py = keys.py();
    let order = if sort { IdOrder::Ascending } else { IdOrder::FirstSeen };
    #[cfg(feature = "opencl")]
    if let Some((keys, _owners)) = crate::cuda::Keys::of("keys", keys)? {
        let (arrays, found) = crate::cuda::group_by(py, &keys, aggregates, order, device)?;
        let results = PyDict::new(py);
        found.into_iter().try_for_each(|(name, array)| results.set_item(name, Bound::new(py, array)?))?;
        return (keys.result(py, arrays)?, results).into_pyobject(py);
    }
    let given = GivenKeys::of("keys", keys, if dropna { Nan::Missing } else { Nan::Value })?;
    if sort {
        given.check_order("sort=False")?;
    }
    let (keys, is_arrow, is_gathered) = (given.keys()?, given.is_arrow(), given.is_gathered());
    let wanted = items(aggregates)?.iter().map(|(name, what)| Wanted::of(name, what)).collect::<PyResult<Vec<_>>>()?;
    let nulls = if dropna { NullKeys::Drop } else { NullKeys::Group };
    let mut aggregations: Vec<Aggregation> = wanted.iter().map(|wanted| wanted.aggregation.clone()).collect();
    // Other keys are taken from the first row of each group.
    if is_gathered.contains(&false) {
        aggregations.push(Aggregation::first_rows());
    }
    let requested = wanted.len();
    let values = wanted.iter().filter_map(|wanted| Some(&wanted.given.as_ref()?.column));
    let columns: Vec<&Column> = keys.columns().iter().chain(values).collect();
    let open = || for_columns(device, columns.iter().copied());
    let (rows, key_rows, arrays) = detached_on(py, open, |device, _| {
        let mut arrays = grouped(&device, &keys, &aggregations, order, nulls)?.columns().to_vec();
        let results = arrays.split_off(keys.columns().len());
        let rows = results.get(requested).and_then(|rows| rows.as_any().downcast_ref::<UInt32Array>());
        Ok((rows.map(numbers), KeyRows::from_arrays(arrays, &is_gathered), results))
    })?;
    let rows = rows.map(|rows| array(py, rows));
    let results = PyDict::new(py);
    for (wanted, array) in wanted.iter().zip(arrays) {
        results.set_item(&wanted.name, wanted.result(py, array, is_arrow)?)?;
    }
    PyTuple::new(py, [key_rows.into_python(py, &given, rows.as_ref())?, results.into_any()])
}

/// A requested result.
struct Wanted<'py> {
    name: String,
    aggregation: Aggregation,
    /// The aggregated column; `None` for the number of rows.
    given: Option<Given<'py>>,
    function: Option<Function>,
}

/// A request of the dict of aggregates.
pub(crate) enum Request<'py> {
    /// The number of rows of each group.
    Rows,
    /// A function of a column.
    Of(Bound<'py, PyAny>, Function),
}

/// Parses a value of the dict of aggregates.
pub(crate) fn request<'py>(name: &str, what: &Bound<'py, PyAny>) -> PyResult<Request<'py>> {
    let bad = |found: String| {
        let text =
            format!("aggregate {name:?} is {found}: pass (column, \"sum\") or \"size\"; functions are {FUNCTIONS}");
        PyValueError::new_err(text)
    };
    if let Ok(text) = what.extract::<String>() {
        return if text == "size" { Ok(Request::Rows) } else { Err(bad(format!("{text:?}"))) };
    }
    let Ok((column, function)) = what.extract::<(Bound<'py, PyAny>, String)>() else {
        return Err(bad(format!("a {}", what.get_type().name()?)));
    };
    let Some(function) = self::function(&function) else {
        return Err(bad(format!("{function:?} of a column")));
    };
    if let Ok(column) = column.extract::<String>() {
        let text = format!(
            "aggregate {name:?} has the name of a column: pass the column {column:?} itself, or use koel.group_by_stream, which \
             accepts names"
        );
        return Err(PyTypeError::new_err(text));
    }
    Ok(Request::Of(column, function))
}

impl<'py> Wanted<'py> {
    fn of(name: &str, what: &Bound<'py, PyAny>) -> PyResult<Self> {
        let Request::Of(column, function) = request(name, what)? else {
            let aggregation = Aggregation::rows().named(name);
            return Ok(Wanted { name: name.into(), aggregation, given: None, function: None });
        };
        let given = Given::of(name, &column, Nan::Missing)?;
        check_order_of(function, &given.field())?;
        let aggregation = Aggregation::new(function, given.column.clone()).named(name);
        Ok(Wanted { name: name.into(), aggregation, given: Some(given), function: Some(function) })
    }

    /// Returns the result in the form of its column; numbers of rows in the form of the keys.
    fn result(&self, py: Python<'py>, array: ArrayRef, keys_are_arrow: bool) -> PyResult<Bound<'py, PyAny>> {
        let is_value = matches!(self.function, Some(Function::Min | Function::Max | Function::First | Function::Last));
        let of_column = self.given.as_ref().map(|given| matches!(given.origin, Origin::Arrow(_)));
        if of_column.unwrap_or(keys_are_arrow) {
            // Keep the metadata of the column, such as an extension type.
            if let Some(Given { origin: Origin::Arrow(field), .. }) = &self.given
                && is_value
                && field.data_type() == array.data_type()
            {
                let field = field.as_ref().clone().with_name(&self.name).with_nullable(true);
                return Ok(Bound::new(py, ArrowColumn::new(array, field.into()))?.into_any());
            }
            return Ok(Bound::new(py, ArrowColumn::named(&self.name, array))?.into_any());
        }
        let result = to_numpy(py, &self.name, array, self.function == Some(Function::Sum))?;
        // Restore the unit of times, which may have been converted.
        match &self.given {
            Some(Given { origin: Origin::Numpy(from), .. })
                if is_value && [b'M', b'm'].contains(&numpy::PyArrayDescrMethods::kind(&from.dtype())) =>
            {
                result.call_method1("astype", (from.dtype(),))
            }
            _ => Ok(result),
        }
    }
}

/// Rejects the minimum and maximum of ordered categories.
pub(crate) fn check_order_of(function: Function, field: &Field) -> PyResult<()> {
    match function {
        Function::Min | Function::Max => check_order(field, "\"first\" or \"last\""),
        _ => Ok(()),
    }
}

/// The names of the functions, for error messages.
pub(crate) const FUNCTIONS: &str = "sum, min, max, mean, count, nunique, first and last";

/// Returns the function with this name or alias.
pub(crate) fn function(name: &str) -> Option<Function> {
    let name = match name {
        "avg" => "mean",
        "count_distinct" => "nunique",
        name => name,
    };
    Function::ALL.into_iter().find(|function| function.name() == name)
}

/// Returns the items of the dict of aggregates.
pub(crate) fn items<'py>(aggregates: &Bound<'py, PyAny>) -> PyResult<Vec<(String, Bound<'py, PyAny>)>> {
    let advice = "pass a dict of results, such as {\"total\": (column, \"sum\"), \"rows\": \"size\"}";
    let text = format!("aggregates is a {}: {advice}", aggregates.get_type().name()?);
    let wrong = || PyTypeError::new_err(text.clone());
    if !aggregates.hasattr("items")? {
        return Err(wrong());
    }
    aggregates.call_method0("items")?.try_iter()?.map(|item| item?.extract().map_err(|_| wrong())).collect()
}
