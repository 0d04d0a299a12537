//! Canonical and classic tables.

use std::fmt;

/// Whether a table's bytes are determined by its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[non_exhaustive]
pub enum Kind {
    /// The bytes are a pure function of parameters, seed and contents: the same on every device and in every run.
    #[default]
    Canonical,
    /// The paper's own algorithm: lookups have the same results everywhere, but the slots of keys depend on the
    /// schedule.
    Classic,
}

impl Kind {
    /// Both kinds.
    pub const ALL: [Kind; 2] = [Kind::Canonical, Kind::Classic];

    /// The name on the command line and in output.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Canonical => "canonical",
            Kind::Classic => "classic",
        }
    }

    /// The number in plans and files.
    pub fn code(self) -> u32 {
        match self {
            Kind::Canonical => 0,
            Kind::Classic => 1,
        }
    }

    /// The kind with this number.
    pub fn from_code(code: u32) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.code() == code)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
