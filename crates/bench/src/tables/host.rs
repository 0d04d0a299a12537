//! Alternatives on the host: hash maps of a general library, filled by one thread, as their interface requires, and
//! queried by all threads; and an array sorted by all threads.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashMap, HashSet};
use rayon::prelude::*;

use koel::JoinKind;

use super::timing::{all_right, same};
use super::{Table, join};
use crate::Args;
use crate::data::Copies;
use crate::measure::{Row, median, wall};
use koel_cli::failure::Result;
use koel_cli::progress::Progress;

/// Rows per task.
const TASK: usize = 1 << 14;

/// Every peer of one table on one set of columns.
pub(super) fn measure(args: &Args, columns: &Copies, progress: &Progress) -> Result<Vec<Row>> {
    progress.say(format!("the host's own, {} rows", columns.keys.len()));
    let mut peer = Peer { args, columns, name: "hashbrown", rows: Vec::new() };
    peer.all::<DefaultHashBuilder>()?;
    #[cfg(feature = "bench-peers")]
    {
        peer.name = "hashbrown+fx";
        peer.all::<rustc_hash::FxBuildHasher>()?;
    }
    if args.table == Table::Group {
        peer.name = "sorted array";
        peer.sorted_groups()?;
    }
    Ok(peer.rows)
}

/// A peer, and its measurements.
struct Peer<'a> {
    args: &'a Args,
    columns: &'a Copies,
    name: &'static str,
    rows: Vec<Row>,
}

/// Counts and sums of the groups, by number, and the keys by number.
type Sums = (Vec<u32>, Vec<u32>, Vec<u64>);

impl Peer<'_> {
    fn all<H: BuildHasher + Default + Sync + Send>(&mut self) -> Result<()> {
        match self.args.table {
            Table::Map => Ok(()),
            Table::Set => self.set::<H>(),
            Table::Compact => self.ids::<H>(),
            Table::Multi => self.lists::<H>(),
            Table::Group => self.groups::<H>(),
            Table::Join => self.join::<H>(),
        }
    }

    /// The median time of `work`, whose results are all checked; returns the last result.
    fn time<R>(
        &mut self,
        (what, hits, count): (&'static str, Option<u32>, usize),
        work: impl Fn() -> R,
        check: impl Fn(&R) -> Result<()>,
    ) -> Result<R> {
        let (mut last, mut times) = (None, Vec::new());
        for _ in 0..self.args.repeats {
            drop(last.take());
            let (done, time) = wall(|| Ok(work()))?;
            check(&done)?;
            times.push(time);
            last = Some(done);
        }
        let row = Row::new("host", self.name, self.columns.keys.len() as u32, what, "host");
        self.rows.push(Row { hits, ..row }.timed(count, median(times)));
        Ok(last.unwrap_or_else(work))
    }

    fn set<H: BuildHasher + Default + Sync + Send>(&mut self) -> Result<()> {
        let columns = self.columns;
        let build = || HashSet::<u32, H>::from_iter(columns.keys.iter().copied());
        let check = |set: &HashSet<u32, H>| {
            all_right("a set", (set.len(), columns.unique.len()), &|i| set.contains(&columns.unique[i]))
        };
        let set = self.time(("build", None, columns.keys.len()), build, check)?;
        let (count, hits) = self.args.data.lookups(columns.keys.len() as u32);
        for &hits in hits {
            let queries = columns.queries(count, hits);
            let run_queries = || queries.par_iter().map(|key| set.contains(key)).collect::<Vec<bool>>();
            self.time(("contains", Some(hits), count), run_queries, |got| {
                all_right("contains", (got.len(), count), &|i| got[i] == columns.find(queries[i]).is_some())
            })?;
        }
        Ok(())
    }

    fn ids<H: BuildHasher + Default + Sync + Send>(&mut self) -> Result<()> {
        let columns = self.columns;
        let first: Vec<u32> = columns.first_seen().iter().map(|&number| columns.unique[number as usize]).collect();
        let build = || numbered::<H>(columns);
        let check = |(_, unique): &(HashMap<u32, u32, H>, Vec<u32>)| same("the list of keys", unique, &first);
        let (map, unique) = self.time(("build, ids as first seen", None, columns.keys.len()), build, check)?;
        let (count, hits) = self.args.data.lookups(columns.keys.len() as u32);
        for &hits in hits {
            let queries = columns.queries(count, hits);
            let run_queries = || queries.par_iter().map(|key| map.get(key).copied()).collect::<Vec<Option<u32>>>();
            self.time(("ids", Some(hits), count), run_queries, |got| {
                let key = |id: u32| unique.get(id as usize).copied();
                all_right("ids", (got.len(), count), &|i| match got[i] {
                    Some(id) => key(id) == Some(queries[i]),
                    None => columns.find(queries[i]).is_none(),
                })
            })?;
        }
        Ok(())
    }

    fn lists<H: BuildHasher + Default + Sync + Send>(&mut self) -> Result<()> {
        let columns = self.columns;
        let map = self.time(
            ("build", None, columns.keys.len()),
            || lists::<H>(columns, &columns.values),
            |map| {
                all_right("lists", (map.len(), columns.unique.len()), &|i| {
                    let list = map.get(&columns.unique[i]).map_or(&[][..], Vec::as_slice);
                    columns.values_of(columns.rows_of(i)).eq(list.iter().copied())
                })
            },
        )?;
        let (count, hits) = self.args.data.lookups(columns.keys.len() as u32);
        for &hits in hits {
            let queries = columns.queries(count, hits);
            let get = |key| map.get(key).map_or(&[][..], Vec::as_slice);
            let run_queries = || queries.par_iter().map(get).collect::<Vec<&[u32]>>();
            // The lists themselves were compared when they were built.
            self.time(("get", Some(hits), count), run_queries, |got| {
                let len = |i: usize| columns.find(queries[i]).map_or(0, |number| columns.rows_of(number).len());
                all_right("get", (got.len(), count), &|i| got[i].len() == len(i))
            })?;
        }
        Ok(())
    }

    fn groups<H: BuildHasher + Default + Sync + Send>(&mut self) -> Result<()> {
        let columns = self.columns;
        let work = || {
            let (mut ids, mut all) = (HashMap::<u32, usize, H>::default(), Sums::default());
            for (&key, &value) in columns.keys.iter().zip(&columns.values) {
                let id = *ids.entry(key).or_insert(all.0.len());
                if id == all.0.len() {
                    all.0.push(key);
                    all.1.push(0);
                    all.2.push(0);
                }
                all.1[id] += 1;
                all.2[id] += u64::from(value);
            }
            all
        };
        let order = columns.first_seen();
        let what = ("count and sum, as first seen", None, columns.keys.len());
        self.time(what, work, |all| sums_are_right(columns, &order, all)).map(drop)
    }

    fn sorted_groups(&mut self) -> Result<()> {
        let columns = self.columns;
        let work = || {
            let pack = |(&key, &value): (&u32, &u32)| u64::from(key) << 32 | u64::from(value);
            let mut words: Vec<u64> = columns.keys.par_iter().zip(&columns.values).map(pack).collect();
            words.par_sort_unstable();
            let mut all = Sums::default();
            for group in words.chunk_by(|a, b| a >> 32 == b >> 32) {
                all.0.push((group[0] >> 32) as u32);
                all.1.push(group.len() as u32);
                all.2.push(group.iter().map(|&word| u64::from(word as u32)).sum());
            }
            all
        };
        let order: Vec<u32> = (0..columns.unique.len() as u32).collect();
        let what = ("count and sum, ascending", None, columns.keys.len());
        self.time(what, work, |all| sums_are_right(columns, &order, all)).map(drop)
    }

    fn join<H: BuildHasher + Default + Sync + Send>(&mut self) -> Result<()> {
        let columns = self.columns;
        let numbers: Vec<u32> = (0..columns.keys.len() as u32).collect();
        let index = || lists::<H>(columns, &numbers);
        let map = self.time(("index", None, numbers.len()), index, |map| {
            all_right("an index", (map.len(), columns.unique.len()), &|i| {
                map.get(&columns.unique[i]).is_some_and(|rows| rows == columns.rows_of(i))
            })
        })?;
        let left = columns.each_once(true);
        let right = join::result(columns, &left, JoinKind::Inner);
        let of_task = |(task, keys): (usize, &[u32])| {
            let mut rows = (Vec::new(), Vec::new());
            for (row, key) in (task * TASK..).zip(keys) {
                for &right in map.get(key).into_iter().flatten() {
                    rows.0.push(row as u32);
                    rows.1.push(right);
                }
            }
            rows
        };
        let work = || {
            let parts: Vec<(Vec<u32>, Vec<u32>)> = left.par_chunks(TASK).enumerate().map(of_task).collect();
            let (left, right): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
            (left.concat(), right.concat())
        };
        self.time(("inner", None, right.0.len().max(left.len())), work, |rows| {
            same("left rows", &rows.0, &right.0)?;
            same("right rows", &rows.1, &right.1)
        })?;
        Ok(())
    }
}

/// A dense id for each key, in order of first occurrence, and the keys by id.
fn numbered<H: BuildHasher + Default>(columns: &Copies) -> (HashMap<u32, u32, H>, Vec<u32>) {
    let (mut ids, mut unique) = (HashMap::<u32, u32, H>::default(), Vec::new());
    for &key in &columns.keys {
        ids.entry(key).or_insert_with(|| {
            unique.push(key);
            unique.len() as u32 - 1
        });
    }
    (ids, unique)
}

/// The list of numbers of each key.
fn lists<H: BuildHasher + Default>(columns: &Copies, beside: &[u32]) -> HashMap<u32, Vec<u32>, H> {
    let mut lists = HashMap::<u32, Vec<u32>, H>::default();
    for (&key, &value) in columns.keys.iter().zip(beside) {
        lists.entry(key).or_default().push(value);
    }
    lists
}

/// Compares groups; group `i` must be that of key number `order[i]`.
fn sums_are_right(columns: &Copies, order: &[u32], (keys, counts, sums): &Sums) -> Result<()> {
    let rows = |i: usize| columns.rows_of(order[i] as usize);
    all_right("groups", (keys.len(), order.len()), &|i| {
        keys[i] == columns.unique[order[i] as usize]
            && counts[i] as usize == rows(i).len()
            && sums[i] == columns.values_of(rows(i)).map(u64::from).sum::<u64>()
    })
}
