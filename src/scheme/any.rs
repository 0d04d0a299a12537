//! Whichever scheme it is: a value of each, chosen when the program runs.
//!
//! A table of [`AnyScheme`] is built by the scheme inside, byte for byte, and `HashTable::<_, AnyScheme>::open` opens
//! the file of any table. Programs that learn the scheme from a file or an option are compiled once with it, and not
//! once a scheme. Passes are chosen batch by batch, so builds and lookups cost no more.
//!
//! What it is not: a scheme of its own. It has no number, and no bytes that another would not have.

use std::ops::Range;

use super::{Audit, Crowd, Kind, Limits, Load, Model, Placing, Plan, Request, Salt, Scheme, Updates, Violation};
use crate::error::{Error, Result};

macro_rules! any_scheme {
    ($($module:ident, $scheme:ident, $name:literal;)*) => {
        /// A scheme chosen at run time.
        ///
        /// ```
        /// use koel::{AnyScheme, Cpu, HashTable, Kind, Scheme};
        /// let scheme = AnyScheme::by_name("horton", Kind::Canonical)?;
        /// let table = HashTable::builder(scheme).build(&Cpu::new(), &[1, 2], &[10, 20])?;
        /// assert_eq!((table.scheme().name(), table.get(&[2, 3])?), ("horton", vec![Some(20), None]));
        /// # Ok::<(), koel::Error>(())
        /// ```
        #[derive(Clone, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum AnyScheme {
            $(#[doc = concat!("[`", stringify!($scheme), "`](super::", stringify!($scheme), ")")]
            $scheme(super::$scheme),)*
        }

        /// The plan of a table of [`AnyScheme`].
        #[derive(Clone, Copy, Debug, PartialEq)]
        #[non_exhaustive]
        pub enum AnyPlan {
            $(#[doc = concat!("Of [`", stringify!($scheme), "`](super::", stringify!($scheme), ")")]
            $scheme(<super::$scheme as Scheme>::Plan),)*
        }

        $(impl From<super::$scheme> for AnyScheme {
            fn from(scheme: super::$scheme) -> AnyScheme {
                AnyScheme::$scheme(scheme)
            }
        })*

        impl AnyScheme {
            /// The names of all schemes.
            pub const NAMES: &'static [&'static str] = &[$($name),*];

            /// The scheme of this name, with the default parameters of a kind.
            ///
            /// # Errors
            /// [`Error::InvalidParameter`] if there is none of that name, or none of that kind.
            pub fn by_name(name: &str, kind: Kind) -> Result<AnyScheme> {
                match name {
                    $($name if super::$scheme::KINDS.contains(&kind) => Ok(super::$scheme::of_kind(kind).into()),)*
                    $($name => Err(Error::parameter("kind", kind, "tables of this scheme have only the other one")),)*
                    _ => Err(Error::parameter("scheme", name, concat!("give one of:", $(" ", $name),*))),
                }
            }

            /// The name of the scheme that has this number in files.
            pub fn name_of(id: u32) -> Option<&'static str> {
                $(if id == super::$scheme::ID {
                    return Some($name);
                })*
                None
            }
        }

        /// The body with the scheme inside.
        macro_rules! of_scheme {
            ($any:expr, |$inner:ident| $body:expr) => {
                match $any {
                    $(AnyScheme::$scheme($inner) => $body,)*
                }
            };
        }

        /// The body with the plan inside, and its scheme under a name.
        macro_rules! of_plan {
            ($any:expr, |$inner:ident, $S:ident| $body:expr) => {
                match $any {
                    $(AnyPlan::$scheme($inner) => {
                        #[allow(dead_code)]
                        type $S = super::$scheme;
                        $body
                    })*
                }
            };
        }

        /// The plan that the body makes of the one inside.
        macro_rules! mapped_plan {
            ($any:expr, |$inner:ident| $body:expr) => {
                match $any {
                    $(AnyPlan::$scheme($inner) => AnyPlan::$scheme($body),)*
                }
            };
        }

        impl Plan for AnyPlan {
            type Key = u32;
            type Value = u32;

            fn stored(&self) -> &[u8] {
                of_plan!(self, |plan, S| plan.stored())
            }
            fn of_stored(scheme: u32, stored: &[u8]) -> std::result::Result<Self, String> {
                $(if scheme == super::$scheme::ID {
                    return Plan::of_stored(scheme, stored).map(AnyPlan::$scheme);
                })*
                Err(format!("its plan is of scheme number {scheme}, which is unknown"))
            }
            fn takes_salt(&self) -> bool {
                of_plan!(self, |plan, S| plan.takes_salt())
            }
            fn kind(&self) -> Kind {
                of_plan!(self, |plan, S| plan.kind())
            }
            fn slots(&self) -> u64 {
                of_plan!(self, |plan, S| plan.slots())
            }
            fn asked_slots(&self) -> u64 {
                of_plan!(self, |plan, S| plan.asked_slots())
            }
            fn room(&self) -> u64 {
                of_plan!(self, |plan, S| plan.room())
            }
            fn words(&self) -> u64 {
                of_plan!(self, |plan, S| plan.words())
            }
            fn cells(&self) -> u64 {
                of_plan!(self, |plan, S| plan.cells())
            }
            fn bucket_slots(&self) -> u32 {
                of_plan!(self, |plan, S| plan.bucket_slots())
            }
            fn empty_word(&self) -> u64 {
                of_plan!(self, |plan, S| plan.empty_word())
            }
            fn seed(&self) -> u64 {
                of_plan!(self, |plan, S| plan.seed())
            }
            fn attempt(&self) -> u32 {
                of_plan!(self, |plan, S| plan.attempt())
            }
            fn outside_key(&self) -> Option<u32> {
                of_plan!(self, |plan, S| plan.outside_key())
            }
            fn outside(&self) -> Option<(u32, u32)> {
                of_plan!(self, |plan, S| plan.outside())
            }
            fn with_outside(self, value: Option<u32>) -> Self {
                mapped_plan!(self, |plan| plan.with_outside(value))
            }
            fn with_stash(self, keys: u64) -> Self {
                mapped_plan!(self, |plan| plan.with_stash(keys))
            }
            fn salt(&self) -> Option<Salt> {
                of_plan!(self, |plan, S| plan.salt())
            }
            fn with_salt(self, salt: Option<Salt>) -> Self {
                mapped_plan!(self, |plan| plan.with_salt(salt))
            }
        }

        impl Scheme for AnyScheme {
            const NAME: &'static str = "any";
            const ID: u32 = 0;
            const KINDS: &'static [Kind] = &Kind::ALL;
            type Key = u32;
            type Value = u32;
            type Plan = AnyPlan;

            fn of_kind(kind: Kind) -> Self {
                super::Cuckoo::of_kind(kind).into()
            }
            fn kind(&self) -> Kind {
                of_scheme!(self, |scheme| scheme.kind())
            }
            fn name(&self) -> &'static str {
                of_scheme!(self, |scheme| scheme.name())
            }
            fn id(&self) -> u32 {
                of_scheme!(self, |scheme| scheme.id())
            }
            fn has_id(id: u32) -> bool {
                AnyScheme::name_of(id).is_some()
            }
            fn host_built(&self) -> bool {
                of_scheme!(self, |scheme| scheme.host_built())
            }
            fn updates(&self) -> Updates {
                of_scheme!(self, |scheme| scheme.updates())
            }
            fn check(&self) -> Result<()> {
                of_scheme!(self, |scheme| scheme.check())
            }
            fn default_load(&self) -> Load {
                of_scheme!(self, |scheme| scheme.default_load())
            }
            fn plan(&self, request: Request) -> Result<AnyPlan> {
                match self {
                    $(AnyScheme::$scheme(scheme) => scheme.plan(request).map(AnyPlan::$scheme),)*
                }
            }
            fn from_plan(plan: &AnyPlan) -> Self {
                of_plan!(plan, |plan, S| S::from_plan(plan).into())
            }
            fn find(plan: &AnyPlan, image: &[u64], key: u32) -> Option<u32> {
                of_plan!(plan, |plan, S| S::find(plan, image, key))
            }
            fn reads(plan: &AnyPlan, image: &[u64], key: u32) -> u32 {
                of_plan!(plan, |plan, S| S::reads(plan, image, key))
            }
            fn pair(plan: &AnyPlan, image: &[u64], cell: u64) -> Option<(u32, u32)> {
                of_plan!(plan, |plan, S| S::pair(plan, image, cell))
            }
            fn age(plan: &AnyPlan, image: &[u64], cell: u64) -> u32 {
                of_plan!(plan, |plan, S| S::age(plan, image, cell))
            }
            fn stash(plan: &AnyPlan, pairs: &[(u32, u32)]) -> u64 {
                of_plan!(plan, |plan, S| S::stash(plan, pairs))
            }
            fn place(plan: &AnyPlan, image: &mut [u64], pairs: &[(u32, u32)]) -> Placing {
                of_plan!(plan, |plan, S| S::place(plan, image, pairs))
            }
            fn remove(plan: &AnyPlan, image: &mut [u64], keys: &[u32]) -> u64 {
                of_plan!(plan, |plan, S| S::remove(plan, image, keys))
            }
            fn audit(plan: &AnyPlan, image: &[u64], cells: Range<u64>) -> std::result::Result<Audit, Violation> {
                of_plan!(plan, |plan, S| S::audit(plan, image, cells))
            }
            fn scratch_bytes(plan: &AnyPlan, pairs: u64) -> u64 {
                of_plan!(plan, |plan, S| S::scratch_bytes(plan, pairs))
            }
            fn bucket_types(plan: &AnyPlan) -> &'static [&'static str] {
                of_plan!(plan, |plan, S| S::bucket_types(plan))
            }
            fn bucket_type(plan: &AnyPlan, image: &[u64], bucket: u64) -> usize {
                of_plan!(plan, |plan, S| S::bucket_type(plan, image, bucket))
            }
            fn limits(&self) -> Limits {
                of_scheme!(self, |scheme| scheme.limits())
            }
            fn gives_up_above(&self) -> Option<Load> {
                of_scheme!(self, |scheme| scheme.gives_up_above())
            }
            fn keeps_one(&self) -> bool {
                of_scheme!(self, |scheme| scheme.keeps_one())
            }
            fn names_crowds(&self) -> bool {
                of_scheme!(self, |scheme| scheme.names_crowds())
            }
            fn crowd(plan: &AnyPlan, keys: &[u32]) -> Option<Crowd> {
                of_plan!(plan, |plan, S| S::crowd(plan, keys))
            }
            fn model(plan: &AnyPlan, pairs: u64) -> Option<Model> {
                of_plan!(plan, |plan, S| S::model(plan, pairs))
            }
        }
    };
}
crate::for_each_scheme!(any_scheme);
