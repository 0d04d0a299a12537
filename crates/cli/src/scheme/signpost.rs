//! `--scheme signpost`.

use koel::scheme::bucketized::Column;
use koel::scheme::signpost::Posted;
use koel::scheme::{Plan, Scheme, SignpostOf};
use koel::{Kind, Signpost};

use serde_json::Value;

use super::{Described, Parameters};
use crate::failure::Result;
use crate::options::SchemeOptions;

impl Parameters for Signpost {
    fn options(_: Kind) -> &'static [&'static str] {
        &[]
    }

    fn with(_: Kind, _: &SchemeOptions) -> Result<Self> {
        Ok(Signpost::new())
    }
}

impl<K: Column, V: Column> Described for SignpostOf<K, V>
where
    (K, V): Posted,
{
    fn describe(plan: &<Self as Scheme>::Plan) -> Vec<(&'static str, Value)> {
        vec![("slots", plan.bucket_slots().into()), ("stash-buckets", plan.stash_buckets().into())]
    }
}
