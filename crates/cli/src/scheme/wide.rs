//! Tables of 64-bit keys or values, whose scheme the widths choose, and no option.

use koel::scheme::bucketized::wide::{Column, Layout, LinePlan};
use koel::scheme::{BucketizedOf, Plan};

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
