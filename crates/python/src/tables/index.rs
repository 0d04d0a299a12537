//! `koel.Index`: an index of the rows of integer keys, for joins.

use std::path::PathBuf;

use koel::scheme::BucketizedOf;
use koel::table::Contents;
use koel::{Any, AnyScheme, Bucketized, JoinIndex, JoinKind, JoinRows};
use numpy::PyArrayDescr;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

#[cfg(feature = "opencl")]
use super::integers::on_gpu;
use super::integers::{Integers, Role, Type, dtype, integers, queried, words};
#[cfg(feature = "opencl")]
use super::with_gpu;
use super::{check_load, info, to_error, with_device, with_settings};
#[cfg(feature = "opencl")]
use crate::cuda::{self, Array, GpuColumn, Imported};
use crate::device::shown;
use crate::error::Result;
use crate::join::{self, check_result};
use crate::output::{array, found, not_pickled};
use crate::run::{PIECE, Stop, detached_on};

enum AnyWidth {
    Narrow(JoinIndex<Any, AnyScheme>),
    Wide(JoinIndex<Any, BucketizedOf<u64, u32>>),
}

/// The right side of joins: an index of the rows of integer keys. It is built once and joined
/// with any number of left sides, and can be saved to a file. For text and other keys, and for a
/// single join, use `koel.join`.
///
/// Args:
///     keys: integers, which may have duplicates; types of 8 to 32 bits are stored in 32 bits,
///         others in 64.
///     load_factor: the share of slots that are used, above 0 and up to 1; the default depends
///         on the kind of table.
///     seed: the seed of the hash functions.
///     device: "auto", "cpu", "opencl:0", "opencl:NAME".
///
/// If the keys are in CUDA memory, the index is on the same GPU. For left sides in the memory of
/// that GPU, `join` returns `koel.Array`s.
///
/// >>> import koel, numpy as np
/// >>> index = koel.Index(np.array([30, 10, 30]))
/// >>> index.join(np.array([10, 20, 30]))
/// (array([0, 2, 2]), array([1, 0, 2]))
///
/// >>> import torch  # doctest: +SKIP
/// >>> index = koel.Index(torch.tensor([30, 10, 30], device="cuda"))  # doctest: +SKIP
/// >>> rows, matches = index.join(torch.tensor([10, 20, 30], device="cuda"))  # doctest: +SKIP
/// >>> torch.from_dlpack(matches)  # doctest: +SKIP
/// tensor([1, 0, 2], device='cuda:0')
#[pyclass(frozen, module = "koel")]
pub(crate) struct Index {
    any_width: AnyWidth,
    keys: Type,
    device: String,
}

impl Index {
    /// The rows of a join. Checks for cancellation between the pieces of a long result.
    fn rows(&self, left: &koel_arrow::Column, how: JoinKind, stop: &Stop) -> Result<JoinRows> {
        with_keys!(&self.any_width, |index, K| {
            let left = queried::<K>(left, self.keys, |keys| Ok(index.table().contains(keys)?))?;
            let joined = index.join(&left, how)?;
            check_result(joined.len())?;
            let mut all = JoinRows::default();
            for piece in joined.chunks(PIECE) {
                let piece = piece?;
                if all.left.is_empty() {
                    all = piece;
                } else {
                    all.left.extend(piece.left);
                    all.right.extend(piece.right);
                }
                stop.check()?;
            }
            Ok(all)
        })
    }

    /// The rows of a join with keys in CUDA memory.
    #[cfg(feature = "opencl")]
    fn rows_on_gpu(&self, left: &GpuColumn, how: JoinKind) -> Result<Vec<Array>> {
        with_keys!(&self.any_width, |index, K| {
            cuda::queried(index.backend(), left, |cuda| {
                let left = on_gpu::<K>(cuda, left, self.keys, |keys| Ok(index.table().contains(keys)?))?;
                cuda::joined(cuda, index, &left, how)
            })
        })
    }

    /// The row of each key, for `koel.get_indexer`.
    pub(crate) fn indexer<'py>(&self, py: Python<'py>, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        if with_keys!(&self.any_width, |index, K| index.keys_len() < index.len()) {
            let text = "the index has duplicate keys: use its join method, which returns all rows of a key";
            return Err(PyValueError::new_err(text));
        }
        #[cfg(feature = "opencl")]
        if let Some((keys, _owner)) = cuda::column("keys", keys)? {
            let mut sides = with_gpu(py, &self.device, || self.rows_on_gpu(&keys, JoinKind::Left))?;
            return Ok(Bound::new(py, sides.remove(1))?.into_any());
        }
        let Integers { column, .. } = integers("keys", keys)?;
        let rows = with_device(py, &self.device, |stop| Ok(found(&self.rows(&column, JoinKind::Left, stop)?.right)))?;
        Ok(array(py, rows))
    }
}

#[pymethods]
impl Index {
    #[new]
    #[pyo3(signature = (keys, *, load_factor=None, seed=None, device="auto"))]
    fn new(
        py: Python<'_>,
        keys: &Bound<'_, PyAny>,
        load_factor: Option<f64>,
        seed: Option<u64>,
        device: &str,
    ) -> PyResult<Self> {
        check_load(load_factor)?;
        // The index built by `$build`, in which `$builder` is the builder for the width of the keys.
        macro_rules! built {
            ($device:expr, $of:expr, |$builder:ident| $build:expr) => {{
                let (scheme, to_error) = (Bucketized::canonical(8), |error: koel::Error| to_error(error.into(), $of));
                let any_width = match $of.bits {
                    32 => {
                        let $builder =
                            with_settings!(JoinIndex::builder(AnyScheme::from(scheme)), load_factor, seed, $of);
                        AnyWidth::Narrow($build.map_err(to_error)?)
                    }
                    _ => {
                        let builder = JoinIndex::builder(scheme.of::<u64, u32>());
                        let $builder = with_settings!(builder, load_factor, seed, $of);
                        AnyWidth::Wide($build.map_err(to_error)?)
                    }
                };
                Ok((any_width, shown(&$device)))
            }};
        }
        #[cfg(feature = "opencl")]
        if let Some((keys, _owner)) = cuda::column("keys", keys)? {
            let of = keys.of;
            let (any_width, device) = cuda::on_device(py, device, &[&keys], |cuda, device| {
                let keys = Imported::of(cuda, &keys)?;
                built!(device, of, |builder| builder.build_on(device, &keys.words(of, 0)?))
            })?;
            return Ok(Index { any_width, keys: of, device });
        }
        let Integers { column, of, .. } = integers("keys", keys)?;
        let open = || crate::device::device(device, column.len());
        let (any_width, device) = detached_on(py, open, |device, _| {
            built!(device, of, |builder| builder.build(&device, &words(&column, of, Role::Key)?))
        })?;
        Ok(Index { any_width, keys: of, device })
    }

    /// Opens a file and checks all of its contents.
    ///
    /// Raises:
    ///     koel.FileError: if the file is damaged or does not contain an index.
    ///
    /// >>> import koel, os, tempfile
    /// >>> with tempfile.TemporaryDirectory() as folder:
    /// ...     _ = koel.Index([30, 10]).save(os.path.join(folder, "index.koel"))
    /// ...     len(koel.Index.open(os.path.join(folder, "index.koel")))
    /// 2
    #[staticmethod]
    #[pyo3(signature = (path, *, device="auto"))]
    fn open(py: Python<'_>, path: PathBuf, device: &str) -> PyResult<Self> {
        detached_on(
            py,
            || crate::device::device(device, usize::MAX),
            |device, _| {
                let (info, keys) = info(&path, Contents::Multi, "koel.Index")?;
                let any_width = match info.key_bits {
                    32 => AnyWidth::Narrow(JoinIndex::open(&device, &path)?),
                    _ => AnyWidth::Wide(JoinIndex::open(&device, &path)?),
                };
                Ok(Index { any_width, keys, device: shown(&device) })
            },
        )
    }

    /// Returns the row numbers of the pairs of left and right rows whose keys are equal, ordered
    /// by left row, then by right row, like `koel.join`.
    ///
    /// Args:
    ///     left: integers.
    ///     how: "inner", "left", "outer", "semi" or "anti".
    ///
    /// >>> import koel, numpy as np
    /// >>> index = koel.Index(np.array([30, 10, 30]))
    /// >>> index.join(np.array([30, 20]), "left")
    /// (array([0, 0, 1]), array([ 0,  2, -1]))
    #[pyo3(signature = (left, how="inner"))]
    fn join<'py>(&self, py: Python<'py>, left: &Bound<'py, PyAny>, how: &str) -> PyResult<Bound<'py, PyTuple>> {
        let (kind, is_exchanged) = join::kind(how)?;
        if is_exchanged {
            let text = "an index does not support \"right\" joins: use \"outer\", or koel.join(left, right, \"right\")";
            return Err(PyValueError::new_err(text));
        }
        #[cfg(feature = "opencl")]
        if let Some((left, _owner)) = cuda::column("left", left)? {
            return join::both_sides(py, with_gpu(py, &self.device, || self.rows_on_gpu(&left, kind))?);
        }
        let Integers { column, .. } = integers("left", left)?;
        let sides = with_device(py, &self.device, |stop| {
            let rows = self.rows(&column, kind, stop)?;
            Ok([Some(found(&rows.left)), kind.has_right().then(|| found(&rows.right))])
        })?;
        PyTuple::new(py, sides.map(|rows| rows.map(|rows| array(py, rows))))
    }

    /// Writes the index to a file, and returns the digest. An existing file is replaced
    /// atomically.
    ///
    /// >>> import koel, os, tempfile
    /// >>> index = koel.Index([30, 10])
    /// >>> with tempfile.TemporaryDirectory() as folder:
    /// ...     index.save(os.path.join(folder, "index.koel")) == index.digest()
    /// True
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<String> {
        with_device(py, &self.device, |_| with_keys!(&self.any_width, |index, K| Ok(index.save(&path)?.to_string())))
    }

    /// Returns a checksum of the contents. Equal indices have the same checksum on every device.
    ///
    /// >>> import koel
    /// >>> koel.Index([30, 10]).digest() == koel.Index([30, 10]).digest()
    /// True
    fn digest(&self, py: Python<'_>) -> PyResult<String> {
        with_device(py, &self.device, |_| with_keys!(&self.any_width, |index, K| Ok(index.digest()?.to_string())))
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

    /// Whether there are no duplicate keys.
    #[getter]
    fn is_unique(&self) -> bool {
        with_keys!(&self.any_width, |index, K| index.keys_len() == index.len())
    }

    fn __len__(&self) -> usize {
        with_keys!(&self.any_width, |index, K| index.len())
    }

    /// Raises an error that names the methods to use instead.
    fn __reduce__(&self) -> PyResult<()> {
        Err(not_pickled("Index"))
    }

    fn __repr__(&self) -> String {
        format!("<koel.Index of {} {}, {}>", self.__len__(), self.keys.name(), self.device)
    }
}
