//! Replays the reads of a kernel to compute which of them hit the first cache of their multiprocessor.
//!
//! ```text
//! group g runs on multiprocessor g mod M; each runs a fixed number of groups, and starts the next when one ends
//! in each round, each resident warp reads once: each of its active lanes reads the cell of its next step
//! lanes that can fill a line are combined; each of their lines is a request, which hits or misses
//! ```
//!
//! It does not model time. Warps take turns, because it does not simulate which of them waits for memory, and how long;
//! and all reads are reads of the table.

use rayon::prelude::*;

use super::cache::{Cache, Shape};

/// The properties of a device that affect the first caches of its multiprocessors.
#[derive(Clone, Copy, Debug)]
pub(super) struct Machine {
    pub(super) multiprocessors: usize,
    /// Groups that are resident on a multiprocessor at a time.
    pub(super) resident: usize,
    /// Work-items per group.
    pub(super) group: usize,
    /// Work-items that read together.
    pub(super) warp: usize,
    /// The cache of each multiprocessor.
    pub(super) cache: Shape,
}

/// The reads of queries.
pub(super) trait Trace: Sync {
    /// Bytes per cell.
    const CELL: u32;

    fn queries(&self) -> usize;

    /// The start of a query, and the number of cells that it reads.
    fn begin(&self, query: usize) -> Path;

    /// The address of the cell that it reads at a step, counted from 1.
    fn address(&self, path: Path, step: u32) -> u64;
}

/// The reads of one query.
#[derive(Clone, Copy)]
pub(super) struct Path {
    pub(super) start: u32,
    pub(super) steps: u32,
}

/// The result of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Requests {
    pub(super) hits: u64,
    pub(super) misses: u64,
}

impl Requests {
    /// The share of hits.
    pub(super) fn share(self) -> f64 {
        self.hits as f64 / ((self.hits + self.misses) as f64).max(1.0)
    }

    fn with(self, other: Requests) -> Requests {
        Requests { hits: self.hits + other.hits, misses: self.misses + other.misses }
    }
}

/// Work-items that read together, and their next step.
struct Warp {
    lanes: Vec<Path>,
    step: u32,
}

impl Machine {
    /// Replays one query per work-item; the caches are empty at the start.
    pub(super) fn replay<T: Trace>(&self, trace: &T) -> Requests {
        let of = |multiprocessor| self.multiprocessor(trace, multiprocessor);
        (0..self.multiprocessors).into_par_iter().map(of).reduce(Requests::default, Requests::with)
    }

    fn multiprocessor<T: Trace>(&self, trace: &T, at: usize) -> Requests {
        let groups = trace.queries().div_ceil(self.group);
        let mut waiting = (at..groups).step_by(self.multiprocessors).map(|group| self.warps(trace, group));
        let mut resident: Vec<Vec<Warp>> = waiting.by_ref().take(self.resident).collect();
        let (mut cache, mut requests) = (Cache::empty(self.cache), Requests::default());
        while !resident.is_empty() {
            for group in &mut resident {
                for warp in &mut *group {
                    self.read(trace, warp, &mut cache, &mut requests);
                }
                group.retain(|warp| warp.lanes.iter().any(|lane| lane.steps >= warp.step));
                if group.is_empty() {
                    group.extend(waiting.next().unwrap_or_default());
                }
            }
            resident.retain(|group| !group.is_empty());
        }
        requests
    }

    /// The warps of a group, before their first step.
    fn warps<T: Trace>(&self, trace: &T, group: usize) -> Vec<Warp> {
        let queries: Vec<usize> = (group * self.group..trace.queries().min((group + 1) * self.group)).collect();
        let warp = |of: &[usize]| Warp { lanes: of.iter().map(|&query| trace.begin(query)).collect(), step: 1 };
        queries.chunks(self.warp).map(warp).collect()
    }

    /// One read of a warp.
    fn read<T: Trace>(&self, trace: &T, warp: &mut Warp, cache: &mut Cache, requests: &mut Requests) {
        let together = (self.cache.line / T::CELL).max(1) as usize;
        let mut lines: Vec<u64> = Vec::with_capacity(together);
        for lanes in warp.lanes.chunks(together) {
            lines.clear();
            for &lane in lanes.iter().filter(|lane| lane.steps >= warp.step) {
                let line = self.cache.line_of(trace.address(lane, warp.step));
                if !lines.contains(&line) {
                    lines.push(line);
                }
            }
            for &line in &lines {
                if cache.read(line) {
                    requests.hits += 1;
                } else {
                    requests.misses += 1;
                }
            }
        }
        warp.step += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two multiprocessors, each with one resident group of two warps, and with caches of two sets of two lines.
    const TINY: Machine =
        Machine { multiprocessors: 2, resident: 1, group: 64, warp: 32, cache: Shape { sets: 2, ways: 2, line: 128 } };

    /// Queries that each read a number of cells, from separate starts, in steps of a fixed number of cells.
    struct Cells {
        queries: usize,
        place: fn(usize) -> u32,
        steps: fn(usize) -> u32,
        farther: u64,
    }

    impl Trace for Cells {
        const CELL: u32 = 8;

        fn queries(&self) -> usize {
            self.queries
        }

        fn begin(&self, query: usize) -> Path {
            Path { start: (self.place)(query), steps: (self.steps)(query) }
        }

        fn address(&self, path: Path, step: u32) -> u64 {
            8 * (u64::from(path.start) + self.farther * u64::from(step - 1))
        }
    }

    fn replay(machine: Machine, place: fn(usize) -> u32, steps: fn(usize) -> u32, queries: usize) -> (u64, u64) {
        let Requests { hits, misses } = machine.replay(&Cells { queries, place, steps, farther: 1 << 20 });
        (hits, misses)
    }

    #[test]
    fn a_warp_of_neighbours_makes_a_request_for_each_half_and_one_more_for_each_that_lies_across() {
        let cells = |query| query as u32;
        assert_eq!(replay(TINY, cells, |_| 1, 32), (0, 2));
        // The cells of a half are in two lines: 0 and 1, or 1 and 2.
        let across = |query| query as u32 + 5;
        assert_eq!(replay(TINY, across, |_| 1, 32), (1, 3));
        // All queries read one cell: one request per half.
        assert_eq!(replay(TINY, |_| 3, |_| 1, 32), (1, 1));
        // Each query reads a separate line, and all lines are in one set.
        assert_eq!(replay(TINY, |query| 32 * query as u32, |_| 1, 32), (0, 32));
    }

    /// All groups read one line, and each multiprocessor has a separate cache.
    #[test]
    fn groups_go_to_the_multiprocessors_in_turn() {
        let one_line = |query| (query % 16) as u32;
        // Four halves per group.
        assert_eq!(replay(TINY, one_line, |_| 1, 64), (4 - 1, 1));
        assert_eq!(replay(TINY, one_line, |_| 1, 192), (12 - 2, 2));
        assert_eq!(replay(Machine { multiprocessors: 3, ..TINY }, one_line, |_| 1, 192), (12 - 3, 3));
        // The last group is not full.
        assert_eq!(replay(TINY, one_line, |_| 1, 64 + 16), (5 - 2, 2));
    }

    #[test]
    fn lanes_that_have_ended_read_no_more() {
        // One lane of each half continues for two more steps; its lines are far from the first.
        let one = |query| if query % 16 == 0 { 3 } else { 1 };
        assert_eq!(replay(TINY, |query| query as u32, one, 32), (0, 2 + 2 * 2));
        // Nothing to read.
        assert_eq!(replay(TINY, |query| query as u32, |_| 0, 200), (0, 0));
        assert_eq!(replay(TINY, |query| query as u32, |_| 1, 0), (0, 0));
    }

    /// Two groups that take turns evict each other's lines, while one after the other each keeps its lines.
    #[test]
    fn groups_that_are_there_together_share_the_cache() {
        // A group reads two lines of one set repeatedly; the next group of this multiprocessor reads two other lines of
        // it.
        let place = |query: usize| [0, 32][query / 16 % 2] + 64 * (query / 64) as u32;
        let trace = Cells { queries: 128, place, steps: |_| 10, farther: 0 };
        let alone = Machine { multiprocessors: 1, ..TINY };
        let requests = 2 * 2 * 2 * 10;
        assert_eq!(alone.replay(&trace), Requests { hits: requests - 4, misses: 4 });
        let together = Machine { resident: 2, ..alone };
        // The next warp of the group reads the two lines of a warp, which are evicted before the next round.
        assert_eq!(together.replay(&trace), Requests { hits: requests / 2, misses: requests / 2 });
    }
}
