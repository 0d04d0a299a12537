//! Random seeds.

use crate::error::{Error, Result};

/// A seed from the system's source of randomness, for tables whose keys are chosen by strangers: what
/// `seed_at_random` of every builder takes.
///
/// ```
/// assert_ne!(koel::random_seed()?, koel::random_seed()?);
/// # Ok::<(), koel::Error>(())
/// ```
///
/// # Errors
/// [`Error::NoRandomness`] if the system has none to give.
pub fn random_seed() -> Result<u64> {
    getrandom::u64().map_err(|error| Error::NoRandomness { reason: error.to_string() })
}
