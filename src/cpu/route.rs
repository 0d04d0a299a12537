//! Selects the tables that are built one partition at a time (`tuning/route.rs`): canonical bucketized tables with many
//! pairs.

use std::sync::{MutexGuard, PoisonError};

use super::Cpu;
use crate::backend::BuildRoute;
use crate::error::Result;
use crate::tuning::tuning;

/// With fewer pairs per thread, tables are built directly: the image fits in a cache, and has too few parts for all
/// threads.
const FEWEST_PAIRS: usize = 1 << 16;

impl Cpu {
    /// The route of a build of this many pairs, if the scheme supports both: the one set by [`Cpu::set_build_route`],
    /// otherwise the environment variable `KOEL_BUILD_ROUTE` (`direct` or `by-parts`), otherwise a choice by the number
    /// of pairs per thread.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`](crate::Error::InvalidParameter) if the variable has any other value.
    pub fn build_route(&self, pairs: usize) -> Result<BuildRoute> {
        if let Some(route) = *self.route() {
            return Ok(route);
        }
        let by_size =
            if pairs / self.inner.info.units.max(1) >= FEWEST_PAIRS { BuildRoute::ByParts } else { BuildRoute::Direct };
        Ok(tuning().build_route()?.unwrap_or(by_size))
    }

    /// Sets the route of builds on this device, for all clones of this handle; `None` restores the choice by the number
    /// of pairs.
    pub fn set_build_route(&self, route: Option<BuildRoute>) {
        *self.route() = route;
    }

    fn route(&self) -> MutexGuard<'_, Option<BuildRoute>> {
        self.inner.route.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
