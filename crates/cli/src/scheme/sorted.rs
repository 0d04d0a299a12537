//! `--scheme sorted`.

use koel::scheme::SortedPlan;
use koel::{Kind, Sorted};

use serde_json::Value;

use super::{Described, Parameters};
use crate::failure::Result;
use crate::options::SchemeOptions;

impl Parameters for Sorted {
    fn options(_: Kind) -> &'static [&'static str] {
        &[]
    }

    fn with(_: Kind, _: &SchemeOptions) -> Result<Self> {
        Ok(Sorted)
    }
}

impl Described for Sorted {
    fn describe(_: &SortedPlan) -> Vec<(&'static str, Value)> {
        vec![("order", "ascending".into())]
    }
}
