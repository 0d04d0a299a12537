//! Dynamic filters: bounds of the build keys, pushed into the probe scan.
//!
//! DataFusion puts a dynamic filter into scans of the probe side, so that a scan of Parquet can skip row groups and
//! pages. After all build partitions have reported their least and greatest keys, the filter becomes `key >= least and
//! key <= greatest` for each key column.
//!
//! The filter is optional: a scan may begin before the filter is complete, and an incomplete filter lets all rows pass.

use std::sync::{Arc, Mutex, PoisonError};

use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::functions_aggregate::min_max::{MaxAccumulator, MinAccumulator};
use datafusion::logical_expr::{Accumulator, Operator};
use datafusion::physical_expr::expressions::{BinaryExpr, DynamicFilterPhysicalExpr, IsNullExpr, lit};
use datafusion::physical_expr::{PhysicalExpr, PhysicalExprRef};
use datafusion::physical_plan::ExecutionPlan;
use koel_arrow::{Column, Keys, NullEquality};

/// The dynamic filter of a join, and what build partitions have reported so far.
pub(super) struct Bounds {
    filter: Arc<DynamicFilterPhysicalExpr>,
    on_probe: Vec<PhysicalExprRef>,
    probe_schema: SchemaRef,
    nulls: NullEquality,
    said: Mutex<Said>,
}

struct Said {
    /// The build partitions that have reported. A partition that runs again reports the same bounds again.
    partitions: Vec<bool>,
    /// The least and the greatest value of each key column over all partitions; both are null if there are no values.
    ends: Vec<Option<Ends>>,
}

struct Ends {
    least: MinAccumulator,
    greatest: MaxAccumulator,
}

impl Bounds {
    /// Whether any operator of the probe side reads a filter.
    pub(super) fn are_read(filter: &DynamicFilterPhysicalExpr, probe: &Arc<dyn ExecutionPlan>) -> bool {
        let Some(id) = filter.expression_id() else { return false };
        let mut found = false;
        let mut stop = |now: bool| {
            found |= now;
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        };
        let looked = probe.apply(|operator| {
            operator.apply_expressions(&mut |root| root.apply(|part| stop(part.expression_id() == Some(id))))?;
            stop(false)
        });
        looked.is_err() || found
    }

    /// Creates the bounds for a filter that is complete after this number of build partitions.
    pub(super) fn new(
        filter: Arc<DynamicFilterPhysicalExpr>,
        on: &[(PhysicalExprRef, PhysicalExprRef)],
        [build_schema, probe_schema]: [SchemaRef; 2],
        nulls: NullEquality,
        partitions: usize,
    ) -> Result<Self> {
        let ends = on.iter().map(|(build, probe)| {
            let (build, probe) = (build.data_type(&build_schema)?, probe.data_type(&probe_schema)?);
            (build == probe && has_order(&build)).then(|| Ends::of(&build)).transpose()
        });
        let said = Mutex::new(Said { partitions: vec![false; partitions], ends: ends.collect::<Result<_>>()? });
        let on_probe = on.iter().map(|(_, probe)| Arc::clone(probe)).collect();
        Ok(Bounds { filter, on_probe, probe_schema, nulls, said })
    }

    /// Adds the keys of a build partition, and completes the filter after the last one.
    ///
    /// Cost: a pass over the keys.
    pub(super) fn say(&self, partition: usize, keys: &Keys) -> Result<()> {
        let mut said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        for (ends, column) in said.ends.iter_mut().zip(keys.columns()) {
            if let Some(ends) = ends {
                ends.add(column)?;
            }
        }
        if let Some(said) = said.partitions.get_mut(partition) {
            *said = true;
        }
        if said.partitions.iter().all(|&said| said) {
            if let Some(closed) = self.closed(&mut said.ends)? {
                self.filter.update(closed)?;
            }
            self.filter.mark_complete();
        }
        Ok(())
    }

    /// Marks the filter as final in its current state, for operators that wait for it.
    pub(super) fn stay_open(&self) {
        self.filter.mark_complete();
    }

    fn closed(&self, ends: &mut [Option<Ends>]) -> Result<Option<PhysicalExprRef>> {
        let mut all: Option<PhysicalExprRef> = None;
        for (key, ends) in self.on_probe.iter().zip(ends) {
            let Some(ends) = ends else { continue };
            let (least, greatest) = (ends.least.evaluate()?, ends.greatest.evaluate()?);
            if least.is_null() {
                continue;
            }
            let mut within = both(at(key, Operator::GtEq, least), Operator::And, at(key, Operator::LtEq, greatest));
            // A null may match a null.
            if self.nulls == NullEquality::NullEquals && key.nullable(&self.probe_schema)? {
                within = both(Arc::new(IsNullExpr::new(Arc::clone(key))), Operator::Or, within);
            }
            all = Some(match all {
                Some(all) => both(all, Operator::And, within),
                None => within,
            });
        }
        Ok(all)
    }
}

impl Ends {
    fn of(data_type: &DataType) -> Result<Self> {
        Ok(Ends { least: MinAccumulator::try_new(data_type)?, greatest: MaxAccumulator::try_new(data_type)? })
    }

    fn add(&mut self, column: &Column) -> Result<()> {
        for piece in column.chunks() {
            self.least.update_batch(std::slice::from_ref(piece))?;
            self.greatest.update_batch(std::slice::from_ref(piece))?;
        }
        Ok(())
    }
}

/// Whether every value that equals a value within the bounds is within them too. Not for floats, because of 0 and -0,
/// and NaN.
fn has_order(of: &DataType) -> bool {
    use DataType::{Date32, Date64, Decimal32, Decimal64, Decimal128, LargeUtf8, Timestamp, Utf8, Utf8View};
    let others = matches!(of, Date32 | Date64 | Decimal32(..) | Decimal64(..) | Decimal128(..) | Timestamp(..));
    of.is_integer() || others || matches!(of, Utf8 | LargeUtf8 | Utf8View)
}

fn at(key: &PhysicalExprRef, operator: Operator, end: ScalarValue) -> PhysicalExprRef {
    both(Arc::clone(key), operator, lit(end))
}

fn both(left: PhysicalExprRef, operator: Operator, right: PhysicalExprRef) -> PhysicalExprRef {
    Arc::new(BinaryExpr::new(left, operator, right))
}
