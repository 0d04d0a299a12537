//! `--scheme robin_hood`.

use koel::scheme::{Plan, RobinHoodPlan};
use koel::{Kind, RobinHood, Scheme};

use serde_json::Value;

use super::{Described, Parameters};
use crate::failure::Result;
use crate::options::SchemeOptions;

impl Parameters for RobinHood {
    fn options(kind: Kind) -> &'static [&'static str] {
        match kind {
            Kind::Classic => &["sequence", "max-ages", "keys-alone"],
            _ => &["sequence", "max-ages"],
        }
    }

    fn with(kind: Kind, options: &SchemeOptions) -> Result<Self> {
        let mut scheme = RobinHood::of_kind(kind);
        if let Some(sequence) = options.sequence {
            scheme = scheme.sequence(sequence);
        }
        if let Some(bits) = options.max_ages {
            scheme = scheme.max_ages(bits);
        }
        if options.keys_alone {
            scheme = scheme.keys_alone();
        }
        Ok(scheme)
    }
}

impl Described for RobinHood {
    fn describe(plan: &RobinHoodPlan) -> Vec<(&'static str, Value)> {
        let mut parameters =
            vec![("sequence", plan.sequence().name().into()), ("max-ages", plan.max_ages_bits().into())];
        if plan.kind() == Kind::Classic {
            parameters.push(("keys-alone", plan.keys_alone().into()));
        }
        parameters
    }
}
