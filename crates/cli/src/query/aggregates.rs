//! `--agg`: the aggregates of a grouping.

use std::collections::HashSet;

use koel_arrow::Function;

use crate::failure::{Failure, Result};
use crate::options::names;

/// An aggregate as the user writes it: `count`, `sum`, `sum:price`, `total=sum:price`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AggregateSpec {
    pub(crate) function: Function,
    pub(crate) column: Option<String>,
    pub(crate) name: Option<String>,
}

impl AggregateSpec {
    /// Whether it is the number of rows.
    pub(super) fn is_rows(&self) -> bool {
        self.function == Function::Count && self.column.is_none()
    }

    /// The name of its column in the result.
    pub(super) fn shown(&self) -> String {
        let usual = || match &self.column {
            Some(column) => format!("{column}_{}", self.function.name()),
            None => self.function.name().into(),
        };
        self.name.clone().unwrap_or_else(usual)
    }
}

/// Parses `--agg`.
pub(crate) fn requested(text: &str) -> std::result::Result<names::List<AggregateSpec>, String> {
    names::items(text, &['=', ':'], aggregate)
}

fn aggregate(text: &str) -> std::result::Result<AggregateSpec, String> {
    // An item after a comma and a space may be the rest of a column name that is not in quotes.
    let follows_comma = text.starts_with(' ');
    let text = text.trim();
    let (name, rest) = match names::split_once(text, '=', &[':'])? {
        Some((name, rest)) => (Some(name), rest),
        None => (None, text),
    };
    let (function, column) = match names::split_once(rest, ':', &[])? {
        Some((function, column)) => (function, Some(column)),
        None => (rest, None),
    };
    if name == Some("") || column == Some("") {
        return Err("a column has no name: write FUNCTION:COLUMN, or NAME=FUNCTION:COLUMN".into());
    }
    // Finds a function by its name, or by its name in SQL or other tools.
    let known = |name: &str| {
        let usual = match name {
            "avg" => "mean",
            "count_distinct" => "nunique",
            other => other,
        };
        Function::ALL.into_iter().find(|known| known.name() == usual)
    };
    let Some(function) = known(function) else {
        let call = rest.strip_suffix(')').and_then(|call| call.split_once('('));
        let turned = column.map(|last| (last, function)).or(call).filter(|(function, _)| known(function).is_some());
        match turned {
            Some(("count", "*" | "")) => return Err(format!("`{rest}` is not an aggregate: write count")),
            Some((function, column)) if !column.is_empty() => {
                return Err(format!("`{rest}` is not an aggregate: write {function}:{column}"));
            }
            _ => {}
        }
        let all = Function::ALL.map(Function::name).join(", ");
        let comma = if follows_comma { "; a name with a comma is in quotes, as in sum:\"a, b\"" } else { "" };
        return Err(format!("`{function}` is not an aggregate: give one of {all}{comma}"));
    };
    let unquoted = |name: Option<&str>| name.map(names::name).transpose();
    Ok(AggregateSpec { function, column: unquoted(column)?, name: unquoted(name)? })
}

/// Refuses a result in which two columns have the same name.
pub(super) fn check_names(by: &[String], aggregates: &[AggregateSpec]) -> Result<()> {
    let mut taken: HashSet<String> = by.iter().cloned().collect();
    for requested in aggregates {
        let name = requested.shown();
        if taken.contains(&name) {
            let free = (2..).map(|i| format!("{name}_{i}")).find(|free| !taken.contains(free)).unwrap_or_default();
            let (free, of) = (names::quoted(&free), requested.column.as_deref().map(names::quoted));
            let of = of.map_or(String::new(), |column| format!(":{column}"));
            return Err(Failure::Input(format!(
                "two columns of the result would be called `{name}`: give the aggregate another name, as in --agg \
                 {free}={}{of}",
                requested.function.name()
            )));
        }
        taken.insert(name);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aggregates_are_taken_apart() {
        let of = |name: Option<&str>, function, column: Option<&str>| {
            Ok(vec![AggregateSpec { function, column: column.map(String::from), name: name.map(String::from) }])
        };
        assert_eq!(requested("count"), of(None, Function::Count, None));
        assert_eq!(requested("sum:a b"), of(None, Function::Sum, Some("a b")));
        assert_eq!(requested("total=nunique:x"), of(Some("total"), Function::DistinctCount, Some("x")));
        assert_eq!(requested("avg:x"), of(None, Function::Mean, Some("x")));
        assert_eq!(requested("count_distinct:x"), of(None, Function::DistinctCount, Some("x")));
        assert_eq!(requested("sum:\"a, b=c\""), of(None, Function::Sum, Some("a, b=c")));
        assert_eq!(requested("\"a:b, c\"=max:d:e"), of(Some("a:b, c"), Function::Max, Some("d:e")));
        assert_eq!(requested("count,sum:x").map(|all| all.len()), Ok(2));
        for (text, part) in
            [("median:x", "not an aggregate: give one of count, sum"), ("sum:", "no name"), ("=sum:x", "no name")]
        {
            assert!(requested(text).is_err_and(|error| error.contains(part)), "{text}");
        }
    }
}
