//! `--wide`: tables of 64-bit keys or values, and sets of 64-bit keys, device-resident.
//!
//! Keys are what a bijection makes of 0, 1, ..; absent ones what it makes of the numbers behind them. Queries that hit are
//! the keys in another order. Every answer is compared with the right one.

use std::time::Duration;

use koel::backend::{HashBackend, Probe, Runs, Word, bitmap_words};
use koel::device::Any;
use koel::scheme::bucketized::wide::{Column, Layout};
use koel::scheme::hash::{MixKeys64, mix_64};
use koel::scheme::{BucketizedOf, Scheme};
use koel::{Bucketized, HashSet, HashTable};
use serde_json::{Value, json};

use super::measure::median;
use super::{Args, wrong};
use koel_cli::failure::Result;
use koel_cli::progress::Progress;
use koel_cli::text;

/// Shares of queries that hit, in percent.
const HITS: [u64; 3] = [100, 50, 0];

/// The key of a number: of 32 bits the lower half of a bijection of those.
fn key<K: Word>(number: u64) -> K {
    if K::BITS == u32::BITS {
        // Odd, so a bijection of 32 bits.
        return K::low(number.wrapping_mul(0x9e37_79b1));
    }
    K::low(mix_64(number, MixKeys64::new(0, 1, 0)))
}

/// The value of a number.
fn value<V: Word>(number: u64, has_values: bool) -> V {
    if has_values { V::low(!number << 7 | 1) } else { V::low(0) }
}

/// One rate.
struct Row {
    what: &'static str,
    columns: &'static str,
    device: String,
    n: u64,
    load: f64,
    hits: Option<u64>,
    time: Duration,
}

struct Case<'a> {
    args: &'a Args,
    device: &'a Any,
    n: u64,
    load: Option<f64>,
    columns: &'static str,
}

impl Case<'_> {
    fn row(&self, what: &'static str, load: f64, hits: Option<u64>, times: Vec<Duration>) -> Row {
        let device = self.device.info().id.clone();
        Row { what, columns: self.columns, device, n: self.n, load, hits, time: median(times) }
    }

    fn run<K: Column, V: Column>(&self) -> Result<Vec<Row>>
    where
        (K, V): Layout,
        Any: Runs<BucketizedOf<K, V>>,
    {
        type KeyOf<K, V> = <(K, V) as Layout>::Key;
        type ValueOf<K, V> = <(K, V) as Layout>::Value;
        let (n, device, has_values) = (self.n, self.device, <(K, V)>::VALUES.is_some());
        let scheme = Bucketized::default().of::<K, V>();
        let load = self.load.unwrap_or(scheme.default_load().get());
        let keys: Vec<KeyOf<K, V>> = (0..n).map(key).collect();
        let values: Vec<ValueOf<K, V>> = (0..n).map(|number| value(number, has_values)).collect();
        let (on_device, brought) = (device.upload(&keys)?, device.upload(&values)?);
        drop((keys, values));
        let builder = HashTable::builder(scheme.clone()).load_factor(load);
        let (mut times, mut table) = (Vec::new(), None);
        for _ in 0..self.args.repeats {
            drop(table.take());
            device.finish()?;
            let (built, time) = device.timed(|| builder.build_on(device, &on_device, &brought))?;
            times.push(time);
            table = Some(built);
        }
        let mut rows = vec![self.row("build", load, None, times)];
        if !has_values {
            let builder = HashSet::builder(scheme).load_factor(load);
            let timed = |_| Ok(device.timed(|| builder.build_on(device, &on_device))?.1);
            rows.push(self.row("set, insert", load, None, (0..self.args.repeats).map(timed).collect::<Result<_>>()?));
        }
        drop((on_device, brought));
        let Some(table) = table else { return Ok(rows) };
        for hits in HITS {
            // Numbers in another order: a stride that no power of two divides, and which is prime to most n.
            let number = |i: u64| {
                let number = i.wrapping_mul(0x9e37_79b9_7f4a_7c15) % n;
                if (i * 7919) % 100 < hits { number } else { n + number }
            };
            let queries: Vec<KeyOf<K, V>> = (0..n).map(|i| key(number(i))).collect();
            let queries = device.upload(&queries)?;
            let mut found = device.filled(bitmap_words(n as usize), 0x5555_5555u32)?;
            let mut answers = device.filled(n as usize, Word::low(0x5555_5555))?;
            let timed = |_| Ok(device.timed(|| table.get_on_into(&queries, &mut answers, &mut found))?.1);
            rows.push(self.row("lookup", load, Some(hits), (0..self.args.repeats).map(timed).collect::<Result<_>>()?));
            let timed = |_| Ok(device.timed(|| table.contains_on(&queries))?.1);
            rows.push(self.row(
                "contains",
                load,
                Some(hits),
                (0..self.args.repeats).map(timed).collect::<Result<_>>()?,
            ));
            let bits = device.download(&table.contains_on(&queries)?)?;
            let (answers, found) = (device.download(&answers)?, device.download(&found)?);
            for i in 0..n {
                let at = i as usize;
                let there = number(i) < n;
                let right = if there { value::<ValueOf<K, V>>(number(i), has_values) } else { Word::low(0) };
                let said = |bits: &[u32]| bits[at / 32] >> (at % 32) & 1 == 1;
                if said(&found) != there || said(&bits) != there || answers[at] != right {
                    return Err(wrong(self.columns, format!("query {i} has another answer")));
                }
            }
        }
        Ok(rows)
    }
}

/// All layouts on all devices; what is to be said.
pub(super) fn run(args: &Args, devices: &[Any], progress: &Progress) -> Result<(String, Value)> {
    let loads = if args.load.is_empty() { vec![None] } else { args.load.iter().copied().map(Some).collect() };
    let mut rows = Vec::new();
    for n in args.data.sizes() {
        for &load in &loads {
            for device in devices {
                let case = |columns| {
                    progress.say(format!("{columns}, {n} pairs, {}", device.info().id));
                    Case { args, device, n: n.into(), load, columns }
                };
                rows.extend(case("u64, u64").run::<u64, u64>()?);
                rows.extend(case("u64, u32").run::<u64, u32>()?);
                rows.extend(case("u32, u64").run::<u32, u64>()?);
                rows.extend(case("u64 alone").run::<u64, ()>()?);
            }
        }
    }
    Ok((table(&rows), json(&rows)))
}

/// Keys or pairs per second, in billions.
fn rate(row: &Row) -> f64 {
    row.n as f64 / row.time.as_secs_f64() / 1e9
}

fn table(rows: &[Row]) -> String {
    let mut said = format!(
        "{:<12} {:<10} {:<10} {:>13} {:>6} {:>5} {:>11}\n",
        "what", "columns", "on", "n", "load", "hits", "rate"
    );
    for row in rows {
        let hits = row.hits.map_or(String::new(), |hits| format!("{hits}%"));
        let (n, rate) = (text::grouped(row.n), format!("{:.2} G/s", rate(row)));
        said += &format!(
            "{:<12} {:<10} {:<10} {n:>13} {:>6.3} {hits:>5} {rate:>11}\n",
            row.what, row.columns, row.device, row.load
        );
    }
    said
}

fn json(rows: &[Row]) -> Value {
    let row = |row: &Row| {
        json!({
            "what": row.what, "columns": row.columns, "device": row.device, "n": row.n, "load": row.load,
            "hits": row.hits, "per_second": rate(row) * 1e9,
        })
    };
    json!({ "wide": rows.iter().map(row).collect::<Vec<_>>() })
}
