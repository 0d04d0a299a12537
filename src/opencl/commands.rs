//! The commands that a driver must be trusted with, and host memory that it writes to by itself: the one place with
//! `unsafe`.
//!
//! ```text
//! run               a kernel: launch.rs says why kernels stay within their arguments
//! Pinned            host memory that a bus reads and writes at its full rate; whoever wants its words waits for the
//!                   transfer that is under way in them
//! Straight<'a>      transfers from and to memory of the caller that do not wait; it is borrowed for 'a, and the guard,
//!                   which does not outlive 'a, waits for all of them before it goes
//! ```
//!
//! What makes transfers sound: each names words that lie in a slice, which the driver neither passes nor keeps; and
//! nobody else can reach that slice until the transfer is over.

use std::marker::PhantomData;

use ocl::core::{self, Event};
use ocl::flags::MemFlags;

use super::Buffer;
use crate::backend::Word;

type Done<T> = std::result::Result<T, ocl::Error>;

/// Queues a kernel that has all its arguments.
#[expect(unsafe_code, reason = "a kernel is trusted with its arguments; the head of launch.rs says why that is sound")]
pub(super) fn run(
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

/// Queues a transfer to the device that does not wait.
///
/// # Safety
/// `data` must neither change nor go before the event has come.
#[expect(unsafe_code, reason = "the caller keeps the words until the transfer is over")]
unsafe fn send<T: Word>(queue: &ocl::Queue, data: &[T], to: &Buffer<T>, at: usize, after: &[Event]) -> Done<Event> {
    let (mut event, memory) = (Event::null(), to.memory().as_core());
    // SAFETY: as above; the driver checks the range in the buffer.
    unsafe {
        core::enqueue_write_buffer(queue.as_core(), memory, false, at, data, Some(after), Some(&mut event))?;
    }
    queue.flush()?;
    Ok(event)
}

/// Queues a transfer from the device that does not wait.
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
    let (mut event, memory) = (Event::null(), from.memory().as_core());
    // SAFETY: as above; the driver checks the range in the buffer.
    unsafe {
        core::enqueue_read_buffer(queue.as_core(), memory, false, at, data, Some(after), Some(&mut event))?;
    }
    queue.flush()?;
    Ok(event)
}

/// Pinned memory of the host, mapped as long as it lives. Its contents are zeros at first.
pub(super) fn map_pinned<T: Word>(queue: &ocl::Queue, len: usize) -> Done<ocl::MemMap<T>> {
    let flags = MemFlags::new().read_write().alloc_host_ptr();
    let memory = ocl::Buffer::<T>::builder().queue(queue.clone()).flags(flags).len(len.max(1)).build()?;
    // So that no word is unwritten when it is first looked at.
    memory.cmd().fill(T::zeroed(), None).enq()?;
    // SAFETY: this buffer is mapped here and nowhere else, for no command but this one knows it; the map waits until it
    // is there, and keeps the buffer.
    #[expect(unsafe_code, reason = "the one map of a new buffer")]
    let map = unsafe { memory.map().read().write().enq() };
    map
}

/// Words of pinned memory, and the transfer that is under way in them.
pub(super) struct Pinned {
    map: ocl::MemMap<u64>,
    under_way: Option<(Event, ocl::Queue)>,
}

impl Pinned {
    pub(super) fn new(queue: &ocl::Queue, bytes: usize) -> Done<Pinned> {
        Ok(Pinned { map: map_pinned(queue, bytes.div_ceil(size_of::<u64>()))?, under_way: None })
    }

    /// Waits for the transfer that is under way.
    pub(super) fn settle(&mut self) -> Done<()> {
        let Some((event, queue)) = self.under_way.take() else { return Ok(()) };
        // An event can tell of a failure, after which the transfer is over too; the queue knows for certain.
        core::wait_for_event(&event).map_err(ocl::Error::from).or_else(|error| queue.finish().and(Err(error)))
    }

    /// The words, once no transfer is under way in them.
    pub(super) fn words<T: Word>(&mut self) -> Done<&mut [T]> {
        self.settle()?;
        Ok(bytemuck::cast_slice_mut(&mut self.map))
    }

    /// Queues the transfer of the first `len` words over `to[at..]`, after the events.
    pub(super) fn send<T: Word>(
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

    /// Queues the transfer of `from[at..at + len]` to the first words, after the events.
    pub(super) fn fetch<T: Word>(
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
    }
}

/// Transfers in one queue between the device and memory of the caller, without a copy and without waiting; they and all
/// others in that queue are over when this is dropped. It is never forgotten: it stays in the function that makes it.
pub(super) struct Straight<'a> {
    queue: &'a ocl::Queue,
    borrowed: PhantomData<&'a mut [u32]>,
}

impl<'a> Straight<'a> {
    pub(super) fn new(queue: &'a ocl::Queue) -> Straight<'a> {
        Straight { queue, borrowed: PhantomData }
    }

    pub(super) fn send(&mut self, data: &'a [u32], to: &Buffer<u32>, at: usize, after: &[Event]) -> Done<Event> {
        // SAFETY: `data` is borrowed for 'a, and before 'a ends this is dropped and has waited.
        #[expect(unsafe_code, reason = "the borrow outlives the guard, which waits")]
        unsafe {
            send(self.queue, data, to, at, after)
        }
    }

    pub(super) fn fetch(&mut self, data: &'a mut [u32], from: &Buffer<u32>, at: usize, after: &[Event]) -> Done<Event> {
        // SAFETY: `data` is borrowed for 'a by nobody else, and before 'a ends this is dropped and has waited.
        #[expect(unsafe_code, reason = "the borrow outlives the guard, which waits")]
        unsafe {
            fetch(self.queue, data, from, at, after)
        }
    }
}

impl Drop for Straight<'_> {
    fn drop(&mut self) {
        // A failure leaves nothing in the queue either.
        let _ = self.queue.finish();
    }
}
