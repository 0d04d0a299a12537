//! Converts names and option values to a scheme. The registry lists the schemes; the options and fields of a scheme are
//! mapped only in the file with its name.

mod bucketized;
mod cuckoo;
mod cuckoo_set;
mod fks;
mod horton;
mod perfect;
mod quadratic;
mod robin_hood;
mod signpost;
mod sorted;
mod wide;

use koel::scheme::{AnyPlan, Limits};
use koel::{AnyScheme, Kind, Scheme};

use serde_json::Value;

use super::failure::{Failure, Result};
use super::options::SchemeOptions;

/// Parses a scheme's parameters from options.
trait Parameters: Scheme<Key = u32, Value = u32> {
    /// The options that tables of this kind take.
    fn options(_kind: Kind) -> &'static [&'static str] {
        &[]
    }
    /// The scheme of this kind with these options; the caller has checked that the scheme has all of them.
    fn with(kind: Kind, _options: &SchemeOptions) -> Result<Self> {
        Ok(Self::of_kind(kind))
    }
}

/// A scheme's parameters, for display.
pub trait Described: Scheme {
    /// Names and values of the parameters in a plan.
    fn describe(plan: &Self::Plan) -> Vec<(&'static str, Value)>;
}

/// The limits of tables with this scheme, kind and options.
pub fn limits(name: &str, kind: Kind, options: &SchemeOptions) -> Result<Limits> {
    Ok(named(name, kind, options)?.limits())
}

/// Parameters on one line: `functions 4, hash mixer`.
pub fn listed(parameters: &[(&'static str, Value)]) -> String {
    let shown = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    parameters.iter().map(|(name, value)| format!("{name} {}", shown(value))).collect::<Vec<_>>().join(", ")
}

/// Refuses a kind that this scheme does not have.
fn refuse_kind(name: &str, kind: Kind) -> Result<()> {
    let known = kinds(name);
    if known.is_empty() || known.contains(&kind) {
        return Ok(());
    }
    let others: Vec<_> = known.iter().map(|kind| kind.name()).collect();
    Err(Failure::Input(format!("there are no {kind} {name} tables: give --kind {}", others.join(" or "))))
}

/// Refuses an option that tables of this scheme and kind do not have.
fn refuse_others(name: &str, kind: Kind, options: &SchemeOptions) -> Result<()> {
    let Some(other) = options.given().into_iter().find(|given| !self::options(name, kind).contains(given)) else {
        return Ok(());
    };
    let has = |&(name, kind): &(&str, Kind)| self::options(name, kind).contains(&other);
    let who: Vec<_> =
        NAMES.iter().flat_map(|&name| kinds(name).iter().map(move |&kind| (name, kind))).filter(has).collect();
    let who: Vec<_> = who.iter().map(|(name, kind)| format!("{kind} {name}")).collect();
    Err(Failure::Input(format!(
        "--{other} does not apply to {kind} {name} tables: omit it; it is for {} ones",
        who.join(", ")
    )))
}

/// Parameters as a JSON object.
pub fn json(parameters: &[(&'static str, Value)]) -> Value {
    parameters.iter().cloned().map(|(name, value)| (name.to_owned(), value)).collect::<serde_json::Map<_, _>>().into()
}

macro_rules! dispatch {
    ($($module:ident, $scheme:ident, $name:literal;)*) => {
        /// The names of all schemes.
        pub const NAMES: &[&str] = &[$($name),*];

        /// The kinds a scheme can be built as.
        pub fn kinds(name: &str) -> &'static [Kind] {
            match name {
                $($name => <koel::scheme::$scheme as Scheme>::KINDS,)*
                _ => &[],
            }
        }

        /// The options that tables of this scheme and kind take.
        pub fn options(name: &str, kind: Kind) -> &'static [&'static str] {
            match name {
                $($name => <koel::scheme::$scheme as Parameters>::options(kind),)*
                _ => &[],
            }
        }

        /// Whether tables of this scheme and kind take these options with these values.
        pub fn accepts(name: &str, kind: Kind, options: &SchemeOptions) -> bool {
            let with = match name {
                $($name => <koel::scheme::$scheme as Parameters>::with(kind, options).and_then(|s| Ok(s.check()?)),)*
                _ => return false,
            };
            with.is_ok() && refuse_others(name, kind, options).is_ok()
        }

        /// The scheme of this name, kind and options.
        pub fn named(name: &str, kind: Kind, options: &SchemeOptions) -> Result<AnyScheme> {
            refuse_kind(name, kind)?;
            refuse_others(name, kind, options)?;
            let scheme: AnyScheme = match name {
                $($name => <koel::scheme::$scheme as Parameters>::with(kind, options)?.into(),)*
                _ => AnyScheme::by_name(name, kind)?,
            };
            scheme.check()?;
            Ok(scheme)
        }

        impl Described for AnyScheme {
            fn describe(plan: &AnyPlan) -> Vec<(&'static str, Value)> {
                match plan {
                    $(AnyPlan::$scheme(plan) => <koel::scheme::$scheme as Described>::describe(plan),)*
                    _ => Vec::new(),
                }
            }
        }
    };
}
koel::for_each_scheme!(dispatch);
