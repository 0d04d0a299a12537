//! `koel.isin` of CUDA arrays.

use koel::scheme::BucketizedOf;
use koel::{Any, AnyScheme, Bucketized, CuckooSet, HashSet};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use super::keys::{self, Imported};
use super::{on_gpu, pair};

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
    let mut found = on_gpu(a_owner.py(), device, &[&a, &values], |cuda, device| {
        let among = Imported::of(cuda, &values)?;
        let bits = match a.of.bits {
            32 => {
                let builder = HashSet::builder(AnyScheme::from(CuckooSet::canonical(4)));
                let set: HashSet<Any, AnyScheme> = builder.build_on(device, &among.words::<u32>(a.of, 0)?)?;
                set.contains_on(&Imported::of(cuda, &a)?.words::<u32>(a.of, 0)?)?
            }
            _ => {
                let builder = HashSet::builder(Bucketized::canonical(8).of::<u64, ()>());
                let words = among.words::<u64>(a.of, 0)?;
                let set: HashSet<Any, BucketizedOf<u64, ()>> = builder.build_on(device, &words)?;
                set.contains_on(&Imported::of(cuda, &a)?.words::<u64>(a.of, 0)?)?
            }
        };
        Ok(vec![keys::flags(cuda, &bits, a.len)?])
    })?;
    Ok(Some(Bound::new(a_owner.py(), found.remove(0))?.into_any()))
}
