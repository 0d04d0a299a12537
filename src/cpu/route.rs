//! Selects the tables that are built one partition at a time (`tuning/route.rs`): canonical bucketized ones of many
//! pairs.

use std::sync::{MutexGuard, PoisonError};

use super::Cpu;
use crate::backend::BuildRoute;
use crate::error::Result;
use crate::tuning::tuning;

/// Fewer pairs a thread are placed directly: their image is in a cache anyway, and parts are too few for all threads.
const FEWEST_PAIRS: usize = 1 << 16;

impl Cpu {
    /// The route that a build of this many pairs takes if its scheme has both: what [`Cpu::set_build_route`] said, or
    /// the environment variable `KOEL_BUILD_ROUTE` (`direct` or `by-parts`), or else by parts for many pairs a thread.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`](crate::Error::InvalidParameter) if the variable holds anything else.
    pub fn build_route(&self, pairs: usize) -> Result<BuildRoute> {
        if let Some(route) = *self.route() {
            return Ok(route);
        }
        let by_size =
            if pairs / self.inner.info.units.max(1) >= FEWEST_PAIRS { BuildRoute::ByParts } else { BuildRoute::Direct };
        Ok(tuning().build_route()?.unwrap_or(by_size))
    }

    /// Decides the route of builds on this device, for all clones of this handle; `None` leaves it to the number of
    /// pairs again.
    pub fn set_build_route(&self, route: Option<BuildRoute>) {
        *self.route() = route;
    }

    fn route(&self) -> MutexGuard<'_, Option<BuildRoute>> {
        self.inner.route.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
