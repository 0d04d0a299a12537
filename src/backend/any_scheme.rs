//! The passes of schemes chosen at run time: those of the actual scheme of the plan.

use super::{DecodedOf, HashBackend, Passes, PlacedOf, Removed};
use crate::error::Result;
use crate::scheme::{self, AnyPlan, AnyPlanOf, AnyScheme, AnySchemeOf, BucketizedOf, RobinHoodOf, Scheme, SignpostOf};

macro_rules! passes_of_enum {
    ($any:ty; $any_plan:ty, $plan_name:ident; $($variant:ident: $scheme:ty;)*) => {
        /// Evaluates the body with the plan inside, and its scheme as a type. Each use of `passes_of_enum!` defines
        /// this macro again, and shadows the previous definition.
        macro_rules! of_plan {
            ($of:expr, |$inner:ident, $S:ident| $body:expr) => {
                match $of {
                    $($plan_name::$variant($inner) => {
                        type $S = $scheme;
                        $body
                    })*
                }
            };
        }

        impl<B: HashBackend $(+ Passes<$scheme>)*> Passes<$any> for B {
            fn build(
                &self,
                plan: &$any_plan,
                keys: &B::Buffer<<$any as Scheme>::Key>,
                values: &B::Buffer<<$any as Scheme>::Value>,
            ) -> Result<(B::Buffer<u64>, PlacedOf<$any>)> {
                of_plan!(plan, |plan, S| Passes::<S>::build(self, plan, keys, values))
            }
            fn partial_build(
                &self,
                plan: &$any_plan,
                keys: &B::Buffer<<$any as Scheme>::Key>,
                values: &B::Buffer<<$any as Scheme>::Value>,
            ) -> Result<Option<(B::Buffer<u64>, PlacedOf<$any>)>> {
                of_plan!(plan, |plan, S| Passes::<S>::partial_build(self, plan, keys, values))
            }
            fn extended(
                &self,
                plan: &$any_plan,
                image: &B::Buffer<u64>,
                keys: &B::Buffer<<$any as Scheme>::Key>,
                values: &B::Buffer<<$any as Scheme>::Value>,
            ) -> Result<(B::Buffer<u64>, PlacedOf<$any>)> {
                of_plan!(plan, |plan, S| Passes::<S>::extended(self, plan, image, keys, values))
            }
            fn place(
                &self,
                plan: &$any_plan,
                image: &mut B::Buffer<u64>,
                keys: &B::Buffer<<$any as Scheme>::Key>,
                values: &B::Buffer<<$any as Scheme>::Value>,
            ) -> Result<PlacedOf<$any>> {
                of_plan!(plan, |plan, S| Passes::<S>::place(self, plan, image, keys, values))
            }
            fn lookup(
                &self,
                plan: &$any_plan,
                image: &B::Buffer<u64>,
                queries: &B::Buffer<<$any as Scheme>::Key>,
                values: &mut B::Buffer<<$any as Scheme>::Value>,
                found: &mut B::Buffer<u32>,
            ) -> Result<()> {
                of_plan!(plan, |plan, S| Passes::<S>::lookup(self, plan, image, queries, values, found))
            }
            fn contains(
                &self,
                plan: &$any_plan,
                image: &B::Buffer<u64>,
                queries: &B::Buffer<<$any as Scheme>::Key>,
            ) -> Result<B::Buffer<u32>> {
                of_plan!(plan, |plan, S| Passes::<S>::contains(self, plan, image, queries))
            }
            fn assign(
                &self,
                plan: &$any_plan,
                image: &mut B::Buffer<u64>,
                keys: &B::Buffer<<$any as Scheme>::Key>,
                values: &B::Buffer<<$any as Scheme>::Value>,
            ) -> Result<()> {
                of_plan!(plan, |plan, S| Passes::<S>::assign(self, plan, image, keys, values))
            }
            fn decode(&self, plan: &$any_plan, image: &B::Buffer<u64>) -> Result<DecodedOf<B, $any>> {
                of_plan!(plan, |plan, S| Passes::<S>::decode(self, plan, image))
            }
            fn remove(
                &self,
                plan: &$any_plan,
                image: &mut B::Buffer<u64>,
                keys: &B::Buffer<<$any as Scheme>::Key>,
            ) -> Result<Removed> {
                of_plan!(plan, |plan, S| Passes::<S>::remove(self, plan, image, keys))
            }
            fn lift(&self, plan: &$any_plan, image: &mut B::Buffer<u64>) -> Result<DecodedOf<B, $any>> {
                of_plan!(plan, |plan, S| Passes::<S>::lift(self, plan, image))
            }
        }
    };
}

macro_rules! passes_of_any_scheme {
    ($($module:ident, $scheme:ident, $name:literal;)*) => {
        passes_of_enum! { AnyScheme; AnyPlan, AnyPlan; $($scheme: scheme::$scheme;)* }
    };
}
crate::for_each_scheme!(passes_of_any_scheme);

macro_rules! passes_of_any_scheme_of {
    ($(($key:ty, $value:ty)),*) => {$(
        passes_of_enum! {
            AnySchemeOf<$key, $value>; AnyPlanOf<$key, $value>, AnyPlanOf;
            Bucketized: BucketizedOf<$key, $value>;
            RobinHood: RobinHoodOf<$key, $value>;
            Signpost: SignpostOf<$key, $value>;
        }
    )*};
}
passes_of_any_scheme_of!((u64, u64), (u64, u32), (u32, u64), (u64, ()));
