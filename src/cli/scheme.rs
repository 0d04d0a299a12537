//! From names and option values to a scheme. The registry says which schemes there are; a scheme's own options and
//! fields are mapped here and nowhere else.

use koel::backend::{Any, Runs};
use koel::spec::CuckooPlan;
use koel::{Cpu, Cuckoo, Kind, Scheme};

use serde_json::Value;

use super::failure::{Failure, Result};
use super::options::SchemeOptions;

/// What is done with a scheme once it is known; generic, because every scheme has a plan of its own.
pub(crate) trait Job {
    type Output;
    fn run<S: Parameters>(&mut self, scheme: S) -> Result<Self::Output>
    where
        Any: Runs<S>,
        Cpu: Runs<S>;
}

/// A scheme's parameters, from and for the command line.
pub(crate) trait Parameters: Scheme {
    /// The scheme of this kind with these options.
    fn with(kind: Kind, options: &SchemeOptions) -> Result<Self>;
    /// Names and values of the parameters in a plan.
    fn describe(plan: &Self::Plan) -> Vec<(&'static str, Value)>;
}

impl Parameters for Cuckoo {
    fn with(kind: Kind, options: &SchemeOptions) -> Result<Self> {
        let mut scheme = match (kind, options.functions) {
            (_, None) => Cuckoo::of_kind(kind),
            (Kind::Classic, Some(functions)) => Cuckoo::classic(functions),
            (_, Some(functions)) => Cuckoo::canonical(functions),
        };
        if let Some(family) = options.hash {
            scheme = scheme.family(family);
        }
        if let Some(rule) = options.reinsertion {
            if kind == Kind::Canonical {
                let advice = "--reinsertion is for classic tables: leave it out, or give --kind classic";
                return Err(Failure::Input(advice.into()));
            }
            scheme = scheme.reinsertion(rule);
        }
        scheme.check()?;
        Ok(scheme)
    }

    fn describe(plan: &CuckooPlan) -> Vec<(&'static str, Value)> {
        let family = plan.family().name();
        let mut parameters = vec![("functions", plan.function_count().into()), ("hash", family.into())];
        if koel::spec::Plan::kind(plan) == Kind::Classic {
            let rule = plan.reinsertion().name();
            parameters.extend([("reinsertion", rule.into()), ("chain", plan.chain().into())]);
        }
        parameters
    }
}

/// Parameters in a line: `functions 4, hash mixer`.
pub(crate) fn listed(parameters: &[(&'static str, Value)]) -> String {
    let shown = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    parameters.iter().map(|(name, value)| format!("{name} {}", shown(value))).collect::<Vec<_>>().join(", ")
}

/// Parameters as a JSON object.
pub(crate) fn json(parameters: &[(&'static str, Value)]) -> Value {
    parameters.iter().cloned().map(|(name, value)| (name.to_owned(), value)).collect::<serde_json::Map<_, _>>().into()
}

macro_rules! dispatch {
    ($($module:ident, $scheme:ident, $name:literal;)*) => {
        /// The names of all schemes.
        pub(crate) const NAMES: &[&str] = &[$($name),*];

        /// The kinds a scheme can be built as.
        pub(crate) fn kinds(name: &str) -> &'static [Kind] {
            match name {
                $($name => <koel::spec::$scheme as Scheme>::KINDS,)*
                _ => &[],
            }
        }

        /// Runs a job with the scheme of this name, kind and options.
        pub(crate) fn named<J: Job>(name: &str, kind: Kind, options: &SchemeOptions, job: &mut J) -> Result<J::Output> {
            match name {
                $($name => job.run(<koel::spec::$scheme as Parameters>::with(kind, options)?),)*
                _ => Err(Failure::Input(format!("there is no scheme {name}; there is {}", NAMES.join(", ")))),
            }
        }

        /// Runs a job with the scheme that a file names by number. The file's own parameters are in its plan.
        pub(crate) fn numbered<J: Job>(number: u32, kind: Kind, job: &mut J) -> Result<J::Output> {
            $(if number == <koel::spec::$scheme as Scheme>::ID {
                return job.run(<koel::spec::$scheme as Scheme>::of_kind(kind));
            })*
            Err(Failure::Input(format!("scheme number {number} is unknown to this koel: use a newer one")))
        }
    };
}
koel::for_each_scheme!(dispatch);
