//! Groups of a column: the distinct keys, the number of each row's key, and aggregates of each group.
//!
//! ```text
//! reduce.rs         unique, factorize
//! group_by.rs       count, sum, mean, least and greatest of the values of each key
//! value_counts.rs   counts only, in little memory
//! groups.rs         Aggregate, Groups
//! number.rs         the types of values, and how each is aggregated
//! wide.rs           all of it for keys of either width, and values of any type
//! ```
//!
//! [`columns`](crate::columns) numbers and groups rows; it runs on every backend. Columns have at most `u32::MAX` rows,
//! so that row numbers are `u32`.

mod group_by;
mod groups;
mod number;
mod reduce;
mod value_counts;
pub mod wide;

pub use crate::columns::FirstRows;
pub use group_by::{group_by, group_by_on};
pub use groups::{Aggregate, DeviceGroups, Groups};
pub use number::Number;
pub use reduce::{factorize, factorize_on, unique, unique_on};
pub use value_counts::value_counts;

#[cfg(test)]
pub(crate) use groups::of_row_numbers;
pub(crate) use groups::{aggregated, aggregated_by, settled, wanted};
pub(crate) use number::AggregateColumns;

/// The order in which distinct keys are numbered, from 0. Both orders are the same on every device.
///
/// ```
/// use koel::{Cpu, IdOrder, group};
/// let column = [30, 10, 30, 20];
/// assert_eq!(group::unique(&Cpu::new(), &column, IdOrder::FirstSeen)?, [30, 10, 20]);
/// assert_eq!(group::unique(&Cpu::new(), &column, IdOrder::Ascending)?, [10, 20, 30]);
/// # Ok::<(), koel::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum IdOrder {
    /// In order of first occurrence, as in `pandas.factorize`. Equal keys are found by a hash table, or by a sort where
    /// that is faster.
    #[default]
    FirstSeen,
    /// In order of the keys, as in `numpy.unique`. Equal keys are found by a radix sort of all rows, the variant of
    /// Alcantara 2011 for inputs of few distinct keys (Section 4.5.4).
    Ascending,
}

impl IdOrder {
    /// Both orders.
    pub const ALL: [IdOrder; 2] = [IdOrder::FirstSeen, IdOrder::Ascending];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            IdOrder::FirstSeen => "first",
            IdOrder::Ascending => "ascending",
        }
    }
}
