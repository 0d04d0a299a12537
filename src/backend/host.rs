//! Classic builds that are sequential in their papers: the image is read to the host, changed by the scheme's own rule
//! on one thread, and written back. The ledger records it.

use super::{HashBackend, Placed, PlacedOf, Removed};
use crate::error::Result;
use crate::scheme::{Placing, Plan, Scheme};

/// [`Passes::place`](super::Kernels::place), one pair at a time, in order.
pub(crate) fn place<B: HashBackend, S: Scheme>(
    backend: &B,
    plan: &S::Plan,
    image: &mut B::Buffer<u64>,
    keys: &B::Buffer<S::Key>,
    values: &B::Buffer<S::Value>,
) -> Result<PlacedOf<S>> {
    let (keys, values) = (backend.download(keys)?, backend.download(values)?);
    let mut words = backend.download(image)?;
    backend.ledger().host("place", keys.len());
    let mut placed = Placed::default();
    let mut outside = plan.outside().map(|(_, value)| value);
    for (&key, &value) in keys.iter().zip(&values) {
        let is_duplicate = if Some(key) == plan.outside_key() {
            // Of several values, the greatest is kept, as in parallel builds.
            placed.outside = placed.outside.max(Some(value));
            outside.replace(value).is_some()
        } else {
            match S::place(plan, &mut words, &[(key, value)]) {
                Placing::Placed => false,
                Placing::Duplicate(_) => true,
                Placing::Unplaced => {
                    placed.unplaced = 1;
                    return Ok(placed);
                }
            }
        };
        if is_duplicate {
            placed.duplicates += 1;
            placed.least_duplicate = Some(placed.least_duplicate.map_or(key, |least| least.min(key)));
        }
    }
    backend.write(image, 0, &words)?;
    Ok(placed)
}

/// [`Passes::remove`](super::Kernels::remove), one key at a time.
pub(crate) fn remove<B: HashBackend, S: Scheme>(
    backend: &B,
    plan: &S::Plan,
    image: &mut B::Buffer<u64>,
    keys: &B::Buffer<S::Key>,
) -> Result<Removed> {
    let keys = backend.download(keys)?;
    let mut words = backend.download(image)?;
    backend.ledger().host("remove", keys.len());
    let pairs = S::remove(plan, &mut words, &keys);
    backend.write(image, 0, &words)?;
    Ok(Removed { pairs, outside: keys.iter().any(|&key| Some(key) == plan.outside_key()) })
}
