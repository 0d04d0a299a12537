//! All errors, with advice.

use arrow_schema::{ArrowError, DataType};

use crate::name::{shown, shown_name};
use crate::wide::{is_too_narrow, wide_type};

/// The result of the fallible operations of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error. Inputs are not changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A column that does not exist.
    #[error("there is no column {}: the columns are {}", named(column), listed(there))]
    MissingColumn {
        /// The requested name.
        column: String,
        /// The existing names.
        there: Vec<String>,
    },
    /// A name that two columns have.
    #[error("two columns are called {}: rename one of them", named(column))]
    AmbiguousColumn {
        /// The name.
        column: String,
    },
    /// No key columns, or different numbers of them on the sides of a join.
    #[error(
        "there are {left} key columns on the left and {right} on the right: name at least one, and equally many on \
         both sides"
    )]
    KeyCount {
        /// The number of key columns on the left, or in total.
        left: usize,
        /// The number of key columns on the right.
        right: usize,
    },
    /// Columns of one table that differ in length.
    #[error(
        "column {} has {rows} rows, but {expected} are needed: all columns of a table must have the same length",
        named(column)
    )]
    Uneven {
        /// The column.
        column: String,
        /// The number of its rows.
        rows: usize,
        /// The number of rows of the other columns.
        expected: usize,
    },
    /// A type that keys cannot have.
    #[error("column {} has type {}, which keys cannot have: {advice}", named(column), typed(found))]
    UnsupportedKey {
        /// The column.
        column: String,
        /// Its type.
        found: DataType,
        /// What to do instead.
        advice: &'static str,
    },
    /// Keys whose types cannot be equal.
    #[error(
        "left key {} is {} and right key {} is {}: {}",
        named(left), typed(left_type), named(right), typed(right_type),
        cast.as_ref().map_or("cast both to one type that holds the values of both".into(), ToString::to_string)
    )]
    TypeMismatch {
        /// The left column.
        left: String,
        /// Its type.
        left_type: DataType,
        /// The right column.
        right: String,
        /// Its type.
        right_type: DataType,
        /// A cast that fixes it, if there is one.
        cast: Option<Box<Cast>>,
    },
    /// A type that an aggregate does not support.
    #[error("{function} of column {} is not possible: it has type {}; {advice}", named(column), typed(found))]
    UnsupportedValue {
        /// The aggregate.
        function: &'static str,
        /// The column.
        column: String,
        /// Its type.
        found: DataType,
        /// What to do instead.
        advice: &'static str,
    },
    /// Values of a column that do not fit in one array of its type: more than 2 GiB of text, or more values of
    /// dictionaries than their keys can number.
    #[error(
        "the values of column {} do not fit in one array of {}: {}process fewer rows at a time",
        named(column),
        typed(found),
        wider(found)
    )]
    NotOneArray {
        /// The column.
        column: String,
        /// Its type.
        found: DataType,
    },
    /// A sum that does not fit its type.
    #[error(
        "the sum of column {} in the group of row {row} does not fit {sum}: cast the column to {}Float64 if sums may be \
         rounded",
        named(column),
        if sum.is_integer() { "Decimal128, or to " } else { "" }
    )]
    Overflow {
        /// The column.
        column: String,
        /// The first row of the first group, in the order of groups, whose sum does not fit.
        row: usize,
        /// The type of sums.
        sum: DataType,
    },
    /// Different keys with equal hashes under all seeds that were tried: the keys were chosen to collide.
    #[error("different keys have equal hashes under the seeds {first} to {last}: give another seed")]
    HashCollisions {
        /// The first seed.
        first: u64,
        /// The last seed.
        last: u64,
    },
    /// A prepared side that does not belong to this join.
    #[error("the prepared side has other {what}: {there}; the join needs {wanted}: prepare it again")]
    OtherSide {
        /// What differs: columns, keys or nulls.
        what: &'static str,
        /// What the prepared side has.
        there: String,
        /// What the join needs.
        wanted: String,
    },
    /// A key outside the stated range of its morsel ([`RangedMorsel`](crate::external::RangedMorsel)).
    #[error(
        "{} key {} has values outside the minimum and maximum in the metadata of the file: write the file again",
        if *is_left { "left" } else { "right" },
        named(column)
    )]
    KeyRange {
        /// The column.
        column: String,
        /// Whether it is the left column.
        is_left: bool,
    },
    /// A memory limit that is too small to find similar documents.
    #[error(
        "similar documents among {rows} or more need {needed} bytes, and the memory limit leaves {limit}: raise it, or \
         deduplicate fewer documents at a time"
    )]
    LimitTooSmall {
        /// The number of documents that were read so far.
        rows: u64,
        /// The number of bytes that these documents need.
        needed: u64,
        /// The limit.
        limit: u64,
    },
    /// An error of koel.
    #[error(transparent)]
    Koel(#[from] koel::Error),
    /// An error of Arrow.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
}

impl Error {
    /// Whether values did not fit in one array, in which case fewer rows may fit.
    pub fn is_too_long(&self) -> bool {
        match self {
            Error::NotOneArray { .. } => true,
            Error::Arrow(error) => is_too_narrow(error),
            _ => false,
        }
    }
}

/// A cast that makes a column comparable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cast {
    /// The column.
    pub column: String,
    /// Whether it is the left column of a join.
    pub is_left: bool,
    /// The type to cast to: of the same kind as the other column, with at least as many digits and decimal places.
    /// Float64 rounds integers above 2^53, and timestamps may have a smaller range than dates.
    pub to: DataType,
}

impl std::fmt::Display for Cast {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let rounds = if self.to == DataType::Float64 { " (which rounds whole numbers beyond 2^53)" } else { "" };
        write!(f, "cast {} to {}{rounds}", named(&self.column), typed(&self.to))
    }
}

/// The name of a column for a message, in backquotes: its first 80 characters, with control characters escaped.
pub(crate) fn named(name: &str) -> String {
    format!("`{}`", shown_name(name))
}

/// A type for a message. The types of structs contain names of columns.
fn typed(of: &DataType) -> String {
    shown(&of.to_string(), 200).to_string()
}

/// Advice to cast to a wider type, if there is one.
fn wider(found: &DataType) -> String {
    let wide = wide_type(found);
    if wide == *found { String::new() } else { format!("cast it to {}, or ", typed(&wide)) }
}

/// Names for a message, the first ones if there are many.
fn listed(names: &[String]) -> String {
    const MOST: usize = 20;
    let mut text = names.iter().take(MOST).map(|name| named(name)).collect::<Vec<_>>().join(", ");
    if names.len() > MOST {
        text += &format!(" and {} more", names.len() - MOST);
    }
    if text.is_empty() { "none".into() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_messages_are_short_and_on_one_line() {
        let long = "\u{e9}".repeat(81);
        for (name, expected) in [
            ("a b", "`a b`".to_owned()),
            ("a\n\u{1b}[31m\u{202e}", "`a\\n\\u{1b}[31m\\u{202e}`".to_owned()),
            (&long[..160], format!("`{}`", &long[..160])),
            (&long, format!("`{}...`", &long[..160])),
        ] {
            let error = Error::MissingColumn { column: name.into(), there: vec![name.into()] };
            assert_eq!(error.to_string(), format!("there is no column {expected}: the columns are {expected}"));
            let field = arrow_schema::Field::new(name.repeat(100), DataType::Int64, true);
            let found = DataType::Struct(vec![field].into());
            let error = Error::UnsupportedKey { column: name.into(), found, advice: "so" }.to_string();
            assert!(error.len() < 1000 && !error.contains(char::is_control), "{error}");
        }
    }
}
