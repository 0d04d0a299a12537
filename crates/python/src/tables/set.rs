//! `koel.Set`: integers.

use std::path::PathBuf;

use koel::scheme::BucketizedOf;
use koel::table::Contents;
use koel::{Any, AnyScheme, Bucketized, CuckooSet, HashSet};
use numpy::{PyArray1, PyArrayDescr};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use super::integers::{Role, Type, Width as _, dtype, integers, words};
use super::{Shared, check_load, info, with_settings};
use crate::device::shown;
use crate::error::Result;
use crate::run::detached;

enum Held {
    Narrow(HashSet<Any, AnyScheme>),
    Wide(HashSet<Any, BucketizedOf<u64, ()>>),
}

/// A set of integers: built at once, asked in bulk, combined with others, kept in a file.
///
/// Args:
///     keys: integers, each any number of times; those of 8 to 32 bits are kept in 32, others in 64.
///     load_factor: how full its table is, above 0 and up to 1; otherwise what its kind is best at.
///     seed: of the hash functions.
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
    held: Shared<Held>,
    keys: Type,
    device: String,
}

/// How two sets become one.
#[derive(Clone, Copy)]
enum Algebra {
    Union,
    Intersection,
    Difference,
    Either,
}

impl Set {
    fn with(&self, py: Python<'_>, other: &Bound<'_, Set>, how: Algebra) -> PyResult<Set> {
        let other = other.get();
        if self.keys != other.keys {
            let (mine, others) = (self.keys.name(), other.keys.name());
            return Err(PyTypeError::new_err(format!(
                "one set holds {mine} and the other {others}: build both of one dtype"
            )));
        }
        macro_rules! combined {
            ($a:expr, $b:expr) => {
                match how {
                    Algebra::Union => $a.union($b)?,
                    Algebra::Intersection => $a.intersection($b)?,
                    Algebra::Difference => $a.difference($b)?,
                    Algebra::Either => $a.symmetric_difference($b)?,
                }
            };
        }
        let held = detached(py, || {
            // Twice the same lock would wait for a change that waits for it.
            let mine = self.held.read();
            let theirs = if std::ptr::eq(self, other) { None } else { Some(other.held.read()) };
            match (&*mine, theirs.as_deref().unwrap_or(&mine)) {
                (Held::Narrow(a), Held::Narrow(b)) => Ok(Held::Narrow(combined!(a, b))),
                (Held::Wide(a), Held::Wide(b)) => Ok(Held::Wide(combined!(a, b))),
                _ => Err(PyTypeError::new_err("the sets have keys of two widths").into()),
            }
        })?;
        Ok(Set { held: Shared::new(held), keys: self.keys, device: self.device.clone() })
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
        let (keys, of) = integers("keys", keys)?;
        let (held, device) = detached(py, || {
            let device = crate::device::device(device, keys.len())?;
            let held = match of.bits {
                32 => {
                    let builder = HashSet::builder(AnyScheme::from(CuckooSet::canonical(4)));
                    let builder = with_settings!(builder, load_factor, seed, of);
                    Held::Narrow(builder.build(&device, &words(&keys, of, Role::Key)?)?)
                }
                _ => {
                    let builder = HashSet::builder(Bucketized::canonical(8).of::<u64, ()>());
                    let builder = with_settings!(builder, load_factor, seed, of);
                    Held::Wide(builder.build(&device, &words(&keys, of, Role::Key)?)?)
                }
            };
            Ok((held, shown(&device)))
        })?;
        Ok(Set { held: Shared::new(held), keys: of, device })
    }

    /// Opens a file, and checks everything in it.
    ///
    /// Raises:
    ///     koel.FileError: if it holds no set, or a damaged one.
    #[staticmethod]
    #[pyo3(signature = (path, *, device="auto"))]
    fn open(py: Python<'_>, path: PathBuf, device: &str) -> PyResult<Self> {
        detached(py, || {
            let (info, keys) = info(&path, Contents::Set, "koel.Set")?;
            let device = crate::device::device(device, usize::MAX)?;
            let held = match info.key_bits {
                32 => Held::Narrow(HashSet::open(&device, &path)?),
                _ => Held::Wide(HashSet::open(&device, &path)?),
            };
            Ok(Set { held: Shared::new(held), keys, device: shown(&device) })
        })
    }

    /// For each key whether it is there.
    fn contains<'py>(&self, py: Python<'py>, keys: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let keys = integers("keys", keys)?.0;
        let found = detached(py, || {
            with_keys!(&*self.held.read(), |set, K| Ok(set.contains(&words::<K>(&keys, self.keys, Role::Key)?)?))
        })?;
        Ok(PyArray1::from_vec(py, found).into_any())
    }

    /// Adds keys; how many of them were not there.
    fn insert(&self, py: Python<'_>, keys: &Bound<'_, PyAny>) -> PyResult<usize> {
        let keys = integers("keys", keys)?.0;
        detached(py, || {
            with_keys!(&mut *self.held.write(), |set, K| Ok(set.insert(&words::<K>(&keys, self.keys, Role::Key)?)?))
        })
    }

    /// Takes keys away; how many of them were there.
    fn remove(&self, py: Python<'_>, keys: &Bound<'_, PyAny>) -> PyResult<usize> {
        let keys = integers("keys", keys)?.0;
        detached(py, || {
            with_keys!(&mut *self.held.write(), |set, K| Ok(set.remove(&words::<K>(&keys, self.keys, Role::Key)?)?))
        })
    }

    /// All keys, in the order in which the set holds them: the same on every device.
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let keys = detached(py, || with_keys!(&*self.held.read(), |set, K| Ok(K::column(set.to_keys()?))))?;
        keys.into_python(py, self.keys, Role::Key)
    }

    fn __or__(&self, py: Python<'_>, other: &Bound<'_, Set>) -> PyResult<Set> {
        self.with(py, other, Algebra::Union)
    }

    fn __and__(&self, py: Python<'_>, other: &Bound<'_, Set>) -> PyResult<Set> {
        self.with(py, other, Algebra::Intersection)
    }

    fn __sub__(&self, py: Python<'_>, other: &Bound<'_, Set>) -> PyResult<Set> {
        self.with(py, other, Algebra::Difference)
    }

    fn __xor__(&self, py: Python<'_>, other: &Bound<'_, Set>) -> PyResult<Set> {
        self.with(py, other, Algebra::Either)
    }

    /// Writes the set to a file, in whose place it comes as a whole or not at all; its digest.
    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<String> {
        detached(py, || with_keys!(&*self.held.read(), |set, K| Ok(set.save(&path)?.to_string())))
    }

    /// A number for all that the set holds: equal sets have equal ones, on every device.
    fn digest(&self, py: Python<'_>) -> PyResult<String> {
        detached(py, || -> Result<String> { with_keys!(&*self.held.read(), |set, K| Ok(set.digest()?.to_string())) })
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

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        detached(py, || Ok(with_keys!(&*self.held.read(), |set, K| set.len())))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("<koel.Set of {} {}, {}>", self.__len__(py)?, self.keys.name(), self.device))
    }
}
