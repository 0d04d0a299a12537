//! Joins, groups and numbers of columns, timed: alone, or one job a line of stdin for `engines.py`, which has other
//! engines do the same in turn.
//!
//! ```sh
//! cargo bench -p koel-arrow --bench engines                     # every job, nine times: median and minimum
//! python3 crates/arrow/benches/engines.py                       # compared with DuckDB, polars, DataFusion and pandas
//! ```
//!
//! A job is timed from columns in memory to columns in memory. Columns are functions of their row numbers, so that both
//! programs have the same.

use std::io::{BufRead, Write};
use std::sync::Arc;
use std::time::Instant;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{ArrayRef, Int64Array, UInt32Array};
use koel_arrow::{
    Aggregation, Column, Function, IdOrder, JoinKind, Keys, NullEquality, NullKeys, factorize, group_by, join,
};

/// The jobs; `engines.py` has the same.
const JOBS: [&str; 10] = [
    "join",
    "join_scattered",
    "probe_scattered",
    "probe_dense",
    "sum_1m",
    "sum_1m_scattered",
    "sum_100",
    "sum_100_scattered",
    "factorize",
    "factorize_scattered",
];

/// Small numbers in, others out that look like chance.
fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

/// `rows` pseudo-random numbers below `below`; each seed gives another column.
fn numbers(rows: u64, below: u64, seed: u64) -> Vec<i64> {
    (0..rows).map(|row| (mixed(row + (seed << 32)) % below) as i64).collect()
}

/// The same keys, far from each other.
fn scattered(keys: Vec<i64>) -> Vec<i64> {
    keys.into_iter().map(|key| mixed(key as u64 ^ 0x5eed << 40) as i64).collect()
}

/// 0 to `rows` in an order of chance.
fn permutation(rows: u64) -> Vec<i64> {
    let mut numbers: Vec<i64> = (0..rows as i64).collect();
    numbers.sort_by_key(|&number| mixed(number as u64 + (9 << 32)));
    numbers
}

fn keys(numbers: Vec<i64>) -> Keys {
    let array: ArrayRef = Arc::new(Int64Array::from(numbers));
    Keys::of_arrays(&[array]).expect("one column")
}

/// What a job works on.
enum Job {
    Join(Keys, Keys),
    Sum(Keys, Column),
    Factorize(Keys),
}

impl Job {
    fn of(name: &str) -> Option<Job> {
        let maybe = |keys: Vec<i64>| if name.ends_with("_scattered") { scattered(keys) } else { keys };
        Some(match name.trim_end_matches("_scattered") {
            "join" => Job::Join(keys(maybe(numbers(500_000, 200_000, 1))), keys(maybe(numbers(500_000, 200_000, 2)))),
            "probe" | "probe_dense" => {
                Job::Join(keys(maybe(numbers(8_000_000, 8_000_000, 3))), keys(maybe(permutation(4_000_000))))
            }
            "sum_1m" | "sum_100" => {
                let groups = if name.starts_with("sum_1m") { 1_000_000 } else { 100 };
                let values: ArrayRef = Arc::new(Int64Array::from(numbers(8_000_000, 1000, 4)));
                Job::Sum(keys(maybe(numbers(8_000_000, groups, 5))), Column::new("v", values))
            }
            "factorize" => Job::Factorize(keys(maybe(numbers(500_000, 200_000, 6)))),
            _ => return None,
        })
    }

    /// Milliseconds, rows of the result, and their sum, by which results are compared.
    fn run(&self, device: &koel::Any) -> koel_arrow::Result<(f64, usize, i64)> {
        let sum = |rows: &UInt32Array| rows.values().iter().map(|&row| i64::from(row)).sum::<i64>();
        let start = Instant::now();
        let elapsed = |start: Instant| start.elapsed().as_secs_f64() * 1e3;
        Ok(match self {
            Job::Join(left, right) => {
                let rows = join(device, left, right, JoinKind::Inner, NullEquality::NothingEquals)?;
                let time = elapsed(start);
                (time, rows.len(), sum(&rows.left) + rows.right.as_ref().map_or(0, sum))
            }
            Job::Sum(keys, values) => {
                let wanted = [Aggregation::new(Function::Sum, values.clone())];
                let groups = group_by(device, keys, &wanted, IdOrder::FirstSeen, NullKeys::Group)?;
                let time = elapsed(start);
                (time, groups.num_rows(), groups.column(1).as_primitive::<Int64Type>().values().iter().sum())
            }
            Job::Factorize(keys) => {
                let groups = factorize(device, keys, IdOrder::FirstSeen, NullKeys::Group)?;
                (elapsed(start), groups.len(), sum(&groups.codes))
            }
        })
    }
}

fn main() -> koel_arrow::Result<()> {
    let threads = std::env::var("KOEL_BENCH_THREADS").ok().and_then(|threads| threads.parse().ok()).unwrap_or(2);
    let device = koel::Any::Cpu(koel::Cpu::with_threads(threads)?);
    if std::env::args().any(|argument| argument == "--serve") {
        let mut last: Option<(String, Job)> = None;
        for name in std::io::stdin().lock().lines().map_while(Result::ok) {
            if last.as_ref().is_none_or(|(known, _)| *known != name) {
                let Some(job) = Job::of(&name) else { break };
                last = Some((name, job));
            }
            if let Some((_, job)) = &last {
                let (time, rows, sum) = job.run(&device)?;
                println!("{time} {rows} {sum}");
                let _ = std::io::stdout().flush();
            }
        }
        return Ok(());
    }
    for name in JOBS {
        let Some(job) = Job::of(name) else { continue };
        let mut times = Vec::new();
        for _ in 0..9 {
            times.push(job.run(&device)?.0);
        }
        times.sort_by(f64::total_cmp);
        println!("{name:20} {:8.1} ms ({:.1})", times[4], times[0]);
    }
    Ok(())
}
