//! Which rows a join returns, and how it reports them: shared by the joins of tables and those of the CPU.

/// The row number that marks a missing row on one side of an outer join. It is never the number of a row.
pub const NO_ROW: u32 = u32::MAX;

/// Which rows a join returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum JoinKind {
    /// Each pair of a left and a right row whose keys are equal.
    #[default]
    Inner,
    /// The inner join, and each left row without a match, paired with [`NO_ROW`], in the order of left rows.
    Left,
    /// The inner join, then each right row without a match, paired with [`NO_ROW`].
    Right,
    /// The left join, then each right row without a match, paired with [`NO_ROW`].
    Full,
    /// The left rows that have a match, each once.
    Semi,
    /// The left rows without a match.
    Anti,
}

impl JoinKind {
    /// All kinds.
    pub const ALL: [JoinKind; 6] =
        [JoinKind::Inner, JoinKind::Left, JoinKind::Right, JoinKind::Full, JoinKind::Semi, JoinKind::Anti];

    /// The name in messages and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            JoinKind::Inner => "inner",
            JoinKind::Left => "left",
            JoinKind::Right => "right",
            JoinKind::Full => "full",
            JoinKind::Semi => "semi",
            JoinKind::Anti => "anti",
        }
    }

    /// Whether a row of the result may have no left row.
    pub fn keeps_right(self) -> bool {
        matches!(self, JoinKind::Right | JoinKind::Full)
    }

    /// Whether a row of the result may have no right row.
    pub fn keeps_left(self) -> bool {
        matches!(self, JoinKind::Left | JoinKind::Full)
    }

    /// Whether the result has right rows at all.
    pub fn has_right(self) -> bool {
        !matches!(self, JoinKind::Semi | JoinKind::Anti)
    }
}

impl std::fmt::Display for JoinKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// Rows of a join, by their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JoinRows {
    /// The left row of each row of the result, or [`NO_ROW`].
    pub left: Vec<u32>,
    /// The right row, or [`NO_ROW`]. Empty in semi and anti joins, which return left rows only.
    pub right: Vec<u32>,
}

impl JoinRows {
    /// Iterates over the rows: the left and the right row number, or `None` on the side without a row.
    ///
    /// ```
    /// use koel::{Cpu, JoinKind, join};
    /// let rows = join(&Cpu::new(), &[10, 20], &[20, 30], JoinKind::Full)?;
    /// let rows: Vec<_> = rows.iter().collect();
    /// assert_eq!(rows, [(Some(0), None), (Some(1), Some(0)), (None, Some(1))]);
    /// # Ok::<(), koel::Error>(())
    /// ```
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (Option<u32>, Option<u32>)> + '_ {
        let present = |row: &u32| (*row != NO_ROW).then_some(*row);
        self.left.iter().enumerate().map(move |(i, left)| (present(left), self.right.get(i).and_then(present)))
    }
}
