//! Work on all devices at a time: a thread of the host for each, its shards one after the other.
//!
//! Each device has a context and queues of its own; what one has of another's shards goes by way of the host (exchange.rs).
//!
//! ```text
//! the caller's thread    the shards of one device, then waits
//! a thread each          those of the others
//! ```
//!
//! The caller may be a thread of rayon's: it waits as [`threads::wait_for`] does.

use std::panic::resume_unwind;
use std::thread;

use crate::error::{Error, Result};
use crate::memory::HERE;
use crate::threads::{self, Crew};

/// Shards of one device, by number, with what is to be worked on; and what became of them.
type Share<T> = Vec<(usize, T)>;

/// What `work` makes of each shard's item, in the order of shards; shard i is the work of device i mod `devices`.
///
/// # Errors
/// Of errors of devices and of this machine that of the first shard among those that were tried: once there is one, no
/// other shard is begun. Otherwise, where keys come more than once, the least of them, whichever shards have such keys;
/// otherwise that of the first shard.
pub(super) fn on_devices<T: Send, R: Send>(
    devices: usize,
    items: Vec<T>,
    work: impl Fn(usize, T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let count = items.len();
    let mut shares: Vec<Share<T>> = (0..devices.clamp(1, count.max(1))).map(|_| Vec::new()).collect();
    let threads = shares.len();
    items.into_iter().enumerate().for_each(|(shard, item)| shares[shard % threads].push((shard, item)));
    let crew = Crew::default();
    let of_share = |share: Share<T>| -> Share<Result<R>> {
        let mut done = Vec::with_capacity(share.len());
        for (shard, item) in share {
            if crew.has_ended() {
                break;
            }
            let result = work(shard, item);
            if result.as_ref().is_err_and(|error| !is_of_contents(error)) {
                crew.end();
            }
            done.push((shard, result));
        }
        done
    };
    let mine = shares.pop().unwrap_or_default();
    let mut done = thread::scope(|scope| {
        let _leader = crew.leader();
        let mut started = Vec::with_capacity(shares.len());
        for (number, share) in shares.into_iter().enumerate() {
            let of_share = &of_share;
            let in_thread = move || threads::ready().map(|()| of_share(share));
            started.push(crew.start(scope, number, in_thread)?);
        }
        let mut done = of_share(mine);
        for thread in started {
            threads::wait_for(|| thread.is_finished());
            done.extend(thread.join().unwrap_or_else(|panic| resume_unwind(panic))?);
        }
        Ok::<_, Error>(done)
    })?;
    done.sort_unstable_by_key(|&(shard, _)| shard);
    let (mut results, mut first, mut least, mut fatal) = (Vec::with_capacity(count), None, None, None);
    for (_, result) in done {
        match result {
            Ok(result) => results.push(result),
            Err(Error::DuplicateKey { key }) => least = Some(least.map_or(key, |least: u64| least.min(key))),
            Err(error) if is_of_contents(&error) => first = first.or(Some(error)),
            Err(error) => fatal = fatal.or(Some(error)),
        }
    }
    match fatal.or(least.map(|key| Error::DuplicateKey { key })).or(first) {
        Some(error) => Err(error),
        None => Ok(results),
    }
}

/// Whether a device has no room, so that a way that takes less of it may do. Where this machine has none, no other way has.
pub(super) fn lacks_room(error: &Error) -> bool {
    match error {
        Error::OutOfMemory { device, .. } => device != HERE,
        error => matches!(error, Error::TooLarge { .. }),
    }
}

/// Whether an error follows from what a shard holds, or is to hold, and so comes on every device and every time.
pub(super) fn is_of_contents(error: &Error) -> bool {
    matches!(
        error,
        Error::DuplicateKey { .. }
            | Error::TooFull { .. }
            | Error::Crowded { .. }
            | Error::TooWide { .. }
            | Error::TooLarge { .. }
            | Error::Damaged(_)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheme::Violation;

    #[test]
    fn results_are_in_order_and_errors_are_one() {
        for devices in [1, 2, 3, 9] {
            let items: Vec<usize> = (0..7).collect();
            let done = on_devices(devices, items.clone(), |shard, item| Ok((shard, 10 * item)));
            assert_eq!(done.ok(), Some((0..7).map(|i| (i, 10 * i)).collect()));
            assert!(on_devices(devices, Vec::new(), |_, ()| Ok(())).is_ok_and(|done| done.is_empty()));
            let twice = |shard: usize, _| match shard {
                0 => Err(Violation::Salt.into()),
                1 => Err(Error::DuplicateKey { key: 90 }),
                4 => Err(Error::DuplicateKey { key: 30 }),
                _ => Ok(()),
            };
            assert!(matches!(on_devices(devices, items.clone(), twice), Err(Error::DuplicateKey { key: 30 })));
            let damaged = |shard: usize, _| match shard {
                3 => Err(Violation::Salt.into()),
                5 => Err(Violation::Unsorted { bucket: 1 }.into()),
                _ => Ok(()),
            };
            assert!(matches!(on_devices(devices, items.clone(), damaged), Err(Error::Damaged(Violation::Salt))));
            let lost = |shard: usize, _| match shard {
                0 => Err(Error::DuplicateKey { key: 90 }),
                2 => Err(Error::WrongDevice),
                _ => Ok(()),
            };
            assert!(matches!(on_devices(devices, items, lost), Err(Error::WrongDevice)));
        }
    }

    #[test]
    fn a_panic_is_the_callers() {
        let panics =
            || drop(on_devices(3, vec![0, 1, 2], |shard, _| if shard == 1 { panic!("planted") } else { Ok(()) }));
        assert!(std::panic::catch_unwind(panics).is_err());
    }
}
