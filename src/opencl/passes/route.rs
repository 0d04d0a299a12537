//! Selects how a table is built if its scheme supports both routes (`tuning/route.rs`).
//!
//! ```text
//! direct    CPUs, small tables
//! by parts  GPUs: 3 to 5 times the rate
//! ```

use crate::backend::{BuildRoute, DeviceKind};
use crate::error::Result;
use crate::opencl::{OpenCl, lock};
use crate::tuning::tuning;

/// Fewer pairs are placed directly: their image fits in a cache, and each further kernel costs more than it saves.
const FEWEST_PAIRS: usize = 1 << 20;
/// Batches are added directly to images of fewer words, for the same reason. The size of the batch matters less,
/// because the direct route makes several passes over the image even for a batch of one pair.
const FEWEST_WORDS: usize = 1 << 21;

impl OpenCl {
    /// The route of a build of this many pairs if its scheme supports both: the one set by [`OpenCl::set_build_route`];
    /// otherwise the one in the environment variable `KOEL_BUILD_ROUTE` (`direct` or `by-parts`); otherwise by parts if
    /// there are many pairs and the device is a GPU.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`](crate::Error::InvalidParameter) if the variable has any other value.
    pub fn build_route(&self, pairs: usize) -> Result<BuildRoute> {
        self.route_if(pairs >= FEWEST_PAIRS)
    }

    /// The route of a batch that is added to an image of this many words.
    pub(in crate::opencl) fn insert_route(&self, words: usize) -> Result<BuildRoute> {
        self.route_if(words >= FEWEST_WORDS)
    }

    /// The route that was set; otherwise by parts on a GPU if `worth_it`, and directly elsewhere.
    ///
    /// In the partial tier, tables are built directly: parts need 64-bit atomics.
    fn route_if(&self, worth_it: bool) -> Result<BuildRoute> {
        if self.0.builder.is_some() {
            return Ok(BuildRoute::Direct);
        }
        if let Some(route) = *lock(&self.0.route) {
            return Ok(route);
        }
        Ok(match tuning().build_route()? {
            Some(route) => route,
            None if self.0.info.kind == DeviceKind::Gpu && worth_it => BuildRoute::ByParts,
            None => BuildRoute::Direct,
        })
    }

    /// Sets the route of builds and batches on this device, for all clones of this handle. With `None` it depends on
    /// the device and the number of pairs again.
    pub fn set_build_route(&self, route: Option<BuildRoute>) {
        *lock(&self.0.route) = route;
    }
}
