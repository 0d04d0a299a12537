//! Pinned columns in chunks: one is transferred while kernels process the previous one.
//!
//! ```text
//! up         write 0 | write 1 | write 2 | ..     a queue
//! compute              pass 0  | pass 1  | ..     the device's queue
//! ```

use std::collections::VecDeque;

use ocl::core::{self, Event};

use super::commands::Straight;
use crate::backend::{HashBackend, Word};
use crate::error::{Error, Result};
use crate::opencl::{Buffer, OpenCl};

impl OpenCl {
    pub(in crate::opencl) fn stream_pairs<K: Word, V: Word>(
        &self,
        keys: &[K],
        values: &[V],
        rows: usize,
        pass: &mut dyn FnMut(Buffer<K>, Buffer<V>) -> Result<()>,
    ) -> Result<()> {
        Error::check_length("values", values.len(), keys.len())?;
        let rows = rows.max(1);
        let mut chunks = keys.chunks(rows).zip(values.chunks(rows));
        let is_pinned = self.0.staging.is_pinned(keys) && self.0.staging.is_pinned(values);
        let Some(queues) = self.transfer_queues().filter(|_| is_pinned) else {
            // Ordinary memory is copied by the host, chunk by chunk.
            return chunks.try_for_each(|(keys, values)| pass(self.upload(keys)?, self.upload(values)?));
        };
        let bytes = (rows * (size_of::<K>() + size_of::<V>())) as u64;
        let failed = |error: ocl::Error| self.failed_using("transferring columns", bytes, error);
        // Pending chunks are dropped after the guard, which waits for them; none is removed before the device's own
        // queue waits.
        let mut coming: VecDeque<(Buffer<K>, Buffer<V>)> = VecDeque::new();
        let mut up = Straight::new(&queues.up);
        let mut there: Option<Event> = None;
        for next in chunks.map(Some).chain([None]) {
            let before = there.take();
            if let Some((keys, values)) = next {
                let buffers = (Buffer::allocate(self, keys.len())?, Buffer::allocate(self, values.len())?);
                let (to_keys, to_values) = &*coming.push_back_mut(buffers);
                // Their memory may have belonged to another buffer before.
                let after = [self.mark().map_err(failed)?];
                self.with_room(|| up.send(keys, to_keys, 0, &after)).map_err(failed)?;
                there = Some(self.with_room(|| up.send(values, to_values, 0, &[])).map_err(failed)?);
                self.ledger().transfer(size_of_val(keys) + size_of_val(values), 0);
            }
            if let Some(before) = before {
                let queue = self.0.queue.as_core();
                let ordered = core::enqueue_barrier_with_wait_list(queue, Some(&before), None::<&mut Event>, None);
                ordered.map_err(|error| failed(error.into()))?;
                if let Some((keys, values)) = coming.pop_front() {
                    pass(keys, values)?;
                }
            }
        }
        Ok(())
    }
}
