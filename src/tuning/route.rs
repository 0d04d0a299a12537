//! How a table comes about: its pairs one by one in the whole image, or part by part.
//!
//! ```text
//! direct    each pair is offered where it belongs, by atomics in the image           small tables
//! by parts  pairs are dealt to the parts of the table, and each part is placed in    the others: little else is random
//!           near memory (a GPU's local one, a core's cache) and written once
//! ```
//!
//! The bytes are the same. Which tables are small, and which schemes have both ways, is each backend's own.

use std::fmt;

/// How pairs come into an image, where a scheme has both ways. The image is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BuildRoute {
    /// By atomics in the whole image.
    Direct,
    /// In local memory or a core's cache, after the pairs were dealt to the parts of the table.
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

    /// The environment variable that decides for all devices.
    pub const VARIABLE: &'static str = "KOEL_BUILD_ROUTE";

    pub(super) const ADVICE: &'static str = "give direct or by-parts";
}

impl fmt::Display for BuildRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
