//! Columns in CUDA memory as buffers of koel, and results.

use koel::backend::Word;
use koel::device::AnyBuffer;
use koel::opencl::Buffer;
use koel::opencl::cuda::{Cuda, Memory, bits_to_bytes, keys_to_words, rows_to_integers};
use koel::{DeviceBuffer as _, HashBackend as _};

use super::{Array, Dtype, GpuColumn};
use crate::error::{KoelError, Result};
use crate::tables::Type;

/// A column in memory that OpenCL shares; its buffers may be used as long as this.
pub(crate) struct Imported<'a> {
    cuda: &'a Cuda,
    column: &'a GpuColumn,
    memory: Memory,
}

impl<'a> Imported<'a> {
    /// Copies a column on its device. What keeps the column must be alive.
    pub(crate) fn of(cuda: &'a Cuda, column: &'a GpuColumn) -> Result<Self> {
        let item = column.of.bytes();
        #[expect(unsafe_code, reason = "an address that the array's owner vouches for")]
        // SAFETY: the protocol promises that the array is there as long as its owner, whom the caller holds.
        let memory = unsafe { cuda.import(column.address, column.len, item, column.stride)? };
        Ok(Imported { cuda, column, memory })
    }

    /// The values as they are.
    pub(crate) fn values<V: Word>(&self) -> Result<AnyBuffer<V>> {
        Ok(AnyBuffer::OpenCl(self.memory.buffer(self.column.len)?))
    }

    /// The keys as words of a table with keys of this type; keys that do not fit this type become `absent`.
    pub(crate) fn words<K: Word>(&self, to: Type, absent: K) -> Result<AnyBuffer<K>> {
        let (device, column) = (self.cuda.device(), self.column);
        let mut words = device.unwritten(column.len)?;
        let (is, into) = (column.of.is_signed, to.is_signed);
        match column.of.bits {
            32 => keys_to_words::<u32, K>(device, &self.memory.buffer(column.len)?, is, into, absent, &mut words)?,
            _ => keys_to_words::<u64, K>(device, &self.memory.buffer(column.len)?, is, into, absent, &mut words)?,
        }
        Ok(AnyBuffer::OpenCl(words))
    }
}

/// Words of keys as keys again.
pub(super) fn keys<K: Word>(cuda: &Cuda, words: &AnyBuffer<K>, of: Type) -> Result<Array> {
    let (words, memory) = (opencl_buffer(words)?, cuda.allocate(words.len() * of.bytes())?);
    let mut to = memory.buffer::<K>(words.len())?;
    keys_to_words::<K, K>(cuda.device(), words, of.is_signed, of.is_signed, K::low(0), &mut to)?;
    Ok(Array::new(memory, words.len(), Dtype::Integers(of)))
}

/// Row numbers as int64, with -1 for none.
pub(super) fn rows(cuda: &Cuda, rows: &AnyBuffer<u32>) -> Result<Array> {
    let (rows, memory) = (opencl_buffer(rows)?, cuda.allocate(rows.len() * size_of::<u64>())?);
    rows_to_integers(cuda.device(), rows, &mut memory.buffer(rows.len())?)?;
    Ok(Array::new(memory, rows.len(), Dtype::Integers(Type { bits: 64, is_signed: true })))
}

/// OpenCL's buffer of the two that `Any` has.
fn opencl_buffer<T: Word>(buffer: &AnyBuffer<T>) -> Result<&Buffer<T>> {
    match buffer {
        AnyBuffer::OpenCl(buffer) => Ok(buffer),
        _ => Err(KoelError::new_err("koel has its result on another device; please report it").into()),
    }
}

/// Flags of `len` rows as an array of bool, and values before them, once they are there.
pub(crate) fn publish(
    cuda: &Cuda,
    values: Option<(Memory, Type)>,
    bits: &AnyBuffer<u32>,
    len: usize,
) -> Result<(Option<Array>, Array)> {
    let words = len.div_ceil(4);
    let flags = cuda.allocate(words * 4)?;
    bits_to_bytes(cuda.device(), opencl_buffer(bits)?, len, &mut flags.buffer(words)?)?;
    let mut results = vec![&flags];
    results.extend(values.as_ref().map(|(values, _)| values));
    cuda.publish(&results)?;
    let values = values.map(|(memory, of)| Array::new(memory, len, Dtype::Integers(of)));
    Ok((values, Array::new(flags, len, Dtype::Flags)))
}
