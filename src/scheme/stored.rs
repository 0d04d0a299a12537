//! Stores plans as their bytes, without the salt, and validates plans that are read.
//!
//! ```text
//! plan -> bytes    the fields in order, which is `repr(C)` without padding
//! bytes -> plan    the fields, if their parameters create this plan; otherwise a sentence that says why not
//! ```
//!
//! So every plan was created by [`Scheme::plan`], or equals a plan that it could create. Passes and arithmetic rely on
//! this, and do not check plans. No plan implements a trait of `bytemuck` that could create one from arbitrary bytes.

use bytemuck::AnyBitPattern;

use super::{Plan, Request, Scheme};

/// The maximum number of bytes of a plan in the header of files, before the salt.
pub(crate) const MOST_STORED: usize = 64;

/// The storage of a plan: an item list for its `impl Plan`, with the fields that are stored. With `salted`, the plan
/// has a field `salt: Salt` after them. The plan's `checked` validates the combination of its fields.
macro_rules! stored {
    ($scheme:ty, [$($field:ident),+]) => {
        fn stored(&self) -> &[u8] {
            bytemuck::bytes_of(self)
        }

        fn of_stored(scheme: u32, stored: &[u8]) -> std::result::Result<Self, String> {
            const ROOM: usize = size_of::<<$scheme as crate::scheme::Scheme>::Plan>();
            const { assert!(ROOM <= crate::scheme::stored::MOST_STORED) };
            let fields = crate::scheme::stored::Fields::of::<$scheme>(scheme, stored, ROOM)?;
            Self { $($field: fields.at(std::mem::offset_of!(Self, $field))),+ }.checked()
        }
    };
    ($scheme:ty, salted, [$($field:ident),+]) => {
        fn stored(&self) -> &[u8] {
            &bytemuck::bytes_of(self)[..std::mem::offset_of!(Self, salt)]
        }

        fn of_stored(scheme: u32, stored: &[u8]) -> std::result::Result<Self, String> {
            const ROOM: usize = std::mem::offset_of!(<$scheme as crate::scheme::Scheme>::Plan, salt);
            const { assert!(ROOM <= crate::scheme::stored::MOST_STORED) };
            const { assert!(ROOM + crate::scheme::Salt::BYTES == size_of::<Self>(), "the salt comes last") };
            let fields = crate::scheme::stored::Fields::of::<$scheme>(scheme, stored, ROOM)?;
            let salt = crate::scheme::Salt::NONE;
            Self { $($field: fields.at(std::mem::offset_of!(Self, $field)),)+ salt }.checked()
        }

        fn takes_salt(&self) -> bool {
            true
        }

        fn salt(&self) -> Option<crate::scheme::Salt> {
            Some(self.salt).filter(|&salt| salt != crate::scheme::Salt::NONE)
        }

        fn with_salt(self, salt: Option<crate::scheme::Salt>) -> Self {
            let salt = salt.filter(|_| self.attempt >= crate::scheme::FIRST_SALTED);
            Self { salt: salt.unwrap_or(crate::scheme::Salt::NONE), ..self }
        }
    };
}
pub(super) use stored;

/// The bytes of a plan of the right length, field by field.
pub(super) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// The bytes of a plan of `S`, if the length is right; `scheme` is the scheme number stored with them.
    pub(super) fn of<S: Scheme>(scheme: u32, stored: &'a [u8], expected_bytes: usize) -> Result<Self, String> {
        if !S::has_id(scheme) {
            return Err(format!("its plan is of scheme number {scheme}, not of {}", S::NAME));
        }
        Some(Fields(stored)).filter(|_| stored.len() == expected_bytes).ok_or("its plan has the wrong length".into())
    }

    /// The field at an offset, which must be within the plan.
    pub(super) fn at<T: AnyBitPattern>(&self, offset: usize) -> T {
        bytemuck::pod_read_unaligned(&self.0[offset..][..size_of::<T>()])
    }
}

/// Returns an error if a code is not that of an element of `all`.
pub(super) fn known<T>(what: &str, code: u32, all: &[T]) -> Result<(), String> {
    if (code as usize) < all.len() { Ok(()) } else { Err(format!("{what} {code} is unknown")) }
}

/// The plan, if it equals the one that this scheme creates for these slots and pairs.
pub(super) fn equal_to_planned<S: Scheme>(scheme: &S, plan: S::Plan, pairs: u64) -> Result<S::Plan, String> {
    let request = Request { slots: plan.requested_slots(), pairs, seed: plan.seed(), attempt: plan.attempt() };
    let again = scheme.plan(request).map_err(|error| error.to_string())?;
    if again.with_rest_of(&plan) != plan {
        return Err("its fields contradict each other".into());
    }
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheme::{Kind, Salt};

    /// The plan for 100 slots at this attempt.
    fn plan<S: Scheme>(scheme: &S, attempt: u32) -> S::Plan {
        scheme.plan(Request { slots: 100, pairs: 4, seed: 1, attempt }).expect("a plan")
    }

    fn the_salt_is_not_stored<S: Scheme>(scheme: &S) {
        let salt = Salt::of(2026, &[1, 2, 3, u32::MAX]);
        let [early, late] = [7, 8].map(|attempt| plan(scheme, attempt));
        assert_eq!(early.with_salt(Some(salt)), early, "{}: an early attempt has no salt", S::NAME);
        let salted = late.with_salt(Some(salt));
        assert_eq!(salted.salt(), late.takes_salt().then_some(salt), "{}", S::NAME);
        assert_eq!(S::from_plan(&salted), *scheme, "{}", S::NAME);
        assert_eq!(salted.stored(), late.stored(), "{}: nothing else changes", S::NAME);
        assert_eq!(S::Plan::of_stored(S::ID, salted.stored()), Ok(late), "{}: all but the salt is stored", S::NAME);
        let stored = salted.stored();
        assert!(S::Plan::of_stored(S::ID + 100, stored).is_err(), "{}: another scheme's", S::NAME);
        assert!(S::Plan::of_stored(S::ID, &stored[1..]).is_err(), "{}: cut short", S::NAME);
        assert!(S::Plan::of_stored(S::ID, &[stored, &[0]].concat()).is_err(), "{}: too long", S::NAME);
    }

    /// If bits of a plan are flipped one by one, every plan that its parameters would not create is rejected; and
    /// [`Plan::with_outside`] does not make such a plan acceptable.
    fn invalid_plans_are_refused<S: Scheme<Key = u32, Value = u32>>(scheme: &S) {
        let good = plan(scheme, 2);
        let (mut refused, mut accepted) = (0, 0);
        for bit in 0..8 * good.stored().len() {
            let mut stored = good.stored().to_vec();
            stored[bit / 8] ^= 1 << (bit % 8);
            let Ok(plan) = S::Plan::of_stored(S::ID, &stored) else {
                refused += 1;
                continue;
            };
            accepted += 1;
            assert_eq!(plan.stored(), stored, "{}, bit {bit}", S::NAME);
            let scheme = S::from_plan(&plan);
            scheme.check().expect("parameters of a plan");
            // Sorted tables have their pairs in the plan, and users can set the chains of classic cuckoo tables.
            if S::NAME != "sorted" && !(S::NAME.starts_with("cuckoo") && plan.kind() == Kind::Classic) {
                // The size of a stash depends on the keys.
                let plan = plan.with_stash(0);
                assert_eq!(equal_to_planned(&scheme, plan, 0), Ok(plan), "{}, bit {bit}", S::NAME);
            }
            for value in [None, Some(0), Some(7)] {
                let with = plan.with_outside(value);
                assert_eq!(S::Plan::of_stored(S::ID, with.stored()), Ok(with), "{}, bit {bit}, {value:?}", S::NAME);
            }
            if plan.words() < 1 << 12 {
                let image = vec![plan.empty_word(); plan.words() as usize];
                for key in [0, 1, 12_345, u32::MAX] {
                    let _ = (S::find(&plan, &image, key), S::reads(&plan, &image, key));
                }
            }
        }
        // The 64 bits of the seed are arbitrary.
        assert!(accepted >= 64 && refused >= 16, "{}: {accepted} accepted, {refused} refused", S::NAME);
    }

    #[test]
    fn plans_round_trip_unless_they_are_invalid() {
        macro_rules! each_scheme {
            ($($module:ident, $scheme:ident, $name:literal;)*) => {
                $(for &kind in crate::scheme::$scheme::KINDS {
                    let scheme = crate::scheme::$scheme::of_kind(kind);
                    the_salt_is_not_stored(&scheme);
                    invalid_plans_are_refused(&scheme);
                })*
            };
        }
        crate::for_each_scheme!(each_scheme);
    }
}
