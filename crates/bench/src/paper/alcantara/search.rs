//! Section 4.3.1: a serial algorithm that, instead of following one chain, searches for an empty slot in every
//! direction, and moves only the pairs on the shortest path to it.
//!
//! ```text
//! place:   queue = the slots of the key
//!          for each slot of the queue, in order:
//!              empty:  move each key on the path to it one slot on, and the new key into the first slot of the path
//!              taken:  append the other slots of the slot's key to the queue, each slot once
//!          queue ends: no order of moves frees a slot
//! ```
//!
//! So it fails only if no table of these keys exists with these constants, while a chain is cut off at a length. It is
//! not parallel, and no scheme of koel builds by it; buckets are searched like this
//! (`src/scheme/bucketized/classic.rs`).

use koel::Cuckoo;
use koel::scheme::cuckoo::classic::{EMPTY, EMPTY_KEY, entry, key};
use koel::scheme::cuckoo::{CuckooPlan, Functions, classic};
use koel::scheme::{Placing, Request, Scheme};

use super::SMALLEST;
use crate::figure::{Axis, Figure};
use crate::paper::bench::Bench;
use koel_cli::failure::Result;

/// Slots per pair.
const SPACES: [f64; 10] = [1.02, 1.03, 1.05, 1.1, 1.15, 1.25, 1.42, 1.7, 2.1, 3.0];

pub(super) fn measure(bench: &Bench<'_>) -> Result<Vec<Figure>> {
    let n = bench.size(1 << 17);
    let keys = koel::workload::Workload::new(n, bench.seed()).keys();
    let (x, y) = (Axis::linear("slots a pair", ""), Axis::log("slots of each pair", ""));
    let title = format!("slots written by chains, and written and looked at by searches, {n} pairs");
    let mut figure = Figure::new(("search", "Section 4.3.1"), title, "host, one thread", x, y);
    figure.note("means over the pairs; a chain looks at what it writes");
    for space in SPACES {
        for (functions, _) in SMALLEST.into_iter().filter(|&(_, smallest)| space >= smallest) {
            bench.progress.say(format!("searches of {functions} functions in {space} N"));
            let slots = koel::Load::new(1.0 / space)?.slots_for(n.into());
            let request = Request { slots, pairs: n.into(), seed: bench.seed(), attempt: 0 };
            let plan = Cuckoo::classic(functions).plan(request)?;
            let mut point = |what: &str, slots: Option<u64>| match slots {
                Some(slots) => figure.point(format!("H = {functions}, {what}"), space, slots as f64 / f64::from(n)),
                None => figure.note(format!("H = {functions} in {space} N: {what} found no room")),
            };
            point("chains", chains(&plan, &keys));
            match searches(&plan, &keys) {
                Ok((written, seen)) => {
                    point("search", Some(written));
                    point("search, looked at", Some(seen));
                }
                Err(_) => point("search", None),
            }
        }
    }
    Ok(vec![figure])
}

/// The number of slots that chains write for all keys.
fn chains(plan: &CuckooPlan, keys: &[u32]) -> Option<u64> {
    let mut image = vec![EMPTY; plan.functions().slots as usize];
    keys.iter().try_fold(0, |sum, &key| match classic::place_counted(plan, &mut image, key, 0) {
        (Placing::Unplaced, _) => None,
        (_, tried) => Some(sum + u64::from(tried)),
    })
}

/// The numbers of slots that searches write and read for all keys; or the number of keys placed before a search failed.
fn searches(plan: &CuckooPlan, keys: &[u32]) -> std::result::Result<(u64, u64), usize> {
    let functions = plan.functions();
    let mut search = Search::new(&functions);
    let (mut written, mut seen) = (0, 0);
    for (placed, &key) in keys.iter().enumerate().filter(|(_, key)| **key != EMPTY_KEY) {
        let (way, looked) = search.place(key).ok_or(placed)?;
        written += way;
        seen += looked;
    }
    Ok((written, seen))
}

/// A table that is filled by search.
struct Search<'a> {
    functions: &'a Functions,
    image: Vec<u64>,
    /// The number of the last search that visited each slot.
    seen: Vec<u32>,
    number: u32,
    /// Slots in the order in which they are visited, each with the index in this list of the slot before it on its
    /// path.
    queue: Vec<(u32, usize)>,
}

/// The predecessor of the first slot of a path.
const START: usize = usize::MAX;

impl<'a> Search<'a> {
    fn new(functions: &'a Functions) -> Search<'a> {
        let slots = functions.slots as usize;
        Search { functions, image: vec![EMPTY; slots], seen: vec![0; slots], number: 0, queue: Vec::new() }
    }

    /// Inserts a key that is absent. Returns the numbers of slots written and visited, or `None` if there is no path.
    fn place(&mut self, new: u32) -> Option<(u64, u64)> {
        self.number += 1;
        self.queue.clear();
        let mut found = self.join(new, START);
        let mut next = 0;
        while found.is_none() {
            let &(slot, _) = self.queue.get(next)?;
            found = self.join(key(self.image[slot as usize]), next);
            next += 1;
        }
        // From the empty slot back to the first slot of the path.
        let (mut at, mut written) = (found?, 1);
        while self.queue[at].1 != START {
            let (slot, before) = self.queue[at];
            self.image[slot as usize] = self.image[self.queue[before].0 as usize];
            (at, written) = (before, written + 1);
        }
        self.image[self.queue[at].0 as usize] = entry(new, 0);
        Some((written, self.queue.len() as u64))
    }

    /// Appends the unvisited slots of a key to the queue, up to an empty one, which is returned.
    fn join(&mut self, key_there: u32, before: usize) -> Option<usize> {
        for slot in self.functions.locations(key_there) {
            if std::mem::replace(&mut self.seen[slot as usize], self.number) == self.number {
                continue;
            }
            self.queue.push((slot, before));
            if self.image[slot as usize] == EMPTY {
                return Some(self.queue.len() - 1);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use koel::scheme::hash::{MixKeys, mix};

    use super::*;

    fn plan(functions: u32, pairs: u32, slots: u64) -> CuckooPlan {
        let request = Request { slots, pairs: pairs.into(), seed: 5, attempt: 0 };
        Cuckoo::classic(functions).plan(request).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn every_key_is_in_one_of_its_slots() {
        let keys: Vec<u32> = (0..10_000).map(|i| mix(i, MixKeys::default())).collect();
        for (functions, slots) in [(2, 21_500), (3, 11_200), (4, 10_400), (5, 10_200)] {
            let plan = plan(functions, 10_000, slots);
            let functions = plan.functions();
            let mut search = Search::new(&functions);
            let (mut written, mut seen) = (0, 0);
            for &key in &keys {
                let (way, looked) = search.place(key).unwrap_or_else(|| panic!("no room in {slots} slots"));
                (written, seen) = (written + way, seen + looked);
            }
            assert_eq!(classic::audit(&functions, &search.image, 0..slots).map(|audit| audit.pairs), Ok(10_000));
            assert!(keys.iter().all(|&key| classic::search(&plan, &search.image, key).1 == Some(0)));
            // A chain stops at the first empty slot that it meets; the shortest path is not longer on average.
            let chains = chains(&plan, &keys);
            assert!(chains.is_none_or(|chains| written < chains) && written <= seen, "{written} {seen} {chains:?}");
        }
    }

    /// Up to the threshold of random functions all keys can be placed, and beyond it they cannot.
    #[test]
    fn it_gives_up_where_there_is_no_table() {
        let keys: Vec<u32> = (0..20_000).map(|i| mix(i, MixKeys::default())).collect();
        assert!(searches(&plan(3, 20_000, 22_200), &keys).is_ok(), "load 0.90, and the threshold is 0.918");
        let placed = searches(&plan(3, 20_000, 21_300), &keys);
        assert!(placed.is_err_and(|placed| placed > 18_000), "load 0.94: {placed:?}");
    }
}
