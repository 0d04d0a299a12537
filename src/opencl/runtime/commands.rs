//! The commands that rely on the driver, and host memory that it writes asynchronously. This is the only file with
//! `unsafe` except for `interop.rs`, which imports handles.
//!
//! ```text
//! run               a kernel: launch.rs explains why kernels stay within their arguments
//! create            memory of the device
//! write, read       transfers that block
//! Pinned            host memory that a bus reads and writes at its full rate; accessing its words waits for the
//!                   pending transfer
//! Straight<'a>      transfers of one queue that do not block, from and to memory of the caller, which is borrowed for
//!                   'a, or pinned memory; the guard, which does not outlive 'a, waits for all of them on drop
//! ```
//!
//! Transfers are sound because each names words within a slice: the driver does not access memory outside of the slice
//! and does not keep the slice, and no other code can access the slice until the transfer has ended. A driver that
//! fails does not change that:
//!
//! ```text
//! queued           the event of a transfer is stored before any operation that may fail
//! waiting fails    the event, or otherwise the queue, reports whether the transfer has ended; until then it is pending
//! nothing helps    pinned memory is leaked; the process is aborted if the memory belongs to the caller, or if the
//!                  memory of the device would be reused
//! ```

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::thread::sleep;
use std::time::Duration;

use ocl::core::{self, Event, Status};
use ocl::flags::MemFlags;

use crate::backend::Word;
use crate::opencl::Buffer;

type Done<T> = std::result::Result<T, ocl::Error>;

/// Queues a kernel whose arguments have all been set.
#[expect(unsafe_code, reason = "a kernel is trusted with its arguments; the head of launch.rs says why that is sound")]
pub(in crate::opencl) fn run(
    queue: &ocl::Queue,
    kernel: &core::Kernel,
    global: usize,
    group: usize,
    event: Option<&mut Event>,
) -> core::Result<()> {
    let (global, group) = ([global, 1, 1], Some([group, 1, 1]));
    // SAFETY: the arguments are set and were accepted; the head of launch.rs explains why the kernel stays within them.
    unsafe { core::enqueue_kernel(queue.as_core(), kernel, 1, None, &global, group, None::<&Event>, event) }
}

/// Allocates this many bytes of the device's memory, with unspecified contents.
pub(in crate::opencl) fn create(context: &ocl::Context, bytes: usize) -> core::Result<core::Mem> {
    let flags = MemFlags::new().read_write();
    // SAFETY: the driver checks the size, and no memory of the host belongs to the buffer.
    #[expect(unsafe_code, reason = "memory of the device alone")]
    unsafe {
        core::create_buffer::<_, u8>(context.as_core(), flags, bytes, None)
    }
}

/// Writes to `to[at..]`, and waits until the words were read. A driver may leave `event` unchanged.
pub(in crate::opencl) fn write<T: Word>(
    queue: &ocl::Queue,
    data: &[T],
    to: &Buffer<T>,
    at: usize,
    event: Option<&mut Event>,
) -> Done<()> {
    let (data, at) = (bytemuck::cast_slice::<T, u8>(data), at * size_of::<T>());
    // SAFETY: the call returns after the words were read; the driver checks the range in the buffer.
    #[expect(unsafe_code, reason = "the borrow outlives the transfer")]
    unsafe {
        core::enqueue_write_buffer(queue.as_core(), to.memory(), true, at, data, None::<&Event>, event)?;
    }
    Ok(())
}

/// Reads `from[at..]`, and waits until the words are written. A driver may leave `event` unchanged.
pub(in crate::opencl) fn read<T: Word>(
    queue: &ocl::Queue,
    data: &mut [T],
    from: &Buffer<T>,
    at: usize,
    event: Option<&mut Event>,
) -> Done<()> {
    let (data, at) = (bytemuck::cast_slice_mut::<T, u8>(data), at * size_of::<T>());
    // SAFETY: the call returns after the words were written; the driver checks the range in the buffer.
    #[expect(unsafe_code, reason = "the borrow outlives the transfer")]
    unsafe {
        core::enqueue_read_buffer(queue.as_core(), from.memory(), true, at, data, None::<&Event>, event)?;
    }
    Ok(())
}

/// Enqueues a transfer to the device without blocking. The caller flushes the queue.
///
/// # Safety
/// `data` must neither be modified nor freed before the event has completed.
#[expect(unsafe_code, reason = "the caller keeps the words until the transfer is over")]
unsafe fn send<T: Word>(queue: &ocl::Queue, data: &[T], to: &Buffer<T>, at: usize, after: &[Event]) -> Done<Event> {
    let (mut event, memory) = (Event::null(), to.memory());
    let (data, at) = (bytemuck::cast_slice::<T, u8>(data), at * size_of::<T>());
    // SAFETY: as above; the driver checks the range in the buffer.
    unsafe {
        core::enqueue_write_buffer(queue.as_core(), memory, false, at, data, Some(after), Some(&mut event))?;
    }
    known(event, queue)
}

/// Enqueues a transfer from the device without blocking. The caller flushes the queue.
///
/// # Safety
/// `data` must neither be accessed nor freed before the event has completed.
#[expect(unsafe_code, reason = "the caller keeps the words to itself until the transfer is over")]
unsafe fn fetch<T: Word>(
    queue: &ocl::Queue,
    data: &mut [T],
    from: &Buffer<T>,
    at: usize,
    after: &[Event],
) -> Done<Event> {
    let (mut event, memory) = (Event::null(), from.memory());
    let (data, at) = (bytemuck::cast_slice_mut::<T, u8>(data), at * size_of::<T>());
    // SAFETY: as above; the driver checks the range in the buffer.
    unsafe {
        core::enqueue_read_buffer(queue.as_core(), memory, false, at, data, Some(after), Some(&mut event))?;
    }
    known(event, queue)
}

/// The event of a queued command. If a driver returns none, the only option is to wait for the queue.
fn known(event: Event, queue: &ocl::Queue) -> Done<Event> {
    if !event.is_null() {
        return Ok(event);
    }
    if !(0..ATTEMPTS).any(|_| {
        queue.finish().is_ok() || {
            sleep(PAUSE);
            false
        }
    }) {
        end_the_process();
    }
    Err("the driver queued a transfer and gave no event".into())
}

/// Waits for a command of this queue. `over` is false if the driver failed and did not report whether the command is
/// still running.
fn wait(event: &Event, queue: &ocl::Queue) -> Waited {
    let Err(error) = core::wait_for_event(event) else { return Waited { over: true, done: Ok(()) } };
    // This code means that the command has ended with an error. Otherwise the state of the command may show that it has
    // ended. ocl-core has no name for the negative states of failed commands, and reports them in its message.
    let over = error.api_status() == Some(Status::CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST)
        || matches!(
            core::event_status(event),
            Ok(core::CommandExecutionStatus::Complete) | Err(core::Error::String(_))
        )
        || queue.finish().is_ok();
    Waited { over, done: Err(error.into()) }
}

struct Waited {
    over: bool,
    done: Done<()>,
}

/// Pinned memory of the host of this many bytes, mapped as long as it lives. Its contents are initially zeros.
pub(in crate::opencl) fn map_pinned(
    context: &ocl::Context,
    queue: &ocl::Queue,
    bytes: usize,
) -> Done<ocl::MemMap<u64>> {
    let len = bytes.div_ceil(size_of::<u64>()).max(1);
    // A slice cannot have more bytes than this, and ocl multiplies without a check.
    if len > isize::MAX as usize / size_of::<u64>() {
        return Err("more bytes than an address space has".into());
    }
    let flags = MemFlags::new().read_write().alloc_host_ptr();
    // The builder can take the context from a queue too, but panics if the driver fails to return it.
    let mut memory = ocl::Buffer::<u64>::builder().context(context).flags(flags).len(len).build()?;
    memory.set_default_queue(queue.clone());
    // Ensures that every word is written before it is first read.
    memory.cmd().fill(0, None).enq()?;
    // SAFETY: this buffer is mapped only here, because no other command knows it; the map waits until it is complete,
    // and keeps the buffer.
    #[expect(unsafe_code, reason = "the one map of a new buffer")]
    let map = unsafe { memory.map().read().write().enq() };
    map
}

/// Words of pinned memory, and the transfer that is pending in them.
pub(in crate::opencl) struct Pinned {
    /// Dropped unless a transfer may still be pending.
    map: ManuallyDrop<ocl::MemMap<u64>>,
    pending: Option<(Event, ocl::Queue)>,
}

impl Pinned {
    pub(in crate::opencl) fn new(context: &ocl::Context, queue: &ocl::Queue, bytes: usize) -> Done<Pinned> {
        let map = map_pinned(context, queue, bytes)?;
        Ok(Pinned { map: ManuallyDrop::new(map), pending: None })
    }

    /// Waits for the pending transfer. After an error it may still be pending.
    pub(in crate::opencl) fn settle(&mut self) -> Done<()> {
        let Some((event, queue)) = &self.pending else { return Ok(()) };
        let Waited { over, done } = wait(event, queue);
        if over {
            self.pending = None;
        }
        done
    }

    /// The words, after the pending transfer has ended.
    pub(in crate::opencl) fn words<T: Word>(&mut self) -> Done<&mut [T]> {
        self.settle()?;
        Ok(bytemuck::cast_slice_mut(&mut self.map))
    }

    /// Enqueues the transfer of the first `len` words to `to[at..]`, after the events.
    pub(in crate::opencl) fn send<T: Word>(
        &mut self,
        queue: &ocl::Queue,
        len: usize,
        to: &Buffer<T>,
        at: usize,
        after: &[Event],
    ) -> Done<Event> {
        let event = self.queue_sending(queue, len, to, at, after)?;
        queue.flush()?;
        Ok(event)
    }

    /// Enqueues the transfer of `from[at..at + len]` to the first words, after the events.
    pub(in crate::opencl) fn fetch<T: Word>(
        &mut self,
        queue: &ocl::Queue,
        len: usize,
        from: &Buffer<T>,
        at: usize,
        after: &[Event],
    ) -> Done<Event> {
        let event = self.queue_fetching(queue, len, from, at, after)?;
        queue.flush()?;
        Ok(event)
    }

    fn queue_sending<T: Word>(
        &mut self,
        queue: &ocl::Queue,
        len: usize,
        to: &Buffer<T>,
        at: usize,
        after: &[Event],
    ) -> Done<Event> {
        let data = &self.words::<T>()?[..len];
        // SAFETY: the words belong to this struct, which does not lend or free them before `settle`.
        #[expect(unsafe_code, reason = "`settle` runs before anything else")]
        let event = unsafe { send(queue, data, to, at, after) }?;
        self.pending = Some((event.clone(), queue.clone()));
        Ok(event)
    }

    fn queue_fetching<T: Word>(
        &mut self,
        queue: &ocl::Queue,
        len: usize,
        from: &Buffer<T>,
        at: usize,
        after: &[Event],
    ) -> Done<Event> {
        let data = &mut self.words::<T>()?[..len];
        // SAFETY: the words belong to this struct, which does not lend or free them before `settle`.
        #[expect(unsafe_code, reason = "`settle` runs before anything else")]
        let event = unsafe { fetch(queue, data, from, at, after) }?;
        self.pending = Some((event.clone(), queue.clone()));
        Ok(event)
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // The error is that of the transfer; here it only matters that the transfer has ended.
        let _ = self.settle();
        if self.pending.is_none() {
            // SAFETY: `drop` runs once, and nothing uses the map after it.
            #[expect(unsafe_code, reason = "memory in which a transfer may be under way is not unmapped")]
            unsafe {
                ManuallyDrop::drop(&mut self.map);
            }
        }
    }
}

/// How many times a guard waits for the end of a transfer before it aborts the process, and the pause in between.
const ATTEMPTS: u32 = 100;
const PAUSE: Duration = Duration::from_millis(20);

/// Transfers in one queue between the device and the host, without blocking: from and to memory of the caller, or
/// pinned memory. Dropping this waits until they have ended. It must not be forgotten, so it stays in the function that
/// creates it.
pub(in crate::opencl) struct Straight<'a> {
    queue: &'a ocl::Queue,
    /// The events of transfers that may be pending, in the order of the queue.
    pending: VecDeque<Event>,
    borrowed: PhantomData<&'a mut [u8]>,
}

impl<'a> Straight<'a> {
    pub(in crate::opencl) fn new(queue: &'a ocl::Queue) -> Straight<'a> {
        Straight { queue, pending: VecDeque::new(), borrowed: PhantomData }
    }

    pub(in crate::opencl) fn send<T: Word>(
        &mut self,
        data: &'a [T],
        to: &Buffer<T>,
        at: usize,
        after: &[Event],
    ) -> Done<Event> {
        // SAFETY: `data` is borrowed for 'a; before 'a ends, this is dropped, which waits for the transfer.
        #[expect(unsafe_code, reason = "the borrow outlives the guard, which waits")]
        let event = unsafe { send(self.queue, data, to, at, after) }?;
        self.queued(event)
    }

    pub(in crate::opencl) fn fetch<T: Word>(
        &mut self,
        data: &'a mut [T],
        from: &Buffer<T>,
        at: usize,
        after: &[Event],
    ) -> Done<Event> {
        // SAFETY: `data` is exclusively borrowed for 'a; before 'a ends, this is dropped, which waits for the transfer.
        #[expect(unsafe_code, reason = "the borrow outlives the guard, which waits")]
        let event = unsafe { fetch(self.queue, data, from, at, after) }?;
        self.queued(event)
    }

    /// [`Pinned::send`] in this queue. The guard prevents the device's memory from being reused meanwhile.
    pub(in crate::opencl) fn send_pinned<T: Word>(
        &mut self,
        slot: &mut Pinned,
        len: usize,
        to: &Buffer<T>,
        at: usize,
        after: &[Event],
    ) -> Done<Event> {
        let event = slot.queue_sending(self.queue, len, to, at, after)?;
        self.queued(event)
    }

    /// [`Pinned::fetch`] in this queue. The guard prevents the device's memory from being reused meanwhile.
    pub(in crate::opencl) fn fetch_pinned<T: Word>(
        &mut self,
        slot: &mut Pinned,
        len: usize,
        from: &Buffer<T>,
        at: usize,
        after: &[Event],
    ) -> Done<Event> {
        let event = slot.queue_fetching(self.queue, len, from, at, after)?;
        self.queued(event)
    }

    fn queued(&mut self, event: Event) -> Done<Event> {
        while self.pending.front().is_some_and(|oldest| oldest.is_complete().unwrap_or(false)) {
            self.pending.pop_front();
        }
        self.pending.push_back(event.clone());
        self.queue.flush()?;
        Ok(event)
    }
}

impl Drop for Straight<'_> {
    fn drop(&mut self) {
        // Other threads may keep the queue busy.
        self.pending.retain(|event| !event.is_complete().unwrap_or(false));
        if self.pending.is_empty() {
            return;
        }
        for _ in 0..ATTEMPTS {
            if self.queue.finish().is_ok() {
                return;
            }
            self.pending.retain(|event| !wait(event, self.queue).over);
            if self.pending.is_empty() {
                return;
            }
            sleep(PAUSE);
        }
        end_the_process();
    }
}

/// Aborts, because otherwise the caller would use or free the memory while the device writes to it.
fn end_the_process() -> ! {
    eprintln!("koel: the OpenCL driver does not say whether its transfers are over; they may still write to memory");
    std::process::abort()
}
