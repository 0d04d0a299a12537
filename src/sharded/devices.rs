//! Runs work on all devices at once: one host thread per device, which works on the shards of that device in order.
//!
//! Each device has its own context and queues; data moves between devices through the host (exchange.rs).
//!
//! ```text
//! calling thread    the shards of one device, then waits
//! other threads     the shards of one other device each
//! ```
//!
//! The calling thread may belong to a rayon pool: it waits with [`threads::wait_for`].
//!
//! Work is passed as `dyn Fn`. It runs once per shard, so the indirect call costs nothing measurable, and threads and
//! the choice of the error ([`run`]) are compiled once instead of once per closure.

use std::panic::resume_unwind;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::error::{Error, Result};
use crate::memory::HERE;
use crate::threads::{self, Workers};

/// Calls `work` with each item and the number of its shard, and returns the results in the order of the shards. Shard i
/// runs on the thread of device i mod `devices`.
///
/// # Errors
/// As [`map_shards`].
pub(super) fn on_devices<T: Send, R: Send>(
    devices: usize,
    items: Vec<T>,
    work: &(dyn Fn(usize, T) -> Result<R> + Sync),
) -> Result<Vec<R>> {
    let items: Vec<_> = items.into_iter().map(|item| Mutex::new(Some(item))).collect();
    map_shards(devices, items.len(), &|shard| {
        let item = lock(&items[shard]).take().expect("each shard is worked on once");
        work(shard, item)
    })
}

/// As [`on_devices`], without items: calls `work` with each of the numbers 0 to `shards`.
///
/// # Errors
/// The first error other than those of [`is_of_contents`], by number of the shard, among the shards that were worked
/// on: after such an error no other shard is started. Otherwise, if there are duplicate keys, the least one in any
/// shard; otherwise the error of the first shard that has one.
pub(super) fn map_shards<R: Send>(
    devices: usize,
    shards: usize,
    work: &(dyn Fn(usize) -> Result<R> + Sync),
) -> Result<Vec<R>> {
    let mut results = Vec::with_capacity(shards);
    results.resize_with(shards, || None);
    let shared = Mutex::new(results);
    run(devices, shards, &|shard| {
        let result = work(shard)?;
        lock(&shared)[shard] = Some(result);
        Ok(())
    })?;
    let mut all = Vec::with_capacity(shards);
    for result in shared.into_inner().unwrap_or_else(PoisonError::into_inner) {
        all.extend(result);
    }
    Ok(all)
}

/// Locks a mutex that is never locked while code of the caller runs, so that it cannot be poisoned.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// As [`map_shards`], without results. This function has no type parameters, so that it is compiled once.
fn run(devices: usize, shards: usize, work: &(dyn Fn(usize) -> Result<()> + Sync)) -> Result<()> {
    let threads = devices.clamp(1, shards.max(1));
    let workers = Workers::default();
    let on_device = |device: usize| {
        let mut errors = Vec::new();
        for shard in (device..shards).step_by(threads) {
            if workers.has_ended() {
                break;
            }
            if let Err(error) = work(shard) {
                if !is_of_contents(&error) {
                    workers.end();
                }
                errors.push((shard, error));
            }
        }
        errors
    };
    let errors = thread::scope(|scope| {
        let _leader = workers.leader();
        let mut started = Vec::with_capacity(threads - 1);
        for device in 0..threads - 1 {
            let on_device = &on_device;
            let in_thread = move || threads::ready().map(|()| on_device(device));
            started.push(workers.start(scope, device, in_thread)?);
        }
        let mut errors = on_device(threads - 1);
        for thread in started {
            threads::wait_for(|| thread.is_finished());
            errors.extend(thread.join().unwrap_or_else(|panic| resume_unwind(panic))?);
        }
        Ok::<_, Error>(errors)
    })?;
    match reported(errors) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// The error to report, of those of several shards.
fn reported(mut errors: Vec<(usize, Error)>) -> Option<Error> {
    errors.sort_unstable_by_key(|&(shard, _)| shard);
    let (mut first, mut least, mut fatal) = (None, None, None);
    for (_, error) in errors {
        match error {
            Error::DuplicateKey { key } => least = Some(least.map_or(key, |least: u64| least.min(key))),
            error if is_of_contents(&error) => first = first.or(Some(error)),
            error => fatal = fatal.or(Some(error)),
        }
    }
    fatal.or(least.map(|key| Error::DuplicateKey { key })).or(first)
}

/// Whether a device ran out of memory, so that a strategy that takes less device memory may succeed. If the host ran
/// out of memory, no other strategy would succeed.
pub(super) fn is_out_of_memory(error: &Error) -> bool {
    match error {
        Error::OutOfMemory { device, .. } => device != HERE,
        error => matches!(error, Error::TooLarge { .. }),
    }
}

/// Whether an error depends only on the contents of a shard, so that it recurs on every device.
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
    fn results_are_in_order_and_one_error_is_reported() {
        for devices in [1, 2, 3, 9] {
            let items: Vec<usize> = (0..7).collect();
            let done = on_devices(devices, items.clone(), &|shard, item| Ok((shard, 10 * item)));
            assert_eq!(done.ok(), Some((0..7).map(|i| (i, 10 * i)).collect()));
            assert!(on_devices(devices, Vec::new(), &|_, ()| Ok(())).is_ok_and(|done| done.is_empty()));
            let twice = |shard: usize, _| match shard {
                0 => Err(Violation::Salt.into()),
                1 => Err(Error::DuplicateKey { key: 90 }),
                4 => Err(Error::DuplicateKey { key: 30 }),
                _ => Ok(()),
            };
            assert!(matches!(on_devices(devices, items.clone(), &twice), Err(Error::DuplicateKey { key: 30 })));
            let damaged = |shard: usize, _| match shard {
                3 => Err(Violation::Salt.into()),
                5 => Err(Violation::Unsorted { bucket: 1 }.into()),
                _ => Ok(()),
            };
            assert!(matches!(on_devices(devices, items.clone(), &damaged), Err(Error::Damaged(Violation::Salt))));
            let lost = |shard: usize, _| match shard {
                0 => Err(Error::DuplicateKey { key: 90 }),
                2 => Err(Error::WrongDevice),
                _ => Ok(()),
            };
            assert!(matches!(on_devices(devices, items, &lost), Err(Error::WrongDevice)));
        }
    }

    #[test]
    fn panics_propagate_to_the_caller() {
        let panics =
            || drop(on_devices(3, vec![0, 1, 2], &|shard, _| if shard == 1 { panic!("planted") } else { Ok(()) }));
        assert!(std::panic::catch_unwind(panics).is_err());
    }
}
