//! Macros for the parts of `impl Plan` that all plans share. They read fields of the same names.
//!
//! ```text
//! head!(kind)        kind, seed, attempt: three fields
//! head!()            seed, attempt, in schemes of one kind
//! outside!(key)      the sentinel pair, whose key marks empty slots: the fields outside, outside_value
//! outside!(classic)  the same if empty canonical slots have a word that is not a pair (slot.rs), so that only classic
//!                    tables have such a key
//! ```
//!
//! There is no common struct at the start of each plan, because each scheme stores these fields at different offsets in
//! files.

macro_rules! head {
    (kind) => {
        fn kind(&self) -> $crate::scheme::Kind {
            $crate::scheme::Kind::from_code(self.kind).unwrap_or_default()
        }
        $crate::scheme::head::head!();
    };
    () => {
        fn seed(&self) -> u64 {
            self.seed
        }
        fn attempt(&self) -> u32 {
            self.attempt
        }
    };
}
pub(super) use head;

macro_rules! outside {
    (classic) => {
        fn empty_word(&self) -> u64 {
            match self.kind() {
                $crate::scheme::Kind::Canonical => $crate::scheme::slot::EMPTY,
                $crate::scheme::Kind::Classic => $crate::scheme::cuckoo::classic::EMPTY,
            }
        }
        fn outside_key(&self) -> Option<u32> {
            let is_classic = self.kind() == $crate::scheme::Kind::Classic;
            is_classic.then_some($crate::scheme::cuckoo::classic::EMPTY_KEY)
        }
        $crate::scheme::head::outside!(@pair $crate::scheme::cuckoo::classic::EMPTY_KEY);
    };
    (@pair $key:expr) => {
        fn outside(&self) -> Option<(u32, u32)> {
            (self.outside != 0).then_some(($key, self.outside_value))
        }
        fn with_outside(self, value: Option<u32>) -> Self {
            let value = value.filter(|_| self.outside_key().is_some());
            Self { outside: u32::from(value.is_some()), outside_value: value.unwrap_or(0), ..self }
        }
    };
    ($key:expr) => {
        fn outside_key(&self) -> Option<u32> {
            Some($key)
        }
        $crate::scheme::head::outside!(@pair $key);
    };
}
pub(super) use outside;
