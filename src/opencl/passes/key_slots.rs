//! The host side of cl/key_slots.cl.

use crate::backend::{DeviceBuffer, HashBackend, KeySlots};
use crate::error::{Error, Result};
use crate::opencl::runtime::program::KEY_SLOTS;
use crate::opencl::{Buffer, OpenCl};
use crate::scheme::Key;

/// The maximum number of slots that are tried for a key. If half of the slots are in use, a key rarely needs this many.
const PROBES: u32 = 128;
/// The base-2 logarithms of the numbers of slots that the kernel can address.
const BITS: std::ops::RangeInclusive<u32> = 1..=31;

impl OpenCl {
    pub(in crate::opencl) fn key_slots_program<K: Key>(&self) -> Result<ocl::core::Program> {
        self.program(KEY_SLOTS, &[("GROUP", self.pass_group() as u32), ("KEY_BITS", K::BITS), ("PROBES", PROBES)])
    }

    pub(super) fn run_key_slots<K: Key>(&self, keys: &Buffer<K>, bits: u32) -> Result<Option<KeySlots<Buffer<u32>>>> {
        let (len, bits) = (keys.len(), bits.clamp(*BITS.start(), *BITS.end()));
        Error::check_rows("rows", len)?;
        // 64-bit keys need 64-bit atomics: in the partial tier, callers sort.
        if self.0.builder.is_some() && K::BITS == u64::BITS {
            return Ok(None);
        }
        let table = self.filled(1 << bits, K::zeroed())?;
        let first_rows = self.filled((1 << bits) + 1, u32::MAX)?;
        let (of_rows, failed) = (Buffer::allocate(self, len)?, self.filled(1, 0u32)?);
        let launch = self.kernel(&self.key_slots_program::<K>()?, "key_slots")?.buffer(keys).value(len as u64);
        let launch = launch.buffer(&table).value(bits).buffer(&first_rows).buffer(&of_rows).buffer(&failed);
        launch.over_groups_of(self.pass_group(), len, len)?;
        let mut has_failed = [0];
        self.read(&failed, 0, &mut has_failed)?;
        Ok((has_failed[0] == 0).then_some(KeySlots { first_rows, of_rows }))
    }
}
