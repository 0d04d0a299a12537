//! `--several`: measures one device, and then the first two, three, .. of the named devices together.
//!
//! ```text
//! lookups         the same table on each device, which divide the queries; from and to pinned memory, if available
//! build           host columns in pinned memory: one table on one device (`build one table`); in shards, partitioned
//!                 during the build (`build`) or before it (`build partitioned`)
//! in shards       lookups in that table; partitioning the queries is included
//! ```
//!
//! All times are wall time, from and to host memory, and all answers are checked. With `--pieces`, tables of (u64, u64)
//! pairs are built shard by shard instead, which may be larger than the memory of any device.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use koel::backend::{HashBackend, bitmap_words};
use koel::device::Any;
use koel::scheme::hash::{MixKeys64, mix_64};
use koel::{Bucketized, Cpu, Digest, HashTable, Replicated, Sharded};
use rayon::prelude::*;
use serde_json::{Value, json};

use super::measure::{repeated, wall};
use super::{Args, wrong};
use koel_cli::failure::Result;
use koel_cli::progress::Progress;
use koel_cli::text;

/// Shards of a table per named device.
const SHARDS: usize = 4;
/// Pairs per shard of a table that is built shard by shard.
const PAIRS_OF_A_PIECE: u64 = 1 << 27;
/// Keys that a thread generates at a time for such a table.
const KEYS_AT_ONCE: u64 = 1 << 18;

struct Row {
    what: &'static str,
    n: u64,
    devices: usize,
    count: u64,
    time: Duration,
}

impl Row {
    fn rate(&self) -> f64 {
        self.count as f64 / self.time.as_secs_f64().max(1e-9)
    }
}

/// Measures what the options request; returns text and JSON.
pub(super) fn run(args: &Args, devices: &[Any], progress: &Progress) -> Result<(String, Value)> {
    let mut rows = Vec::new();
    for n in args.data.sizes() {
        for count in 1..=devices.len() {
            let case = Case { args, n: n.into(), devices: &devices[..count], all: devices.len() };
            progress.say(format!("{} pairs on {}", text::grouped(n.into()), text::counted(count as u64, "device")));
            rows.extend(case.rows(progress)?);
        }
    }
    let names: Vec<&str> = devices.iter().map(|device| device.info().id.as_str()).collect();
    Ok((table(&rows, &names), json(&rows, &names)))
}

/// Measures a table that is built shard by shard.
pub(super) fn run_pieces(args: &Args, devices: &[Any], progress: &Progress) -> Result<(String, Value)> {
    let mut rendered = Vec::new();
    for &n in &args.pieces {
        rendered.push(pieces(args, n, devices, progress)?);
    }
    Ok((rendered.iter().map(|(text, _)| text.as_str()).collect(), rendered.into_iter().map(|(_, json)| json).collect()))
}

struct Case<'a> {
    args: &'a Args,
    n: u64,
    devices: &'a [Any],
    /// The number of named devices.
    all: usize,
}

/// Memory of the host: pinned for the devices if one of them supports it.
enum Memory {
    #[cfg(feature = "opencl")]
    Pinned(koel::opencl::PinnedVec<u32>),
    Plain(Vec<u32>),
}

impl Memory {
    fn of(devices: &[Any], len: usize) -> Result<Memory> {
        #[cfg(feature = "opencl")]
        if let Some(device) =
            devices.iter().find_map(|device| if let Any::OpenCl(cl) = device { Some(cl) } else { None })
        {
            return Ok(Memory::Pinned(device.pinned(len)?));
        }
        let _ = devices;
        Ok(Memory::Plain(vec![0; len]))
    }

    fn words(&mut self) -> &mut [u32] {
        match self {
            #[cfg(feature = "opencl")]
            Memory::Pinned(words) => words,
            Memory::Plain(words) => words,
        }
    }
}

/// A bijection of 32 bits: numbers below n are keys, those from n on are not.
fn key(number: u64) -> u32 {
    (number as u32).wrapping_mul(0x9e37_79b1)
}

impl Case<'_> {
    fn timed(&self, what: &'static str, count: u64, work: impl FnMut() -> Result<Duration>) -> Result<Row> {
        let time = repeated(self.args.repeats, work)?;
        Ok(Row { what, n: self.n, devices: self.devices.len(), count, time })
    }

    fn rows(&self, progress: &Progress) -> Result<Vec<Row>> {
        let (n, shards) = (self.n, SHARDS * self.all);
        let load = self.args.load.first().copied().unwrap_or(0.9);
        let mut columns = [Memory::of(self.devices, n as usize)?, Memory::of(self.devices, n as usize)?];
        let [keys, values] = &mut columns;
        let (keys, values) = (keys.words(), values.words());
        keys.par_iter_mut().zip(values.par_iter_mut()).enumerate().for_each(|(number, (key_of, value))| {
            *key_of = key(number as u64);
            *value = !*key_of;
        });
        let (keys, values) = (&*keys, &*values);
        let queried = self.args.data.query_count(self.args.data.sizes().into_iter().max().unwrap_or(1));
        // Half of the queries hit.
        let number = |i: u64| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) % (2 * n).max(1);
        let mut memory = [Memory::of(self.devices, queried as usize)?, Memory::of(self.devices, queried as usize)?];
        let mut bits = Memory::of(self.devices, bitmap_words(queried as usize))?;
        let [queries, answers] = &mut memory;
        let (queries, answers, bits) = (queries.words(), answers.words(), bits.words());
        queries.par_iter_mut().enumerate().for_each(|(i, query)| *query = key(number(i as u64)));
        let queries = &*queries;
        let check = |what, answers: &[u32], bits: &[u32]| {
            let is_right = |i: usize| {
                let (there, found) = (number(i as u64) < n, bits[i / 32] >> (i % 32) & 1 == 1);
                there == found && (!there || answers[i] == !queries[i])
            };
            match (0..queries.len()).into_par_iter().find_first(|&i| !is_right(i)) {
                Some(i) => Err(wrong(what, format!("query {i} of key {}", queries[i]))),
                None => Ok(()),
            }
        };
        let mut rows = Vec::new();

        progress.say("lookups of a table on every device");
        let builder = HashTable::builder(Bucketized::canonical(8)).load_factor(load);
        let here = builder.build(&Cpu::new(), keys, values)?;
        let replicas = Replicated::of(&here, self.devices)?;
        let of_one = here.digest()?;
        drop(here);
        rows.push(self.timed("lookups", queried, || {
            let ((), time) = wall(|| Ok(replicas.get_into(queries, answers, bits)?))?;
            check("lookups", answers, bits)?;
            Ok(time)
        })?);
        drop(replicas);

        if let [device] = self.devices {
            progress.say("builds of one table");
            rows.push(self.timed("build one table", n, || {
                let (table, time) = wall(|| {
                    let table = builder.build(device, keys, values)?;
                    device.finish()?;
                    Ok(table)
                })?;
                match table.digest()? == of_one {
                    true => Ok(time),
                    false => Err(wrong("build one table", "another digest".into())),
                }
            })?);
        }

        progress.say("builds in shards");
        let builder = Sharded::builder(Bucketized::canonical(8), shards).load_factor(load);
        let mut table = None;
        rows.push(self.timed("build", n, || {
            drop(table.take());
            let (built, time) = wall(|| Ok(builder.build(self.devices, keys, values)?))?;
            table = Some(built);
            Ok(time)
        })?);
        let Some(table) = table else { return Ok(rows) };
        let digest = table.digest()?;
        rows.push(self.timed("lookups in shards", queried, || {
            let ((), time) = wall(|| Ok(table.get_into(queries, answers, bits)?))?;
            check("lookups in shards", answers, bits)?;
            Ok(time)
        })?);
        drop(table);
        rows.push(self.timed_partitioned_build(&builder, keys, digest)?);

        progress.say("the same table on the CPU");
        let here = builder.build(&[Cpu::new()], keys, values)?;
        if here.digest()? != digest {
            return Err(wrong("build", "another digest than of the CPU's table".into()));
        }
        Ok(rows)
    }

    /// Builds from columns that were partitioned before.
    fn timed_partitioned_build(
        &self,
        builder: &koel::ShardedBuilder<Bucketized>,
        keys: &[u32],
        digest: Digest,
    ) -> Result<Row> {
        let (shard_of, mut places) = (builder.shard_of()?, vec![0; SHARDS * self.all + 1]);
        keys.iter().for_each(|&key| places[shard_of(key) + 1] += 1);
        (1..places.len()).for_each(|shard| places[shard] += places[shard - 1]);
        let starts = places.clone();
        let mut columns = [Memory::of(self.devices, keys.len())?, Memory::of(self.devices, keys.len())?];
        let [by_shard, values] = &mut columns;
        let (by_shard, values) = (by_shard.words(), values.words());
        for &key in keys {
            let place = &mut places[shard_of(key)];
            (by_shard[*place], values[*place]) = (key, !key);
            *place += 1;
        }
        let (by_shard, values) = (&*by_shard, &*values);
        self.timed("build partitioned", self.n, || {
            let of = |shard: usize| {
                let rows = starts[shard]..starts[shard + 1];
                Ok((&by_shard[rows.clone()], &values[rows]))
            };
            let (table, time) = wall(|| Ok(builder.build_partitioned(self.devices, of)?))?;
            match table.digest()? == digest {
                true => Ok(time),
                false => Err(wrong("build partitioned", "another digest".into())),
            }
        })
    }
}

/// Builds a table of n pairs whose keys are generated first, in 8 bytes of host memory each, and queries it; then
/// builds its shards one after the other on the first device, and compares the digests.
fn pieces(args: &Args, n: u64, devices: &[Any], progress: &Progress) -> Result<(String, Value)> {
    let shards = (n.div_ceil(PAIRS_OF_A_PIECE) as usize).max(devices.len()).next_multiple_of(devices.len());
    let load = args.load.first().copied().unwrap_or(0.9);
    let builder = Sharded::builder(Bucketized::canonical(8).of::<u64, u64>(), shards).load_factor(load);
    let (key, shard_of) = (|number: u64| mix_64(number, MixKeys64::new(0, 1, 0)), builder.shard_of()?);
    progress.say(format!("making {} keys", text::grouped(n)));
    let made: Vec<Mutex<Vec<u64>>> = (0..shards).map(|_| Mutex::default()).collect();
    let of_shard = |shard: usize| made[shard].lock().unwrap_or_else(PoisonError::into_inner);
    (0..shards).for_each(|shard| of_shard(shard).reserve_exact((n / shards as u64 + (n / 64).min(1 << 20)) as usize));
    (0..n.div_ceil(KEYS_AT_ONCE)).into_par_iter().for_each(|block| {
        let mut by_shard = vec![Vec::new(); shards];
        let numbers = block * KEYS_AT_ONCE..((block + 1) * KEYS_AT_ONCE).min(n);
        numbers.map(key).for_each(|key| by_shard[shard_of(key)].push(key));
        by_shard.iter().enumerate().for_each(|(shard, keys)| of_shard(shard).extend_from_slice(keys));
    });
    let made: Vec<Vec<u64>> =
        made.into_iter().map(|keys| keys.into_inner().unwrap_or_else(PoisonError::into_inner)).collect();
    let columns = |shard: usize| {
        let values: Vec<u64> = made[shard].par_iter().map(|key| !key).collect();
        Ok((&made[shard][..], values))
    };
    progress.say(format!("{} pairs in {} shards", text::grouped(n), shards));
    let (table, built) = wall(|| Ok(builder.build_partitioned(devices, columns)?))?;
    let bytes: u64 = table.shards().iter().map(|shard| 8 * koel::DeviceBuffer::len(shard.image()) as u64).sum();
    progress.say("lookups");
    let queried = 1_u64 << 24;
    let queries: Vec<u64> = (0..queried).map(|i| key(i.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (2 * n).max(1))).collect();
    let (mut values, mut found) = (vec![0; queries.len()], vec![0; bitmap_words(queries.len())]);
    let ((), looked_up) = wall(|| Ok(table.get_into(&queries, &mut values, &mut found)?))?;
    for i in 0..queries.len() {
        let there = (i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) % (2 * n).max(1) < n;
        if there != (found[i / 32] >> (i % 32) & 1 == 1) || there && values[i] != !queries[i] {
            return Err(wrong("a table in pieces", format!("query {i} of key {}", queries[i])));
        }
    }
    progress.say("digest");
    let (digest, len) = (table.digest()?, table.len());
    if len as u64 != n {
        return Err(wrong("a table in pieces", format!("{len} pairs of {n}")));
    }
    drop(table);
    progress.say("the same shards, one after the other");
    let mut one_by_one = Vec::new();
    for shard in 0..shards {
        let (keys, values) = columns(shard)?;
        // A separate table of the shard's keys.
        let one = HashTable::builder(Bucketized::canonical(8).of::<u64, u64>()).load_factor(load);
        one_by_one.push(one.build(&devices[0], keys, &values)?.digest()?);
    }
    let same = builder.digest_of(&one_by_one)? == digest;
    if !same {
        return Err(wrong("a table in pieces", "another digest than its shards one after the other".into()));
    }
    let text = format!(
        "{} pairs (u64, u64) in {shards} shards on {}: {:.1} GiB; built in {:.1} s with the making of pairs, {:.2} G lookups/s\n\
         digest {digest}, also of the shards built one after the other\n",
        text::grouped(n),
        text::counted(devices.len() as u64, "device"),
        bytes as f64 / f64::from(1 << 30),
        built.as_secs_f64(),
        queried as f64 / looked_up.as_secs_f64() / 1e9,
    );
    let json = json!({
        "n": n, "shards": shards, "devices": devices.len(), "bytes": bytes, "build_seconds": built.as_secs_f64(),
        "lookups_per_second": queried as f64 / looked_up.as_secs_f64(), "digest": digest.to_string()
    });
    Ok((text, json))
}

/// The rate relative to that of one device in the same run.
fn times_one(rows: &[Row], row: &Row) -> f64 {
    let one = rows.iter().find(|one| (one.what, one.n, one.devices) == (row.what, row.n, 1));
    one.map_or(1.0, |one| row.rate() / one.rate())
}

fn table(rows: &[Row], names: &[&str]) -> String {
    let mut text = format!(
        "devices: {}\n\n{:<20} {:>13} {:>7} {:>12} {:>9} {:>9}\n",
        names.join(", "),
        "what",
        "n",
        "devices",
        "ms",
        "G/s",
        "x one"
    );
    for row in rows {
        let (ms, rate) = (row.time.as_secs_f64() * 1e3, row.rate() / 1e9);
        let n = text::grouped(row.n);
        text += &format!(
            "{:<20} {n:>13} {:>7} {ms:>12.3} {rate:>9.3} {:>9.2}\n",
            row.what,
            row.devices,
            times_one(rows, row)
        );
    }
    text
}

fn json(rows: &[Row], names: &[&str]) -> Value {
    let of = |row: &Row| {
        json!({
            "what": row.what, "n": row.n, "devices": row.devices, "count": row.count,
            "seconds": row.time.as_secs_f64(), "per_second": row.rate(), "times_one": times_one(rows, row)
        })
    };
    json!({ "devices": names, "rows": rows.iter().map(of).collect::<Vec<_>>() })
}
