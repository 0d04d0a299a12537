//! `--scheme quadratic`.

use koel::Quadratic;
use koel::scheme::{Plan, QuadraticPlan};

use serde_json::Value;

use super::{Described, Parameters};

impl Parameters for Quadratic {}

impl Described for Quadratic {
    fn describe(plan: &QuadraticPlan) -> Vec<(&'static str, Value)> {
        vec![("words", plan.words().into())]
    }
}
