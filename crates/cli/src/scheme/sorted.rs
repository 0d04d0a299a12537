//! `--scheme sorted`.

use koel::Sorted;
use koel::scheme::SortedPlan;

use serde_json::Value;

use super::{Described, Parameters};

impl Parameters for Sorted {}

impl Described for Sorted {
    fn describe(_: &SortedPlan) -> Vec<(&'static str, Value)> {
        vec![("order", "ascending".into())]
    }
}
