//! `--scheme cuckoo_set`: the options and parameters of `--scheme cuckoo`.

use koel::scheme::CuckooSetPlan;
use koel::{Cuckoo, CuckooSet, Kind};

use serde_json::Value;

use super::{Described, Parameters};
use crate::failure::Result;
use crate::options::SchemeOptions;

impl Parameters for CuckooSet {
    fn options(kind: Kind) -> &'static [&'static str] {
        Cuckoo::options(kind)
    }

    fn with(kind: Kind, options: &SchemeOptions) -> Result<Self> {
        Cuckoo::with(kind, options).map(CuckooSet::from)
    }
}

impl Described for CuckooSet {
    fn describe(plan: &CuckooSetPlan) -> Vec<(&'static str, Value)> {
        Cuckoo::describe(plan.cuckoo())
    }
}
