//! Every pair to its home: first counted, then given room, then dealt.
//!
//! ```text
//! count      rank of a pair = fetch_add(the count of its home)                 kept in a byte
//! give room  where each crowded home's crowd begins: a prefix sum over the buckets
//! deal       rank < S: word `rank` of the home;   else word rank - S of its crowd
//! ```
//!
//! Keys are hashed twice, because that costs less than to keep what was hashed. Counting first tells how much memory is
//! needed, and that a home is overfull, before anything is written: a million copies of one key are a million additions
//! to one count, and no list of them is ever made.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::build::{Build, Header, crowd_of};
use crate::backend::Placed;
use crate::cpu::CHUNK;
use crate::cpu::ahead::each_place;
use crate::cpu::block::{Pairs, sum};
use crate::cpu::memory::prefetch;
use crate::error::Result;
use crate::parallel::{Per, collect, each, fold};
use crate::scheme::horton::Functions;
use crate::scheme::horton::tokens::{self, EMPTY_KEY, GROUP_MAX};

/// The rank of the empty marker's key, which has no place.
const NO_RANK: u8 = u8::MAX;

/// Counts the keys of each home and gives each pair its rank there. Of the result, `copies` is how often the empty
/// marker's key came, and `outside` its greatest value.
pub(super) fn count(functions: &Functions, headers: &[AtomicU64], pairs: Pairs<'_>, ranks: &mut [u8]) -> Placed {
    let of_chunk = |_, (keys, values, ranks): (&[u32], &[u32], &mut [u8])| {
        let mut placed = Placed::default();
        let visit = |i: usize, home: u32| {
            if keys[i] == EMPTY_KEY {
                placed.copies += 1;
                placed.outside = placed.outside.max(Some(values[i]));
                ranks[i] = NO_RANK;
                return;
            }
            let before = headers[home as usize].fetch_add(1, Relaxed);
            ranks[i] = before.min(u64::from(GROUP_MAX)) as u8;
        };
        each_place(keys, |keys| functions.mixed_home(keys).0, |_, home| prefetch(headers, home as usize), visit);
        placed
    };
    fold((pairs.keys, pairs.values, ranks), CHUNK, of_chunk, sum)
}

/// Writes to the header of every home where its crowd begins. Returns the words of all crowds, and how many homes are
/// overfull; if any are, or if more keys came than there are, nothing is written.
pub(super) fn give_room<const S: usize>(headers: &[AtomicU64]) -> Result<(usize, u64)> {
    let keys = |header: &AtomicU64| header.load(Relaxed);
    let of_chunk = |_, chunk: &[AtomicU64]| {
        let overfull = chunk.iter().filter(|header| keys(header) > u64::from(GROUP_MAX)).count() as u64;
        (chunk.iter().map(|header| crowd_of::<S>(keys(header) as u32)).sum::<usize>(), overfull)
    };
    let mut chunks = collect(headers, CHUNK, of_chunk)?;
    let overfull = chunks.iter().map(|(_, overfull)| overfull).sum::<u64>();
    let room = chunks.iter().map(|(room, _)| room).sum();
    if overfull > 0 || u32::try_from(room).is_err() {
        // So many crowded keys can only be copies; with one pair left over, that is found out elsewhere.
        return Ok((0, overfull.max(1)));
    }
    let mut end = 0;
    for (room, _) in &mut chunks {
        (*room, end) = (end, end + *room);
    }
    each((headers, Per(CHUNK, &chunks[..])), CHUNK, |_, (chunk, Per(_, of_chunk))| {
        let mut start = of_chunk[0].0 as u32;
        for header in chunk {
            let keys = header.load(Relaxed) as u32;
            header.store(Header { keys, upper: start }.word(), Relaxed);
            start = start.wrapping_add(crowd_of::<S>(keys) as u32);
        }
    });
    Ok((room, 0))
}

/// Stores every pair at its home.
pub(super) fn deal<const S: usize>(build: Build<'_, S>, pairs: Pairs<'_>, ranks: &[u8]) {
    let Build { functions, image, headers, crowd } = build;
    each((pairs.keys, pairs.values, ranks), CHUNK, |_, (keys, values, ranks)| {
        let ahead = |i: usize, home: u32| {
            // What is beyond S goes to the crowd, whose place the header tells.
            let rank = usize::from(ranks[i]);
            if rank < S { prefetch(image, home as usize * S + rank) } else { prefetch(headers, home as usize) }
        };
        let visit = |i: usize, home: u32| {
            let word = tokens::word(keys[i], values[i]);
            let rank = usize::from(ranks[i]);
            if rank < S {
                image[home as usize * S + rank].store(word, Relaxed);
            } else if ranks[i] != NO_RANK {
                let header = Header::of(headers[home as usize].load(Relaxed));
                crowd[header.upper as usize + rank - S].store(word, Relaxed);
            }
        };
        each_place(keys, |keys| functions.mixed_home(keys).0, ahead, visit);
    });
}
