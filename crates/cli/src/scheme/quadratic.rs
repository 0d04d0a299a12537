//! `--scheme quadratic`.

use koel::scheme::{Plan, QuadraticPlan};
use koel::{Kind, Quadratic};

use serde_json::Value;

use super::{Described, Parameters};
use crate::failure::Result;
use crate::options::SchemeOptions;

impl Parameters for Quadratic {
    fn options(_: Kind) -> &'static [&'static str] {
        &[]
    }

    fn with(_: Kind, _: &SchemeOptions) -> Result<Self> {
        Ok(Quadratic)
    }
}

impl Described for Quadratic {
    fn describe(plan: &QuadraticPlan) -> Vec<(&'static str, Value)> {
        vec![("words", plan.words().into())]
    }
}
