//! Imported and exported handles.

use ocl::core::{
    self, CommandQueueProperties, ContextInfo, ContextInfoResult, DeviceInfo, DeviceInfoResult, Mem, MemInfo,
    MemInfoResult,
};

use super::*;
use crate::opencl::interop::{buffer_from_raw, device_from_raw, raw_context, raw_device, raw_mem, raw_queue};
use crate::{CuckooSet, HashSet};

/// A buffer over memory that the crate `ocl` allocated.
#[expect(unsafe_code, reason = "the handle is alive while this borrows it")]
pub(super) fn given<T: Word>(device: &OpenCl, memory: &Mem) -> Result<Buffer<T>> {
    // SAFETY: the handle is valid, and the tests use the memory in the device's own queue or after it has finished.
    unsafe { buffer_from_raw(device, memory.as_ptr()) }
}

/// The memory of a buffer, with a separate reference.
#[expect(unsafe_code, reason = "the handle is alive while this borrows the buffer")]
pub(super) fn taken<T: Word>(buffer: &Buffer<T>) -> Mem {
    // SAFETY: the handle is valid, and is retained.
    unsafe { Mem::from_raw_copied_ptr(raw_mem(buffer)) }
}

#[expect(unsafe_code, reason = "the handle is alive while this borrows it")]
fn guest_of(queue: &ocl::Queue) -> Result<OpenCl> {
    // SAFETY: as above.
    unsafe { device_from_raw(queue.as_core().as_ptr()) }
}

/// A context and a queue of the crate `ocl`, on the device of the tests.
fn theirs(cl: &OpenCl) -> (ocl::Context, ocl::Queue) {
    let Ok(DeviceInfoResult::Platform(platform)) = core::get_device_info(cl.0.device, DeviceInfo::Platform) else {
        panic!("a device has a platform")
    };
    let context = ocl::Context::builder().platform(platform.into()).devices(cl.0.device).build().expect("a context");
    let queue = ocl::Queue::new(&context, cl.0.device, None).expect("a queue");
    (context, queue)
}

fn filled(queue: &ocl::Queue, words: &[u32]) -> ocl::Buffer<u32> {
    let memory = ocl::Buffer::builder().queue(queue.clone()).len(words.len()).copy_host_slice(words);
    memory.build().expect("a buffer")
}

/// The driver's reference count.
fn references(memory: &Mem) -> u32 {
    match core::get_mem_object_info(memory, MemInfo::ReferenceCount) {
        Ok(MemInfoResult::ReferenceCount(count)) => count,
        other => panic!("{other:?}"),
    }
}

fn references_to(context: &ocl::Context) -> u32 {
    match core::get_context_info(context.as_core(), ContextInfo::ReferenceCount) {
        Ok(ContextInfoResult::ReferenceCount(count)) => count,
        other => panic!("{other:?}"),
    }
}

#[test]
fn queues_and_memory_of_others_are_shared_and_foreign_ones_are_refused() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let (context, queue) = theirs(cl);
    let guest = guest_of(&queue)?;
    assert_eq!(guest.info(), cl.info());
    let handles = (raw_context(&guest), raw_queue(&guest), raw_device(&guest));
    assert_eq!(handles, (context.as_core().as_ptr(), queue.as_core().as_ptr(), raw_device(cl)));

    let memory = filled(&queue, &[1, 2, 3]);
    let mut ours = given(&guest, &memory)?;
    assert_eq!((ours.len(), raw_mem(&ours)), (3, memory.as_core().as_ptr()));
    guest.complement(&mut ours)?;
    let mut seen = [0; 3];
    memory.read(&mut seen[..]).enq().expect("a read in the same queue");
    assert_eq!(seen, [!1, !2, !3]);

    let absent_key = |result: Result<()>| assert!(matches!(result, Err(Error::WrongDevice)), "{result:?}");
    absent_key(given::<u32>(cl, &memory).map(drop));
    absent_key(cl.complement(&mut ours));
    absent_key(cl.read(&ours, 0, &mut seen));
    absent_key(cl.write(&mut ours, 0, &seen));
    absent_key(cl.clone_buffer(&ours).map(drop));

    // A queue without profiling is timed by the host's clock, and an out-of-order queue is rejected.
    assert!(guest.timed(|| guest.complement(&mut ours))?.1.as_nanos() > 0);
    let unordered = Some(CommandQueueProperties::OUT_OF_ORDER_EXEC_MODE_ENABLE);
    if let Ok(queue) = ocl::Queue::new(&context, cl.0.device, unordered) {
        assert!(matches!(guest_of(&queue), Err(Error::Unsupported { .. })));
    }
    Ok(())
}

#[test]
fn tables_are_built_from_memory_of_others_and_answer_into_it() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let (_context, queue) = theirs(cl);
    let guest = guest_of(&queue)?;
    let len = if small() { 100 } else { 5000 };
    let keys: Vec<u32> = (0..len).map(|i| i * 7).collect();
    let set = HashSet::builder(CuckooSet::canonical(4)).build_on(&guest, &given(&guest, &filled(&queue, &keys))?)?;
    let (queried, answers) = (filled(&queue, &(0..len).collect::<Vec<_>>()), filled(&queue, &vec![7; len as usize]));
    let mut found = given(&guest, &answers)?;
    guest.copy(&set.contains_on(&given(&guest, &queried)?)?, 0, &mut found, 0, bitmap_words(len as usize))?;
    let mut bits = vec![0; bitmap_words(len as usize)];
    answers.read(&mut bits).enq().expect("a read in the same queue");
    assert!((0..len).all(|i| (bits[i as usize / 32] >> (i % 32) & 1 == 1) == (i % 7 == 0)));
    Ok(())
}

#[test]
fn a_handle_is_retained_on_its_way_in_and_borrowed_on_its_way_out() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let (context, queue) = theirs(cl);
    let before = references_to(&context);
    let guest = guest_of(&queue)?;
    let memory = filled(&queue, &[1, 2, 3]);
    assert_eq!(references(&memory), 1);
    let ours: Buffer<u32> = given(&guest, &memory)?;
    assert_eq!(references(&memory), 2);
    raw_mem(&ours);
    assert_eq!(references(&memory), 2, "nothing is retained for who looks at a handle");
    assert!(given::<u32>(cl, &memory).is_err());
    assert_eq!(references(&memory), 2, "a refusal keeps nothing");

    // koel's reference alone keeps the memory alive, ..
    drop(memory);
    assert_eq!(guest.download(&ours)?, [1, 2, 3]);
    // .. and so does the caller's.
    let own = guest.upload(&[4u32, 5])?;
    let theirs = taken(&own);
    drop(own);
    assert_eq!(guest.download(&given::<u32>(&guest, &theirs)?)?, [4, 5]);
    drop((theirs, ours, guest));
    assert_eq!(references_to(&context), before);
    Ok(())
}

#[test]
fn memory_of_another_kind_or_size_is_refused() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let memory = filled(&cl.0.queue, &[1, 2, 3]);
    let odd = given::<u64>(cl, &memory);
    assert!(odd.as_ref().is_err_and(|error| error.to_string().contains("12 bytes")), "{odd:?}");
    let words: Buffer<u64> = given(cl, &filled(&cl.0.queue, &[1, 2, 3, 4]))?;
    assert_eq!(cl.download(&words)?, [1 | 2 << 32, 3 | 4 << 32]);
    let image = ocl::Image::<u8>::builder()
        .channel_order(ocl::enums::ImageChannelOrder::Rgba)
        .channel_data_type(ocl::enums::ImageChannelDataType::UnormInt8)
        .image_type(ocl::enums::MemObjectType::Image2d)
        .dims((4, 4))
        .queue(cl.0.queue.clone())
        .build();
    // Not every device has images.
    if let Ok(image) = image {
        let refused = given::<u32>(cl, image.as_core());
        assert!(matches!(refused, Err(Error::InvalidParameter { .. })), "{refused:?}");
    }
    #[expect(unsafe_code, reason = "null is legal")]
    // SAFETY: null is rejected before it is used.
    let nulls = unsafe {
        let null = std::ptr::null_mut();
        (device_from_raw(null).map(drop), buffer_from_raw::<u32>(cl, null).map(drop))
    };
    assert!(matches!(nulls, (Err(Error::InvalidParameter { .. }), Err(Error::InvalidParameter { .. }))), "{nulls:?}");
    Ok(())
}

#[test]
#[expect(unsafe_code, reason = "a handle that is never dereferenced")]
fn without_opencl_no_queue_is_looked_at() {
    // If there is a library, the test does nothing; CI runs it with OpenCL off.
    if matches!(koel_opencl_loader::status(), koel_opencl_loader::Status::Loaded { .. }) {
        return;
    }
    // SAFETY: there is no library that could dereference the handle.
    let refused = unsafe { device_from_raw(std::ptr::dangling_mut()) };
    assert!(matches!(refused, Err(Error::NoDevice { .. })), "{refused:?}");
}
