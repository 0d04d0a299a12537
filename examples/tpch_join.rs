//! Joins and groups orders and line items of the TPC-H benchmark.
//!
//! ```text
//! inner     line items with their orders                       one order each
//! inner     orders with their line items                       one to seven each
//! group-by  quantities by order; the orders above 300 pieces   the inner part of the benchmark's query 18
//! semi      the rows of those orders
//! anti      customers without orders                           a third of all
//! ```
//!
//! ```sh
//! cargo run --release -p koel-examples -- tpch-join 1.0 --device auto
//! ```
//!
//! The number is the benchmark's scale factor; 0.1 generates 600,572 line items of 150,000 orders. Every answer is
//! compared with that of a plain `HashMap`.

use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::time::Duration;

use koel::backend::{HashBackend, Probe};
use koel::device::{Any, choose};
use koel::{Aggregate, Cuckoo, IdOrder, JoinIndex, JoinKind, JoinRows, group};
use tpchgen::distribution::Distributions;
use tpchgen::generators::{CustomerGenerator, LineItemGenerator, OrderGenerator};
use tpchgen::text::TextPool;

/// Join and group the orders and line items of TPC-H
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The benchmark's scale factor
    #[arg(default_value_t = 0.1)]
    scale: f64,
    /// auto, cpu, opencl, opencl:N or opencl:NAME
    #[arg(long, default_value = "auto")]
    device: String,
}

/// Orders with more pieces than this are large in query 18.
const LARGE: u64 = 300;

/// The columns that are needed.
struct Data {
    customers: Vec<u32>,
    order_keys: Vec<u32>,
    order_customers: Vec<u32>,
    item_orders: Vec<u32>,
    item_quantities: Vec<u32>,
}

pub(crate) fn run(args: Args) -> Result<(), Box<dyn Error>> {
    let device = choose(&args.device, None)?.swap_remove(0);
    let data = Data::generate(args.scale)?;
    println!(
        "scale {}: {} line items, {} orders, {} customers, {}",
        args.scale,
        data.item_orders.len(),
        data.order_keys.len(),
        data.customers.len(),
        device.info()
    );
    let items = joined(&device, "line items with their orders", &data.item_orders, &data.order_keys, JoinKind::Inner)?;
    check(items.left.len() == data.item_orders.len(), "each line item has one order")?;
    joined(&device, "orders with their line items", &data.order_keys, &data.item_orders, JoinKind::Inner)?;
    let large = large_orders(&device, &data)?;
    joined(&device, "large orders", &data.order_keys, &large, JoinKind::Semi)?;
    joined(&device, "customers without orders", &data.customers, &data.order_customers, JoinKind::Anti)?;
    Ok(())
}

/// The order keys with more than [`LARGE`] pieces.
fn large_orders(device: &Any, data: &Data) -> Result<Vec<u32>, Box<dyn Error>> {
    let (keys, values) = (device.upload(&data.item_orders)?, device.upload(&data.item_quantities)?);
    let wanted = [Aggregate::Count, Aggregate::Sum];
    let group = || group::group_by_on(device, &keys, &values, &wanted, IdOrder::FirstSeen);
    // A warm-up, which also compiles the kernels.
    group()?;
    let (groups, time) = device.timed(group)?;
    let groups = groups.download(device)?;
    let mut plain: HashMap<u32, (u32, u64)> = HashMap::new();
    for (&order, &quantity) in data.item_orders.iter().zip(&data.item_quantities) {
        let entry = plain.entry(order).or_default();
        *entry = (entry.0 + 1, entry.1 + u64::from(quantity));
    }
    let rows = groups.keys.iter().zip(groups.counts.iter().zip(&groups.sums));
    let same = rows.clone().all(|(key, (&count, &sum))| plain.get(key) == Some(&(count, sum)));
    check(same && groups.len() == plain.len(), "quantities by order")?;
    let large: Vec<u32> = rows.filter(|(_, (_, sum))| **sum > LARGE).map(|(&key, _)| key).collect();
    println!(
        "{:>10} groups    {:>9.3} ms  quantities by order; {} orders are large",
        groups.len(),
        ms(time),
        large.len()
    );
    Ok(large)
}

/// A join, timed, printed and checked.
fn joined(device: &Any, what: &str, left: &[u32], right: &[u32], kind: JoinKind) -> Result<JoinRows, Box<dyn Error>> {
    let (on_left, on_right) = (device.upload(left)?, device.upload(right)?);
    let builder = JoinIndex::builder(Cuckoo::canonical(4));
    // A warm-up, which also compiles the kernels.
    builder.build_on(device, &on_right)?.join_on(&on_left, kind)?;
    let (index, build) = device.timed(|| builder.build_on(device, &on_right))?;
    let (join, probe) = device.timed(|| {
        let join = index.join_on(&on_left, kind)?;
        join.chunk_on(0, usize::MAX)?;
        Ok(join)
    })?;
    let (build, probe) = (ms(build), ms(probe));
    println!("{:>10} rows      {build:>9.3} ms to index, {probe:.3} ms to join  {what} ({kind})", join.len());
    let rows = join.collect()?;
    check(rows == plainly_joined(left, right, kind), what)?;
    Ok(rows)
}

fn plainly_joined(left: &[u32], right: &[u32], kind: JoinKind) -> JoinRows {
    let mut rows = JoinRows::default();
    let left = (0..).zip(left);
    if kind != JoinKind::Inner {
        let there: HashSet<u32> = right.iter().copied().collect();
        rows.left = left.filter(|(_, key)| there.contains(key) == (kind == JoinKind::Semi)).map(|(i, _)| i).collect();
        return rows;
    }
    let mut partners: HashMap<u32, Vec<u32>> = HashMap::new();
    (0..).zip(right).for_each(|(j, &key)| partners.entry(key).or_default().push(j));
    for (i, key) in left {
        for &j in partners.get(key).into_iter().flatten() {
            rows.left.push(i);
            rows.right.push(j);
        }
    }
    rows
}

impl Data {
    fn generate(scale: f64) -> Result<Data, Box<dyn Error>> {
        // Comments are not needed, so a small pool of words suffices.
        let distributions = Distributions::static_default();
        let words = TextPool::new(1 << 20, distributions);
        let customers = CustomerGenerator::calculate_row_count(scale, 1, 1);
        let mut data = Data {
            customers: (1..=u32::try_from(customers)?).collect(),
            order_keys: Vec::new(),
            order_customers: Vec::new(),
            item_orders: Vec::new(),
            item_quantities: Vec::new(),
        };
        for order in OrderGenerator::new_with_distributions_and_text_pool(scale, 1, 1, distributions, &words).iter() {
            data.order_keys.push(u32::try_from(order.o_orderkey)?);
            data.order_customers.push(u32::try_from(order.o_custkey)?);
        }
        for item in LineItemGenerator::new_with_distributions_and_text_pool(scale, 1, 1, distributions, &words).iter() {
            data.item_orders.push(u32::try_from(item.l_orderkey)?);
            data.item_quantities.push(u32::try_from(item.l_quantity)?);
        }
        Ok(data)
    }
}

fn check(holds: bool, what: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(format!("{what}: a plain map has other answers")) }
}

fn ms(time: Duration) -> f64 {
    1e3 * time.as_secs_f64()
}
