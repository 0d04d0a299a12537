//! `koel.isin` of CUDA arrays.

use koel::opencl::cuda::Cuda;
use koel::scheme::BucketizedOf;
use koel::{Any, AnyScheme, Bucketized, CuckooSet, HashSet};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use super::{GpuColumn, Imported, device_of, pair, publish};
use crate::error::Result;
use crate::run::in_pool;

/// For each row of `a` whether it is among `values`; `None` if neither is in CUDA memory.
///
/// # Errors
/// TypeError if one of them is in main memory.
pub(crate) fn isin<'py>(
    a: &Bound<'py, PyAny>,
    values: &Bound<'py, PyAny>,
    device: &str,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let Some(((a, a_owner), (values, _values_owner))) = pair(("a", a), ("values", values))? else { return Ok(None) };
    if a.of != values.of {
        let text = format!("a has {} and values {}: give one type on the GPU", a.of.name(), values.of.name());
        return Err(PyTypeError::new_err(text));
    }
    let py = a_owner.py();
    let found = py.detach(|| {
        let (cuda, device) = device_of(device, &[&a, &values])?;
        in_pool(|_| {
            let among = Imported::of(&cuda, &values)?;
            let (found, len) = match a.of.bits {
                32 => {
                    let builder = HashSet::builder(AnyScheme::from(CuckooSet::canonical(4)));
                    let set: HashSet<Any, AnyScheme> = builder.build_on(&device, &among.words::<u32>(a.of, 0)?)?;
                    (looked_up(&cuda, &a, |keys| Ok(set.contains_on(&keys.words::<u32>(a.of, 0)?)?))?, a.len)
                }
                _ => {
                    let builder = HashSet::builder(Bucketized::canonical(8).of::<u64, ()>());
                    let words = among.words::<u64>(a.of, 0)?;
                    let set: HashSet<Any, BucketizedOf<u64, ()>> = builder.build_on(&device, &words)?;
                    (looked_up(&cuda, &a, |keys| Ok(set.contains_on(&keys.words::<u64>(a.of, 0)?)?))?, a.len)
                }
            };
            publish(&cuda, None, &found, len)
        })
    });
    let (_, flags) = found?;
    Ok(Some(Bound::new(py, flags)?.into_any()))
}

/// The bitmap of a query of imported keys.
fn looked_up<T>(cuda: &Cuda, keys: &GpuColumn, query: impl FnOnce(&Imported<'_>) -> Result<T>) -> Result<T> {
    query(&Imported::of(cuda, keys)?)
}
