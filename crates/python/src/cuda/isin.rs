//! `koel.isin` for CUDA arrays.

use koel::scheme::BucketizedOf;
use koel::{Any, AnyScheme, Bucketized, CuckooSet, HashSet};
use pyo3::prelude::*;

use super::{key_pair, keys, on_gpu};

/// Returns for each row of `a` whether it occurs in `values`; `None` if neither is in CUDA memory.
///
/// # Errors
/// TypeError if only one of them is in CUDA memory.
pub(crate) fn isin<'py>(
    a: &Bound<'py, PyAny>,
    values: &Bound<'py, PyAny>,
    device: &str,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    let py = a.py();
    let Some(((a, _a_owners), (values, _values_owners))) = key_pair(("a", a), ("values", values))? else {
        return Ok(None);
    };
    let columns: Vec<_> = a.placed().chain(values.placed()).collect();
    let mut found = on_gpu(py, device, &columns, |cuda, device| {
        let bits = match a.bits() {
            32 => {
                let builder = HashSet::builder(AnyScheme::from(CuckooSet::canonical(4)));
                let set: HashSet<Any, AnyScheme> = builder.build_on(device, &values.words::<u32>(cuda)?)?;
                set.contains_on(&a.words::<u32>(cuda)?)?
            }
            _ => {
                let builder = HashSet::builder(Bucketized::canonical(8).of::<u64, ()>());
                let set: HashSet<Any, BucketizedOf<u64, ()>> = builder.build_on(device, &values.words::<u64>(cuda)?)?;
                set.contains_on(&a.words::<u64>(cuda)?)?
            }
        };
        Ok(vec![keys::flags(cuda, &bits, a.len())?])
    })?;
    Ok(Some(Bound::new(py, found.remove(0))?.into_any()))
}
