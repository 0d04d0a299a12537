//! Everything that can go wrong, with what to do about it.

use arrow_schema::{ArrowError, DataType};

use crate::name::shown_name;

/// The result of every fallible operation here.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong. Inputs are never changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A column that is not there.
    #[error("there is no column `{}`: there are {}", shown_name(column), listed(there))]
    MissingColumn {
        /// The name asked for.
        column: String,
        /// The names there are.
        there: Vec<String>,
    },
    /// A name that two columns have.
    #[error("two columns are called `{}`: rename one of them", shown_name(column))]
    AmbiguousColumn {
        /// The name.
        column: String,
    },
    /// No key column, or not as many on both sides of a join.
    #[error(
        "keys are {left} columns on the left and {right} on the right: give as many on both sides, and at least one"
    )]
    KeyCount {
        /// Key columns on the left, or of all.
        left: usize,
        /// Key columns on the right.
        right: usize,
    },
    /// Columns that belong together and differ in length.
    #[error(
        "column `{}` has {rows} rows where {expected} are needed: columns of one table are equally long",
        shown_name(column)
    )]
    Uneven {
        /// The column.
        column: String,
        /// Its rows.
        rows: usize,
        /// Rows of the others.
        expected: usize,
    },
    /// A type that keys cannot have.
    #[error("column `{}` has type {found}, which keys cannot have: {advice}", shown_name(column))]
    UnsupportedKey {
        /// The column.
        column: String,
        /// Its type.
        found: DataType,
        /// What to do instead.
        advice: &'static str,
    },
    /// Keys of both sides whose types cannot be equal.
    #[error(
        "left key `{}` is {left_type} and right key `{}` is {right_type}: {}",
        shown_name(left),
        shown_name(right),
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
        /// The cast that would help, if one does.
        cast: Option<Box<Cast>>,
    },
    /// A type that an aggregate cannot be taken of.
    #[error("{function} of column `{}` is not possible: it has type {found}; {advice}", shown_name(column))]
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
    /// A sum that its type does not hold.
    #[error(
        "the sum of column `{}` in the group of row {row} does not fit {sum}: cast the column to {}Float64 if sums may \
         be rounded",
        shown_name(column),
        if sum.is_integer() { "Decimal128, or to " } else { "" }
    )]
    Overflow {
        /// The column.
        column: String,
        /// The first row of the first group, in the order of groups, whose sum it is.
        row: usize,
        /// The type of sums.
        sum: DataType,
    },
    /// What koel reports.
    #[error(transparent)]
    Koel(#[from] koel::Error),
    /// What Arrow reports.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
}

impl Error {
    /// Whether text did not fit its array, in whichever words Arrow says so: fewer rows have less.
    pub fn is_too_long(&self) -> bool {
        match self {
            Error::Arrow(ArrowError::OffsetOverflowError(_)) => true,
            Error::Arrow(ArrowError::InvalidArgumentError(what)) => what.contains("offset overflow"),
            _ => false,
        }
    }
}

/// A cast of a column, by which it can be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cast {
    /// The column.
    pub column: String,
    /// Whether it is the left one of a join.
    pub is_left: bool,
    /// The type: one of the other column's kind that holds as many digits and as fine parts. Float64 rounds whole numbers
    /// beyond 2^53, and moments may have less of a range than days.
    pub to: DataType,
}

impl std::fmt::Display for Cast {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let rounds = if self.to == DataType::Float64 { " (which rounds whole numbers beyond 2^53)" } else { "" };
        write!(f, "cast `{}` to {}{rounds}", shown_name(&self.column), self.to)
    }
}

/// Names for a message, the first ones if there are many.
fn listed(names: &[String]) -> String {
    const MOST: usize = 20;
    let mut text = names.iter().take(MOST).map(|name| format!("`{}`", shown_name(name))).collect::<Vec<_>>().join(", ");
    if names.len() > MOST {
        text += &format!(" and {} more", names.len() - MOST);
    }
    if text.is_empty() { "none".into() } else { text }
}
