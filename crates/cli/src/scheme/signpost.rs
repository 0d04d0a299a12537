//! `--scheme signpost`.

use koel::Signpost;
use koel::scheme::bucketized::Column;
use koel::scheme::signpost::Posted;
use koel::scheme::{Plan, Scheme, SignpostOf};

use serde_json::Value;

use super::{Described, Parameters};

impl Parameters for Signpost {}

impl<K: Column, V: Column> Described for SignpostOf<K, V>
where
    (K, V): Posted,
{
    fn describe(plan: &<Self as Scheme>::Plan) -> Vec<(&'static str, Value)> {
        vec![("slots", plan.bucket_slots().into()), ("stash-buckets", plan.stash_buckets().into())]
    }
}
