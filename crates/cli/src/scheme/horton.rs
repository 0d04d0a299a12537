//! `--scheme horton`.

use koel::scheme::{HortonPlan, Plan};
use koel::{Horton, HortonFamily, Kind};

use serde_json::Value;

use super::{Described, Parameters};
use crate::failure::Result;
use crate::options::{SchemeOptions, by_name};

impl Parameters for Horton {
    fn options(kind: Kind) -> &'static [&'static str] {
        match kind {
            Kind::Classic => &["bucket-slots", "tags", "bits", "hash", "height"],
            _ => &["bucket-slots", "tags", "bits", "hash"],
        }
    }

    fn with(kind: Kind, options: &SchemeOptions) -> Result<Self> {
        let slots = options.bucket_slots.unwrap_or(8);
        let mut scheme = match kind {
            Kind::Classic => Horton::classic(slots),
            _ => Horton::canonical(slots),
        };
        if let Some(tags) = options.tags {
            scheme = scheme.tags(tags);
        }
        if let Some(bits) = options.bits {
            scheme = scheme.bits(bits);
        }
        if let Some(name) = &options.hash {
            scheme = scheme.family(by_name("hash", &HortonFamily::ALL, HortonFamily::name, name)?);
        }
        if let Some(height) = options.height {
            scheme = scheme.height(height);
        }
        Ok(scheme)
    }
}

impl Described for Horton {
    fn describe(plan: &HortonPlan) -> Vec<(&'static str, Value)> {
        let mut parameters = vec![
            ("slots", plan.bucket_slots().into()),
            ("tags", plan.tags().into()),
            ("bits", plan.bits().into()),
            ("hash", plan.family().name().into()),
        ];
        if plan.kind() == Kind::Classic {
            parameters.push(("height", plan.height().into()));
        }
        parameters
    }
}
