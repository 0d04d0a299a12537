//! How a table comes about: its pairs one by one in the whole image, or part by part.
//!
//! ```text
//! direct    each pair is offered where it belongs, by atomics in global memory     CPUs, small tables
//! by parts  pairs are dealt to the parts of the table, and each part is placed     GPUs: 3 to 5 times the rate, because
//!           in local memory and written once                                       little else is random
//! ```
//!
//! The bytes are the same.

use std::fmt;

use super::{OpenCl, lock, setting};
use crate::backend::DeviceKind;
use crate::error::Result;

/// How pairs come into an image, where a scheme has both ways. The image is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BuildRoute {
    /// By atomics in global memory.
    Direct,
    /// In local memory, after the pairs were dealt to the parts of the table.
    ByParts,
}

/// Fewer pairs are placed directly: their image is in a cache, and each more kernel costs more than it saves.
const FEWEST_PAIRS: usize = 1 << 20;
/// Batches are added directly to images of fewer words, for the same reason. The size of the batch matters less: the
/// direct way takes several passes over the image for a batch of one pair.
const FEWEST_WORDS: usize = 1 << 21;

impl BuildRoute {
    /// Both routes.
    pub const ALL: [BuildRoute; 2] = [BuildRoute::Direct, BuildRoute::ByParts];

    /// The name in [`BuildRoute::VARIABLE`].
    pub fn name(self) -> &'static str {
        match self {
            BuildRoute::Direct => "direct",
            BuildRoute::ByParts => "by-parts",
        }
    }

    /// The environment variable that decides for all devices.
    pub const VARIABLE: &'static str = "KOEL_BUILD_ROUTE";

    pub(super) const ADVICE: &'static str = "give direct or by-parts";
}

impl fmt::Display for BuildRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

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
    pub(super) fn insert_route(&self, words: usize) -> Result<BuildRoute> {
        self.route_if(words >= FEWEST_WORDS)
    }

    /// What was decided, or else by parts on a GPU if that is `worth_it`.
    fn route_if(&self, worth_it: bool) -> Result<BuildRoute> {
        if let Some(route) = *lock(&self.0.route) {
            return Ok(route);
        }
        let choices = BuildRoute::ALL.map(|route| (route.name(), route));
        Ok(match setting::chosen(BuildRoute::VARIABLE, &choices, BuildRoute::ADVICE)? {
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
