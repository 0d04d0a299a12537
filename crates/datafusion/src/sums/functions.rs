//! The functions: exact for floats; for every other type, DataFusion's own functions.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::functions_aggregate::{average::avg_udaf, sum::sum_udaf};
use datafusion::logical_expr::expr::{AggregateFunction, AggregateFunctionParams, WindowFunctionParams};
use datafusion::logical_expr::function::{AccumulatorArgs, AggregateFunctionSimplification, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, Expr, GroupsAccumulator, Operator, ReversedUDAF,
    SetMonotonicity, Signature, StatisticsArgs,
};

use super::distinct::Distinct;
use super::groups::Groups;
use super::plain::Plain;
use super::state;
use crate::digest::koel_digest;

/// The aggregate `koel_sum(column)`. For floats, the exact sum, rounded once to the nearest double.
///
/// It is NaN if a value is NaN or if both infinities occur; an infinity if one occurs, or if the sum is beyond the
/// largest double. A sum of zeros is +0.0. Sums of other types, and names of columns, are those of DataFusion's `sum`.
/// In sessions [`with_koel`](crate::WithKoel::with_koel) `sum` is this function.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> datafusion::error::Result<()> {
/// use datafusion::prelude::SessionContext;
///
/// let context = SessionContext::new();
/// context.register_udaf(koel_datafusion::koel_sum());
/// let sum = context.sql("select koel_sum(x) from (values (1e308), (1.0), (1e308), (-1e308), (-1e308)) as t(x)").await?;
/// assert!(sum.to_string().await?.contains(" 1.0 "));
/// # Ok(())
/// # }
/// ```
pub fn koel_sum() -> AggregateUDF {
    Exact::of(What::Sum, Name::Own)
}

/// The aggregate `koel_avg(column)`. For floats and integers, the exact sum divided by the count, rounded once to the
/// nearest double.
///
/// Means of decimals and durations are those of DataFusion's `avg`. In sessions
/// [`with_koel`](crate::WithKoel::with_koel) `avg` and `mean` are this function.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> datafusion::error::Result<()> {
/// use datafusion::prelude::SessionContext;
///
/// let context = SessionContext::new();
/// context.register_udaf(koel_datafusion::koel_avg());
/// let mean = context.sql("select koel_avg(x) from (values (1e16), (2.0), (-1e16)) as t(x)").await?;
/// assert!(mean.to_string().await?.contains("0.6666666666666666"));
/// # Ok(())
/// # }
/// ```
pub fn koel_avg() -> AggregateUDF {
    Exact::of(What::Mean, Name::Own)
}

/// All aggregates of koel: [`koel_digest`], [`koel_sum`], [`koel_avg`], and those that replace `sum`, `avg` and `mean`.
///
/// For registries of functions that are not built by [`with_koel`](crate::WithKoel::with_koel), such as those of a
/// cluster's scheduler and executors.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> datafusion::error::Result<()> {
/// use datafusion::prelude::SessionContext;
///
/// let context = SessionContext::new();
/// koel_datafusion::koel_functions().into_iter().for_each(|function| context.register_udaf(function));
/// let sum = context.sql("select sum(x) from (values (1e16), (0.5), (-1e16)) as t(x)").await?;
/// assert!(sum.to_string().await?.contains(" 0.5 "));
/// # Ok(())
/// # }
/// ```
pub fn koel_functions() -> Vec<AggregateUDF> {
    let replacing = [What::Sum, What::Mean].map(|what| Exact::of(what, Name::Stock));
    [koel_digest(), koel_sum(), koel_avg()].into_iter().chain(replacing).collect()
}

/// What an accumulator computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum What {
    Sum,
    Mean,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Name {
    /// The name of DataFusion's function, which queries use.
    Stock,
    /// The name in plans. With DataFusion's name, its optimizer would rewrite a `sum` next to a DISTINCT into a sum of
    /// sums, which is rounded more than once; and other machines would treat its states as those of DataFusion's `sum`.
    Own,
}

/// A function.
///
/// ```text
/// sum(x), as queries call it     floats: koel_sum(x)      other types: DataFusion's sum(x)      (simplify)
/// ```
///
/// Result columns always have DataFusion's names.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Exact {
    what: What,
    name: Name,
    stock: Arc<AggregateUDF>,
}

impl Exact {
    fn of(what: What, name: Name) -> AggregateUDF {
        let stock = match what {
            What::Sum => sum_udaf(),
            What::Mean => avg_udaf(),
        };
        AggregateUDF::from(Exact { what, name, stock })
    }
}

/// Whether koel adds up values of this type. DataFusion casts other floats to this type, and the integers of a mean.
fn is_exact(fields: &[FieldRef]) -> bool {
    fields.first().is_some_and(|field| *field.data_type() == DataType::Float64)
}

impl AggregateUDFImpl for Exact {
    fn name(&self) -> &str {
        match (self.name, self.what) {
            (Name::Stock, _) => self.stock.name(),
            (Name::Own, What::Sum) => "koel_sum",
            (Name::Own, What::Mean) => "koel_avg",
        }
    }

    fn aliases(&self) -> &[String] {
        match self.name {
            Name::Stock => self.stock.aliases(),
            Name::Own => &[],
        }
    }

    fn signature(&self) -> &Signature {
        self.stock.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.stock.return_type(types)
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        match (is_exact(args.expr_fields), args.is_distinct) {
            (true, true) => Ok(Box::new(Distinct::new(self.what))),
            (true, false) => Ok(Box::new(Plain::new(self.what))),
            (false, _) => self.stock.accumulator(args),
        }
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if is_exact(args.expr_fields) { self.accumulator(args) } else { self.stock.create_sliding_accumulator(args) }
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        if is_exact(args.expr_fields) { !args.is_distinct } else { self.stock.groups_accumulator_supported(args) }
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        if is_exact(args.expr_fields) {
            Ok(Box::new(Groups::new(self.what)))
        } else {
            self.stock.create_groups_accumulator(args)
        }
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        if is_exact(args.input_fields) && !args.is_distinct {
            Ok(state::fields(self.what, args.name))
        } else {
            // The distinct values of a group are a list, as in DataFusion's states.
            self.stock.state_fields(args)
        }
    }

    fn simplify(&self) -> Option<AggregateFunctionSimplification> {
        if self.name == Name::Own {
            return None;
        }
        let (what, stock, own) = (self.what, Arc::clone(&self.stock), Arc::new(Self::of(self.what, Name::Own)));
        Some(Box::new(move |mut function, info| {
            let of = function.params.args.first().map(|of| info.get_data_type(of)).transpose()?;
            let is_own = of.is_some_and(|of| of.is_floating() || what == What::Mean && of.is_integer());
            function.func = Arc::clone(if is_own { &own } else { &stock });
            Ok(Expr::AggregateFunction(function))
        }))
    }

    fn simplify_expr_op_literal(
        &self,
        function: &AggregateFunction,
        arg: &Expr,
        op: Operator,
        literal: &Expr,
        arg_is_left: bool,
    ) -> Result<Option<Expr>> {
        // The sum of rounded sums is not the sum plus a product.
        let is_float = matches!(literal, Expr::Literal(value, _) if value.data_type().is_floating());
        if is_float {
            return Ok(None);
        }
        self.stock.simplify_expr_op_literal(function, arg, op, literal, arg_is_left)
    }

    fn value_from_stats(&self, args: &StatisticsArgs<'_>) -> Option<ScalarValue> {
        // Statistics contain sums of floats with intermediate rounding.
        if args.return_type.is_floating() { None } else { self.stock.value_from_stats(args) }
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.stock.order_sensitivity()
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        self.stock.reverse_udf()
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        self.stock.inner().set_monotonicity(data_type)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.stock.documentation()
    }

    fn schema_name(&self, params: &AggregateFunctionParams) -> Result<String> {
        self.stock.schema_name(params)
    }

    fn display_name(&self, params: &AggregateFunctionParams) -> Result<String> {
        self.stock.display_name(params)
    }

    fn human_display(&self, params: &AggregateFunctionParams) -> Result<String> {
        self.stock.human_display(params)
    }

    fn window_function_schema_name(&self, params: &WindowFunctionParams) -> Result<String> {
        self.stock.window_function_schema_name(params)
    }

    fn window_function_display_name(&self, params: &WindowFunctionParams) -> Result<String> {
        self.stock.window_function_display_name(params)
    }
}
