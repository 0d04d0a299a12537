//! Reads lists and arrays of Python objects as columns, without changing any value.
//!
//! ```text
//! bool, int, float      including NumPy scalars; ints and floats may be mixed if float64 holds the ints exactly
//! str, bytes            of any length
//! None, NaN, NaT, NA    missing; NaN is a float in a list of numbers without None, NaT or NA
//! others                of one type, read by pyarrow; pandas Timestamps and Timedeltas by pandas (nanoseconds)
//! ```
//!
//! Values of different types are an error. NumPy would convert them to a common type, which changes some of them:
//! `["a", nan]` would become two strings, and `[2**63, -1]` two floats.

use std::sync::Arc;

use arrow_array::builder::{LargeBinaryBuilder, LargeStringBuilder};
use arrow_array::{Array, ArrayRef, BooleanArray, Float64Array, Int64Array, NullArray, UInt64Array};
use numpy::{PyArray1, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PySlice, PyString, PyTuple, PyType};

use crate::memory;
use crate::run::CHUNK;

/// The items of a list: values of one kind, and missing values.
pub(crate) struct Objects<'py> {
    items: Bound<'py, PyList>,
    name: String,
    kind: Option<Kind<'py>>,
    /// Whether there are both ints and floats.
    is_mixed: bool,
    has_none: bool,
    has_nan: bool,
}

/// The kind of a value.
enum Kind<'py> {
    Bool,
    Int,
    Float,
    Text,
    Bytes,
    /// Another type, and its unit or whether it has a time zone.
    Other(Bound<'py, PyType>, String),
}

impl PartialEq for Kind<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Kind::Other(mine, detail), Kind::Other(other, of_other)) => mine.is(other) && detail == of_other,
            (Kind::Other(..), _) | (_, Kind::Other(..)) => false,
            (mine, other) => std::mem::discriminant(mine) == std::mem::discriminant(other),
        }
    }
}

impl<'py> Kind<'py> {
    /// Returns the kind of a value; `None` if it is missing.
    fn of(item: &Bound<'py, PyAny>) -> PyResult<Option<Self>> {
        if item.is_none() {
            return Ok(None);
        }
        Ok(Some(if item.is_instance_of::<PyBool>() {
            Kind::Bool
        } else if item.is_instance_of::<PyInt>() {
            Kind::Int
        } else if item.is_instance_of::<PyFloat>() {
            Kind::Float
        } else if item.is_instance_of::<PyString>() {
            Kind::Text
        } else if item.is_instance_of::<PyBytes>() {
            Kind::Bytes
        } else {
            return Kind::of_another(item);
        }))
    }

    fn of_another(item: &Bound<'py, PyAny>) -> PyResult<Option<Self>> {
        static NUMPY: [PyOnceLock<Py<PyType>>; 3] = [const { PyOnceLock::new() }; 3];
        let is_of = |at: usize, name| item.is_instance(NUMPY[at].import(item.py(), "numpy", name)?);
        let of = item.get_type();
        if matches!(of.name()?.to_str()?, "NaTType" | "NAType") {
            return Ok(None);
        }
        if is_of(0, "bool_")? {
            return Ok(Some(Kind::Bool));
        }
        if is_of(1, "integer")? {
            // timedelta64 is a subclass of integer in NumPy.
            let is_duration = of.name()?.to_str()? == "timedelta64";
            return Ok(Some(if is_duration { Kind::Other(of, dtype(item)?) } else { Kind::Int }));
        }
        if is_of(2, "floating")? && of.name()?.to_str()? != "longdouble" {
            return Ok(Some(Kind::Float));
        }
        let detail = match item.getattr_opt("tzinfo")? {
            Some(zone) if zone.is_none() => " without a time zone".into(),
            Some(_) => " with a time zone".into(),
            None => dtype(item)?,
        };
        Ok(Some(Kind::Other(of, detail)))
    }

    fn shown(&self) -> PyResult<String> {
        Ok(match self {
            Kind::Bool => "bool".into(),
            Kind::Int => "int".into(),
            Kind::Float => "float".into(),
            Kind::Text => "str".into(),
            Kind::Bytes => "bytes".into(),
            Kind::Other(of, detail) => format!("{}{detail}", of.name()?),
        })
    }
}

/// Returns the dtype of a NumPy scalar in parentheses, which contains the unit of datetime64 and timedelta64.
fn dtype(item: &Bound<'_, PyAny>) -> PyResult<String> {
    Ok(item.getattr_opt("dtype")?.map_or(String::new(), |dtype| format!(" ({dtype})")))
}

/// Returns whether a float is NaN.
fn is_nan(item: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(item.extract::<f64>()?.is_nan())
}

impl<'py> Objects<'py> {
    /// Classifies the items of a list. The list must not change afterwards.
    ///
    /// # Errors
    /// TypeError if the items have different types, or are not single values.
    pub(crate) fn new(name: &str, items: Bound<'py, PyList>) -> PyResult<Self> {
        memory::check_rows(items.len(), 0)?;
        let mut first: Option<(usize, Kind<'py>)> = None;
        let (mut is_mixed, mut has_none, mut has_nan) = (false, false, false);
        for (at, item) in items.iter().enumerate() {
            check_signals(items.py(), at)?;
            let Some(kind) = Kind::of(&item)? else {
                has_none = true;
                continue;
            };
            if kind == Kind::Float && is_nan(&item)? {
                has_nan = true;
                continue;
            }
            match &mut first {
                Some((_, found)) if *found == kind => (),
                Some((_, found @ (Kind::Int | Kind::Float))) if matches!(kind, Kind::Int | Kind::Float) => {
                    (*found, is_mixed) = (Kind::Float, true);
                }
                Some((place, found)) => {
                    let (first, other) = (found.shown()?, kind.shown()?);
                    return Err(PyTypeError::new_err(format!(
                        "{name} has values of different types: {first} at position {place}, {other} at position {at}; pass \
                         values of one type"
                    )));
                }
                None => {
                    check_single(name, &item)?;
                    first = Some((at, kind));
                }
            }
        }
        let kind = first.map(|(_, kind)| kind);
        Ok(Objects { items, name: name.into(), kind, is_mixed, has_none, has_nan })
    }

    /// Returns the values as a NumPy array: of numbers, bools or times if possible, else of objects.
    pub(crate) fn to_numpy(&self) -> PyResult<Bound<'py, PyUntypedArray>> {
        let (py, items) = (self.items.py(), &self.items);
        let numpy = py.import("numpy")?;
        let kinds: &[u8] = match &self.kind {
            _ if self.has_none => b"",
            // NumPy reads an empty list as floats.
            None | Some(Kind::Float) => b"f",
            Some(Kind::Int) if self.has_nan => b"f",
            Some(Kind::Int) => b"iu",
            Some(Kind::Bool) if !self.has_nan => b"b",
            Some(Kind::Other(..)) => b"mM",
            _ => b"",
        };
        let is_mixed = self.is_mixed || (self.has_nan && self.kind == Some(Kind::Int));
        if !kinds.is_empty() && !is_mixed {
            let array: Bound<'py, PyUntypedArray> = numpy.call_method1("asarray", (items,))?.cast_into()?;
            if array.ndim() == 1 && kinds.contains(&array.dtype().kind()) {
                return Ok(array);
            }
        }
        if kinds == b"f" {
            let floats = self.floats()?.into_iter().map(|float| float.unwrap_or(f64::NAN)).collect();
            return Ok(PyArray1::from_vec(py, floats).into_any().cast_into()?);
        }
        if kinds == b"iu" {
            let dtype = self.integers()?.data_type().to_string().to_lowercase();
            return Ok(numpy.call_method1("array", (items, dtype))?.cast_into()?);
        }
        let array = numpy.call_method1("empty", (items.len(), "object"))?;
        array.set_item(PySlice::full(py), items)?;
        Ok(array.cast_into()?)
    }

    /// Returns the values as an Arrow array; `None` if pyarrow or pandas must read them.
    pub(crate) fn to_arrow(&self) -> PyResult<Option<ArrayRef>> {
        let array: ArrayRef = match &self.kind {
            None => Arc::new(NullArray::new(self.items.len())),
            Some(Kind::Bool) => Arc::new(BooleanArray::from(self.values(|item| item.is_truthy())?)),
            Some(Kind::Int) => self.integers()?,
            Some(Kind::Float) => Arc::new(Float64Array::from(self.floats()?)),
            Some(Kind::Text) => {
                let (items, bytes) = self.sizes(|item| Ok(self.text(item)?.len()))?;
                let mut array = LargeStringBuilder::with_capacity(items, bytes);
                self.each(|item| {
                    array.append_option(item.map(|item| self.text(item)).transpose()?);
                    Ok(())
                })?;
                Arc::new(array.finish())
            }
            Some(Kind::Bytes) => {
                let (items, bytes) = self.sizes(|item| Ok(item.cast::<PyBytes>()?.as_bytes().len()))?;
                let mut array = LargeBinaryBuilder::with_capacity(items, bytes);
                self.each(|item| {
                    array.append_option(item.map(|item| item.extract::<&[u8]>()).transpose()?);
                    Ok(())
                })?;
                Arc::new(array.finish())
            }
            Some(Kind::Other(..)) => return Ok(None),
        };
        Ok(Some(array))
    }

    /// Returns NumPy times and durations as a NumPy array, and those of pandas as a Series; `None` for other values.
    pub(crate) fn times(&self) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(Kind::Other(of, _)) = &self.kind else { return Ok(None) };
        let (module, name) = (of.module()?, of.name()?);
        match (module.to_str()?.split('.').next(), name.to_str()?) {
            (Some("numpy"), "datetime64" | "timedelta64") if !self.has_none && !self.has_nan => {
                Ok(Some(self.to_numpy()?.into_any()))
            }
            (Some("pandas"), "Timestamp" | "Timedelta") => {
                let series = self.items.py().import("pandas")?.call_method1("Series", (&self.items,))?;
                // The dtype is object if pandas has no dtype for all values.
                Ok((series.getattr("dtype")?.to_string() != "object").then_some(series))
            }
            _ => Ok(None),
        }
    }

    /// Calls `to` with each value, or `None` if it is missing.
    fn each(&self, mut to: impl FnMut(Option<&Bound<'py, PyAny>>) -> PyResult<()>) -> PyResult<()> {
        self.items.iter().enumerate().try_for_each(|(at, item)| {
            check_signals(item.py(), at)?;
            match Kind::of(&item)? {
                None => to(None),
                Some(Kind::Float) if is_nan(&item)? => to(None),
                Some(_) => to(Some(&item)),
            }
        })
    }

    fn values<T>(&self, of: impl Fn(&Bound<'py, PyAny>) -> PyResult<T>) -> PyResult<Vec<Option<T>>> {
        let mut values = Vec::with_capacity(self.items.len());
        self.each(|item| {
            values.push(item.map(&of).transpose()?);
            Ok(())
        })?;
        Ok(values)
    }

    /// Checks the memory for strings or bytes. `len` returns the length of a value. Returns the number of values and
    /// their total length.
    fn sizes(&self, len: impl Fn(&Bound<'py, PyAny>) -> PyResult<usize>) -> PyResult<(usize, usize)> {
        let mut bytes = 0;
        self.each(|item| {
            bytes += item.map_or(Ok(0), &len)?;
            Ok(())
        })?;
        memory::check_rows(self.items.len(), bytes as u64)?;
        Ok((self.items.len(), bytes))
    }

    fn text<'a>(&self, item: &'a Bound<'py, PyAny>) -> PyResult<&'a str> {
        item.extract::<&str>().map_err(|error| {
            PyTypeError::new_err(format!(
                "{} contains a string that is not valid Unicode ({error}): replace it",
                self.name
            ))
        })
    }

    /// Returns the values as int64 if they fit, else as uint64.
    fn integers(&self) -> PyResult<ArrayRef> {
        if let Ok(signed) = self.values(|item| item.extract::<i64>()) {
            return Ok(Arc::new(Int64Array::from(signed)));
        }
        if let Ok(unsigned) = self.values(|item| item.extract::<u64>()) {
            return Ok(Arc::new(UInt64Array::from(unsigned)));
        }
        let advice = "pass the values as text, or as decimals in a pyarrow array";
        for (at, item) in self.items.iter().enumerate() {
            if Kind::of(&item)? == Some(Kind::Int) && item.extract::<i64>().is_err() && item.extract::<u64>().is_err() {
                let name = &self.name;
                return Err(PyTypeError::new_err(format!(
                    "{name} has {item} at position {at}, an integer of more than 64 bits: {advice}"
                )));
            }
        }
        let name = &self.name;
        Err(PyTypeError::new_err(format!(
            "{name} has integers below 0 and others above 2^63 - 1, which do not fit in one 64-bit type: {advice}"
        )))
    }

    fn floats(&self) -> PyResult<Vec<Option<f64>>> {
        self.values(|item| {
            let float = item.extract::<f64>().unwrap_or(f64::INFINITY);
            let integer = match Kind::of(item)? {
                Some(Kind::Int) => {
                    item.extract::<i64>().map(i128::from).or_else(|_| item.extract::<u64>().map(i128::from))
                }
                _ => return Ok(float),
            };
            let is_equal = integer.map_or_else(|_| item.eq(float), |integer| Ok(float as i128 == integer));
            if is_equal? {
                return Ok(float);
            }
            Err(PyTypeError::new_err(format!(
                "{} has floats and the integer {item}, which a 64-bit float cannot represent: pass integers only, or \
                 text",
                self.name
            )))
        })
    }
}

/// Returns an error on Ctrl-C. A loop calls this for each position `at`, and it checks once per chunk.
fn check_signals(py: Python<'_>, at: usize) -> PyResult<()> {
    if at.is_multiple_of(CHUNK) { py.check_signals() } else { Ok(()) }
}

/// Rejects lists, tuples, dicts and arrays as values.
fn check_single(name: &str, item: &Bound<'_, PyAny>) -> PyResult<()> {
    let is_single = !(item.is_instance_of::<PyTuple>()
        || item.is_instance_of::<PyList>()
        || item.is_instance_of::<PyDict>()
        || item.hasattr("__array__")? && item.getattr_opt("ndim")?.is_some_and(|ndim| !ndim.eq(0).unwrap_or(true)));
    if is_single {
        return Ok(());
    }
    let advice = "pass a list of single values, or a tuple of columns for keys of several columns";
    Err(PyTypeError::new_err(format!("{name} contains a {} as a value: {advice}", item.get_type().name()?)))
}
