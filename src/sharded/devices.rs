//! Work on all devices at a time: a thread of the host for each, its shards one after the other.
//!
//! Nothing moves between devices: each has a context and queues of its own, and what it needs comes from the host.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use crate::error::{Error, Result};

/// What `work` makes of each shard's item, in the order of shards; shard i is the work of thread i mod `devices`.
///
/// # Errors
/// Where keys come more than once, the least of them, whichever shards have such keys. Otherwise that of the first shard
/// that failed, of those that were tried: once one has failed, no other is begun.
pub(super) fn on_devices<T: Send, R: Send>(
    devices: usize,
    items: Vec<T>,
    work: impl Fn(usize, T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let mut shares: Vec<Vec<(usize, T)>> = (0..devices.max(1)).map(|_| Vec::new()).collect();
    let threads = shares.len();
    items.into_iter().enumerate().for_each(|(shard, item)| shares[shard % threads].push((shard, item)));
    let failed = AtomicBool::new(false);
    let of_share = |share: Vec<(usize, T)>| {
        let mut done = Vec::new();
        for (shard, item) in share {
            if failed.load(Relaxed) {
                break;
            }
            let result = work(shard, item);
            // A greater key than another shard's may be it: all have to be asked.
            if !matches!(result, Ok(_) | Err(Error::DuplicateKey { .. })) {
                failed.store(true, Relaxed);
            }
            done.push((shard, result));
        }
        done
    };
    let mut done: Vec<(usize, Result<R>)> = if threads == 1 {
        shares.into_iter().flat_map(of_share).collect()
    } else {
        thread::scope(|scope| {
            let started: Vec<_> = shares.into_iter().map(|share| scope.spawn(|| of_share(share))).collect();
            started.into_iter().flat_map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
        })
    };
    done.sort_unstable_by_key(|&(shard, _)| shard);
    let (mut results, mut least, mut other) = (Vec::with_capacity(done.len()), None, None);
    for (_, result) in done {
        match result {
            Ok(result) => results.push(result),
            Err(Error::DuplicateKey { key }) => least = Some(least.map_or(key, |least: u64| least.min(key))),
            Err(error) => other = other.or(Some(error)),
        }
    }
    match (other, least) {
        (Some(error), _) => Err(error),
        (None, Some(key)) => Err(Error::DuplicateKey { key }),
        (None, None) => Ok(results),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_order_and_errors_are_one() {
        for devices in [1, 2, 3, 9] {
            let items: Vec<usize> = (0..7).collect();
            let done = on_devices(devices, items.clone(), |shard, item| Ok((shard, 10 * item)));
            assert_eq!(done.ok(), Some((0..7).map(|i| (i, 10 * i)).collect()));
            let twice = |shard: usize, _| match shard {
                1 => Err(Error::DuplicateKey { key: 90 }),
                4 => Err(Error::DuplicateKey { key: 30 }),
                _ => Ok(()),
            };
            assert!(matches!(on_devices(devices, items.clone(), twice), Err(Error::DuplicateKey { key: 30 })));
            let lost = |shard: usize, _| match shard {
                0 => Err(Error::DuplicateKey { key: 90 }),
                2 => Err(Error::WrongDevice),
                _ => Ok(()),
            };
            assert!(matches!(on_devices(devices, items, lost), Err(Error::WrongDevice)));
        }
    }
}
