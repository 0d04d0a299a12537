//! `--scheme cuckoo`.

use koel::scheme::{CuckooPlan, Plan};
use koel::{Cuckoo, HashFamily, Kind, Scheme};

use serde_json::Value;

use super::{Described, Parameters};
use crate::failure::Result;
use crate::options::{SchemeOptions, by_name};

impl Parameters for Cuckoo {
    fn options(kind: Kind) -> &'static [&'static str] {
        match kind {
            Kind::Classic => &["functions", "hash", "reinsertion"],
            _ => &["functions", "hash"],
        }
    }

    fn with(kind: Kind, options: &SchemeOptions) -> Result<Self> {
        let mut scheme = match (kind, options.functions) {
            (_, None) => Cuckoo::of_kind(kind),
            (Kind::Classic, Some(functions)) => Cuckoo::classic(functions),
            (_, Some(functions)) => Cuckoo::canonical(functions),
        };
        if let Some(name) = &options.hash {
            scheme = scheme.family(by_name("hash", &HashFamily::ALL, HashFamily::name, name)?);
        }
        if let Some(rule) = options.reinsertion {
            scheme = scheme.reinsertion(rule);
        }
        Ok(scheme)
    }
}

impl Described for Cuckoo {
    fn describe(plan: &CuckooPlan) -> Vec<(&'static str, Value)> {
        let family = plan.family().name();
        let mut parameters = vec![("functions", plan.function_count().into()), ("hash", family.into())];
        if plan.kind() == Kind::Classic {
            let rule = plan.reinsertion().name();
            parameters.extend([("reinsertion", rule.into()), ("chain", plan.chain().into())]);
        }
        parameters
    }
}
