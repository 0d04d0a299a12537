//! The alternative on the host: a general hash map of the same pairs, filled by one thread, with a given capacity, and
//! queried by all threads.

use std::hash::{BuildHasher, Hash};

use hashbrown::{DefaultHashBuilder, HashMap};
use koel::backend::Word;
use rayon::prelude::*;

use super::tables::{HITS, number};
use super::{Case, Row, key, median, value};
use crate::measure::wall;
use crate::wrong;
use koel_cli::failure::Result;

/// Queries per task, such that tasks do not share words of the bitmap.
const TASK: usize = 1 << 14;

impl Case<'_> {
    /// Builds and lookups of hashbrown's map with its default hash, and with rustc's hash if it is available.
    pub(super) fn peers<K: Word + Hash + Eq, V: Word>(&self) -> Result<Vec<Row>> {
        let rows = self.peer::<K, V, DefaultHashBuilder>("hashbrown")?;
        #[cfg(feature = "bench-peers")]
        let rows = rows.into_iter().chain(self.peer::<K, V, rustc_hash::FxBuildHasher>("hashbrown+fx")?).collect();
        Ok(rows)
    }

    fn peer<K: Word + Hash + Eq, V: Word, H: BuildHasher + Default + Sync>(&self, name: &str) -> Result<Vec<Row>> {
        let (n, repeats) = (self.n, self.args.repeats);
        let row = |what, count, hits, times| Row {
            what,
            scheme: "",
            columns: self.columns,
            device: name.into(),
            n,
            count,
            load: None,
            hits,
            time: median(times),
            stages: Vec::new(),
        };
        let pairs: Vec<(K, V)> = (0..n).map(|number| (key(number), value(number, true))).collect();
        let (mut map, mut times) = (HashMap::default(), Vec::new());
        for _ in 0..repeats {
            // Freed before the next build, which reuses its memory.
            drop(std::mem::take(&mut map));
            let (filled, time) = wall(|| {
                let mut map = HashMap::<K, V, H>::with_capacity_and_hasher(pairs.len(), H::default());
                map.extend(pairs.iter().copied());
                Ok(map)
            })?;
            map = filled;
            times.push(time);
        }
        drop(pairs);
        let mut rows = vec![row("build", n, None, times)];
        let queried = self.queried();
        for hits in HITS {
            let queries: Vec<K> = (0..queried).map(|i| key(number(i, n, hits))).collect();
            let (mut values, mut found) = (vec![V::low(1); queries.len()], vec![1u32; queries.len().div_ceil(32)]);
            let mut times = Vec::new();
            for _ in 0..repeats {
                let ((), time) = wall(|| {
                    let to = values.par_chunks_mut(TASK).zip(found.par_chunks_mut(TASK / 32));
                    queries
                        .par_chunks(TASK)
                        .zip(to)
                        .for_each(|(queries, (values, found))| answer(&map, queries, values, found));
                    Ok(())
                })?;
                times.push(time);
            }
            for i in 0..queried {
                let (at, number) = (i as usize, number(i, n, hits));
                let right = if number < n { value(number, true) } else { V::low(0) };
                if found[at / 32] >> (at % 32) & 1 != u32::from(number < n) || values[at] != right {
                    return Err(wrong(name, format!("query {i} has another answer")));
                }
            }
            rows.push(row("lookup", queried, Some(hits), times));
        }
        Ok(rows)
    }
}

/// Writes the output that koel's lookups write: values and a bitmap.
#[inline(always)]
fn answer<K: Hash + Eq, V: Word, H: BuildHasher>(
    map: &HashMap<K, V, H>,
    queries: &[K],
    values: &mut [V],
    found: &mut [u32],
) {
    for ((queries, values), found) in queries.chunks(32).zip(values.chunks_mut(32)).zip(found) {
        let mut bits = 0;
        for (i, (query, value)) in queries.iter().zip(values).enumerate() {
            let answer = map.get(query).copied();
            *value = answer.unwrap_or(V::low(0));
            bits |= u32::from(answer.is_some()) << i;
        }
        *found = bits;
    }
}
