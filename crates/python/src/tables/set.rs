//! `koel.Set`: a set of integers.

use std::path::PathBuf;

use koel::scheme::BucketizedOf;
use koel::table::Contents;
use koel::{Any, AnyScheme, Bucketized, CuckooSet, HashSet};
use numpy::PyArrayDescr;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

#[cfg(feature = "opencl")]
use super::integers::on_gpu;
use super::integers::{Answers, Integers, Role, Type, Width as _, dtype, each_piece, integers, queried, words};
use super::{Shared, check_load, info, to_error, with_settings};
#[cfg(feature = "opencl")]
use crate::cuda::{self, Imported};
use crate::device::shown;
use crate::output::{Fresh, not_pickled};
use crate::run::detached_on;

enum AnyWidth {
    Narrow(HashSet<Any, AnyScheme>),
    Wide(HashSet<Any, BucketizedOf<u64, ()>>),
}

/// A set of integers. It is built and queried in bulk, and can be combined with other sets and
/// saved to a file.
///
/// Args:
///     keys: integers, which may have duplicates; types of 8 to 32 bits are stored in 32 bits,
///         others in 64.
///     load_factor: the share of slots that are used, above 0 and up to 1; the default depends
///         on the kind of table.
///     seed: the seed of the hash functions.
///     device: "auto", "cpu", "opencl:0", "opencl:NAME".
///
/// >>> import koel, numpy as np
/// >>> primes = koel.Set(np.array([2, 3, 5, 7]))
/// >>> primes.contains(np.array([4, 5]))
/// array([False,  True])
/// >>> len(primes & koel.Set(np.array([1, 2, 3])))
/// 2
#[pyclass(frozen, module = "koel")]
pub(crate) struct Set {
    any_width: Shared<AnyWidth>,
    keys: Type,
    device: String,
}

/// An operation on two sets.
#[derive(Clone, Copy)]
enum Operation {
    Union,
    Intersection,
    Difference,
    SymmetricDifference,
}

impl Set {
    fn with(&self, py: Python<'_>, other: &Bound<'_, Set>, how: Operation) -> PyResult<Set> {
        let other = other.get();
        if self.keys != other.keys {
            let (mine, others) = (self.keys.name(), other.keys.name());
            return Err(PyTypeError::new_err(format!(
                "one set holds {mine}, and the other {others}: build both with the same dtype"
            )));
        }
        macro_rules! combined {
            ($a:expr, $b:expr) => {
                match how {
                    Operation::Union => $a.union($b)?,
                    Operation::Intersection => $a.intersection($b)?,
                    Operation::Difference => $a.difference($b)?,
                    Operation::SymmetricDifference => $a.symmetric_difference($b)?,
                }
            };
        }
        let any_width = self.any_width.read_both(py, &other.any_width, |mine, theirs| match (mine, theirs) {
            (AnyWidth::Narrow(a), AnyWidth::Narrow(b)) => Ok(AnyWidth::Narrow(combined!(a, b))),
            (AnyWidth::Wide(a), AnyWidth::Wide(b)) => Ok(AnyWidth::Wide(combined!(a, b))),
            _ => Err(PyTypeError::new_err("the sets have keys of different widths").into()),
        })?;
        Ok(Set { any_width: Shared::new(any_width, &self.device), keys: self.keys, device: self.device.clone() })
    }
}

#[pymethods]
impl Set {
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
        // The set built by `$build`, in which `$builder` is the builder for the width of the keys.
        macro_rules! built {
            ($device:expr, $of:expr, |$builder:ident| $build:expr) => {{
                let to_error = |error: koel::Error| to_error(error.into(), $of);
                let any_width = match $of.bits {
                    32 => {
                        let builder = HashSet::builder(AnyScheme::from(CuckooSet::canonical(4)));
                        let $builder = with_settings!(builder, load_factor, seed, $of);
                        AnyWidth::Narrow($build.map_err(to_error)?)
                    }
                    _ => {
                        let builder = HashSet::builder(Bucketized::canonical(8).of::<u64, ()>());
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
            return Ok(Set { any_width: Shared::new(any_width, &device), keys: of, device });
        }
        let Integers { column, of, .. } = integers("keys", keys)?;
        let open = || crate::device::device(device, column.len());
        let (any_width, device) = detached_on(py, open, |device, _| {
            built!(device, of, |builder| builder.build(&device, &words(&column, of, Role::Key)?))
        })?;
        Ok(Set { any_width: Shared::new(any_width, &device), keys: of, device })
    }

    /// Opens a file and checks all of its contents.
    ///
    /// Raises:
    ///     koel.FileError: if the file is damaged or does not contain a set.
    ///
    /// >>> import koel, os, tempfile
    /// >>> with tempfile.TemporaryDirectory() as folder:
    /// ...     _ = koel.Set([2, 3]).save(os.path.join(folder, "set.koel"))
    /// ...     len(koel.Set.open(os.path.join(folder, "set.koel")))
    /// 2
    #[staticmethod]
    #[pyo3(signature = (path, *, device="auto"))]
    fn open(py: Python<'_>, path: PathBuf, device: &str) -> PyResult<Self> {
        detached_on(
            py,
            || crate::device::device(device, usize::MAX),
            |device, _| {
                let (info, keys) = info(&path, Contents::Set, "koel.Set")?;
                let any_width = match info.key_bits {
                    32 => AnyWidth::Narrow(HashSet::open(&device, &path)?),
                    _ => AnyWidth::Wide(HashSet::open(&device, &path)?),
                };
                let device = shown(&device);
                Ok(Set { any_width: Shared::new(any_width, &device), keys, device })
            },
        )
    }

    /// Returns whether each key is in the set.
    ///
    /// >>> import koel, numpy as np
    /// >>> primes = koel.Set(np.array([2, 3, 5]))
    /// >>> primes.contains(np.array([4, 5]))
    /// array([False,  True])
    ///
    /// For keys in CUDA memory, the result is a `koel.Array` on the same GPU. The set must be on
    /// that GPU.
    fn contains<'py>(&self, py: Python<'py>, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        #[cfg(feature = "opencl")]
        if let Some((keys, _owner)) = cuda::column("keys", keys)? {
            let mut flags = self.any_width.read_here(py, |any_width| {
                with_keys!(any_width, |set, K| {
                    cuda::queried(set.backend(), &keys, |cuda| {
                        let queries = on_gpu::<K>(cuda, &keys, self.keys, |keys| Ok(set.contains(keys)?))?;
                        Ok(vec![cuda::flags(cuda, &set.contains_on(&queries)?, keys.len)?])
                    })
                })
            })?;
            return Ok(Bound::new(py, flags.remove(0))?.into_any());
        }
        let Integers { column, .. } = integers("keys", keys)?;
        let mut flags = Fresh::<bool>::zeros(py, column.len())?;
        let found = flags.slice()?;
        self.any_width.read(py, |any_width, stop| {
            with_keys!(any_width, |set, K| {
                let (to, answers) = ((self.keys, set.backend()), Answers { flags: found, values: &mut [] });
                let has = |keys: &[K]| Ok(set.contains(keys)?);
                each_piece::<K, ()>(&column, to, stop, has, answers, |keys, answers| {
                    Ok(set.answer(keys, answers.flags)?)
                })
            })
        })?;
        Ok(flags.into_array().into_any())
    }

    /// Adds keys, and returns the number of new ones.
    ///
    /// >>> import koel, numpy as np
    /// >>> primes = koel.Set(np.array([2, 3, 5]))
    /// >>> primes.insert([5, 7])
    /// 1
    fn insert(&self, py: Python<'_>, keys: &Bound<'_, PyAny>) -> PyResult<usize> {
        let keys = integers("keys", keys)?.column;
        self.any_width.write(py, |any_width, _| {
            with_keys!(any_width, |set, K| {
                let keys = words::<K>(&keys, self.keys, Role::Key)?;
                set.insert(&keys).map_err(|error| to_error(error.into(), self.keys))
            })
        })
    }

    /// Removes keys, and returns the number of those that were in the set.
    ///
    /// >>> import koel, numpy as np
    /// >>> primes = koel.Set(np.array([2, 3, 5]))
    /// >>> primes.remove([5, 7])
    /// 1
    fn remove(&self, py: Python<'_>, keys: &Bound<'_, PyAny>) -> PyResult<usize> {
        let keys = integers("keys", keys)?.column;
        self.any_width.write(py, |any_width, _| {
            with_keys!(any_width, |set, K| {
                let keys = queried::<K>(&keys, self.keys, |keys| Ok(set.contains(keys)?))?;
                Ok(set.remove(&keys)?)
            })
        })
    }

    /// Returns all keys, in the order of the set's slots, which is the same on every device.
    ///
    /// >>> import koel, numpy as np
    /// >>> primes = koel.Set(np.array([2, 3, 5]))
    /// >>> np.sort(primes.keys())
    /// array([2, 3, 5])
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let keys =
            self.any_width.read(py, |any_width, _| with_keys!(any_width, |set, K| Ok(K::column(set.to_keys()?))))?;
        keys.into_python(py, self.keys, Role::Key, false)
    }

    fn __or__(&self, py: Python<'_>, other: &Bound<'_, Set>) -> PyResult<Set> {
        self.with(py, other, Operation::Union)
    }

    fn __and__(&self, py: Python<'_>, other: &Bound<'_, Set>) -> PyResult<Set> {
        self.with(py, other, Operation::Intersection)
    }

    fn __sub__(&self, py: Python<'_>, other: &Bound<'_, Set>) -> PyResult<Set> {
        self.with(py, other, Operation::Difference)
    }

    fn __xor__(&self, py: Python<'_>, other: &Bound<'_, Set>) -> PyResult<Set> {
        self.with(py, other, Operation::SymmetricDifference)
    }

    /// Writes the set to a file, and returns the digest. An existing file is replaced
    /// atomically.
    ///
    /// >>> import koel, os, tempfile
    /// >>> with tempfile.TemporaryDirectory() as folder:
    /// ...     digest = koel.Set([2, 3]).save(os.path.join(folder, "set.koel"))
    /// >>> digest == koel.Set([3, 2]).digest()
    /// True
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<String> {
        self.any_width.read(py, |any_width, _| with_keys!(any_width, |set, K| Ok(set.save(&path)?.to_string())))
    }

    /// Returns a checksum of the contents. Equal sets have the same checksum on every device.
    ///
    /// >>> import koel
    /// >>> koel.Set([2, 3]).digest() == koel.Set([3, 2, 3]).digest()
    /// True
    fn digest(&self, py: Python<'_>) -> PyResult<String> {
        self.any_width.read(py, |any_width, _| with_keys!(any_width, |set, K| Ok(set.digest()?.to_string())))
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

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        self.any_width.read(py, |any_width, _| Ok(with_keys!(any_width, |set, K| set.len())))
    }

    /// Raises an error that names the methods to use instead.
    fn __reduce__(&self) -> PyResult<()> {
        Err(not_pickled("Set"))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("<koel.Set of {} {}, {}>", self.__len__(py)?, self.keys.name(), self.device))
    }
}
