//! `--scheme perfect`.

use koel::scheme::PerfectPlan;
use koel::{Kind, Perfect};

use serde_json::Value;

use super::{Described, Parameters};
use crate::failure::Result;
use crate::options::{Extent, SchemeOptions};

impl Parameters for Perfect {
    fn options(_: Kind) -> &'static [&'static str] {
        &["extent"]
    }

    fn with(_: Kind, options: &SchemeOptions) -> Result<Self> {
        Ok(match options.extent {
            None => Perfect::default(),
            Some(Extent { width, height: None }) => Perfect::plane(width),
            Some(Extent { width, height: Some(height) }) => Perfect::volume(width, height),
        })
    }
}

impl Described for Perfect {
    fn describe(plan: &PerfectPlan) -> Vec<(&'static str, Value)> {
        let extent = match plan.height() {
            None => plan.width().to_string(),
            Some(height) => format!("{}x{height}", plan.width()),
        };
        vec![("extent", extent.into()), ("side", plan.side().into()), ("offset-side", plan.offset_side().into())]
    }
}
