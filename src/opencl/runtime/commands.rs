//! The commands that a driver must be trusted with, and host memory that it writes to by itself: the one place with
//! `unsafe` but for `interop.rs`, where handles come from outside.
//!
//! ```text
//! run               a kernel: launch.rs says why kernels stay within their arguments
//! create            memory of the device
//! write, read       transfers that wait
//! Pinned            host memory that a bus reads and writes at its full rate; whoever wants its words waits for the
//!                   transfer that is under way in them
//! Straight<'a>      transfers of one queue that do not wait, from and to memory of the caller, which is borrowed for 'a,
//!                   or pinned memory; the guard, which does not outlive 'a, waits for all of them before it goes
//! ```
//!
//! What makes transfers sound: each names words that lie in a slice, which the driver neither passes nor keeps; and
//! nobody else can reach that slice until the transfer is over. A driver that fails does not change that:
//!
//! ```text
//! queued           its event is kept before anything else is done, which may fail
//! waiting fails    the event tells whether the transfer is over, then the queue; until one says so, it is under way
//! nothing helps    pinned memory is never given back; where the memory is the caller's, or the device's would go to others,
//!                  the process ends
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

/// Queues a kernel that has all its arguments.
#[expect(unsafe_code, reason = "a kernel is trusted with its arguments; the head of launch.rs says why that is sound")]
pub(in crate::opencl) fn run(
    queue: &ocl::Queue,
    kernel: &core::Kernel,
    global: usize,
    group: usize,
    event: Option<&mut Event>,
) -> core::Result<()> {
    let (global, group) = ([global, 1, 1], Some([group, 1, 1]));
    // SAFETY: the arguments are set and were accepted; the head of launch.rs says why the kernel stays within them.
    unsafe { core::enqueue_kernel(queue.as_core(), kernel, 1, None, &global, group, None::<&Event>, event) }
}

/// So many bytes of the device's memory, with unspecified contents.
pub(in crate::opencl) fn create(context: &ocl::Context, bytes: usize) -> core::Result<core::Mem> {
    let flags = MemFlags::new().read_write();
    // SAFETY: the driver checks the size, and no memory of the host belongs to the buffer.
    #[expect(unsafe_code, reason = "memory of the device alone")]
    unsafe {
        core::create_buffer::<_, u8>(context.as_core(), flags, bytes, None)
    }
}

/// Writes over `to[at..]`, and waits until the words were taken. A driver may leave `event` as it was.
pub(in crate::opencl) fn write<T: Word>(
    queue: &ocl::Queue,
    data: &[T],
    to: &Buffer<T>,
    at: usize,
    event: Option<&mut Event>,
) -> Done<()> {
    let (data, at) = (bytemuck::cast_slice::<T, u8>(data), at * size_of::<T>());
    // SAFETY: the call returns when the words were taken; the driver checks the range in the buffer.
    #[expect(unsafe_code, reason = "the borrow outlives the transfer")]
    unsafe {
        core::enqueue_write_buffer(queue.as_core(), to.memory(), true, at, data, None::<&Event>, event)?;
    }
    Ok(())
}

/// Reads `from[at..]`, and waits until the words are there. A driver may leave `event` as it was.
pub(in crate::opencl) fn read<T: Word>(
    queue: &ocl::Queue,
    data: &mut [T],
    from: &Buffer<T>,
    at: usize,
    event: Option<&mut Event>,
) -> Done<()> {
    let (data, at) = (bytemuck::cast_slice_mut::<T, u8>(data), at * size_of::<T>());
    // SAFETY: the call returns when the words are there; the driver checks the range in the buffer.
    #[expect(unsafe_code, reason = "the borrow outlives the transfer")]
    unsafe {
        core::enqueue_read_buffer(queue.as_core(), from.memory(), true, at, data, None::<&Event>, event)?;
    }
    Ok(())
}

/// Queues a transfer to the device that does not wait. The caller flushes the queue.
///
/// # Safety
/// `data` must neither change nor go before the event has come.
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

/// Queues a transfer from the device that does not wait. The caller flushes the queue.
///
/// # Safety
/// Nobody may use `data`, and it must not go, before the event has come.
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

/// The event of a command that was queued. A driver that gives none leaves only the queue to wait for.
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

/// Waits for a command of this queue. `over` is false if the driver failed and did not say whether the command still
/// runs.
fn wait(event: &Event, queue: &ocl::Queue) -> Waited {
    let Err(error) = core::wait_for_event(event) else { return Waited { over: true, done: Ok(()) } };
    // This code means that the command has ended, by an error. Otherwise the command's own state may say that it has
    // ended; ocl-core has no name for the negative states of commands that failed, and says so by words.
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

/// Pinned memory of the host for so many bytes, mapped as long as it lives. Its contents are zeros at first.
pub(in crate::opencl) fn map_pinned(
    context: &ocl::Context,
    queue: &ocl::Queue,
    bytes: usize,
) -> Done<ocl::MemMap<u64>> {
    let len = bytes.div_ceil(size_of::<u64>()).max(1);
    // A slice has no more bytes than this, and ocl multiplies without a look.
    if len > isize::MAX as usize / size_of::<u64>() {
        return Err("more bytes than an address space has".into());
    }
    let flags = MemFlags::new().read_write().alloc_host_ptr();
    // The builder takes the context from a queue too, but panics if the driver fails to tell it.
    let mut memory = ocl::Buffer::<u64>::builder().context(context).flags(flags).len(len).build()?;
    memory.set_default_queue(queue.clone());
    // So that no word is unwritten when it is first looked at.
    memory.cmd().fill(0, None).enq()?;
    // SAFETY: this buffer is mapped here and nowhere else, for no command but this one knows it; the map waits until it
    // is there, and keeps the buffer.
    #[expect(unsafe_code, reason = "the one map of a new buffer")]
    let map = unsafe { memory.map().read().write().enq() };
    map
}

/// Words of pinned memory, and the transfer that is under way in them.
pub(in crate::opencl) struct Pinned {
    /// Dropped unless a transfer may still be under way.
    map: ManuallyDrop<ocl::MemMap<u64>>,
    under_way: Option<(Event, ocl::Queue)>,
}

impl Pinned {
    pub(in crate::opencl) fn new(context: &ocl::Context, queue: &ocl::Queue, bytes: usize) -> Done<Pinned> {
        let map = map_pinned(context, queue, bytes)?;
        Ok(Pinned { map: ManuallyDrop::new(map), under_way: None })
    }

    /// Waits for the transfer that is under way. After an error it may still be.
    pub(in crate::opencl) fn settle(&mut self) -> Done<()> {
        let Some((event, queue)) = &self.under_way else { return Ok(()) };
        let Waited { over, done } = wait(event, queue);
        if over {
            self.under_way = None;
        }
        done
    }

    /// The words, once no transfer is under way in them.
    pub(in crate::opencl) fn words<T: Word>(&mut self) -> Done<&mut [T]> {
        self.settle()?;
        Ok(bytemuck::cast_slice_mut(&mut self.map))
    }

    /// Queues the transfer of the first `len` words over `to[at..]`, after the events.
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

    /// Queues the transfer of `from[at..at + len]` to the first words, after the events.
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
        // SAFETY: the words are this struct's, which gives them to nobody, and does not go, before `settle`.
        #[expect(unsafe_code, reason = "`settle` comes before anything else")]
        let event = unsafe { send(queue, data, to, at, after) }?;
        self.under_way = Some((event.clone(), queue.clone()));
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
        // SAFETY: the words are this struct's, which gives them to nobody, and does not go, before `settle`.
        #[expect(unsafe_code, reason = "`settle` comes before anything else")]
        let event = unsafe { fetch(queue, data, from, at, after) }?;
        self.under_way = Some((event.clone(), queue.clone()));
        Ok(event)
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // A failure was the transfer's, whose end is all that matters here.
        let _ = self.settle();
        if self.under_way.is_none() {
            // SAFETY: `drop` runs once, and nothing uses the map after it.
            #[expect(unsafe_code, reason = "memory in which a transfer may be under way is not unmapped")]
            unsafe {
                ManuallyDrop::drop(&mut self.map);
            }
        }
    }
}

/// How often a guard asks again for the end of a transfer before it ends the process, and the pause in between.
const ATTEMPTS: u32 = 100;
const PAUSE: Duration = Duration::from_millis(20);

/// Transfers in one queue between the device and the host, without waiting: from and to memory of the caller as it is,
/// or pinned memory. They are over when this is dropped. It is never forgotten: it stays in the function that makes it.
pub(in crate::opencl) struct Straight<'a> {
    queue: &'a ocl::Queue,
    /// The ends of those that may not be over, in the order of the queue.
    under_way: VecDeque<Event>,
    borrowed: PhantomData<&'a mut [u8]>,
}

impl<'a> Straight<'a> {
    pub(in crate::opencl) fn new(queue: &'a ocl::Queue) -> Straight<'a> {
        Straight { queue, under_way: VecDeque::new(), borrowed: PhantomData }
    }

    pub(in crate::opencl) fn send<T: Word>(
        &mut self,
        data: &'a [T],
        to: &Buffer<T>,
        at: usize,
        after: &[Event],
    ) -> Done<Event> {
        // SAFETY: `data` is borrowed for 'a, and before 'a ends this is dropped and has waited.
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
        // SAFETY: `data` is borrowed for 'a by nobody else, and before 'a ends this is dropped and has waited.
        #[expect(unsafe_code, reason = "the borrow outlives the guard, which waits")]
        let event = unsafe { fetch(self.queue, data, from, at, after) }?;
        self.queued(event)
    }

    /// [`Pinned::send`] in this queue. The guard keeps the device's memory from being given to others meanwhile.
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

    /// [`Pinned::fetch`] in this queue. The guard keeps the device's memory from being given to others meanwhile.
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
        while self.under_way.front().is_some_and(|oldest| oldest.is_complete().unwrap_or(false)) {
            self.under_way.pop_front();
        }
        self.under_way.push_back(event.clone());
        self.queue.flush()?;
        Ok(event)
    }
}

impl Drop for Straight<'_> {
    fn drop(&mut self) {
        // Others may go on to use the queue.
        self.under_way.retain(|event| !event.is_complete().unwrap_or(false));
        if self.under_way.is_empty() {
            return;
        }
        for _ in 0..ATTEMPTS {
            if self.queue.finish().is_ok() {
                return;
            }
            self.under_way.retain(|event| !wait(event, self.queue).over);
            if self.under_way.is_empty() {
                return;
            }
            sleep(PAUSE);
        }
        end_the_process();
    }
}

/// Whoever lent the memory would go on to use or free it, and the device would write to it.
fn end_the_process() -> ! {
    eprintln!("koel: the OpenCL driver does not say whether its transfers are over; they may still write to memory");
    std::process::abort()
}
