//! Random seeds.

use crate::error::{Error, Result};

/// A random seed from the operating system, for tables of keys from untrusted sources. `seed_at_random` of every
/// builder uses it.
///
/// ```
/// assert_ne!(koel::random_seed()?, koel::random_seed()?);
/// # Ok::<(), koel::Error>(())
/// ```
///
/// # Errors
/// [`Error::NoRandomness`] if the system cannot provide one.
pub fn random_seed() -> Result<u64> {
    getrandom::u64().map_err(|error| Error::NoRandomness { reason: error.to_string() })
}
