//! Which way a table is built where its scheme has both (`tuning/route.rs`).
//!
//! ```text
//! direct    CPUs, small tables
//! by parts  GPUs: 3 to 5 times the rate
//! ```

use crate::backend::{BuildRoute, DeviceKind};
use crate::error::Result;
use crate::opencl::{OpenCl, lock};
use crate::tuning::tuning;

/// Fewer pairs are placed directly: their image is in a cache, and each more kernel costs more than it saves.
const FEWEST_PAIRS: usize = 1 << 20;
/// Batches are added directly to images of fewer words, for the same reason. The size of the batch matters less: the
/// direct way takes several passes over the image for a batch of one pair.
const FEWEST_WORDS: usize = 1 << 21;

impl OpenCl {
    /// The route that a build of so many pairs takes if its scheme has both: what [`OpenCl::set_build_route`] said, or
    /// the environment variable `KOEL_BUILD_ROUTE` (`direct` or `by-parts`), or else by parts for many pairs on a GPU.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`](crate::Error::InvalidParameter) if the variable holds anything else.
    pub fn build_route(&self, pairs: usize) -> Result<BuildRoute> {
        self.route_if(pairs >= FEWEST_PAIRS)
    }

    /// The same of a batch that comes into an image of so many words.
    pub(in crate::opencl) fn insert_route(&self, words: usize) -> Result<BuildRoute> {
        self.route_if(words >= FEWEST_WORDS)
    }

    /// What was decided, or else by parts on a GPU if that is `worth_it`.
    fn route_if(&self, worth_it: bool) -> Result<BuildRoute> {
        if let Some(route) = *lock(&self.0.route) {
            return Ok(route);
        }
        Ok(match tuning().build_route()? {
            Some(route) => route,
            None if self.0.info.kind == DeviceKind::Gpu && worth_it => BuildRoute::ByParts,
            None => BuildRoute::Direct,
        })
    }

    /// Decides the route of builds and batches on this device, for all clones of this handle; `None` leaves it to the device and
    /// the number of pairs again.
    pub fn set_build_route(&self, route: Option<BuildRoute>) {
        *lock(&self.0.route) = route;
    }
}
