//! The parameters of an aggregate, and the aggregates that koel does not support.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_plan::aggregates::{
    AggregateExec, AggregateInputMode, AggregateOutputMode, aggregate_expressions,
};
use datafusion::physical_plan::{ExecutionPlan, InputOrderMode};
use koel_arrow::check_key;

use super::bulk::Bulk;
use crate::options::KoelOptions;

/// The parameters of an aggregate.
pub(super) struct Spec {
    pub(super) keys: Vec<PhysicalExprRef>,
    pub(super) key_schema: SchemaRef,
    pub(super) functions: Vec<Arc<AggregateFunctionExpr>>,
    /// The arguments of each function.
    pub(super) arguments: Vec<Vec<PhysicalExprRef>>,
    pub(super) filters: Vec<Option<PhysicalExprRef>>,
    /// Whether the input is states rather than values.
    pub(super) merges: bool,
    /// Whether the output is states rather than results.
    pub(super) states: bool,
    pub(super) schema: SchemaRef,
    pub(super) batch_size: usize,
    /// `koel.ordered`: whether groups must have one order.
    pub(super) ordered: bool,
    /// When to stop grouping. Not with `koel.ordered`: on a device the decision follows after more rows, so that
    /// partial sums of floats would differ.
    pub(super) skip: Option<Skip>,
    /// `koel.device`, if it can number these keys, and the least number of rows for it.
    pub(super) device: Option<String>,
    pub(super) min_rows: usize,
}

/// If few rows share a group, grouping before an exchange saves nothing. DataFusion's rule and its two settings.
#[derive(Clone, Copy)]
pub(super) struct Skip {
    rows: usize,
    ratio: f64,
}

impl Skip {
    /// Whether there are too many groups for this number of rows.
    pub(super) fn is_due(self, groups: usize, rows: usize) -> bool {
        rows >= self.rows && groups as f64 / rows as f64 > self.ratio
    }
}

impl Spec {
    pub(super) fn new(stock: &AggregateExec, options: &KoelOptions, context: &TaskContext) -> Result<Self> {
        let config = context.session_config();
        // The order was decided when the plan was created; the device is a setting of the session.
        let ordered = options.ordered;
        let options = config.options().extensions.get::<KoelOptions>().unwrap_or(options);
        let keys = stock.group_expr();
        let key_schema = keys.group_schema(&stock.input().schema())?;
        let merges = stock.mode().input_mode() == AggregateInputMode::Partial;
        let states = stock.mode().output_mode() == AggregateOutputMode::Partial;
        let (functions, filters) = (stock.aggr_expr().to_vec(), stock.filter_expr());
        let execution = &config.options().execution;
        let skip = Skip {
            rows: execution.skip_partial_aggregation_probe_rows_threshold,
            ratio: execution.skip_partial_aggregation_probe_ratio_threshold,
        };
        let is_for_devices = key_schema.fields().iter().all(|field| Bulk::takes(field.data_type()));
        Ok(Spec {
            keys: keys.input_exprs(),
            key_schema,
            arguments: aggregate_expressions(&functions, stock.mode(), keys.num_group_exprs())?,
            // The rows of states were filtered when the states were created.
            filters: if merges { vec![None; functions.len()] } else { filters.to_vec() },
            functions,
            merges,
            states,
            schema: stock.schema(),
            batch_size: config.batch_size().max(1),
            ordered,
            skip: (states && !merges && skip.ratio < 1.0 && !ordered).then_some(skip),
            device: (is_for_devices && options.device != "cpu").then(|| options.device.clone()),
            min_rows: options.min_rows,
        })
    }
}

/// The functions that koel supports: DataFusion's, and below koel's own.
const FUNCTIONS: [&str; 5] = ["count", "sum", "min", "max", "avg"];
const EXACT: [&str; 2] = ["koel_sum", "koel_avg"];

/// Returns the reason if koel's result would differ from that of `AggregateExec`.
pub(super) fn refused(stock: &AggregateExec) -> std::result::Result<(), String> {
    let keys = stock.group_expr();
    if keys.has_grouping_set() || keys.groups().len() != 1 {
        return Err("it groups by several sets of keys".into());
    }
    if keys.is_empty() {
        return Err("it has no keys".into());
    }
    if *stock.input_order_mode() != InputOrderMode::Linear {
        return Err("its input is sorted by keys, so groups can leave as they end".into());
    }
    if stock.limit_options().is_some() {
        return Err("a limit may end it early".into());
    }
    let schema = stock.input().schema();
    for (key, _) in keys.expr() {
        let of = key.data_type(&schema).map_err(|error| error.to_string())?;
        if of == DataType::Null {
            return Err(format!("key {key} has no values"));
        }
        check_key(&key.to_string(), &of).map_err(|error| error.to_string())?;
    }
    for function in stock.aggr_expr() {
        let name = function.name();
        if !FUNCTIONS.iter().chain(&EXACT).any(|&own| own == function.fun().name()) {
            return Err(format!("{name} is none of {}", FUNCTIONS.join(", ")));
        }
        if !function.order_bys().is_empty() {
            return Err(format!("{name} has an order of its own"));
        }
        if !function.groups_accumulator_supported() {
            return Err(format!("{name} has to be kept apart for each group"));
        }
    }
    Ok(())
}
