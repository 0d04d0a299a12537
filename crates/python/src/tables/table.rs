//! `koel.Table`: a map from integer keys to integer values.

use std::path::PathBuf;

#[cfg(feature = "opencl")]
use koel::HashBackend as _;
#[cfg(feature = "opencl")]
use koel::device::AnyBuffer;
use koel::scheme::BucketizedOf;
use koel::table::Contents;
use koel::{Any, AnyScheme, Bucketized, Duplicates, HashTable, ValueType};
use numpy::PyArrayDescr;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

#[cfg(feature = "opencl")]
use super::integers::on_gpu;
use super::integers::{Answers, Integers, Role, Type, Width as _, dtype, each_piece, integers, queried, words};
use super::{Shared, check_load, info, to_error, with_settings};
#[cfg(feature = "opencl")]
use crate::cuda::{self, Array, Dtype, GpuColumn, Imported};
use crate::device::shown;
use crate::output::{ArrowColumn, Fresh, not_pickled};
use crate::run::detached_on;

enum AnyWidth {
    Narrow(HashTable<Any, AnyScheme>),
    NarrowToWide(HashTable<Any, BucketizedOf<u32, u64>>),
    WideToNarrow(HashTable<Any, BucketizedOf<u64, u32>>),
    Wide(HashTable<Any, BucketizedOf<u64, u64>>),
}

/// A map from distinct integer keys to integer values. It is built and queried in bulk, and can
/// be saved to a file.
///
/// Args:
///     keys: integers; types of 8 to 32 bits are stored in 32 bits, others in 64.
///     values: integers, one for each key.
///     duplicates: how to handle duplicate keys: "error", or keep the "first" or the "last"
///         value.
///     load_factor: the share of slots that are used, above 0 and up to 1; the default depends
///         on the kind of table.
///     seed: the seed of the hash functions.
///     device: "auto", "cpu", "opencl:0", "opencl:NAME".
///
/// Tables with the same keys, values and seed have the same bytes on every device.
///
/// >>> import koel, numpy as np
/// >>> table = koel.Table(np.array([10, 20, 30]), np.array([1, 2, 3]))
/// >>> table.lookup(np.array([20, 5]))
/// (array([2, 0]), array([ True, False]))
#[pyclass(frozen, module = "koel")]
pub(crate) struct Table {
    any_width: Shared<AnyWidth>,
    keys: Type,
    values: Type,
    device: String,
}

#[cfg(feature = "opencl")]
impl Table {
    /// Looks up keys in CUDA memory. Returns their values, if `values` is set, and whether each key is in the table.
    fn lookup_on_gpu(&self, py: Python<'_>, keys: &GpuColumn, values: bool) -> PyResult<Vec<Array>> {
        self.any_width.read_here(py, |any_width| {
            with_table!(any_width, |table, K, V| {
                cuda::queried(table.backend(), keys, |cuda| {
                    let queries = on_gpu::<K>(cuda, keys, self.keys, |keys| Ok(table.contains(keys)?))?;
                    if !values {
                        return Ok(vec![cuda::flags(cuda, &table.contains_on(&queries)?, keys.len)?]);
                    }
                    let memory = cuda.allocate(keys.len * self.values.bytes())?;
                    let mut found = table.backend().unwritten(keys.len.div_ceil(32))?;
                    table.get_on_into(&queries, &mut AnyBuffer::OpenCl(memory.buffer::<V>(keys.len)?), &mut found)?;
                    let values = Array::new(memory, keys.len, Dtype::Integers(self.values));
                    Ok(vec![values, cuda::flags(cuda, &found, keys.len)?])
                })
            })
        })
    }
}

#[pymethods]
impl Table {
    #[new]
    #[pyo3(signature = (keys, values, *, duplicates="error", load_factor=None, seed=None, device="auto"))]
    fn new(
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        values: &Bound<'_, PyAny>,
        duplicates: &str,
        load_factor: Option<f64>,
        seed: Option<u64>,
        device: &str,
    ) -> PyResult<Self> {
        check_load(load_factor)?;
        let rule = match duplicates {
            "error" => Duplicates::Error,
            "first" => Duplicates::KeepFirst,
            "last" => Duplicates::KeepLast,
            _ => {
                return Err(PyValueError::new_err(format!(
                    "duplicates is {duplicates:?}: pass \"error\", \"first\" or \"last\""
                )));
            }
        };
        // The table built by `$build`, in which `$builder` is the builder for the widths `$K` and `$V`.
        macro_rules! built {
            ($device:expr, $of_keys:expr, $of_values:expr, |$builder:ident, $K:ident, $V:ident| $build:expr) => {{
                macro_rules! of_width {
                    ($variant:ident, $scheme:expr, $key:ty, $value:ty) => {{
                        type $K = $key;
                        type $V = $value;
                        let builder = with_settings!(HashTable::builder($scheme), load_factor, seed, $of_keys);
                        let $builder = builder.value_type($of_values.value_type()).duplicates(rule);
                        AnyWidth::$variant($build.map_err(|error| to_error(error.into(), $of_keys))?)
                    }};
                }
                let scheme = Bucketized::canonical(8);
                let any_width = match ($of_keys.bits, $of_values.bits) {
                    (32, 32) => of_width!(Narrow, AnyScheme::from(scheme), u32, u32),
                    (32, _) => of_width!(NarrowToWide, scheme.of::<u32, u64>(), u32, u64),
                    (_, 32) => of_width!(WideToNarrow, scheme.of::<u64, u32>(), u64, u32),
                    _ => of_width!(Wide, scheme.of::<u64, u64>(), u64, u64),
                };
                Ok((any_width, shown(&$device)))
            }};
        }
        #[cfg(feature = "opencl")]
        if let Some(((keys, _keys_owner), (values, _values_owner))) = cuda::pair(("keys", keys), ("values", values))? {
            let (of_keys, of_values) = (keys.of, values.of);
            let (any_width, device) = cuda::on_device(py, device, &[&keys, &values], |cuda, device| {
                let (keys, values) = (Imported::of(cuda, &keys)?, Imported::of(cuda, &values)?);
                built!(device, of_keys, of_values, |builder, K, V| builder.build_on(
                    device,
                    &keys.words::<K>(of_keys, 0)?,
                    &values.values::<V>()?
                ))
            })?;
            return Ok(Table { any_width: Shared::new(any_width, &device), keys: of_keys, values: of_values, device });
        }
        let (keys, values) = (integers("keys", keys)?, integers("values", values)?);
        let (of_keys, of_values) = (keys.of, values.of);
        let open = || crate::device::device(device, keys.column.len());
        let (any_width, device) = detached_on(py, open, |device, _| {
            built!(device, of_keys, of_values, |builder, K, V| builder.build(
                &device,
                &words::<K>(&keys.column, of_keys, Role::Key)?,
                &words::<V>(&values.column, of_values, Role::Value)?
            ))
        })?;
        Ok(Table { any_width: Shared::new(any_width, &device), keys: of_keys, values: of_values, device })
    }

    /// Opens a file and checks all of its contents.
    ///
    /// Raises:
    ///     koel.FileError: if the file is damaged or does not contain a table.
    ///
    /// >>> import koel, os, tempfile
    /// >>> with tempfile.TemporaryDirectory() as folder:
    /// ...     digest = koel.Table([10, 20], [1, 2]).save(os.path.join(folder, "table.koel"))
    /// ...     koel.Table.open(os.path.join(folder, "table.koel")).digest() == digest
    /// True
    #[staticmethod]
    #[pyo3(signature = (path, *, device="auto"))]
    fn open(py: Python<'_>, path: PathBuf, device: &str) -> PyResult<Self> {
        detached_on(
            py,
            || crate::device::device(device, usize::MAX),
            |device, _| {
                let (info, keys) = info(&path, Contents::Map, "koel.Table")?;
                let values = Type { bits: info.value_bits, is_signed: info.value_type == ValueType::Signed };
                let any_width = match (info.key_bits, info.value_bits) {
                    (32, 32) => AnyWidth::Narrow(HashTable::open(&device, &path)?),
                    (32, _) => AnyWidth::NarrowToWide(HashTable::open(&device, &path)?),
                    (_, 32) => AnyWidth::WideToNarrow(HashTable::open(&device, &path)?),
                    _ => AnyWidth::Wide(HashTable::open(&device, &path)?),
                };
                let device = shown(&device);
                Ok(Table { any_width: Shared::new(any_width, &device), keys, values, device })
            },
        )
    }

    /// Returns the value of each key, and whether the key is in the table. The value of a missing
    /// key is 0.
    ///
    /// >>> import koel, numpy as np
    /// >>> table = koel.Table(np.array([10, 20]), np.array([1, 2]))
    /// >>> table.lookup(np.array([20, 5]))
    /// (array([2, 0]), array([ True, False]))
    ///
    /// For keys in CUDA memory, the results are `koel.Array`s on the same GPU. The table must be on
    /// that GPU.
    fn lookup<'py>(&self, py: Python<'py>, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyTuple>> {
        #[cfg(feature = "opencl")]
        if let Some((keys, _owner)) = cuda::column("keys", keys)? {
            return PyTuple::new(py, self.lookup_on_gpu(py, &keys, true)?);
        }
        let Integers { column, is_arrow, .. } = integers("keys", keys)?;
        let mut flags = Fresh::<bool>::zeros(py, column.len())?;
        // Values of 32 or 64 bits.
        let mut bytes = Fresh::<u8>::zeros(py, column.len() * self.values.bytes())?;
        let (found, values) = (flags.slice()?, bytes.slice()?);
        self.any_width.read(py, |any_width, stop| {
            with_table!(any_width, |table, K, V| {
                // An empty array need not be aligned.
                let values: &mut [V] = if values.is_empty() { &mut [] } else { bytemuck::cast_slice_mut(values) };
                let (to, answers) = ((self.keys, table.backend()), Answers { flags: found, values });
                let has = |keys: &[K]| Ok(table.contains(keys)?);
                each_piece::<K, V>(&column, to, stop, has, answers, |keys, Answers { flags, values }| {
                    Ok(table.answer(keys, koel::backend::Answers::flags(flags).and_words(values))?)
                })
            })
        })?;
        let values = bytes.into_array().call_method1("view", (dtype(py, self.values)?,))?;
        let values = if is_arrow { ArrowColumn::of_numpy("values", &values)?.into_any() } else { values };
        PyTuple::new(py, [values, flags.into_array().into_any()])
    }

    /// Returns whether each key is in the table.
    ///
    /// >>> import koel, numpy as np
    /// >>> table = koel.Table(np.array([10, 20]), np.array([1, 2]))
    /// >>> table.contains(np.array([20, 5]))
    /// array([ True, False])
    ///
    /// For keys in CUDA memory, the result is a `koel.Array` on the same GPU. The table must be on
    /// that GPU.
    fn contains<'py>(&self, py: Python<'py>, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        #[cfg(feature = "opencl")]
        if let Some((keys, _owner)) = cuda::column("keys", keys)? {
            return Ok(Bound::new(py, self.lookup_on_gpu(py, &keys, false)?.remove(0))?.into_any());
        }
        let Integers { column, .. } = integers("keys", keys)?;
        let mut flags = Fresh::<bool>::zeros(py, column.len())?;
        let found = flags.slice()?;
        self.any_width.read(py, |any_width, stop| {
            with_table!(any_width, |table, K, V| {
                let (to, answers) = ((self.keys, table.backend()), Answers { flags: found, values: &mut [] });
                let has = |keys: &[K]| Ok(table.contains(keys)?);
                each_piece::<K, ()>(&column, to, stop, has, answers, |keys, answers| {
                    Ok(table.answer(keys, koel::backend::Answers::flags(answers.flags))?)
                })
            })
        })?;
        Ok(flags.into_array().into_any())
    }

    /// Adds pairs, and replaces the values of keys that are already in the table. If a key occurs
    /// more than once, its last value is stored.
    ///
    /// >>> import koel, numpy as np
    /// >>> table = koel.Table(np.array([10, 20]), np.array([1, 2]))
    /// >>> table.insert([20, 30], [7, 8])
    /// >>> table.lookup([10, 20, 30])[0]
    /// array([1, 7, 8])
    fn insert(&self, py: Python<'_>, keys: &Bound<'_, PyAny>, values: &Bound<'_, PyAny>) -> PyResult<()> {
        let (keys, values) = (integers("keys", keys)?.column, integers("values", values)?.column);
        self.any_width.write(py, |any_width, _| {
            with_table!(any_width, |table, K, V| {
                let keys = words::<K>(&keys, self.keys, Role::Key)?;
                let values = words::<V>(&values, self.values, Role::Value)?;
                table.upsert(&keys, &values).map_err(|error| to_error(error.into(), self.keys))?;
                Ok(())
            })
        })
    }

    /// Removes keys, and returns the number of those that were in the table.
    ///
    /// >>> import koel, numpy as np
    /// >>> table = koel.Table(np.array([10, 20]), np.array([1, 2]))
    /// >>> table.remove([20, 5])
    /// 1
    fn remove(&self, py: Python<'_>, keys: &Bound<'_, PyAny>) -> PyResult<usize> {
        let keys = integers("keys", keys)?.column;
        self.any_width.write(py, |any_width, _| {
            with_table!(any_width, |table, K, V| {
                let keys = queried::<K>(&keys, self.keys, |keys| Ok(table.contains(keys)?))?;
                Ok(table.remove(&keys)?)
            })
        })
    }

    /// Returns all keys and their values, in the order of the table's slots, which is the same on
    /// every device.
    ///
    /// >>> import koel, numpy as np
    /// >>> table = koel.Table(np.array([10, 20]), np.array([1, 2]))
    /// >>> keys, values = table.items()
    /// >>> dict(zip(keys.tolist(), values.tolist())) == {10: 1, 20: 2}
    /// True
    fn items<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let (keys, values) = self.any_width.read(py, |any_width, _| {
            with_table!(any_width, |table, K, V| {
                let (keys, values): (Vec<K>, Vec<V>) = table.to_pairs()?.into_iter().unzip();
                Ok((K::column(keys), V::column(values)))
            })
        })?;
        let keys = keys.into_python(py, self.keys, Role::Key, false)?;
        PyTuple::new(py, [keys, values.into_python(py, self.values, Role::Value, false)?])
    }

    /// Writes the table to a file, and returns the digest. An existing file is replaced
    /// atomically.
    ///
    /// >>> import koel, os, tempfile
    /// >>> with tempfile.TemporaryDirectory() as folder:
    /// ...     digest = koel.Table([10, 20], [1, 2]).save(os.path.join(folder, "table.koel"))
    /// >>> digest == koel.Table([20, 10], [2, 1]).digest()
    /// True
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<String> {
        self.any_width.read(py, |any_width, _| with_table!(any_width, |table, K, V| Ok(table.save(&path)?.to_string())))
    }

    /// Returns a checksum of the contents. Equal tables have the same checksum on every device.
    ///
    /// >>> import koel
    /// >>> koel.Table([10, 20], [1, 2]).digest() == koel.Table([20, 10], [2, 1]).digest()
    /// True
    fn digest(&self, py: Python<'_>) -> PyResult<String> {
        self.any_width.read(py, |any_width, _| with_table!(any_width, |table, K, V| Ok(table.digest()?.to_string())))
    }

    /// The device: "cpu", "opencl:0", ..
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
        self.any_width.read(py, |any_width, _| Ok(with_table!(any_width, |table, K, V| table.len())))
    }

    /// Raises an error that names the methods to use instead.
    fn __reduce__(&self) -> PyResult<()> {
        Err(not_pickled("Table"))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let (keys, values) = (self.keys.name(), self.values.name());
        Ok(format!("<koel.Table of {} {keys} -> {values}, {}>", self.__len__(py)?, self.device))
    }
}
