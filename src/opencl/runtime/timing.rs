//! The time that the device was busy with the commands that one thread enqueued while one of its clocks ran.
//!
//! The driver records start and end of each command if the queue has profiling enabled. Events of commands are stored
//! only while a clock runs, and only for its thread, so threads that share a device do not affect each other's times.
//!
//! Transfers are always timed, for the ledger: their events are in one list, in the order of the queue, from whose
//! front readers take the completed ones.
//!
//! On a queue without profiling (an imported one: [`crate::opencl::interop`]) only the host's clock is available.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use ocl::core::{
    self, CommandExecutionStatus, CommandQueueInfo, CommandQueueInfoResult, CommandQueueProperties, Event,
};
use ocl::enums::{ProfilingInfo, ProfilingInfoResult};

use crate::backend::StageTime;
use crate::error::Result;
use crate::opencl::{OpenCl, lock};

pub(in crate::opencl) struct Clocks {
    stamps: bool,
    running: Mutex<Vec<Clock>>,
    /// Transfers whose times are not in the ledger yet.
    moving: Mutex<VecDeque<Event>>,
}

/// The number of stored transfers at which completed ones are removed.
const MOVING_AT_ONCE: usize = 64;

/// One call of `timed`. An inner call of the same thread has a separate clock, and counts for the outer one too.
struct Clock {
    thread: ThreadId,
    /// Each command's name and event.
    events: Vec<(&'static str, Event)>,
}

impl Clocks {
    pub(in crate::opencl) fn of(queue: &ocl::Queue) -> Clocks {
        let properties = queue.info(CommandQueueInfo::Properties);
        let stamps = matches!(
            properties,
            Ok(CommandQueueInfoResult::Properties(p)) if p.contains(CommandQueueProperties::PROFILING_ENABLE)
        );
        Clocks { stamps, running: Mutex::default(), moving: Mutex::default() }
    }

    #[cfg(test)]
    pub(in crate::opencl) fn transfers_kept(&self) -> usize {
        lock(&self.moving).len()
    }

    #[cfg(test)]
    pub(in crate::opencl) fn is_running(&self) -> bool {
        lock(&self.running).iter().any(|clock| clock.thread == thread::current().id())
    }

    /// Enqueues a command by `enqueue`, which receives a place for its event if this thread has a running clock.
    pub(in crate::opencl) fn record<R, E>(
        &self,
        name: &'static str,
        enqueue: impl FnOnce(Option<&mut Event>) -> std::result::Result<R, E>,
    ) -> std::result::Result<R, E> {
        let me = thread::current().id();
        if !lock(&self.running).iter().any(|clock| clock.thread == me) {
            return enqueue(None);
        }
        let mut event = Event::null();
        let done = enqueue(Some(&mut event))?;
        for clock in lock(&self.running).iter_mut().filter(|clock| clock.thread == me) {
            clock.events.push((name, event.clone()));
        }
        Ok(done)
    }

    /// Does work that the clocks of this thread do not measure.
    pub(in crate::opencl) fn aside<R>(&self, work: impl FnOnce() -> R) -> R {
        let me = thread::current().id();
        let mine: Vec<Clock> = {
            let mut running = lock(&self.running);
            let (mine, others) = std::mem::take(&mut *running).into_iter().partition(|clock| clock.thread == me);
            *running = others;
            mine
        };
        let done = work();
        lock(&self.running).extend(mine);
        done
    }
}

/// Stops this thread's latest clock, also when the work panics.
struct Running<'a>(&'a Clocks);

impl Running<'_> {
    fn start(clocks: &Clocks) -> Running<'_> {
        lock(&clocks.running).push(Clock { thread: thread::current().id(), events: Vec::new() });
        Running(clocks)
    }

    fn take(&self) -> Vec<(&'static str, Event)> {
        let me = thread::current().id();
        let mut running = lock(&self.0.running);
        running.iter_mut().rev().find(|clock| clock.thread == me).map_or(Vec::new(), |c| std::mem::take(&mut c.events))
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let me = thread::current().id();
        let mut running = lock(&self.0.running);
        if let Some(at) = running.iter().rposition(|clock| clock.thread == me) {
            running.remove(at);
        }
    }
}

impl OpenCl {
    pub(in crate::opencl) fn busy_time<R>(&self, work: impl FnOnce() -> Result<R>) -> Result<(R, Duration)> {
        let (done, commands) = self.command_times(work)?;
        Ok((done, commands.into_iter().map(|(_, time)| time).sum()))
    }

    pub(in crate::opencl) fn stage_times<R>(&self, work: impl FnOnce() -> Result<R>) -> Result<(R, Vec<StageTime>)> {
        let (done, commands) = self.command_times(work)?;
        Ok((done, StageTime::gather(commands)))
    }

    /// Name and time of every command; without profiling one time for all.
    fn command_times<R>(&self, work: impl FnOnce() -> Result<R>) -> Result<(R, Vec<(&'static str, Duration)>)> {
        let clocks = &self.0.clocks;
        self.drain()?;
        if !clocks.stamps {
            let start = Instant::now();
            let done = work()?;
            self.drain()?;
            return Ok((done, vec![("all", start.elapsed())]));
        }
        let running = Running::start(clocks);
        let done = work()?;
        self.drain()?;
        let time_of = |(name, event): (&'static str, Event)| Ok((name, self.time_of(&event)?));
        Ok((done, running.take().into_iter().map(time_of).collect::<Result<_>>()?))
    }

    /// Stores the event of a transfer until it has completed and its time is known.
    pub(in crate::opencl) fn moving(&self, event: Option<Event>) {
        let Some(event) = event.filter(|event| !event.is_null()) else { return };
        let many = {
            let mut moving = lock(&self.0.clocks.moving);
            moving.push_back(event);
            moving.len() >= MOVING_AT_ONCE
        };
        if many {
            self.moved();
        }
    }

    /// Adds the times of completed transfers to the ledger. They are the oldest ones, because the queue is in order.
    pub(in crate::opencl) fn moved(&self) {
        // The lock is released during calls of the driver.
        let mut moving = std::mem::take(&mut *lock(&self.0.clocks.moving));
        let mut time = Duration::ZERO;
        while let Some(event) = moving.front() {
            match core::event_status(event) {
                Ok(CommandExecutionStatus::Complete) => time += self.time_of(event).unwrap_or_default(),
                Ok(_) => break,
                // The command has failed (ocl-core has no name for such states), or is not known any more: its time
                // counts as 0.
                Err(_) => (),
            }
            moving.pop_front();
        }
        self.0.ledger.transfer_time(time);
        if !moving.is_empty() {
            let mut later = lock(&self.0.clocks.moving);
            moving.append(&mut later);
            *later = moving;
        }
    }

    /// The event for a transfer, if the queue has profiling.
    pub(in crate::opencl) fn event_to_stamp(&self) -> Option<Event> {
        self.0.clocks.stamps.then(Event::null)
    }

    fn time_of(&self, event: &Event) -> Result<Duration> {
        let (start, end) = (self.stamp(event, ProfilingInfo::Start)?, self.stamp(event, ProfilingInfo::End)?);
        // Without a start, the difference would be the time since the machine started.
        let known = if start == 0 { 0 } else { end.saturating_sub(start) };
        Ok(Duration::from_nanos(known))
    }

    fn stamp(&self, event: &Event, which: ProfilingInfo) -> Result<u64> {
        match core::get_event_profiling_info(event, which) {
            Ok(ProfilingInfoResult::Start(at) | ProfilingInfoResult::End(at)) => Ok(at),
            Ok(_) => Ok(0),
            Err(error) => Err(self.failed("reading an event's time", error)),
        }
    }

    /// Waits for the queue.
    pub(in crate::opencl) fn drain(&self) -> Result<()> {
        self.0.queue.finish().map_err(|error| self.failed("finishing its queue", error))
    }
}
