//! `koel.MultiTable`: a map from integer keys to any number of integer values each.

use std::path::PathBuf;

use koel::scheme::BucketizedOf;
use koel::table::Contents;
use koel::{Any, AnyScheme, Bucketized, MultiTable as Multi, ValueType};
use numpy::PyArrayDescr;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

#[cfg(feature = "opencl")]
use super::integers::on_gpu;
use super::integers::{Integers, Role, Type, Width as _, dtype, integers, queried, words};
#[cfg(feature = "opencl")]
use super::with_gpu;
use super::{check_load, info, to_error, with_device, with_settings};
#[cfg(feature = "opencl")]
use crate::cuda::{self, Array, Dtype, GpuColumn, Imported};
use crate::device::shown;
use crate::output::{array, flags, not_pickled};
use crate::run::detached_on;

enum AnyWidth {
    Narrow(Multi<Any, AnyScheme, u32>),
    NarrowToWide(Multi<Any, AnyScheme, u64>),
    WideToNarrow(Multi<Any, BucketizedOf<u64, u32>, u32>),
    Wide(Multi<Any, BucketizedOf<u64, u32>, u64>),
}

/// A map from integer keys to any number of integer values each. The values of a key are in the
/// order of the input rows.
///
/// Args:
///     keys: integers, which may have duplicates; types of 8 to 32 bits are stored in 32 bits,
///         others in 64.
///     values: integers, one for each key.
///     load_factor: the share of slots that are used, above 0 and up to 1; the default depends
///         on the kind of table.
///     seed: the seed of the hash functions.
///     device: "auto", "cpu", "opencl:0", "opencl:NAME".
///
/// If the keys and values are in CUDA memory, the table is on the same GPU. For queries in the
/// memory of that GPU, `lookup`, `count` and `contains` return `koel.Array`s.
///
/// >>> import koel, numpy as np
/// >>> table = koel.MultiTable(np.array([7, 5, 7]), np.array([1, 2, 3]))
/// >>> table.lookup(np.array([5, 6, 7]))
/// (array([0, 1, 1, 3]), array([2, 1, 3]))
///
/// >>> import torch  # doctest: +SKIP
/// >>> keys, values = torch.tensor([7, 5, 7], device="cuda"), torch.tensor([1, 2, 3], device="cuda")  # doctest: +SKIP
/// >>> offsets, found = koel.MultiTable(keys, values).lookup(keys[:2])  # doctest: +SKIP
/// >>> torch.from_dlpack(found)  # doctest: +SKIP
/// tensor([1, 3, 2], device='cuda:0')
#[pyclass(frozen, module = "koel")]
pub(crate) struct MultiTable {
    any_width: AnyWidth,
    keys: Type,
    values: Type,
    device: String,
}

/// What a query returns for each key.
#[cfg(feature = "opencl")]
#[derive(Clone, Copy)]
enum Query {
    Values,
    Counts,
    Flags,
}

#[cfg(feature = "opencl")]
const OFFSETS: Dtype = Dtype::Integers(Type { bits: 64, is_signed: true });

impl MultiTable {
    /// The results of a query of keys in CUDA memory.
    #[cfg(feature = "opencl")]
    fn on_gpu(&self, py: Python<'_>, keys: &GpuColumn, of: Query) -> PyResult<Vec<Array>> {
        with_gpu(py, &self.device, || {
            with_table!(&self.any_width, |table, K, V| {
                cuda::queried(table.backend(), keys, |cuda| {
                    let queries = on_gpu::<K>(cuda, keys, self.keys, |keys| Ok(table.table().contains(keys)?))?;
                    Ok(match of {
                        Query::Values => {
                            let found = table.retrieve_on(&queries)?;
                            let offsets = cuda::copied(cuda, &found.offsets, OFFSETS)?;
                            vec![offsets, cuda::copied::<V>(cuda, &found.values, Dtype::Integers(self.values))?]
                        }
                        Query::Counts => vec![cuda::rows(cuda, &table.get_on(&queries)?.counts)?],
                        Query::Flags => {
                            vec![cuda::flags(cuda, &table.table().contains_on(&queries)?, keys.len)?]
                        }
                    })
                })
            })
        })
    }

    /// Counts the values of each key, and converts the counts with `of`.
    fn counted<T: Send>(
        &self,
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        of: impl FnOnce(Vec<u32>) -> T + Send,
    ) -> PyResult<T> {
        let Integers { column, .. } = integers("keys", keys)?;
        with_device(py, &self.device, |_| {
            with_table!(&self.any_width, |table, K, V| {
                let keys = queried::<K>(&column, self.keys, |keys| Ok(table.table().contains(keys)?))?;
                Ok(of(table.count(&keys)?))
            })
        })
    }
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
        // The table built by `$build`, in which `$builder` is the builder for the widths `$K` and `$V`.
        macro_rules! built {
            ($device:expr, $of_keys:expr, $of_values:expr, |$builder:ident, $K:ident, $V:ident| $build:expr) => {{
                macro_rules! of_width {
                    ($variant:ident, $scheme:expr, $key:ty, $value:ty) => {{
                        type $K = $key;
                        type $V = $value;
                        let builder = with_settings!(Multi::builder($scheme), load_factor, seed, $of_keys);
                        let $builder = builder.values::<$V>().value_type($of_values.value_type());
                        AnyWidth::$variant($build.map_err(|error| to_error(error.into(), $of_keys))?)
                    }};
                }
                let scheme = Bucketized::canonical(8);
                let any_width = match ($of_keys.bits, $of_values.bits) {
                    (32, 32) => of_width!(Narrow, AnyScheme::from(scheme), u32, u32),
                    (32, _) => of_width!(NarrowToWide, AnyScheme::from(scheme), u32, u64),
                    (_, 32) => of_width!(WideToNarrow, scheme.of::<u64, u32>(), u64, u32),
                    _ => of_width!(Wide, scheme.of::<u64, u32>(), u64, u64),
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
            return Ok(MultiTable { any_width, keys: of_keys, values: of_values, device });
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
        Ok(MultiTable { any_width, keys: of_keys, values: of_values, device })
    }

    /// Opens a file and checks all of its contents.
    ///
    /// Raises:
    ///     koel.FileError: if the file is damaged or does not contain such a table.
    ///
    /// >>> import koel, os, tempfile
    /// >>> with tempfile.TemporaryDirectory() as folder:
    /// ...     _ = koel.MultiTable([7, 7], [1, 2]).save(os.path.join(folder, "multi.koel"))
    /// ...     len(koel.MultiTable.open(os.path.join(folder, "multi.koel")))
    /// 2
    #[staticmethod]
    #[pyo3(signature = (path, *, device="auto"))]
    fn open(py: Python<'_>, path: PathBuf, device: &str) -> PyResult<Self> {
        detached_on(
            py,
            || crate::device::device(device, usize::MAX),
            |device, _| {
                let (info, keys) = info(&path, Contents::Multi, "koel.MultiTable")?;
                let values = Type { bits: info.value_bits, is_signed: info.value_type == ValueType::Signed };
                let any_width = match (info.key_bits, info.value_bits) {
                    (32, 32) => AnyWidth::Narrow(Multi::open(&device, &path)?),
                    (32, _) => AnyWidth::NarrowToWide(Multi::open(&device, &path)?),
                    (_, 32) => AnyWidth::WideToNarrow(Multi::open(&device, &path)?),
                    _ => AnyWidth::Wide(Multi::open(&device, &path)?),
                };
                Ok(MultiTable { any_width, keys, values, device: shown(&device) })
            },
        )
    }

    /// Returns all values of each key, as offsets and values: the values of key number i are
    /// `values[offsets[i]:offsets[i + 1]]`. There is one more offset than there are keys.
    ///
    /// >>> import koel, numpy as np
    /// >>> table = koel.MultiTable(np.array([7, 5, 7]), np.array([1, 2, 3]))
    /// >>> offsets, values = table.lookup([7, 6])
    /// >>> values[offsets[0]:offsets[1]], values[offsets[1]:offsets[2]]
    /// (array([1, 3]), array([], dtype=int64))
    fn lookup<'py>(&self, py: Python<'py>, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyTuple>> {
        #[cfg(feature = "opencl")]
        if let Some((keys, _owner)) = cuda::column("keys", keys)? {
            return PyTuple::new(py, self.on_gpu(py, &keys, Query::Values)?);
        }
        let Integers { column, is_arrow, .. } = integers("keys", keys)?;
        let (offsets, values) = with_device(py, &self.device, |_| {
            with_table!(&self.any_width, |table, K, V| {
                let keys = queried::<K>(&column, self.keys, |keys| Ok(table.table().contains(keys)?))?;
                let found = table.retrieve(&keys)?;
                let offsets: Vec<i64> = found.offsets.into_iter().map(|offset| offset as i64).collect();
                Ok((offsets, V::column(found.values)))
            })
        })?;
        PyTuple::new(py, [array(py, offsets), values.into_python(py, self.values, Role::Value, is_arrow)?])
    }

    /// Returns the number of values of each key.
    ///
    /// >>> import koel, numpy as np
    /// >>> table = koel.MultiTable(np.array([7, 5, 7]), np.array([1, 2, 3]))
    /// >>> table.count([7, 6])
    /// array([2, 0])
    fn count<'py>(&self, py: Python<'py>, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        #[cfg(feature = "opencl")]
        if let Some((keys, _owner)) = cuda::column("keys", keys)? {
            return Ok(Bound::new(py, self.on_gpu(py, &keys, Query::Counts)?.remove(0))?.into_any());
        }
        Ok(array(py, self.counted(py, keys, |counts: Vec<u32>| counts.into_iter().map(i64::from).collect())?))
    }

    /// Returns whether each key has values.
    ///
    /// >>> import koel, numpy as np
    /// >>> table = koel.MultiTable(np.array([7, 5, 7]), np.array([1, 2, 3]))
    /// >>> table.contains([7, 6])
    /// array([ True, False])
    fn contains<'py>(&self, py: Python<'py>, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        #[cfg(feature = "opencl")]
        if let Some((keys, _owner)) = cuda::column("keys", keys)? {
            return Ok(Bound::new(py, self.on_gpu(py, &keys, Query::Flags)?.remove(0))?.into_any());
        }
        Ok(array(py, self.counted(py, keys, |counts| flags(counts.len(), |i| counts[i] > 0))?))
    }

    /// Returns all keys and values, with one row per value, sorted by key. The values of a key
    /// are in the order of the input rows.
    ///
    /// >>> import koel, numpy as np
    /// >>> table = koel.MultiTable(np.array([7, 5, 7]), np.array([1, 2, 3]))
    /// >>> table.items()
    /// (array([5, 7, 7]), array([2, 1, 3]))
    fn items<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let (keys, values) = with_device(py, &self.device, |_| {
            with_table!(&self.any_width, |table, K, V| {
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
    /// >>> table = koel.MultiTable([7, 7], [1, 2])
    /// >>> with tempfile.TemporaryDirectory() as folder:
    /// ...     table.save(os.path.join(folder, "multi.koel")) == table.digest()
    /// True
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<String> {
        with_device(py, &self.device, |_| {
            with_table!(&self.any_width, |table, K, V| Ok(table.save(&path)?.to_string()))
        })
    }

    /// Returns a checksum of the contents. Equal tables have the same checksum on every device.
    ///
    /// >>> import koel
    /// >>> koel.MultiTable([7, 5], [1, 2]).digest() == koel.MultiTable([5, 7], [2, 1]).digest()
    /// True
    fn digest(&self, py: Python<'_>) -> PyResult<String> {
        with_device(py, &self.device, |_| with_table!(&self.any_width, |table, K, V| Ok(table.digest()?.to_string())))
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

    fn __len__(&self) -> usize {
        with_table!(&self.any_width, |table, K, V| table.len())
    }

    /// Raises an error that names the methods to use instead.
    fn __reduce__(&self) -> PyResult<()> {
        Err(not_pickled("MultiTable"))
    }

    fn __repr__(&self) -> String {
        let (keys, values) = (self.keys.name(), self.values.name());
        format!("<koel.MultiTable of {} {keys} -> {values}, {}>", self.__len__(), self.device)
    }
}
