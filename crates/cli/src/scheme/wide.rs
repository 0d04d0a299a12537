//! Schemes of 64-bit keys or values.

use koel::scheme::bucketized::{Column, Layout, LinePlan};
use koel::scheme::robin_hood::RobinHoodLinePlan;
use koel::scheme::{AnyPlanOf, AnySchemeOf, BucketizedOf, Plan, RobinHoodOf, Scheme, SignpostOf};

use serde_json::Value;

use super::Described;

impl<K: Column, V: Column> Described for BucketizedOf<K, V>
where
    (K, V): Layout,
{
    fn describe(plan: &LinePlan<(K, V)>) -> Vec<(&'static str, Value)> {
        vec![("functions", 3.into()), ("slots", plan.bucket_slots().into())]
    }
}

impl<K: Column, V: Column> Described for RobinHoodOf<K, V>
where
    (K, V): Layout,
{
    fn describe(plan: &RobinHoodLinePlan<(K, V)>) -> Vec<(&'static str, Value)> {
        vec![("sequence", plan.sequence().name().into())]
    }
}

macro_rules! described {
    ($(($key:ty, $value:ty)),*) => {$(
        impl Described for AnySchemeOf<$key, $value> {
            fn describe(plan: &<Self as Scheme>::Plan) -> Vec<(&'static str, Value)> {
                match plan {
                    AnyPlanOf::Bucketized(plan) => BucketizedOf::<$key, $value>::describe(plan),
                    AnyPlanOf::RobinHood(plan) => RobinHoodOf::<$key, $value>::describe(plan),
                    AnyPlanOf::Signpost(plan) => SignpostOf::<$key, $value>::describe(plan),
                    _ => Vec::new(),
                }
            }
        }
    )*};
}
described!((u64, u64), (u64, u32), (u32, u64), (u64, ()));
