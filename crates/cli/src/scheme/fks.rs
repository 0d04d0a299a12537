//! `--scheme fks`.

use koel::scheme::{FksPlan, Plan};
use koel::{Fks, FksFamily, Kind, Scheme};

use serde_json::Value;

use super::{Described, Parameters};
use crate::failure::Result;
use crate::options::{SchemeOptions, by_name};

impl Parameters for Fks {
    fn options(kind: Kind) -> &'static [&'static str] {
        match kind {
            Kind::Classic => &["hash", "iterations"],
            _ => &["hash"],
        }
    }

    fn with(kind: Kind, options: &SchemeOptions) -> Result<Self> {
        let mut scheme = Fks::of_kind(kind);
        if let Some(name) = &options.hash {
            scheme = scheme.family(by_name("hash", &FksFamily::ALL, FksFamily::name, name)?);
        }
        if let Some(iterations) = options.iterations {
            scheme = scheme.iterations(iterations);
        }
        Ok(scheme)
    }
}

impl Described for Fks {
    fn describe(plan: &FksPlan) -> Vec<(&'static str, Value)> {
        let mut parameters = vec![("hash", plan.family().name().into())];
        if plan.kind() == Kind::Classic {
            parameters.push(("iterations", plan.iterations().into()));
        }
        parameters
    }
}
