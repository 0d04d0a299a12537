//! Distributes work over devices: one thread per device, and the caller's thread, which reads the input, passes on the
//! results and reports progress.
//!
//! ```text
//! caller     queues items in order, a few ahead; passes on the results of the first unfinished item; then the next
//! device     takes the next item; sends its results to the channel of that item, which buffers one result
//! ```
//!
//! So results arrive in the order of the items, whichever devices process them, and few results are buffered. There is
//! no deadlock: items are taken in order, so the item for which the caller waits is either being processed, or the next
//! one to be taken.
//!
//! The first error ends all work: devices check for errors when they have a result, or take an item. With one device
//! there are no threads, and results are passed on as soon as they are computed.

use std::collections::VecDeque;
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use koel::Any;
use koel::threads::{self, Workers};

use crate::error::{Error, Result};

/// The reason why the work on an item ended early.
pub(super) enum Stop {
    Failed(Error),
    /// The caller does not want further results.
    Unwanted,
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Failed(error)
    }
}

/// Receives the results of an item.
pub(super) type Emit<'a, R> = &'a mut dyn FnMut(R) -> std::result::Result<(), Stop>;

/// The work of each device: `begin` creates its state, and `work` emits the results of an item. These functions and the
/// arguments of [`shared_out`] are `dyn`, so that the threads are compiled once per type of items and results instead
/// of once per caller.
pub(super) struct Work<'a, 'd, T, S, R> {
    pub(super) begin: &'a (dyn Fn(&'d Any) -> Result<S> + Sync),
    pub(super) work: &'a ItemWork<'a, T, S, R>,
}

type ItemWork<'a, T, S, R> = dyn Fn(&mut S, T, Emit<'_, R>) -> std::result::Result<(), Stop> + Sync + 'a;

/// Returns an error if there are no devices, and otherwise the devices.
pub(super) fn some(devices: &[Any]) -> Result<&[Any]> {
    match devices {
        [] => {
            let (what, advice) = ("the number of devices", "use one or more");
            Err(koel::Error::InvalidParameter { what, given: "0".into(), advice }.into())
        }
        devices => Ok(devices),
    }
}

/// Processes all items, at most `ahead` of them at a time, and calls `take` with their results in the order of the
/// items. `front` receives the number of each item before its results are passed on. Returns the states that `begin`
/// created.
///
/// # Errors
/// The errors of `items` and `take`; otherwise the error of the first failed item.
pub(super) fn shared_out<'d, T: Send, S: Send, R: Send, E: From<Error>>(
    devices: &'d [Any],
    ahead: usize,
    items: &mut dyn Iterator<Item = std::result::Result<T, E>>,
    front: &mut dyn FnMut(usize),
    on_each: &Work<'_, 'd, T, S, R>,
    take: &mut dyn FnMut(R) -> std::result::Result<(), E>,
) -> std::result::Result<Vec<S>, E> {
    let &Work { begin, work } = on_each;
    if let [device] = some(devices)? {
        let mut state = begin(device)?;
        for (number, item) in items.enumerate() {
            front(number);
            let mut refused = None;
            let done = work(&mut state, item?, &mut |result| {
                take(result).map_err(|error| {
                    refused = Some(error);
                    Stop::Unwanted
                })
            });
            match (refused, done) {
                (Some(error), _) => return Err(error),
                (None, Err(Stop::Failed(error))) => return Err(error.into()),
                (None, _) => (),
            }
        }
        return Ok(vec![state]);
    }
    let (workers, ended) = (Workers::default(), Ended::default());
    thread::scope(|scope| {
        let _leader = workers.leader();
        let (queue, taken) = channel();
        // Only the threads own the receiver. If none starts, the queued items are dropped with it, and the caller does
        // not wait for their results.
        let taken = Arc::new(Mutex::new(taken));
        let mut started = Vec::with_capacity(devices.len());
        for (number, device) in devices.iter().enumerate() {
            let (taken, workers, ended) = (Arc::clone(&taken), &workers, &ended);
            let in_thread = move || worked(&taken, (workers, ended), &|| begin(device), work);
            match workers.start(scope, number, in_thread) {
                Ok(thread) => started.push(thread),
                Err(error) => ended.fail(workers, 0, error.into()),
            }
        }
        drop(taken);
        let handed = handed_on(queue, ahead, items, front, &workers, take);
        if handed.is_err() {
            workers.end();
        }
        threads::wait_for(|| started.iter().all(thread::ScopedJoinHandle::is_finished));
        let states: Vec<Option<S>> =
            started.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect();
        handed?;
        match ended.first().take() {
            Some((_, error)) => Err(error.into()),
            None => Ok(states.into_iter().flatten().collect()),
        }
    })
}

/// The error that ends all threads.
#[derive(Default)]
struct Ended {
    /// The failed item with the least number, and its error.
    first: Mutex<Option<(usize, Error)>>,
}

impl Ended {
    fn first(&self) -> MutexGuard<'_, Option<(usize, Error)>> {
        self.first.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fail(&self, workers: &Workers, number: usize, error: Error) {
        let mut first = self.first();
        if first.as_ref().is_none_or(|&(before, _)| number < before) {
            *first = Some((number, error));
        }
        workers.end();
    }
}

/// An item, and the channel for its results.
struct Job<T, R> {
    number: usize,
    item: T,
    results: SyncSender<R>,
}

/// The loop of a device's thread. Returns `None` if `begin` failed.
fn worked<T, S, R>(
    queue: &Mutex<Receiver<Job<T, R>>>,
    (workers, ended): (&Workers, &Ended),
    begin: &dyn Fn() -> Result<S>,
    work: &ItemWork<'_, T, S, R>,
) -> Option<S> {
    let begun = threads::ready().map_err(Error::from).and_then(|()| begin());
    let mut state = begun.map_err(|error| ended.fail(workers, 0, error)).ok()?;
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
    while let Ok(Job { number, item, results }) = next() {
        let mut emit = |result| match workers.has_ended() {
            true => Err(Stop::Unwanted),
            false => results.send(result).map_err(|_| Stop::Unwanted),
        };
        if workers.has_ended() {
            break;
        }
        match work(&mut state, item, &mut emit) {
            Ok(()) => (),
            // The error is stored before the channel closes, because the receiver looks for errors when it closes.
            Err(Stop::Failed(error)) => ended.fail(workers, number, error),
            Err(Stop::Unwanted) => break,
        }
    }
    Some(state)
}

/// The loop of the caller's thread.
fn handed_on<T, R, E>(
    queue: Sender<Job<T, R>>,
    ahead: usize,
    items: &mut dyn Iterator<Item = std::result::Result<T, E>>,
    front: &mut dyn FnMut(usize),
    workers: &Workers,
    take: &mut dyn FnMut(R) -> std::result::Result<(), E>,
) -> std::result::Result<(), E> {
    let mut items = items.fuse().enumerate();
    let mut waiting: VecDeque<(usize, Receiver<R>)> = VecDeque::new();
    loop {
        while waiting.len() < ahead {
            let Some((number, item)) = items.next() else { break };
            let (results, of_item) = sync_channel(1);
            // If no thread is left, there is an error, and the channel is closed.
            let _ = queue.send(Job { number, item: item?, results });
            waiting.push_back((number, of_item));
        }
        let Some((number, of_item)) = waiting.pop_front() else { return Ok(()) };
        front(number);
        while let Some(result) = received(&of_item) {
            take(result)?;
        }
        if workers.has_ended() {
            return Ok(());
        }
    }
}

/// The next result of an item; `None` after the last one.
fn received<R>(results: &Receiver<R>) -> Option<R> {
    let mut found = Err(TryRecvError::Empty);
    threads::wait_for(|| {
        found = results.try_recv();
        !matches!(found, Err(TryRecvError::Empty))
    });
    match found {
        Ok(result) => Some(result),
        Err(TryRecvError::Disconnected) => None,
        Err(TryRecvError::Empty) => results.recv().ok(),
    }
}
