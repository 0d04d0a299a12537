//! What the environment decides for the whole process: which way koel goes where there are several. What comes out is
//! the same by each.
//!
//! ```text
//! KOEL_BUILD_ROUTE    direct, by-parts       how pairs come into an image (route.rs)
//! KOEL_LOOKUP_SHAPE   alone, together, runs  how work-items of OpenCL share lookups (shape.rs)
//! KOEL_STAGING        on, off                whether long transfers of OpenCL go by way of pinned memory
//! KOEL_CPU_LANES      compiled               no instructions but those that koel was compiled for
//! KOEL_UNNAMED_FILES  off                    files that are written have a name from the start
//! ```
//!
//! All are read once, when the first is needed. A wrong name in one of the first three is an error of what needs that
//! choice, and of nothing else. The last two know one word, and any other has no effect. docs/variables.md says what
//! koel does without them. Nothing else in the library reads the environment, but for the faults of tests (`fault.rs`).
//!
//! What it is not: the choice of devices, which is a matter of the loader (`KOEL_OPENCL`, crates/opencl-loader); or
//! what is set on one device, as by [`Cpu::set_build_route`](crate::Cpu::set_build_route), which goes before the
//! environment.

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
const CPU_LANES: &str = "KOEL_CPU_LANES";
#[cfg(target_os = "linux")]
const UNNAMED_FILES: &str = "KOEL_UNNAMED_FILES";

/// What the variables say.
pub(crate) struct Tuning {
    build_route: Said<BuildRoute>,
    #[cfg(feature = "opencl")]
    lookup_shape: Said<LookupShape>,
    #[cfg(feature = "opencl")]
    staging: Said<bool>,
    compiled_lanes: bool,
    #[cfg(target_os = "linux")]
    named_files: bool,
}

/// What they say in this process.
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
            staging: Said::of(&value_of, STAGING, &[("on", true), ("off", false)], "give on or off"),
            compiled_lanes: is(CPU_LANES, "compiled"),
            #[cfg(target_os = "linux")]
            named_files: is(UNNAMED_FILES, "off"),
        }
    }

    /// How pairs come into an image, where a scheme has both ways.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`] if the variable holds no name of a choice, as of the next two.
    pub(crate) fn build_route(&self) -> Result<Option<BuildRoute>> {
        self.build_route.choice()
    }

    /// How work-items share lookups.
    #[cfg(feature = "opencl")]
    pub(crate) fn lookup_shape(&self) -> Result<Option<LookupShape>> {
        self.lookup_shape.choice()
    }

    /// Whether long transfers go by way of pinned memory.
    #[cfg(feature = "opencl")]
    pub(crate) fn staging(&self) -> Result<Option<bool>> {
        self.staging.choice()
    }

    /// Whether the CPU's loops keep to the instructions that koel was compiled for.
    pub(crate) fn compiled_lanes(&self) -> bool {
        self.compiled_lanes
    }

    /// Whether files that are written have a name from the start.
    #[cfg(target_os = "linux")]
    pub(crate) fn named_files(&self) -> bool {
        self.named_files
    }
}

/// What a variable says, if it is set: a choice, or what is none.
struct Said<T> {
    variable: &'static str,
    advice: &'static str,
    value: Option<std::result::Result<T, OsString>>,
}

impl<T: Copy> Said<T> {
    /// `advice` names all choices.
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

    /// With one variable set.
    fn with(variable: &str, value: &str) -> Tuning {
        Tuning::read(|asked| (asked == variable).then(|| value.into()))
    }

    /// Names variable, value and all choices.
    fn refuses<T>(choice: Result<T>, variable: &str, value: &str, choices: &[&str]) {
        let Err(error @ Error::InvalidParameter { .. }) = choice else { panic!("{variable}={value} is no choice") };
        let said = error.to_string();
        assert!([variable, value].iter().chain(choices).all(|word| said.contains(word)), "{said}");
    }

    #[test]
    fn a_variable_holds_the_name_of_a_choice_or_is_refused() -> Result<()> {
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
    fn so_do_those_of_opencl_and_a_wrong_one_spoils_no_other() -> Result<()> {
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
        Ok(())
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn one_word_has_an_effect() {
        for (word, compiled, named) in [("compiled", true, false), ("off", false, true), ("", false, false)] {
            assert_eq!(with(CPU_LANES, word).compiled_lanes(), compiled);
            assert_eq!(with(UNNAMED_FILES, word).named_files(), named);
        }
        let none = Tuning::read(|_| None);
        assert!(!none.compiled_lanes() && !none.named_files());
    }

    /// Each variable has a row of the table, with the names of its choices.
    #[test]
    #[cfg(all(feature = "opencl", target_os = "linux"))]
    fn variables_and_choices_are_those_of_the_documents() {
        let text = include_str!("../../docs/variables.md");
        let row = |variable| {
            let begin = format!("| `{variable}` |");
            text.lines().find(|line| line.starts_with(&begin)).unwrap_or_else(|| panic!("no row of {variable}"))
        };
        let routes = BuildRoute::ALL.map(BuildRoute::name);
        let shapes = LookupShape::ALL.map(LookupShape::name);
        let all: [(&str, &[&str]); 5] = [
            (BuildRoute::VARIABLE, &routes),
            (LookupShape::VARIABLE, &shapes),
            (STAGING, &["on", "off"]),
            (CPU_LANES, &["compiled"]),
            (UNNAMED_FILES, &["off"]),
        ];
        for (variable, choices) in all {
            let row = row(variable);
            assert!(choices.iter().all(|choice| row.contains(&format!("`{choice}`"))), "{row}");
        }
    }
}
