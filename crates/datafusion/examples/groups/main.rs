//! Groups by many kinds of keys, by stock DataFusion and by koel, side by side: times, and whether the results are
//! equal.
//!
//! ```text
//! cargo run --release --example groups                       4 million rows, five runs of each, the fastest counts
//! cargo run --release --example groups -- 1000000 9 opencl:0    rows, runs, koel.device
//! ```
//!
//! `single` is one partition; `two` is a partial and a final aggregate of two partitions. Sums are first over
//! `integers`, and then over `doubles`, which koel adds exactly. Rows are created first and stay in memory.

use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::array::{ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, StringViewArray};
use datafusion::datasource::MemTable;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionStateBuilder;
use datafusion::physical_plan::collect;
use datafusion::prelude::{SessionConfig, SessionContext};
use koel_datafusion::{KoelOptions, WithKoel};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// Keys, and their descriptions.
const KEYS: [(&str, &str); 16] = [
    ("flag", "3 texts"),
    ("flag, mode", "21 pairs of texts"),
    ("small", "100 numbers"),
    ("word", "1,000 texts of 20 bytes"),
    ("small, mode", "700 pairs"),
    ("middle", "100,000 numbers in a row"),
    ("sorted", "numbers that rise, 4 rows each"),
    ("dense", "1,000,000 numbers in a row"),
    ("sparse", "1,000,000 numbers anywhere"),
    ("middle, small", "pairs, nearly all different"),
    ("small, small2, flag", "30,000 triples"),
    ("price", "100,000 floats"),
    ("name", "100,000 texts of 18 bytes"),
    ("name, middle", "pairs of a text and a number, nearly all different"),
    ("nullable", "1,000 numbers and nulls"),
    ("unique", "all different"),
];

fn batch(random: &mut SmallRng, first: usize, rows: usize) -> Result<RecordBatch> {
    let mut ints = |below: i64| -> Vec<i64> { (0..rows).map(|_| random.random_range(0..below)).collect() };
    let texts = |of: Vec<i64>, text: &dyn Fn(i64) -> String| -> ArrayRef {
        Arc::new(of.into_iter().map(|i| Some(text(i))).collect::<StringViewArray>())
    };
    let mix = |i: i64| i.wrapping_mul(0x5851_F42D_4C95_7F2D);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("flag", texts(ints(3), &|i| ["A", "N", "R"][i as usize].into())),
        ("mode", texts(ints(7), &|i| ["AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK"][i as usize].into())),
        ("small", Arc::new(Int32Array::from_iter_values(ints(100).into_iter().map(|i| i as i32)))),
        ("small2", Arc::new(Int64Array::from(ints(100)))),
        ("word", texts(ints(1000), &|i| format!("a long word no. {i:04}"))),
        ("middle", Arc::new(Int64Array::from(ints(100_000)))),
        ("sorted", Arc::new(Int64Array::from_iter_values((first..first + rows).map(|i| i as i64 / 4 * 4)))),
        ("dense", Arc::new(Int64Array::from(ints(1_000_000)))),
        ("sparse", Arc::new(Int64Array::from_iter_values(ints(1_000_000).into_iter().map(mix)))),
        ("price", Arc::new(Float64Array::from_iter_values(ints(100_000).into_iter().map(|i| i as f64 / 100.0)))),
        ("name", texts(ints(100_000), &|i| format!("Customer#{i:09}"))),
        ("nullable", Arc::new(ints(1100).into_iter().map(|i| (i < 1000).then_some(i)).collect::<Int64Array>())),
        ("unique", Arc::new(Int64Array::from_iter_values((first..first + rows).map(|i| mix(i as i64))))),
        ("integers", Arc::new(Int64Array::from(ints(1000)))),
        // Quarters, so that the sums of stock DataFusion are exact too and can be compared.
        ("doubles", Arc::new(Float64Array::from_iter_values(ints(1000).into_iter().map(|i| i as f64 / 4.0)))),
    ];
    Ok(RecordBatch::try_from_iter(columns)?)
}

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut next = |or: &str| arguments.next().unwrap_or_else(|| or.into());
    let number = |text: String| text.parse::<usize>().map_err(|_| DataFusionError::Configuration(format!("{text}?")));
    let (rows, runs, device) = (number(next("4000000"))?, number(next("5"))?, next("cpu"));
    if rows == 0 {
        return Err(DataFusionError::Configuration("give one row or more".into()));
    }
    let mut random = SmallRng::seed_from_u64(1);
    let starts: Vec<usize> = (0..rows).step_by(8192).collect();
    let batches = starts.iter().map(|&at| batch(&mut random, at, 8192.min(rows - at))).collect::<Result<Vec<_>>>()?;
    println!("{rows} rows; koel.device = '{device}'");
    println!("keys                  shape   values     groups  stock ms  koel ms  ratio");
    for (by, what) in KEYS {
        for (shape, partitions) in [("single", 1), ("two", 2)] {
            let of = || -> Result<SessionStateBuilder> {
                let config = SessionConfig::new().with_target_partitions(partitions);
                Ok(SessionStateBuilder::new().with_default_features().with_config(config))
            };
            let stock = SessionContext::new_with_state(of()?.with_koel_known(KoelOptions::default()).build());
            let options = KoelOptions::default().device(device.clone());
            let koel = SessionContext::new_with_state(of()?.with_koel(options).build());
            let pieces: Vec<_> = batches.chunks(batches.len().div_ceil(partitions)).map(<[_]>::to_vec).collect();
            let table = Arc::new(MemTable::try_new(batches[0].schema(), pieces)?);
            for context in [&stock, &koel] {
                context.register_table("t", Arc::clone(&table) as _)?;
            }
            for values in ["integers", "doubles"] {
                let sql = format!("select {by}, count(*) as n, sum({values}) as s from t group by {by}");
                let (mut best, mut groups) = ([Duration::MAX; 2], 0);
                for _ in 0..runs.max(1) {
                    for (i, context) in [&stock, &koel].into_iter().enumerate() {
                        let plan = context.sql(&sql).await?.create_physical_plan().await?;
                        let began = Instant::now();
                        let answer = collect(plan, context.task_ctx()).await?;
                        best[i] = best[i].min(began.elapsed());
                        groups = answer.iter().map(RecordBatch::num_rows).sum();
                    }
                }
                let [s, k] = best.map(|time| time.as_secs_f64() * 1e3);
                println!("{by:20}  {shape:6}  {values:8}  {groups:7}  {s:7.1}  {k:7.1}  {:5.2}   {what}", k / s);
                let digest = format!("select koel_digest({by}, n, s) from ({sql})");
                let [expected, found] = [stock.sql(&digest).await?, koel.sql(&digest).await?];
                if expected.to_string().await? != found.to_string().await? {
                    return Err(DataFusionError::Execution(format!("sums of {values} by {by} differ")));
                }
            }
        }
    }
    Ok(())
}
