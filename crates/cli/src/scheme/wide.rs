//! Tables of 64-bit keys or values: bucketized ones, which have no option, and Robin Hood ones.

use koel::scheme::bucketized::wide::{Column, Layout, LinePlan};
use koel::scheme::robin_hood::wide::RobinHoodLinePlan;
use koel::scheme::{BucketizedOf, Plan, RobinHoodOf};

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
