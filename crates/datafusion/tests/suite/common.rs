//! Random columns, plans over them, and results as multisets.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Decimal256Array, DictionaryArray, Float64Array,
    Int32Array, Int64Array, IntervalMonthDayNanoArray, RecordBatch, StringArray, StringViewArray,
    Time64MicrosecondArray, TimestampMicrosecondArray, UInt64Array,
};
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::{DataType, Field, Int32Type, IntervalMonthDayNano, Schema, SchemaRef, i256};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::{ExecutionPlan, collect};
use datafusion::prelude::SessionConfig;
use koel_datafusion::KoelOptions;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Types of keys, by name.
pub(crate) const KEYS: [&str; 16] = [
    "int32",
    "int64",
    "utf8",
    "utf8view",
    "date",
    "decimal",
    "float",
    "nan",
    "dictionary",
    "boolean",
    "timestamp",
    "binary",
    "uint64",
    "time",
    "interval",
    "decimal256",
];

/// A random column with few distinct values, so that keys match; some are null.
pub(crate) fn column(random: &mut StdRng, of: &str, rows: usize, values: i64, nulls: f64) -> ArrayRef {
    let mut value = || (!random.random_bool(nulls)).then(|| random.random_range(0..values.max(1)));
    let all: Vec<Option<i64>> = (0..rows).map(|_| value()).collect();
    let all = || all.iter().copied();
    let text = || all().map(|value| value.map(|value| format!("the key number {value}")));
    match of {
        "int32" => Arc::new(all().map(|v| v.map(|v| v as i32 * 1000 - 500)).collect::<Int32Array>()),
        "int64" => Arc::new(all().map(|v| v.map(|v| (v - 2) << 40)).collect::<Int64Array>()),
        "utf8" => Arc::new(text().collect::<StringArray>()),
        "utf8view" => Arc::new(text().collect::<StringViewArray>()),
        "date" => Arc::new(all().map(|v| v.map(|v| v as i32 + 9000)).collect::<Date32Array>()),
        "decimal" => {
            let decimals = all().map(|v| v.map(|v| i128::from(v) * 1_000_003)).collect::<Decimal128Array>();
            Arc::new(decimals.with_precision_and_scale(20, 2).expect("20 digits hold them"))
        }
        "float" => Arc::new(all().map(|v| v.map(|v| v as f64 / 7.0 - 1.0)).collect::<Float64Array>()),
        // Only for keys: with NaN among values, the minimum depends on row order, which stock does not fix. One NaN bit
        // pattern, since HashJoinExec distinguishes others.
        "nan" => {
            let float = |v: i64| if v == 3 { f64::NAN } else { v as f64 / 7.0 - 1.0 };
            Arc::new(all().map(|v| v.map(float)).collect::<Float64Array>())
        }
        "uint64" => Arc::new(all().map(|v| v.map(|v| u64::MAX - v as u64)).collect::<UInt64Array>()),
        "time" => Arc::new(all().map(|v| v.map(|v| v * 1_000_003)).collect::<Time64MicrosecondArray>()),
        "interval" => {
            let interval = |v: i64| IntervalMonthDayNano::new((v % 3) as i32, (v % 5) as i32, v << 40);
            Arc::new(all().map(|v| v.map(interval)).collect::<IntervalMonthDayNanoArray>())
        }
        "decimal256" => {
            let decimals = all().map(|v| v.map(|v| i256::from_parts(v as u128, 1))).collect::<Decimal256Array>();
            Arc::new(decimals.with_precision_and_scale(50, 3).expect("50 digits hold them"))
        }
        "dictionary" => {
            let text: Vec<_> = text().collect();
            Arc::new(text.iter().map(|text| text.as_deref()).collect::<DictionaryArray<Int32Type>>())
        }
        "boolean" => Arc::new(all().map(|v| v.map(|v| v % 2 == 0)).collect::<BooleanArray>()),
        "timestamp" => Arc::new(all().map(|v| v.map(|v| v << 33)).collect::<TimestampMicrosecondArray>()),
        "binary" => Arc::new(all().map(|v| v.map(i64::to_le_bytes)).collect::<BinaryArray>()),
        other => panic!("unknown key type {other}"),
    }
}

/// A random table: its key columns (`a0`, `a1`, ..), a number `ax` and a text `ay`, where `a` is `name`.
pub(crate) struct Table {
    pub(crate) schema: SchemaRef,
    pub(crate) partitions: Vec<Vec<RecordBatch>>,
}

impl Table {
    pub(crate) fn random(
        seed: u64,
        name: &str,
        keys: &[&str],
        partitions: &[&[usize]],
        values: i64,
        nulls: f64,
    ) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let mut fields: Vec<Field> = keys
            .iter()
            .enumerate()
            .map(|(i, of)| {
                Field::new(format!("{name}{i}"), column(&mut random, of, 0, 1, 0.0).data_type().clone(), true)
            })
            .collect();
        fields.push(Field::new(format!("{name}x"), DataType::Int64, true));
        fields.push(Field::new(format!("{name}y"), DataType::Utf8, true));
        let schema = Arc::new(Schema::new(fields));
        let mut batch = |rows: usize| {
            let mut columns: Vec<ArrayRef> =
                keys.iter().map(|of| column(&mut random, of, rows, values, nulls)).collect();
            columns.push(Arc::new(
                (0..rows)
                    .map(|_| random.random_bool(0.9).then(|| random.random_range(0..1000)))
                    .collect::<Int64Array>(),
            ));
            columns.push(Arc::new(
                (0..rows).map(|_| Some(format!("row {}", random.random_range(0..100000)))).collect::<StringArray>(),
            ));
            RecordBatch::try_new(Arc::clone(&schema), columns).expect("columns of the schema")
        };
        let partitions = partitions.iter().map(|sizes| sizes.iter().map(|&rows| batch(rows)).collect()).collect();
        Table { schema, partitions }
    }

    pub(crate) fn plan(&self) -> Arc<dyn ExecutionPlan> {
        MemorySourceConfig::try_new_exec(&self.partitions, Arc::clone(&self.schema), None).expect("a table in memory")
    }
}

/// A session with these options of koel, and small batches.
pub(crate) fn config(options: KoelOptions, batch_size: usize) -> SessionConfig {
    SessionConfig::new().with_batch_size(batch_size).with_option_extension(options)
}

/// The rows of a plan as text, sorted.
pub(crate) async fn rows(plan: Arc<dyn ExecutionPlan>, config: SessionConfig) -> Vec<String> {
    let context = Arc::new(TaskContext::default().with_session_config(config));
    let schema = plan.schema();
    let batches = collect(plan, context).await.expect("the plan runs");
    sorted(&schema, &batches)
}

/// Rows as text, sorted.
pub(crate) fn sorted(schema: &SchemaRef, batches: &[RecordBatch]) -> Vec<String> {
    let mut rows = listed(schema, batches);
    rows.sort_unstable();
    rows
}

/// Rows as text, in their order.
pub(crate) fn listed(schema: &SchemaRef, batches: &[RecordBatch]) -> Vec<String> {
    let all = concat_batches(schema, batches).expect("batches of one schema");
    let options = FormatOptions::default().with_null("NULL");
    let columns: Vec<_> =
        all.columns().iter().map(|column| ArrayFormatter::try_new(column, &options).expect("a format")).collect();
    (0..all.num_rows())
        .map(|row| columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>().join("|"))
        .collect()
}
