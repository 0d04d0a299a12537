//! `koel.MultiTable`: from integers to any number of integers each.

use std::path::PathBuf;

use koel::scheme::BucketizedOf;
use koel::table::Contents;
use koel::{Any, AnyScheme, Bucketized, MultiTable as Multi, ValueType};
use numpy::{PyArray1, PyArrayDescr};
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::integers::{Role, Type, Width as _, dtype, integers, words};
use super::{Shared, check_load, info, with_settings};
use crate::device::shown;
use crate::run::detached;

enum Held {
    Narrow(Multi<Any, AnyScheme, u32>),
    NarrowToWide(Multi<Any, AnyScheme, u64>),
    WideToNarrow(Multi<Any, BucketizedOf<u64, u32>, u32>),
    Wide(Multi<Any, BucketizedOf<u64, u32>, u64>),
}

/// A table from integer keys to any number of integer values each, which keep the order in which they were given.
///
/// Args:
///     keys: integers, each any number of times; those of 8 to 32 bits are kept in 32, others in 64.
///     values: as many integers.
///     load_factor: how full the table of the keys is, above 0 and up to 1; otherwise what its kind is best at.
///     seed: of the hash functions.
///     device: "auto", "cpu", "opencl:0", "opencl:NAME".
///
/// >>> import koel, numpy as np
/// >>> table = koel.MultiTable(np.array([7, 5, 7]), np.array([1, 2, 3]))
/// >>> table.lookup(np.array([5, 6, 7]))
/// (array([0, 1, 1, 3]), array([2, 1, 3]))
#[pyclass(frozen, module = "koel")]
pub(crate) struct MultiTable {
    held: Shared<Held>,
    keys: Type,
    values: Type,
    device: String,
}

#[pymethods]
impl MultiTable {
    #[new]
    #[pyo3(signature = (keys, values, *, load_factor=None, seed=None, device="auto"))]
    fn new(
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
        load_factor: Option<f64>,
        seed: Option<u64>,
        device: &str,
    ) -> PyResult<Self> {
        check_load(load_factor)?;
        let ((keys, of_keys), (values, of_values)) = (integers("keys", keys)?, integers("values", values)?);
        let (held, device) = detached(py, || {
            let device = crate::device::device(device, keys.len())?;
            macro_rules! built {
                ($variant:ident, $scheme:expr, $K:ty, $V:ty) => {{
                    let (keys, values) =
                        (words::<$K>(&keys, of_keys, Role::Key)?, words::<$V>(&values, of_values, Role::Value)?);
                    let builder = with_settings!(Multi::builder($scheme), load_factor, seed, of_keys);
                    let builder = builder.values::<$V>().value_type(of_values.value_type());
                    Held::$variant(builder.build(&device, &keys, &values)?)
                }};
            }
            let scheme = Bucketized::canonical(8);
            let held = match (of_keys.bits, of_values.bits) {
                (32, 32) => built!(Narrow, AnyScheme::from(scheme), u32, u32),
                (32, _) => built!(NarrowToWide, AnyScheme::from(scheme), u32, u64),
                (_, 32) => built!(WideToNarrow, scheme.of::<u64, u32>(), u64, u32),
                _ => built!(Wide, scheme.of::<u64, u32>(), u64, u64),
            };
            Ok((held, shown(&device)))
        })?;
        Ok(MultiTable { held: Shared::new(held), keys: of_keys, values: of_values, device })
    }

    /// Opens a file, and checks everything in it.
    ///
    /// Raises:
    ///     koel.FileError: if it holds no such table, or a damaged one.
    #[staticmethod]
    #[pyo3(signature = (path, *, device="auto"))]
    fn open(py: Python<'_>, path: PathBuf, device: &str) -> PyResult<Self> {
        detached(py, || {
            let (info, keys) = info(&path, Contents::Multi, "koel.MultiTable")?;
            let values = Type { bits: info.value_bits, is_signed: info.value_type == ValueType::Signed };
            let device = crate::device::device(device, usize::MAX)?;
            let held = match (info.key_bits, info.value_bits) {
                (32, 32) => Held::Narrow(Multi::open(&device, &path)?),
                (32, _) => Held::NarrowToWide(Multi::open(&device, &path)?),
                (_, 32) => Held::WideToNarrow(Multi::open(&device, &path)?),
                _ => Held::Wide(Multi::open(&device, &path)?),
            };
            Ok(MultiTable { held: Shared::new(held), keys, values, device: shown(&device) })
        })
    }

    /// All values of each key: where those of each begin, with the end of the last one behind them, and the values.
    fn lookup<'py>(&self, py: Python<'py>, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyTuple>> {
        let keys = integers("keys", keys)?.0;
        let (offsets, values) = detached(py, || {
            with_table!(&*self.held.read(), |table, K, V| {
                let found = table.retrieve(&words::<K>(&keys, self.keys, Role::Key)?)?;
                let offsets: Vec<i64> = found.offsets.into_iter().map(|offset| offset as i64).collect();
                Ok((offsets, V::column(found.values)))
            })
        })?;
        let values = values.into_python(py, self.values, Role::Value)?;
        PyTuple::new(py, [PyArray1::from_vec(py, offsets).into_any(), values])
    }

    /// How many values each key has.
    fn count<'py>(&self, py: Python<'py>, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let keys = integers("keys", keys)?.0;
        let counts: Vec<i64> = detached(py, || {
            let counts = with_table!(&*self.held.read(), |table, K, V| {
                table.count(&words::<K>(&keys, self.keys, Role::Key)?)?
            });
            Ok(counts.into_iter().map(i64::from).collect())
        })?;
        Ok(PyArray1::from_vec(py, counts).into_any())
    }

    /// For each key whether it has values.
    fn contains<'py>(&self, py: Python<'py>, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.count(py, keys)?.call_method1("__gt__", (0,))
    }

    /// All keys and their values, a row each: by key, those of one in the order in which they were given.
    fn items<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let (keys, values) = detached(py, || {
            with_table!(&*self.held.read(), |table, K, V| {
                let (keys, values): (Vec<K>, Vec<V>) = table.to_pairs()?.into_iter().unzip();
                Ok((K::column(keys), V::column(values)))
            })
        })?;
        let keys = keys.into_python(py, self.keys, Role::Key)?;
        PyTuple::new(py, [keys, values.into_python(py, self.values, Role::Value)?])
    }

    /// Writes the table to a file, in whose place it comes as a whole or not at all; its digest.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<String> {
        detached(py, || with_table!(&*self.held.read(), |table, K, V| Ok(table.save(&path)?.to_string())))
    }

    /// A number for all that the table holds: equal tables have equal ones, on every device.
    fn digest(&self, py: Python<'_>) -> PyResult<String> {
        detached(py, || with_table!(&*self.held.read(), |table, K, V| Ok(table.digest()?.to_string())))
    }

    /// Where it is: "cpu", "opencl:0", ..
    #[getter]
    fn device(&self) -> &str {
        &self.device
    }

    /// The dtype of keys.
    #[getter]
    fn key_dtype<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArrayDescr>> {
        dtype(py, self.keys)
    }

    /// The dtype of values.
    #[getter]
    fn value_dtype<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArrayDescr>> {
        dtype(py, self.values)
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        detached(py, || Ok(with_table!(&*self.held.read(), |table, K, V| table.len())))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let (keys, values) = (self.keys.name(), self.values.name());
        Ok(format!("<koel.MultiTable of {} {keys} -> {values}, {}>", self.__len__(py)?, self.device))
    }
}
