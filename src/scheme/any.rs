//! Schemes chosen at run time.
//!
//! [`AnyScheme`] is a scheme of `u32` keys and values, [`AnySchemeOf`] one of 64-bit keys or values. A table of either
//! is built by the scheme inside, with the same bytes, and `HashTable::<_, AnyScheme>::open` opens the file of any such
//! table. A program that reads the scheme from a file or an option is compiled once for each pair of widths, rather
//! than once for each scheme. The scheme is matched once per batch, so builds and lookups cost the same.
//!
//! They are not separate schemes: they have no scheme number, and their images are those of the scheme inside.

use std::ops::Range;

use super::bucketized::wide::{Column, Layout, LinePlan};
use super::robin_hood::wide::RobinHoodLinePlan;
use super::signpost::{LayoutOf, Posted, SignpostPlan};
use super::{
    Audit, Bucketized, BucketizedOf, Crowd, Kind, Limits, Load, Model, Placing, Plan, Request, RobinHood, RobinHoodOf,
    Salt, Scheme, Signpost, SignpostOf, Updates, Violation,
};
use crate::error::{Error, Result};

/// Implements [`Plan`] and [`Scheme`] for an enum of schemes that have the same keys and values.
macro_rules! any_of {
    (
        $any:ty, $any_name:ident; $any_plan:ty, $plan_name:ident; $key:ty, $value:ty; $kinds:expr, $default:ty;
        $($variant:ident: $scheme:ty;)*
    ) => {
        /// Evaluates the body with the scheme inside.
        macro_rules! of_scheme {
            ($of:expr, |$inner:ident| $body:expr) => {
                match $of {
                    $($any_name::$variant($inner) => $body,)*
                }
            };
        }

        /// Evaluates the body with the plan inside, and its scheme as a type.
        macro_rules! of_plan {
            ($of:expr, |$inner:ident, $S:ident| $body:expr) => {
                match $of {
                    $($plan_name::$variant($inner) => {
                        #[allow(dead_code)]
                        type $S = $scheme;
                        $body
                    })*
                }
            };
        }

        /// Maps the plan inside.
        macro_rules! mapped_plan {
            ($of:expr, |$inner:ident| $body:expr) => {
                match $of {
                    $($plan_name::$variant($inner) => $plan_name::$variant($body),)*
                }
            };
        }

        impl Plan for $any_plan {
            type Key = $key;
            type Value = $value;

            fn stored(&self) -> &[u8] {
                of_plan!(self, |plan, S| plan.stored())
            }
            fn of_stored(scheme: u32, stored: &[u8]) -> std::result::Result<Self, String> {
                $(if scheme == <$scheme as Scheme>::ID {
                    return Plan::of_stored(scheme, stored).map($plan_name::$variant);
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
            fn requested_slots(&self) -> u64 {
                of_plan!(self, |plan, S| plan.requested_slots())
            }
            fn capacity(&self) -> u64 {
                of_plan!(self, |plan, S| plan.capacity())
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
            fn outside_key(&self) -> Option<$key> {
                of_plan!(self, |plan, S| plan.outside_key())
            }
            fn outside(&self) -> Option<($key, $value)> {
                of_plan!(self, |plan, S| plan.outside())
            }
            fn with_outside(self, value: Option<$value>) -> Self {
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

        impl Scheme for $any {
            const NAME: &'static str = "any";
            const ID: u32 = 0;
            const KINDS: &'static [Kind] = $kinds;
            type Key = $key;
            type Value = $value;
            type Plan = $any_plan;

            fn of_kind(kind: Kind) -> Self {
                <$default>::of_kind(kind).into()
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
                [$(<$scheme as Scheme>::ID),*].contains(&id)
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
            fn plan(&self, request: Request) -> Result<$any_plan> {
                match self {
                    $($any_name::$variant(scheme) => scheme.plan(request).map($plan_name::$variant),)*
                }
            }
            fn from_plan(plan: &$any_plan) -> Self {
                of_plan!(plan, |plan, S| S::from_plan(plan).into())
            }
            fn find(plan: &$any_plan, image: &[u64], key: $key) -> Option<$value> {
                of_plan!(plan, |plan, S| S::find(plan, image, key))
            }
            fn reads(plan: &$any_plan, image: &[u64], key: $key) -> u32 {
                of_plan!(plan, |plan, S| S::reads(plan, image, key))
            }
            fn pair(plan: &$any_plan, image: &[u64], cell: u64) -> Option<($key, $value)> {
                of_plan!(plan, |plan, S| S::pair(plan, image, cell))
            }
            fn age(plan: &$any_plan, image: &[u64], cell: u64) -> u32 {
                of_plan!(plan, |plan, S| S::age(plan, image, cell))
            }
            fn stash(plan: &$any_plan, pairs: &[($key, $value)]) -> u64 {
                of_plan!(plan, |plan, S| S::stash(plan, pairs))
            }
            fn place(plan: &$any_plan, image: &mut [u64], pairs: &[($key, $value)]) -> Placing<$key> {
                of_plan!(plan, |plan, S| S::place(plan, image, pairs))
            }
            fn remove(plan: &$any_plan, image: &mut [u64], keys: &[$key]) -> u64 {
                of_plan!(plan, |plan, S| S::remove(plan, image, keys))
            }
            fn audit(plan: &$any_plan, image: &[u64], cells: Range<u64>) -> std::result::Result<Audit, Violation> {
                of_plan!(plan, |plan, S| S::audit(plan, image, cells))
            }
            fn scratch_bytes(plan: &$any_plan, pairs: u64) -> u64 {
                of_plan!(plan, |plan, S| S::scratch_bytes(plan, pairs))
            }
            fn bucket_types(plan: &$any_plan) -> &'static [&'static str] {
                of_plan!(plan, |plan, S| S::bucket_types(plan))
            }
            fn bucket_type(plan: &$any_plan, image: &[u64], bucket: u64) -> usize {
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
            fn crowd(plan: &$any_plan, keys: &[$key]) -> Option<Crowd> {
                of_plan!(plan, |plan, S| S::crowd(plan, keys))
            }
            fn model(plan: &$any_plan, pairs: u64) -> Option<Model> {
                of_plan!(plan, |plan, S| S::model(plan, pairs))
            }
        }
    };
}

/// [`AnyScheme`]: one variant for each line of the registry.
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

            /// Every scheme of each of its kinds, with default parameters.
            pub fn all() -> impl Iterator<Item = AnyScheme> {
                Self::NAMES.iter().flat_map(|name| Kind::ALL.map(|kind| Self::by_name(name, kind))).flatten()
            }

            /// The scheme of this name, with the default parameters of a kind.
            ///
            /// # Errors
            /// [`Error::InvalidParameter`] if there is no scheme of that name, or it does not have that kind.
            pub fn by_name(name: &str, kind: Kind) -> Result<AnyScheme> {
                match name {
                    $($name if super::$scheme::KINDS.contains(&kind) => Ok(super::$scheme::of_kind(kind).into()),)*
                    $($name => Err(Error::parameter("kind", kind, "tables of this scheme have only the other one")),)*
                    _ => Err(Error::parameter("scheme", name, concat!("use one of:", $(" ", $name),*))),
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

        any_of! {
            AnyScheme, AnyScheme; AnyPlan, AnyPlan; u32, u32; &Kind::ALL, super::Cuckoo;
            $($scheme: super::$scheme;)*
        }
    };
}
crate::for_each_scheme!(any_scheme);

/// A scheme of 64-bit keys or values, chosen at run time. `V` is `()` for sets.
///
/// ```
/// use koel::{AnySchemeOf, Cpu, HashTable, Scheme};
/// let scheme = AnySchemeOf::<u64, u32>::by_name("signpost")?;
/// let table = HashTable::builder(scheme).build(&Cpu::new(), &[1 << 40, 2], &[10, 20])?;
/// assert_eq!((table.scheme().name(), table.get(&[1 << 40, 3])?), ("signpost", vec![Some(10), None]));
/// # Ok::<(), koel::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum AnySchemeOf<K, V> {
    /// [`BucketizedOf`]
    Bucketized(BucketizedOf<K, V>),
    /// [`RobinHoodOf`]
    RobinHood(RobinHoodOf<K, V>),
    /// [`SignpostOf`]
    Signpost(SignpostOf<K, V>),
}

/// The plan of a table of [`AnySchemeOf`].
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum AnyPlanOf<K: Column, V: Column>
where
    (K, V): Layout + Posted,
{
    /// Plan of [`BucketizedOf`]
    Bucketized(LinePlan<(K, V)>),
    /// Plan of [`RobinHoodOf`]
    RobinHood(RobinHoodLinePlan<(K, V)>),
    /// Plan of [`SignpostOf`]
    Signpost(SignpostPlan<LayoutOf<K, V>>),
}

impl<K, V> AnySchemeOf<K, V>
where
    (K, V): Layout + Posted,
{
    /// The names of the schemes.
    pub const NAMES: &'static [&'static str] = &[Bucketized::NAME, RobinHood::NAME, Signpost::NAME];

    /// The scheme of this name with its default parameters.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`] if no scheme of that name has 64-bit keys or values.
    pub fn by_name(name: &str) -> Result<Self> {
        match name {
            Bucketized::NAME => Ok(Bucketized::default().of::<K, V>().into()),
            RobinHood::NAME => Ok(RobinHood::default().of::<K, V>().into()),
            Signpost::NAME => Ok(Signpost::new().of::<K, V>().into()),
            _ => Err(Error::parameter("scheme", name, "use one of: bucketized robin_hood signpost")),
        }
    }
}

macro_rules! any_scheme_of {
    ($(($key:ty, $value:ty) of $values:ty),*) => {$(
        any_of! {
            AnySchemeOf<$key, $value>, AnySchemeOf; AnyPlanOf<$key, $value>, AnyPlanOf; $key, $values;
            &[Kind::Canonical], BucketizedOf<$key, $value>;
            Bucketized: BucketizedOf<$key, $value>;
            RobinHood: RobinHoodOf<$key, $value>;
            Signpost: SignpostOf<$key, $value>;
        }
    )*};
}
any_scheme_of!((u64, u64) of u64, (u64, u32) of u32, (u32, u64) of u64, (u64, ()) of u32);

macro_rules! from_scheme {
    ($($scheme:ident => $variant:ident),*) => {$(
        impl<K, V> From<$scheme<K, V>> for AnySchemeOf<K, V> {
            fn from(scheme: $scheme<K, V>) -> Self {
                AnySchemeOf::$variant(scheme)
            }
        }
    )*};
}
from_scheme!(BucketizedOf => Bucketized, RobinHoodOf => RobinHood, SignpostOf => Signpost);
