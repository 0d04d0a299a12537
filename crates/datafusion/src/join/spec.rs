//! The parameters of a join, resolved once for all partitions.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::{JoinSide, JoinType};
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::Column as ColumnExpr;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use koel::JoinKind;
use koel_arrow::{Column, Keys, NullEquality};

use super::bounds::Bounds;
use crate::error::external;

/// The parameters of a join.
pub(super) struct Spec {
    pub(super) how: JoinType,
    pub(super) nulls: NullEquality,
    pub(super) on_build: Vec<PhysicalExprRef>,
    pub(super) on_probe: Vec<PhysicalExprRef>,
    pub(super) filter: Option<JoinFilter>,
    pub(super) build_schema: SchemaRef,
    pub(super) probe_schema: SchemaRef,
    /// The schema of the result, and the sources of its columns.
    pub(super) schema: SchemaRef,
    pub(super) columns: Vec<ColumnIndex>,
    pub(super) batch_size: usize,
    /// The number of result rows that each partition must return; `None` for all.
    pub(super) fetch: Option<usize>,
    /// The dynamic filter in scans of the probe side, which build sides complete.
    pub(super) bounds: Option<Arc<Bounds>>,
    /// Whether a build partition ran out of memory: the others then release theirs.
    pub(super) is_short: Arc<AtomicBool>,
    /// `koel.ordered`: whether rows must be in koel's order.
    pub(super) ordered: bool,
    /// `koel.device`, and the least number of build rows for it.
    pub(super) device: String,
    pub(super) min_rows: usize,
    /// Whether there are enough build partitions for each to index on its own thread.
    pub(super) are_many: bool,
}

impl Spec {
    /// Whether the join needs pairs of rows, rather than only the rows that have a match.
    pub(super) fn wants_pairs(&self) -> bool {
        use JoinType::{Full, Inner, Left, Right};
        self.filter.is_some() || matches!(self.how, Inner | Left | Right | Full)
    }

    /// Whether the result ends with build rows, selected by whether they have a match.
    pub(super) fn ends_with_build_rows(&self) -> bool {
        use JoinType::{Full, Left, LeftAnti, LeftMark, LeftSemi};
        matches!(self.how, Left | Full | LeftSemi | LeftAnti | LeftMark)
    }

    /// Whether each unmatched probe row is a row of the result.
    pub(super) fn keeps_probe(&self) -> bool {
        matches!(self.how, JoinType::Right | JoinType::Full)
    }

    /// Whether results are probe rows only, selected by whether they have a match.
    pub(super) fn is_of_probe_rows(&self) -> bool {
        matches!(self.how, JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark)
    }

    /// Whether results are build rows only.
    pub(super) fn is_of_build_rows(&self) -> bool {
        matches!(self.how, JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark)
    }

    /// Whether the result is empty if the build side is empty.
    pub(super) fn is_empty_without_build(&self) -> bool {
        use JoinType::{Full, Right, RightAnti, RightMark};
        !matches!(self.how, Right | Full | RightAnti | RightMark)
    }

    /// The pairs that koel lists. With a filter, pairs may be removed, so unmatched rows are inserted after it.
    pub(super) fn listed(&self) -> JoinKind {
        if self.keeps_probe() && self.filter.is_none() { JoinKind::Left } else { JoinKind::Inner }
    }

    /// Whether a build column is needed after the index was built.
    pub(super) fn keeps_build(&self, column: usize) -> bool {
        let is_it = |of: &ColumnIndex| of.side == JoinSide::Left && of.index == column;
        self.columns.iter().any(is_it) || self.filter.as_ref().is_some_and(|f| f.column_indices().iter().any(is_it))
    }

    /// Whether a build column is a key.
    pub(super) fn is_build_key(&self, column: usize) -> bool {
        self.on_build.iter().any(|on| column_of(on) == Some(column))
    }

    /// The build keys: whole columns, or the pieces of expressions.
    pub(super) fn build_keys(&self, columns: &[Option<Column>], made: Vec<Vec<ArrayRef>>) -> Result<Keys> {
        let keys = self.on_build.iter().zip(made).map(|(on, pieces)| match column_of(on) {
            Some(at) => columns.get(at).cloned().flatten().ok_or_else(|| no_column(at, &self.build_schema)),
            None => {
                let column = Column::of_chunks(on.to_string(), &on.data_type(&self.build_schema)?, pieces);
                let column = column.map_err(external)?;
                Ok(column.one_piece().unwrap_or(column))
            }
        });
        Keys::new(keys.collect::<Result<_>>()?).map_err(external)
    }

    /// The keys of gathered probe batches.
    pub(super) fn probe_keys(&self, batches: &[RecordBatch]) -> Result<Keys> {
        let keys = self.on_probe.iter().map(|on| {
            let piece = |batch: &RecordBatch| on.evaluate(batch)?.into_array(batch.num_rows());
            let pieces = batches.iter().map(piece).collect::<Result<Vec<_>>>()?;
            Column::of_chunks(on.to_string(), &self.probe_type(on)?, pieces).map_err(external)
        });
        Keys::new(keys.collect::<Result<_>>()?).map_err(external)
    }

    fn probe_type(&self, on: &PhysicalExprRef) -> Result<DataType> {
        on.data_type(&self.probe_schema)
    }
}

/// The index of the column, if the expression is a column.
pub(super) fn column_of(expression: &PhysicalExprRef) -> Option<usize> {
    expression.downcast_ref::<ColumnExpr>().map(ColumnExpr::index)
}

fn no_column(at: usize, schema: &SchemaRef) -> DataFusionError {
    DataFusionError::Internal(format!("koel: a key is column {at}, which {schema:?} has not"))
}
