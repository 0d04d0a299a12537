//! Running whichever scheme it is: each pass is that of the scheme inside the plan.

use super::{Decoded, HashBackend, Passes, Placed, Removed};
use crate::error::Result;
use crate::scheme::{self, AnyPlan, AnyScheme};

macro_rules! kernels_of_any_scheme {
    ($($module:ident, $scheme:ident, $name:literal;)*) => {
        impl<B: HashBackend $(+ Passes<scheme::$scheme>)*> Passes<AnyScheme> for B {
            fn build(
                &self,
                plan: &AnyPlan,
                keys: &B::Buffer<u32>,
                values: &B::Buffer<u32>,
            ) -> Result<(B::Buffer<u64>, Placed)> {
                match plan {
                    $(AnyPlan::$scheme(plan) => Passes::<scheme::$scheme>::build(self, plan, keys, values),)*
                }
            }
            fn extended(
                &self,
                plan: &AnyPlan,
                image: &B::Buffer<u64>,
                keys: &B::Buffer<u32>,
                values: &B::Buffer<u32>,
            ) -> Result<(B::Buffer<u64>, Placed)> {
                match plan {
                    $(AnyPlan::$scheme(plan) => {
                        Passes::<scheme::$scheme>::extended(self, plan, image, keys, values)
                    })*
                }
            }
            fn place(
                &self,
                plan: &AnyPlan,
                image: &mut B::Buffer<u64>,
                keys: &B::Buffer<u32>,
                values: &B::Buffer<u32>,
            ) -> Result<Placed> {
                match plan {
                    $(AnyPlan::$scheme(plan) => Passes::<scheme::$scheme>::place(self, plan, image, keys, values),)*
                }
            }
            fn lookup(
                &self,
                plan: &AnyPlan,
                image: &B::Buffer<u64>,
                queries: &B::Buffer<u32>,
                values: &mut B::Buffer<u32>,
                found: &mut B::Buffer<u32>,
            ) -> Result<()> {
                match plan {
                    $(AnyPlan::$scheme(plan) => {
                        Passes::<scheme::$scheme>::lookup(self, plan, image, queries, values, found)
                    })*
                }
            }
            fn contains(
                &self,
                plan: &AnyPlan,
                image: &B::Buffer<u64>,
                queries: &B::Buffer<u32>,
            ) -> Result<B::Buffer<u32>> {
                match plan {
                    $(AnyPlan::$scheme(plan) => Passes::<scheme::$scheme>::contains(self, plan, image, queries),)*
                }
            }
            fn assign(
                &self,
                plan: &AnyPlan,
                image: &mut B::Buffer<u64>,
                keys: &B::Buffer<u32>,
                values: &B::Buffer<u32>,
            ) -> Result<()> {
                match plan {
                    $(AnyPlan::$scheme(plan) => Passes::<scheme::$scheme>::assign(self, plan, image, keys, values),)*
                }
            }
            fn decode(&self, plan: &AnyPlan, image: &B::Buffer<u64>) -> Result<Decoded<B::Buffer<u32>>> {
                match plan {
                    $(AnyPlan::$scheme(plan) => Passes::<scheme::$scheme>::decode(self, plan, image),)*
                }
            }
            fn remove(
                &self,
                plan: &AnyPlan,
                image: &mut B::Buffer<u64>,
                keys: &B::Buffer<u32>,
            ) -> Result<Removed> {
                match plan {
                    $(AnyPlan::$scheme(plan) => Passes::<scheme::$scheme>::remove(self, plan, image, keys),)*
                }
            }
            fn lift(&self, plan: &AnyPlan, image: &mut B::Buffer<u64>) -> Result<Decoded<B::Buffer<u32>>> {
                match plan {
                    $(AnyPlan::$scheme(plan) => Passes::<scheme::$scheme>::lift(self, plan, image),)*
                }
            }
        }
    };
}
crate::for_each_scheme!(kernels_of_any_scheme);
