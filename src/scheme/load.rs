//! Load factors.

use crate::error::{Error, Result};

/// A load factor, stored in millionths so that sizes are computed in integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Load(u32);

const MILLION: u64 = 1_000_000;

impl Load {
    /// The load `pairs / slots`, rounded to a millionth.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`] unless `0.000001 <= load <= 1`.
    pub fn new(load: f64) -> Result<Load> {
        let millionths = (load * MILLION as f64).round();
        if !(1.0..=MILLION as f64).contains(&millionths) {
            return Err(Error::parameter("load factor", load, "use a number above 0 and up to 1"));
        }
        Ok(Load(millionths as u32))
    }

    /// A load in millionths, for constants and stored files.
    pub(crate) const fn from_millionths(millionths: u32) -> Load {
        Load(millionths)
    }

    pub(crate) fn millionths(self) -> u32 {
        self.0
    }

    /// The load as a number.
    pub fn get(self) -> f64 {
        f64::from(self.0) / MILLION as f64
    }

    /// The fewest slots that keep `pairs` at or below this load: `ceil(pairs / load)`. All sizes are computed here.
    pub fn slots_for(self, pairs: u64) -> u64 {
        let slots = (u128::from(pairs) * u128::from(MILLION)).div_ceil(u128::from(self.0.max(1)));
        u64::try_from(slots).unwrap_or(u64::MAX)
    }
}
