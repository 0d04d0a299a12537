//! Conversions between CUDA columns and koel's buffers, and results as arrays.

use std::sync::Arc;

use koel::backend::Word;
use koel::device::AnyBuffer;
use koel::opencl::Buffer;
use koel::opencl::cuda::{Cuda, Memory, bits_to_bytes, keys_to_words, rows_to_integers};
use koel::{DeviceBuffer as _, HashBackend as _};

use super::{Array, Dtype, GpuColumn};
use crate::error::{KoelError, Result};
use crate::tables::Type;

/// A column in memory that OpenCL can access: the original, or a copy of it.
pub(crate) struct Imported<'a> {
    cuda: &'a Cuda,
    column: &'a GpuColumn,
    memory: Arc<Memory>,
}

impl<'a> Imported<'a> {
    /// Imports a column unless the call has imported it. Its owner must be alive.
    pub(crate) fn of(cuda: &'a Cuda, column: &'a GpuColumn) -> Result<Self> {
        Ok(Imported { cuda, column, memory: column.memory(cuda)? })
    }

    /// The values without conversion.
    pub(crate) fn values<V: Word>(&self) -> Result<AnyBuffer<V>> {
        Ok(AnyBuffer::OpenCl(self.memory.buffer(self.column.len)?))
    }

    /// The bytes of the values, as words.
    pub(super) fn bytes(&self) -> Result<Buffer<u32>> {
        Ok(self.memory.buffer((self.column.len * self.column.of.bytes()).div_ceil(size_of::<u32>()))?)
    }

    /// Converts the keys to words of a table with keys of type `to`. Keys outside its range become `absent`.
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

/// Converts words back to keys.
pub(super) fn keys<K: Word>(cuda: &Cuda, words: &AnyBuffer<K>, of: Type) -> Result<Array> {
    let (words, memory) = (opencl_buffer(words)?, cuda.allocate(words.len() * of.bytes())?);
    let mut to = memory.buffer::<K>(words.len())?;
    keys_to_words::<K, K>(cuda.device(), words, of.is_signed, of.is_signed, K::low(0), &mut to)?;
    Ok(Array::new(memory, words.len(), Dtype::Integers(of)))
}

/// Converts row numbers to int64, with -1 for a missing row.
pub(crate) fn rows(cuda: &Cuda, rows: &AnyBuffer<u32>) -> Result<Array> {
    let (rows, memory) = (opencl_buffer(rows)?, cuda.allocate(rows.len() * size_of::<u64>())?);
    rows_to_integers(cuda.device(), rows, &mut memory.buffer(rows.len())?)?;
    Ok(Array::new(memory, rows.len(), Dtype::Integers(Type { bits: 64, is_signed: true })))
}

/// Copies words to an array without conversion.
pub(crate) fn copied<T: Word>(cuda: &Cuda, words: &AnyBuffer<T>, of: Dtype) -> Result<Array> {
    let (words, memory) = (opencl_buffer(words)?, cuda.allocate(words.len() * size_of::<T>())?);
    cuda.device().copy(words, 0, &mut memory.buffer(words.len())?, 0, words.len())?;
    Ok(Array::new(memory, words.len(), of))
}

/// Expands the first `len` bits to flags of one byte each.
pub(crate) fn flags(cuda: &Cuda, bits: &AnyBuffer<u32>, len: usize) -> Result<Array> {
    let words = len.div_ceil(4);
    let memory = cuda.allocate(words * 4)?;
    bits_to_bytes(cuda.device(), opencl_buffer(bits)?, len, &mut memory.buffer(words)?)?;
    Ok(Array::new(memory, len, Dtype::Flags))
}

/// Returns the OpenCL buffer of a result.
pub(super) fn opencl_buffer<T: Word>(buffer: &AnyBuffer<T>) -> Result<&Buffer<T>> {
    match buffer {
        AnyBuffer::OpenCl(buffer) => Ok(buffer),
        _ => Err(KoelError::new_err("a result is on another device; this is a bug in koel, please report it").into()),
    }
}

/// Runs the body with the words of the keys, which have type `$K`.
macro_rules! with_words {
    ($cuda:expr, $keys:expr, |$words:ident, $K:ident| $body:expr) => {
        match $keys.bits() {
            32 => {
                #[allow(dead_code, reason = "some bodies do not name the type")]
                type $K = u32;
                let $words = $keys.words::<u32>($cuda)?;
                $body
            }
            _ => {
                #[allow(dead_code, reason = "some bodies do not name the type")]
                type $K = u64;
                let $words = $keys.words::<u64>($cuda)?;
                $body
            }
        }
    };
}
pub(super) use with_words;
