//! What the commands of a piece of work wait for, and when they are over, without a command for either.
//!
//! ```text
//! another queue    write i ------.                  .--> read i
//! device's queue   .. kernel ----`--> kernel ------'      the first command of the work names what it waits for, and the
//!                                                         event of its last one says when all are over: the queue is in order
//! ```
//!
//! A barrier before and a marker behind say the same, and cost a bus 4% of its rate (docs/performance/h200-goals.md).
//!
//! Only commands of the thread that does the work are its commands. One that cannot name an event, because the driver waits
//! for it itself, has a barrier before it.

use std::sync::Mutex;
use std::thread::{self, ThreadId};

use ocl::core::{self, Event};

use crate::error::Result;
use crate::opencl::{OpenCl, lock};

/// Work that is being queued.
struct Ordered {
    thread: ThreadId,
    /// What its first command waits for, until that is queued.
    after: Option<Event>,
    /// The event of its latest command.
    last: Option<Event>,
}

/// All work that is being queued in order.
#[derive(Default)]
pub(in crate::opencl) struct Orders(Mutex<Vec<Ordered>>);

impl Orders {
    fn with_mine<R>(&self, change: impl FnOnce(&mut Ordered) -> R) -> Option<R> {
        let me = thread::current().id();
        lock(&self.0).iter_mut().rev().find(|ordered| ordered.thread == me).map(change)
    }
}

/// Ends this thread's order, also if the work panics.
struct Ending<'a>(&'a Orders);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        let me = thread::current().id();
        let mut orders = lock(&self.0.0);
        if let Some(at) = orders.iter().rposition(|ordered| ordered.thread == me) {
            orders.remove(at);
        }
    }
}

impl OpenCl {
    /// Queues work behind an event of another queue; the event that comes when it is over.
    pub(in crate::opencl) fn ordered<R>(&self, after: Event, work: impl FnOnce() -> Result<R>) -> Result<(R, Event)> {
        let orders = &self.0.orders;
        lock(&orders.0).push(Ordered { thread: thread::current().id(), after: Some(after), last: None });
        let ending = Ending(orders);
        let done = work()?;
        let failed = |error: ocl::Error| self.failed("ordering its commands", error);
        // Work without a command waits all the same.
        self.wait_in_order().map_err(failed)?;
        let last = orders.with_mine(|mine| mine.last.take()).flatten();
        drop(ending);
        let over = match last {
            Some(event) => self.0.queue.flush().map(|()| event),
            None => self.mark(),
        };
        Ok((done, over.map_err(failed)?))
    }

    /// Queues a command by `enqueue`, which gets the events that it waits for, none for most commands, and a place for its
    /// own event where somebody wants that.
    pub(in crate::opencl) fn command<R, E>(
        &self,
        name: &'static str,
        enqueue: impl FnOnce(Option<&Event>, Option<&mut Event>) -> std::result::Result<R, E>,
    ) -> std::result::Result<R, E> {
        let Some(after) = self.0.orders.with_mine(|mine| mine.after.clone()) else {
            return self.0.clocks.record(name, |event| enqueue(None, event));
        };
        let mut mine = Event::null();
        let done = self.0.clocks.record(name, |event| {
            let done = enqueue(after.as_ref(), Some(&mut mine))?;
            if let Some(event) = event {
                *event = mine.clone();
            }
            Ok(done)
        })?;
        self.0.orders.with_mine(|ordered| {
            ordered.after = None;
            ordered.last = Some(mine).filter(|event| !event.is_null());
        });
        Ok(done)
    }

    /// Has the queue wait for what this thread's work waits for, if it has no command yet.
    pub(in crate::opencl) fn wait_in_order(&self) -> ocl::Result<()> {
        if let Some(after) = self.0.orders.with_mine(|mine| mine.after.take()).flatten() {
            core::enqueue_barrier_with_wait_list(self.0.queue.as_core(), Some(&after), None::<&mut Event>, None)?;
        }
        Ok(())
    }

    /// An event that comes when all is done that this device's queue holds now.
    pub(in crate::opencl) fn mark(&self) -> ocl::Result<Event> {
        let mut event = Event::null();
        core::enqueue_marker_with_wait_list(self.0.queue.as_core(), None::<&Event>, Some(&mut event), None)?;
        self.0.queue.flush()?;
        Ok(event)
    }
}
