//! The settings that the builders of all structures share: those of the table inside the structure.

/// Adds the settings of the builder in the field `table`, a [`TableBuilder`](super::TableBuilder) or one of shards.
///
/// `$what` is the docs' word for the content of a slot.
macro_rules! table_settings {
    ($builder:ident $(<$V:ident: $bound:path>)?, $what:literal) => {
        impl<S: $crate::scheme::Scheme $(, $V: $bound)?> $builder<S $(, $V)?> {
            #[doc = concat!($what, " per slot, above 0 and up to 1; see")]
            /// [`TableBuilder::load_factor`](crate::TableBuilder::load_factor).
            pub fn load_factor(mut self, load: f64) -> Self {
                self.table = self.table.load_factor(load);
                self
            }

            #[doc = concat!($what, " that fit, for good; see")]
            /// [`TableBuilder::capacity`](crate::TableBuilder::capacity).
            pub fn capacity(mut self, capacity: usize) -> Self {
                self.table = self.table.capacity(capacity);
                self
            }

            /// A fixed number of slots; see [`TableBuilder::slots`](crate::TableBuilder::slots).
            pub fn slots(mut self, slots: usize) -> Self {
                self.table = self.table.slots(slots);
                self
            }

            /// The seed of all constants; see [`TableBuilder::seed`](crate::TableBuilder::seed).
            pub fn seed(mut self, seed: u64) -> Self {
                self.table = self.table.seed(seed);
                self
            }

            /// A random seed from the operating system, for keys from untrusted sources (`docs/canonical-layout.md`,
            /// "Untrusted keys").
            ///
            /// # Errors
            /// [`Error::NoRandomness`](crate::Error::NoRandomness) if the system cannot provide one.
            pub fn seed_at_random(self) -> $crate::Result<Self> {
                Ok(self.seed($crate::table::random_seed()?))
            }

            /// The maximum number of attempts with new constants, 1 to 1024; 32 by default. See
            /// [`TableBuilder::attempts`](crate::TableBuilder::attempts).
            pub fn attempts(mut self, attempts: u32) -> Self {
                self.table = self.table.attempts(attempts);
                self
            }

            /// The type of the keys; see [`TableBuilder::key_type`](crate::TableBuilder::key_type).
            pub fn key_type(mut self, key_type: $crate::table::KeyType) -> Self {
                self.table = self.table.key_type(key_type);
                self
            }
        }
    };
}
pub(crate) use table_settings;

/// The estimate of a builder whose `table` is a [`TableBuilder`](super::TableBuilder).
macro_rules! table_estimate {
    ($builder:ident $(<$V:ident: $bound:path>)?) => {
        impl<S: $crate::scheme::Scheme $(, $V: $bound)?> $builder<S $(, $V)?> {
            /// Estimates the memory of a table of this many distinct keys before it is built; see
            /// [`TableBuilder::memory_estimate`](crate::TableBuilder::memory_estimate). `build` documents the memory of
            /// the structure in addition to its table.
            ///
            /// # Errors
            /// As a build, if no such table can exist.
            pub fn memory_estimate(&self, keys: u64) -> $crate::Result<$crate::table::MemoryEstimate> {
                self.table.memory_estimate(keys)
            }
        }
    };
}
pub(crate) use table_estimate;
