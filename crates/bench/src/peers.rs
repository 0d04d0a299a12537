//! Alternatives on the host: a general hash map, a sorted array, and a perfect hash of keys that never change.
//!
//! A hash map is filled by one thread, as its interface requires, with a given capacity; the array is sorted by all
//! threads. Lookups use all threads.

#[cfg(feature = "bench-peers")]
mod perfect;

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashMap};
use rayon::prelude::*;

use super::data::Questions;
use super::measure::{Row, Setup, wall};
use super::wrong;
use koel_cli::answers;
use koel_cli::failure::Result;
use koel_cli::progress::Progress;

/// Queries per task, such that tasks do not share words of the bitmap.
const TASK: usize = 1 << 14;

/// Whether a peer's `build` or `lookup` is to be measured.
pub(super) type Wanted<'a> = &'a dyn Fn(&str, &str) -> bool;

/// Measures the requested peers on one set of keys.
pub(super) fn measure(setup: &Setup<'_>, requested: Wanted<'_>, progress: &Progress) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let on = On { setup, requested };
    let say = |name: &str| progress.say(format!("{name}, {} pairs", setup.n));
    say("hashbrown");
    rows.extend(peer(on, "hashbrown", || map::<DefaultHashBuilder>(setup), find_in_map)?);
    #[cfg(feature = "bench-peers")]
    {
        say("hashbrown with rustc-hash");
        rows.extend(peer(on, "hashbrown+fx", || map::<rustc_hash::FxBuildHasher>(setup), find_in_map)?);
        say("ptr_hash");
        rows.extend(perfect::measure(on)?);
    }
    say("a sorted array");
    rows.extend(peer(on, "sorted array", || sorted(setup), |array, key| find_in_array(array, key))?);
    #[cfg(feature = "bench-peers")]
    {
        say("an array sorted by rdst");
        rows.extend(peer(on, "sorted by rdst", || radix_sorted(setup), |array, key| find_in_array(array, key))?);
    }
    Ok(rows)
}

/// The keys, and the requested measurements.
#[derive(Clone, Copy)]
struct On<'a> {
    setup: &'a Setup<'a>,
    requested: Wanted<'a>,
}

/// Times one peer's build and lookups of one key after another, with every answer checked.
fn peer<T: Sync>(
    on: On<'_>,
    name: &str,
    build: impl Fn() -> T,
    find: impl Fn(&T, u32) -> Option<u32> + Sync,
) -> Result<Vec<Row>> {
    timed(
        on,
        name,
        || Ok(build()),
        |table, queries, values, found| {
            answer_each(queries, values, found, |key| find(table, key));
        },
    )
}

/// Times one peer's build and lookups of many keys at a time, at most [`TASK`]; every answer is checked.
fn timed<T: Sync>(
    On { setup, requested }: On<'_>,
    name: &str,
    build: impl Fn() -> Result<T>,
    answer: impl Fn(&T, &[u32], &mut [u32], &mut [u32]) + Sync,
) -> Result<Vec<Row>> {
    let row = |what, hits| Row { hits, ..Row::new("host", name, setup.n, what, "host") };
    let (mut rows, mut last) = (Vec::new(), None);
    if requested(name, "build") {
        let time = setup.median(|| {
            last = None;
            let (table, time) = wall(&build)?;
            last = Some(table);
            Ok(time)
        })?;
        rows.push(row("build", None).timed(setup.data.keys.len(), time));
    }
    if !requested(name, "lookup") {
        return Ok(rows);
    }
    let table = last.map_or_else(&build, Ok)?;
    for Questions { hits, queries } in setup.data.questions() {
        let time = setup.median(|| {
            let (mut values, mut found) = answers::poisoned(queries.len());
            let ((), time) = wall(|| {
                let to = values.par_chunks_mut(TASK).zip(found.par_chunks_mut(TASK / 32));
                let tasks = queries.par_chunks(TASK).zip(to);
                tasks.for_each(|(queries, (values, found))| answer(&table, queries, values, found));
                Ok(())
            })?;
            setup.check(&queries, &values, &found).map_err(|reason| wrong(name, reason))?;
            Ok(time)
        })?;
        rows.push(row("lookup", Some(hits)).timed(queries.len(), time));
    }
    Ok(rows)
}

/// Writes the output that koel's lookups write: values and a bitmap.
#[inline(always)]
fn answer_each(queries: &[u32], values: &mut [u32], found: &mut [u32], find: impl Fn(u32) -> Option<u32>) {
    for ((queries, values), found) in queries.chunks(32).zip(values.chunks_mut(32)).zip(found) {
        let mut bits = 0;
        for (i, (&query, value)) in queries.iter().zip(values).enumerate() {
            let answer = find(query);
            *value = answer.unwrap_or(0);
            bits |= u32::from(answer.is_some()) << i;
        }
        *found = bits;
    }
}

fn map<H: BuildHasher + Default>(setup: &Setup<'_>) -> HashMap<u32, u32, H> {
    let mut map = HashMap::with_capacity_and_hasher(setup.data.keys.len(), H::default());
    map.extend(setup.data.keys.iter().copied().zip(setup.data.values.iter().copied()));
    map
}

fn find_in_map<H: BuildHasher>(map: &HashMap<u32, u32, H>, key: u32) -> Option<u32> {
    map.get(&key).copied()
}

/// Key and value in one word, so that words are sorted by key.
fn packed(setup: &Setup<'_>) -> Vec<u64> {
    let pack = |(&key, &value)| u64::from(key) << 32 | u64::from(value);
    setup.data.keys.par_iter().zip(&setup.data.values).map(pack).collect()
}

fn sorted(setup: &Setup<'_>) -> Vec<u64> {
    let mut array = packed(setup);
    array.par_sort_unstable();
    array
}

#[cfg(feature = "bench-peers")]
fn radix_sorted(setup: &Setup<'_>) -> Vec<u64> {
    use rdst::RadixSort;
    let mut array = packed(setup);
    array.radix_sort_unstable();
    array
}

fn find_in_array(array: &[u64], key: u32) -> Option<u32> {
    let at = array.partition_point(|&word| ((word >> 32) as u32) < key);
    array.get(at).filter(|&&word| (word >> 32) as u32 == key).map(|&word| word as u32)
}
