//! Environment variables that select strategies for the whole process. They do not affect results.
//!
//! ```text
//! KOEL_BUILD_ROUTE    direct, by-parts       how builds place pairs in an image (route.rs)
//! KOEL_LOOKUP_SHAPE   alone, together, runs  how work-items of OpenCL share lookups (shape.rs)
//! KOEL_STAGING        on, off                whether long transfers of OpenCL use pinned memory
//! KOEL_OPENCL_TIER    partial                use OpenCL devices as if they had no 64-bit atomics
//! KOEL_OPENCL_GROUP   64, 128                use OpenCL devices as if work-groups had at most this number of work-items
//! KOEL_CPU_LANES      compiled               use only the instructions that koel was compiled for
//! KOEL_UNNAMED_FILES  off                    files have a name while they are written
//! ```
//!
//! All variables are read once, when the first of them is needed. An invalid value of one of the first five is an error
//! of those operations that need the choice. The last two accept one word, and any other value has no effect.
//! docs/variables.md describes the defaults. The library reads no other variables, except for the number of threads
//! (`threads.rs`) and injected faults in tests (`fault.rs`).
//!
//! This module does not select devices: the loader does (`KOEL_OPENCL`, crates/opencl-loader). It does not contain the
//! settings of single devices, such as [`Cpu::set_build_route`](crate::Cpu::set_build_route), which take precedence
//! over the environment.

mod route;
#[cfg(feature = "opencl")]
mod shape;

use std::ffi::OsString;
use std::sync::OnceLock;

pub use route::BuildRoute;
#[cfg(feature = "opencl")]
pub use shape::LookupShape;

use crate::error::{Error, Result};

#[cfg(feature = "opencl")]
const STAGING: &str = "KOEL_STAGING";
#[cfg(feature = "opencl")]
const TIER: &str = "KOEL_OPENCL_TIER";
#[cfg(feature = "opencl")]
const GROUP: &str = "KOEL_OPENCL_GROUP";
const CPU_LANES: &str = "KOEL_CPU_LANES";
#[cfg(target_os = "linux")]
const UNNAMED_FILES: &str = "KOEL_UNNAMED_FILES";

/// The values of the variables.
pub(crate) struct Tuning {
    build_route: Said<BuildRoute>,
    #[cfg(feature = "opencl")]
    lookup_shape: Said<LookupShape>,
    #[cfg(feature = "opencl")]
    staging: Said<bool>,
    #[cfg(feature = "opencl")]
    partial_tier: Said<()>,
    #[cfg(feature = "opencl")]
    work_group: Said<usize>,
    compiled_lanes: bool,
    #[cfg(target_os = "linux")]
    named_files: bool,
}

/// The values in this process.
pub(crate) fn tuning() -> &'static Tuning {
    static TUNING: OnceLock<Tuning> = OnceLock::new();
    TUNING.get_or_init(|| Tuning::read(|variable| std::env::var_os(variable)))
}

impl Tuning {
    fn read(value_of: impl Fn(&str) -> Option<OsString>) -> Tuning {
        let is = |variable, word: &str| value_of(variable).is_some_and(|value| value == word);
        let routes = BuildRoute::ALL.map(|route| (route.name(), route));
        #[cfg(feature = "opencl")]
        let shapes = LookupShape::ALL.map(|shape| (shape.name(), shape));
        Tuning {
            build_route: Said::of(&value_of, BuildRoute::VARIABLE, &routes, BuildRoute::ADVICE),
            #[cfg(feature = "opencl")]
            lookup_shape: Said::of(&value_of, LookupShape::VARIABLE, &shapes, LookupShape::ADVICE),
            #[cfg(feature = "opencl")]
            staging: Said::of(&value_of, STAGING, &[("on", true), ("off", false)], "use on or off"),
            #[cfg(feature = "opencl")]
            partial_tier: Said::of(&value_of, TIER, &[("partial", ())], "use partial, or unset it"),
            #[cfg(feature = "opencl")]
            work_group: Said::of(&value_of, GROUP, &[("64", 64), ("128", 128)], "use 64 or 128, or unset it"),
            compiled_lanes: is(CPU_LANES, "compiled"),
            #[cfg(target_os = "linux")]
            named_files: is(UNNAMED_FILES, "off"),
        }
    }

    /// How builds place pairs, for schemes that support both routes.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`] if the variable has any other value. This also applies to the next four functions.
    pub(crate) fn build_route(&self) -> Result<Option<BuildRoute>> {
        self.build_route.choice()
    }

    /// How work-items share lookups.
    #[cfg(feature = "opencl")]
    pub(crate) fn lookup_shape(&self) -> Result<Option<LookupShape>> {
        self.lookup_shape.choice()
    }

    /// Whether long transfers use pinned memory.
    #[cfg(feature = "opencl")]
    pub(crate) fn staging(&self) -> Result<Option<bool>> {
        self.staging.choice()
    }

    /// Whether OpenCL devices are used as if they had no 64-bit atomics.
    #[cfg(feature = "opencl")]
    pub(crate) fn partial_tier(&self) -> Result<bool> {
        Ok(self.partial_tier.choice()?.is_some())
    }

    /// The maximum number of work-items of a work-group.
    #[cfg(feature = "opencl")]
    pub(crate) fn work_group(&self) -> Result<Option<usize>> {
        self.work_group.choice()
    }

    /// Whether the CPU's loops use only the instructions that koel was compiled for.
    pub(crate) fn compiled_lanes(&self) -> bool {
        self.compiled_lanes
    }

    /// Whether files have a name while they are written.
    #[cfg(target_os = "linux")]
    pub(crate) fn named_files(&self) -> bool {
        self.named_files
    }
}

/// The value of a variable that is set: a choice, or an invalid value.
struct Said<T> {
    variable: &'static str,
    advice: &'static str,
    value: Option<std::result::Result<T, OsString>>,
}

impl<T: Copy> Said<T> {
    /// Parses a value. `advice` lists all choices.
    fn of(
        value_of: impl Fn(&str) -> Option<OsString>,
        variable: &'static str,
        choices: &[(&str, T)],
        advice: &'static str,
    ) -> Said<T> {
        let choice = |value: OsString| match choices.iter().find(|(name, _)| value == *name) {
            Some(&(_, choice)) => Ok(choice),
            None => Err(value),
        };
        Said { variable, advice, value: value_of(variable).map(choice) }
    }

    fn choice(&self) -> Result<Option<T>> {
        match &self.value {
            None => Ok(None),
            Some(Ok(choice)) => Ok(Some(*choice)),
            Some(Err(none)) => Err(Error::parameter(self.variable, none.display(), self.advice)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The settings if one variable is set to a value.
    fn with(variable: &str, value: &str) -> Tuning {
        Tuning::read(|requested| (requested == variable).then(|| value.into()))
    }

    /// Checks that the error contains the variable, its value and all choices.
    fn refuses<T>(choice: Result<T>, variable: &str, value: &str, choices: &[&str]) {
        let Err(error @ Error::InvalidParameter { .. }) = choice else { panic!("{variable}={value} is no choice") };
        let said = error.to_string();
        assert!([variable, value].iter().chain(choices).all(|word| said.contains(word)), "{said}");
    }

    #[test]
    fn variables_accept_only_names_of_choices() -> Result<()> {
        let none = Tuning::read(|_| None);
        assert_eq!(none.build_route()?, None);
        let names = BuildRoute::ALL.map(BuildRoute::name);
        for route in BuildRoute::ALL {
            let tuning = with(BuildRoute::VARIABLE, route.name());
            assert_eq!(tuning.build_route()?, Some(route));
        }
        for wrong in ["", "Direct", "direct ", "parts"] {
            refuses(with(BuildRoute::VARIABLE, wrong).build_route(), BuildRoute::VARIABLE, wrong, &names);
        }
        Ok(())
    }

    #[test]
    #[cfg(feature = "opencl")]
    fn variables_of_opencl_accept_only_names_and_do_not_affect_each_other() -> Result<()> {
        let none = Tuning::read(|_| None);
        assert_eq!((none.lookup_shape()?, none.staging()?), (None, None));
        for shape in LookupShape::ALL {
            assert_eq!(with(LookupShape::VARIABLE, shape.name()).lookup_shape()?, Some(shape));
        }
        for (name, staging) in [("on", true), ("off", false)] {
            assert_eq!(with(STAGING, name).staging()?, Some(staging));
        }
        let names = LookupShape::ALL.map(LookupShape::name);
        let wrong = with(LookupShape::VARIABLE, "alones");
        refuses(wrong.lookup_shape(), LookupShape::VARIABLE, "alones", &names);
        assert_eq!((wrong.build_route()?, wrong.staging()?), (None, None));
        refuses(with(STAGING, "1").staging(), STAGING, "1", &["on", "off"]);
        assert!(with(TIER, "partial").partial_tier()? && !none.partial_tier()?);
        refuses(with(TIER, "full").partial_tier(), TIER, "full", &["partial"]);
        assert_eq!((with(GROUP, "64").work_group()?, none.work_group()?), (Some(64), None));
        refuses(with(GROUP, "32").work_group(), GROUP, "32", &["64", "128"]);
        Ok(())
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn each_variable_sets_its_choice() {
        for (word, compiled, named) in [("compiled", true, false), ("off", false, true), ("", false, false)] {
            assert_eq!(with(CPU_LANES, word).compiled_lanes(), compiled);
            assert_eq!(with(UNNAMED_FILES, word).named_files(), named);
        }
        let none = Tuning::read(|_| None);
        assert!(!none.compiled_lanes() && !none.named_files());
    }

    /// The table has a row for each variable, with the names of its choices.
    #[test]
    #[cfg(all(feature = "opencl", target_os = "linux"))]
    fn variables_and_choices_match_the_documentation() {
        let text = include_str!("../../docs/variables.md");
        let row = |variable| {
            let begin = format!("| `{variable}` |");
            text.lines().find(|line| line.starts_with(&begin)).unwrap_or_else(|| panic!("no row of {variable}"))
        };
        let routes = BuildRoute::ALL.map(BuildRoute::name);
        let shapes = LookupShape::ALL.map(LookupShape::name);
        let all: [(&str, &[&str]); 7] = [
            (BuildRoute::VARIABLE, &routes),
            (LookupShape::VARIABLE, &shapes),
            (STAGING, &["on", "off"]),
            (TIER, &["partial"]),
            (GROUP, &["64", "128"]),
            (CPU_LANES, &["compiled"]),
            (UNNAMED_FILES, &["off"]),
        ];
        for (variable, choices) in all {
            let row = row(variable);
            assert!(choices.iter().all(|choice| row.contains(&format!("`{choice}`"))), "{row}");
        }
    }
}
