//! How OpenCL work-items share the reading of buckets. `opencl/passes/shape.rs` selects the shape for a device.

use std::fmt;

/// How work-items share the reading of a table's buckets. The results do not depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LookupShape {
    /// One work-item per key.
    Alone,
    /// One work-item per 16 bytes of a key's bucket, through local memory.
    Together,
    /// One work-item per 256 consecutive keys.
    Runs,
}

impl LookupShape {
    /// All shapes.
    pub const ALL: [LookupShape; 3] = [LookupShape::Alone, LookupShape::Together, LookupShape::Runs];

    /// The name in [`LookupShape::VARIABLE`].
    pub fn name(self) -> &'static str {
        match self {
            LookupShape::Alone => "alone",
            LookupShape::Together => "together",
            LookupShape::Runs => "runs",
        }
    }

    /// The environment variable that selects the shape for all devices.
    pub const VARIABLE: &'static str = "KOEL_LOOKUP_SHAPE";

    pub(super) const ADVICE: &'static str = "use alone, together or runs";
}

impl fmt::Display for LookupShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
