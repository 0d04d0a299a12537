//! How a table is built: by placing pairs directly in the whole image, or one partition at a time.
//!
//! ```text
//! direct    each pair is offered to its place in the image, with atomics                small tables
//! by parts  pairs are partitioned by the parts of the table; each part is placed in     large tables: most other
//!           fast memory (a GPU's local memory, a core's cache) and written once         accesses are sequential
//! ```
//!
//! Both routes produce the same bytes. Each backend decides which tables are small, and which schemes support both
//! routes.

use std::fmt;

/// How builds place pairs, for schemes that support both routes. The image does not depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BuildRoute {
    /// With atomics in the whole image.
    Direct,
    /// In local memory or a core's cache, after the pairs were partitioned by the parts of the table.
    ByParts,
}

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

    /// The environment variable that selects the route for all devices.
    pub const VARIABLE: &'static str = "KOEL_BUILD_ROUTE";

    pub(super) const ADVICE: &'static str = "use direct or by-parts";
}

impl fmt::Display for BuildRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
