//! Choices that the environment makes for all devices.

use std::ffi::OsString;

use crate::error::{Error, Result};

/// What an environment variable chooses by name, if it is set. `advice` names all choices.
///
/// # Errors
/// [`Error::InvalidParameter`] with the advice, if it holds anything else.
pub(crate) fn chosen<T: Copy>(
    variable: &'static str,
    choices: &[(&str, T)],
    advice: &'static str,
) -> Result<Option<T>> {
    named(variable, std::env::var_os(variable), choices, advice)
}

fn named<T: Copy>(
    variable: &'static str,
    value: Option<OsString>,
    choices: &[(&str, T)],
    advice: &'static str,
) -> Result<Option<T>> {
    let Some(value) = value else { return Ok(None) };
    let choice = choices.iter().find(|(name, _)| value == *name).map(|&(_, choice)| choice);
    choice.map(Some).ok_or_else(|| Error::parameter(variable, value.display(), advice))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::BuildRoute;

    #[test]
    fn a_variable_holds_the_name_of_a_choice_or_is_refused() {
        let choices = [("on", 1), ("off", 0)];
        let of = |value: Option<&str>| named("KOEL_X", value.map(OsString::from), &choices, "give on or off");
        assert!(matches!((of(Some("on")), of(Some("off")), of(None)), (Ok(Some(1)), Ok(Some(0)), Ok(None))));
        for wrong in ["", "1", "On", "on "] {
            let error = of(Some(wrong)).expect_err("no choice");
            let said = error.to_string();
            assert!(matches!(error, Error::InvalidParameter { .. }), "{said}");
            assert!(said.contains("KOEL_X") && said.contains("give on or off"), "{said}");
        }
        assert!(matches!(chosen("KOEL_NO_SUCH_VARIABLE", &choices, ""), Ok(None)));
    }

    /// What is said where a name is wrong leads to one that is right.
    #[test]
    fn advice_names_all_choices() {
        let routes = BuildRoute::ALL.map(BuildRoute::name);
        assert_eq!(format!("give {}", routes.join(" or ")), BuildRoute::ADVICE);
        #[cfg(feature = "opencl")]
        {
            use crate::opencl::LookupShape;
            let [first, second, third] = LookupShape::ALL.map(LookupShape::name);
            assert_eq!(format!("give {first}, {second} or {third}"), LookupShape::ADVICE);
        }
    }
}
