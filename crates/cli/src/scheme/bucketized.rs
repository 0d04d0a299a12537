//! `--scheme bucketized`.

use koel::scheme::{BucketizedPlan, Plan};
use koel::{Bucketized, Kind};

use serde_json::Value;

use super::{Described, Parameters};
use crate::failure::Result;
use crate::options::SchemeOptions;

impl Parameters for Bucketized {
    fn options(kind: Kind) -> &'static [&'static str] {
        match kind {
            Kind::Classic => &["functions", "bucket-slots", "insertion", "lookup-mode", "reach"],
            _ => &["bucket-slots"],
        }
    }

    fn with(kind: Kind, options: &SchemeOptions) -> Result<Self> {
        let slots = options.bucket_slots.unwrap_or(8);
        if kind == Kind::Canonical {
            return Ok(Bucketized::canonical(slots));
        }
        let mut scheme = Bucketized::classic(options.functions.unwrap_or(2), slots);
        if let Some(insertion) = options.insertion {
            scheme = scheme.insertion(insertion);
        }
        if let Some(mode) = options.lookup_mode {
            scheme = scheme.lookup_mode(mode);
        }
        if let Some(reach) = options.reach {
            scheme = scheme.reach(reach);
        }
        Ok(scheme)
    }
}

impl Described for Bucketized {
    fn describe(plan: &BucketizedPlan) -> Vec<(&'static str, Value)> {
        let (functions, slots) = (plan.function_count(), plan.bucket_slots());
        let mut parameters = vec![("functions", functions.into()), ("slots", slots.into())];
        if plan.kind() == Kind::Classic {
            let (insertion, mode) = (plan.insertion().name(), plan.lookup_mode().name());
            parameters.extend([
                ("insertion", insertion.into()),
                ("lookup-mode", mode.into()),
                ("reach", plan.reach().into()),
            ]);
        }
        parameters
    }
}
