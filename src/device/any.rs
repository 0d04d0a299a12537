//! A device chosen at run time: one type for all backends.

use std::time::Duration;

use crate::backend::across::through_host;
use crate::backend::chunks::Pass;
use crate::backend::{
    Answers, Chunk, ChunkOf, Decoded, DecodedOf, DeviceBuffer, DeviceInfo, HashBackend, Ledger, Passes, Piece,
    PlacedOf, Probe, Queries, Removed, StageTime, Word,
};
use crate::cpu::{Cpu, Memory};
#[cfg(feature = "opencl")]
use crate::error::Error;
use crate::error::Result;
#[cfg(feature = "opencl")]
use crate::opencl::{Buffer, OpenCl};
use crate::scheme::bucketized::wide::{Column, Layout};
use crate::scheme::{self, BucketizedOf, CuckooOf, RobinHoodOf, Scheme, SignpostOf, SortedOf};

/// The CPU or an OpenCL device, chosen at run time.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Any {
    /// The CPU backend.
    Cpu(Cpu),
    /// An OpenCL device.
    #[cfg(feature = "opencl")]
    OpenCl(OpenCl),
}

/// Memory of an [`Any`].
#[derive(Debug)]
#[non_exhaustive]
pub enum AnyBuffer<T: Word> {
    /// Memory of the CPU backend.
    Cpu(Memory<T>),
    /// Memory of an OpenCL device.
    #[cfg(feature = "opencl")]
    OpenCl(Buffer<T>),
}

impl<T: Word> DeviceBuffer for AnyBuffer<T> {
    fn len(&self) -> usize {
        match self {
            AnyBuffer::Cpu(memory) => memory.len(),
            #[cfg(feature = "opencl")]
            AnyBuffer::OpenCl(buffer) => buffer.len(),
        }
    }
}

/// Functions that wrap and unwrap the buffers of one variant; a buffer of the other variant is a typed error.
macro_rules! side {
    ($module:ident, $variant:ident, $buffer:ident) => {
        mod $module {
            use super::*;

            pub(super) fn wrap<T: Word>(buffer: $buffer<T>) -> AnyBuffer<T> {
                AnyBuffer::$variant(buffer)
            }
            pub(super) fn unwrap<T: Word>(any: AnyBuffer<T>) -> Result<$buffer<T>> {
                match any {
                    AnyBuffer::$variant(buffer) => Ok(buffer),
                    #[cfg(feature = "opencl")]
                    _ => Err(Error::WrongDevice),
                }
            }
            pub(super) fn of<T: Word>(any: &AnyBuffer<T>) -> Result<&$buffer<T>> {
                match any {
                    AnyBuffer::$variant(buffer) => Ok(buffer),
                    #[cfg(feature = "opencl")]
                    _ => Err(Error::WrongDevice),
                }
            }
            pub(super) fn of_mut<T: Word>(any: &mut AnyBuffer<T>) -> Result<&mut $buffer<T>> {
                match any {
                    AnyBuffer::$variant(buffer) => Ok(buffer),
                    #[cfg(feature = "opencl")]
                    _ => Err(Error::WrongDevice),
                }
            }
        }
    };
}
side!(cpu_side, Cpu, Memory);
#[cfg(feature = "opencl")]
side!(opencl_side, OpenCl, Buffer);

/// Runs the body on the device of the variant; `$side` names the functions that wrap and unwrap its buffers.
macro_rules! on_device {
    ($any:expr, |$device:ident, $side:ident| $body:expr) => {
        match $any {
            Any::Cpu($device) => {
                #[allow(unused_imports)]
                use cpu_side as $side;
                $body
            }
            #[cfg(feature = "opencl")]
            Any::OpenCl($device) => {
                #[allow(unused_imports)]
                use opencl_side as $side;
                $body
            }
        }
    };
}

mod columns;
// After the macros, which it uses.
mod relational;

impl HashBackend for Any {
    type Buffer<T: Word> = AnyBuffer<T>;

    fn info(&self) -> &DeviceInfo {
        on_device!(self, |device, side| device.info())
    }
    fn ledger(&self) -> &Ledger {
        on_device!(self, |device, side| device.ledger())
    }
    fn filled<T: Word>(&self, len: usize, value: T) -> Result<AnyBuffer<T>> {
        on_device!(self, |device, side| device.filled(len, value).map(side::wrap))
    }
    fn unwritten<T: Word>(&self, len: usize) -> Result<AnyBuffer<T>> {
        on_device!(self, |device, side| device.unwritten(len).map(side::wrap))
    }
    fn upload<T: Word>(&self, data: &[T]) -> Result<AnyBuffer<T>> {
        on_device!(self, |device, side| device.upload(data).map(side::wrap))
    }
    fn write<T: Word>(&self, buffer: &mut AnyBuffer<T>, at: usize, data: &[T]) -> Result<()> {
        on_device!(self, |device, side| device.write(side::of_mut(buffer)?, at, data))
    }
    fn read<T: Word>(&self, buffer: &AnyBuffer<T>, at: usize, data: &mut [T]) -> Result<()> {
        on_device!(self, |device, side| device.read(side::of(buffer)?, at, data))
    }
    fn copy<T: Word>(
        &self,
        from: &AnyBuffer<T>,
        from_at: usize,
        to: &mut AnyBuffer<T>,
        to_at: usize,
        len: usize,
    ) -> Result<()> {
        on_device!(self, |device, side| device.copy(side::of(from)?, from_at, side::of_mut(to)?, to_at, len))
    }
    fn fetch<T: Word>(&self, to: &mut AnyBuffer<T>, at: usize, pieces: &[Piece<'_, Any, T>]) -> Result<()> {
        #[cfg(feature = "opencl")]
        if let (Any::OpenCl(device), AnyBuffer::OpenCl(to)) = (self, &mut *to)
            && let Some(pieces) = pieces.iter().map(of_opencl).collect::<Option<Vec<_>>>()
        {
            return device.fetch(to, at, &pieces);
        }
        through_host(self, to, at, pieces)
    }
    fn shares_memory(&self) -> bool {
        on_device!(self, |device, side| device.shares_memory())
    }
    fn in_pairs<K: Word, V: Word>(
        &self,
        keys: &[K],
        values: &[V],
        rows: usize,
        mut pass: impl FnMut(AnyBuffer<K>, AnyBuffer<V>) -> Result<()>,
    ) -> Result<()> {
        on_device!(self, |device, side| device
            .in_pairs(keys, values, rows, |keys, values| { pass(side::wrap(keys), side::wrap(values)) }))
    }
    fn in_chunks<Q: Word, A: Word>(
        &self,
        queries: Queries<'_, Q>,
        answers: Answers<'_, A>,
        mut pass: impl FnMut(ChunkOf<Any, Q, A>) -> Result<ChunkOf<Any, Q, A>>,
    ) -> Result<()> {
        self.wrapped_chunks(queries, answers, &mut pass)
    }
    fn words<'a, T: Word>(&self, buffer: &'a AnyBuffer<T>) -> Option<&'a [T]> {
        on_device!(self, |device, side| device.words(side::of(buffer).ok()?))
    }
    fn of_host<T: Word>(&self, memory: Memory<T>) -> Result<AnyBuffer<T>> {
        on_device!(self, |device, side| device.of_host(memory).map(side::wrap))
    }
    fn builder(&self) -> Option<&Cpu> {
        on_device!(self, |device, side| device.builder())
    }
    fn finish(&self) -> Result<()> {
        on_device!(self, |device, side| device.finish())
    }
    fn iota(&self, len: usize) -> Result<AnyBuffer<u32>> {
        on_device!(self, |device, side| device.iota(len).map(side::wrap))
    }
    fn complement(&self, buffer: &mut AnyBuffer<u32>) -> Result<()> {
        on_device!(self, |device, side| device.complement(side::of_mut(buffer)?))
    }
    fn gather<T: Word>(&self, from: &AnyBuffer<T>, index: &AnyBuffer<u32>) -> Result<AnyBuffer<T>> {
        on_device!(self, |device, side| device.gather(side::of(from)?, side::of(index)?).map(side::wrap))
    }
    fn greatest<T: Word>(&self, buffer: &AnyBuffer<T>) -> Result<T> {
        on_device!(self, |device, side| device.greatest(side::of(buffer)?))
    }
    fn select<T: Word>(&self, bits: &AnyBuffer<u32>, keep: bool, column: &AnyBuffer<T>) -> Result<AnyBuffer<T>> {
        on_device!(self, |device, side| device.select(side::of(bits)?, keep, side::of(column)?).map(side::wrap))
    }
    fn select_pairs<K: Word, V: Word>(
        &self,
        bits: &AnyBuffer<u32>,
        keep: bool,
        keys: &AnyBuffer<K>,
        values: &AnyBuffer<V>,
    ) -> Result<(AnyBuffer<K>, AnyBuffer<V>)> {
        on_device!(self, |device, side| {
            let (keys, values) = device.select_pairs(side::of(bits)?, keep, side::of(keys)?, side::of(values)?)?;
            Ok((side::wrap(keys), side::wrap(values)))
        })
    }
    fn sort<T: Word>(&self, column: &AnyBuffer<T>) -> Result<AnyBuffer<T>> {
        on_device!(self, |device, side| device.sort(side::of(column)?).map(side::wrap))
    }
    fn sort_pairs<K: Word, V: Word>(
        &self,
        keys: &AnyBuffer<K>,
        values: &AnyBuffer<V>,
    ) -> Result<(AnyBuffer<K>, AnyBuffer<V>)> {
        on_device!(self, |device, side| {
            let (keys, values) = device.sort_pairs(side::of(keys)?, side::of(values)?)?;
            Ok((side::wrap(keys), side::wrap(values)))
        })
    }
}

/// A part of an OpenCL device; `None` for the CPU.
#[cfg(feature = "opencl")]
fn of_opencl<'a, T: Word>(piece: &Piece<'a, Any, T>) -> Option<Piece<'a, OpenCl, T>> {
    match (piece.device, piece.buffer) {
        (Any::OpenCl(device), AnyBuffer::OpenCl(buffer)) => Some(Piece { device, buffer, range: piece.range.clone() }),
        _ => None,
    }
}

impl Any {
    /// [`HashBackend::in_chunks`] of a variant: its chunks are wrapped as those of `Any` before the pass, and unwrapped
    /// after it.
    fn wrapped_chunks<Q: Word, A: Word>(
        &self,
        queries: Queries<'_, Q>,
        answers: Answers<'_, A>,
        pass: Pass<'_, Any, Q, A>,
    ) -> Result<()> {
        on_device!(self, |device, side| device.in_chunks(queries, answers, |chunk| {
            let Chunk { first, queries, bits, words } = chunk;
            let (bits, words) = (bits.map(side::wrap), words.into_iter().map(side::wrap).collect());
            let chunk = pass(Chunk { first, queries: side::wrap(queries), bits, words })?;
            let bits = chunk.bits.map(side::unwrap).transpose()?;
            let words = chunk.words.into_iter().map(side::unwrap).collect::<Result<_>>()?;
            Ok(Chunk { first: chunk.first, queries: side::unwrap(chunk.queries)?, bits, words })
        }))
    }
}

impl Probe for Any {
    fn timed<R>(&self, work: impl FnOnce() -> Result<R>) -> Result<(R, Duration)> {
        on_device!(self, |device, side| device.timed(work))
    }
    fn stages<R>(&self, work: impl FnOnce() -> Result<R>) -> Result<(R, Vec<StageTime>)> {
        on_device!(self, |device, side| device.stages(work))
    }
    fn random_reads(&self, buffer: &AnyBuffer<u64>, reads: usize) -> Result<u64> {
        on_device!(self, |device, side| device.random_reads(side::of(buffer)?, reads))
    }
    fn random_lines(&self, buffer: &AnyBuffer<u64>, reads: usize) -> Result<u64> {
        on_device!(self, |device, side| device.random_lines(side::of(buffer)?, reads))
    }
    fn random_updates(&self, buffer: &mut AnyBuffer<u64>, writes: usize) -> Result<()> {
        on_device!(self, |device, side| device.random_updates(side::of_mut(buffer)?, writes))
    }
    fn strided_updates<T: Word>(&self, buffer: &mut AnyBuffer<T>, stride: u32, atomic: bool) -> Result<()> {
        on_device!(self, |device, side| device.strided_updates(side::of_mut(buffer)?, stride, atomic))
    }
}

/// The passes of a scheme, with its type parameters and their bounds, if any.
macro_rules! passes_of_any {
    (($($parameters:tt)*) $scheme:ty, ($($bounds:tt)*)) => {
        impl<$($parameters)*> Passes<$scheme> for Any $($bounds)* {
            fn build(
                &self,
                plan: &<$scheme as Scheme>::Plan,
                keys: &AnyBuffer<<$scheme as Scheme>::Key>,
                values: &AnyBuffer<<$scheme as Scheme>::Value>,
            ) -> Result<(AnyBuffer<u64>, PlacedOf<$scheme>)> {
                on_device!(self, |device, side| {
                    let (image, placed) =
                        Passes::<$scheme>::build(device, plan, side::of(keys)?, side::of(values)?)?;
                    Ok((side::wrap(image), placed))
                })
            }
            fn partial_build(
                &self,
                plan: &<$scheme as Scheme>::Plan,
                keys: &AnyBuffer<<$scheme as Scheme>::Key>,
                values: &AnyBuffer<<$scheme as Scheme>::Value>,
            ) -> Result<Option<(AnyBuffer<u64>, PlacedOf<$scheme>)>> {
                on_device!(self, |device, side| {
                    let built = Passes::<$scheme>::partial_build(device, plan, side::of(keys)?, side::of(values)?)?;
                    Ok(built.map(|(image, placed)| (side::wrap(image), placed)))
                })
            }
            fn extended(
                &self,
                plan: &<$scheme as Scheme>::Plan,
                image: &AnyBuffer<u64>,
                keys: &AnyBuffer<<$scheme as Scheme>::Key>,
                values: &AnyBuffer<<$scheme as Scheme>::Value>,
            ) -> Result<(AnyBuffer<u64>, PlacedOf<$scheme>)> {
                on_device!(self, |device, side| {
                    let (image, placed) = Passes::<$scheme>::extended(
                        device, plan, side::of(image)?, side::of(keys)?, side::of(values)?,
                    )?;
                    Ok((side::wrap(image), placed))
                })
            }
            fn place(
                &self,
                plan: &<$scheme as Scheme>::Plan,
                image: &mut AnyBuffer<u64>,
                keys: &AnyBuffer<<$scheme as Scheme>::Key>,
                values: &AnyBuffer<<$scheme as Scheme>::Value>,
            ) -> Result<PlacedOf<$scheme>> {
                on_device!(self, |device, side| Passes::<$scheme>::place(
                    device, plan, side::of_mut(image)?, side::of(keys)?, side::of(values)?,
                ))
            }
            fn lookup(
                &self,
                plan: &<$scheme as Scheme>::Plan,
                image: &AnyBuffer<u64>,
                queries: &AnyBuffer<<$scheme as Scheme>::Key>,
                values: &mut AnyBuffer<<$scheme as Scheme>::Value>,
                found: &mut AnyBuffer<u32>,
            ) -> Result<()> {
                on_device!(self, |device, side| Passes::<$scheme>::lookup(
                    device, plan, side::of(image)?, side::of(queries)?, side::of_mut(values)?, side::of_mut(found)?,
                ))
            }
            fn contains(
                &self,
                plan: &<$scheme as Scheme>::Plan,
                image: &AnyBuffer<u64>,
                queries: &AnyBuffer<<$scheme as Scheme>::Key>,
            ) -> Result<AnyBuffer<u32>> {
                on_device!(self, |device, side| {
                    Passes::<$scheme>::contains(device, plan, side::of(image)?, side::of(queries)?)
                        .map(side::wrap)
                })
            }
            fn assign(
                &self,
                plan: &<$scheme as Scheme>::Plan,
                image: &mut AnyBuffer<u64>,
                keys: &AnyBuffer<<$scheme as Scheme>::Key>,
                values: &AnyBuffer<<$scheme as Scheme>::Value>,
            ) -> Result<()> {
                on_device!(self, |device, side| Passes::<$scheme>::assign(
                    device, plan, side::of_mut(image)?, side::of(keys)?, side::of(values)?,
                ))
            }
            fn decode(
                &self,
                plan: &<$scheme as Scheme>::Plan,
                image: &AnyBuffer<u64>,
            ) -> Result<DecodedOf<Any, $scheme>> {
                on_device!(self, |device, side| {
                    let Decoded { keys, values, taken } =
                        Passes::<$scheme>::decode(device, plan, side::of(image)?)?;
                    Ok(Decoded { keys: side::wrap(keys), values: side::wrap(values), taken: side::wrap(taken) })
                })
            }
            fn remove(
                &self,
                plan: &<$scheme as Scheme>::Plan,
                image: &mut AnyBuffer<u64>,
                keys: &AnyBuffer<<$scheme as Scheme>::Key>,
            ) -> Result<Removed> {
                on_device!(self, |device, side| Passes::<$scheme>::remove(
                    device, plan, side::of_mut(image)?, side::of(keys)?,
                ))
            }
            fn lift(
                &self,
                plan: &<$scheme as Scheme>::Plan,
                image: &mut AnyBuffer<u64>,
            ) -> Result<DecodedOf<Any, $scheme>> {
                on_device!(self, |device, side| {
                    let Decoded { keys, values, taken } =
                        Passes::<$scheme>::lift(device, plan, side::of_mut(image)?)?;
                    Ok(Decoded { keys: side::wrap(keys), values: side::wrap(values), taken: side::wrap(taken) })
                })
            }
        }
    };
}

macro_rules! passes_of_registry {
    ($($module:ident, $scheme:ident, $name:literal;)*) => {
        $(passes_of_any! { () scheme::$scheme, () })*
    };
}
crate::for_each_scheme!(passes_of_registry);

/// The passes of schemes of 64-bit keys or values. Each pair of widths that the command uses has a separate
/// implementation, so that it is compiled here and not in each crate that uses it.
macro_rules! passes_of_widths {
    ($($scheme:ident: $(($key:ty, $value:ty))*;)*) => {$($(
        passes_of_any! { () $scheme<$key, $value>, () }
    )*)*};
}
passes_of_widths! {
    BucketizedOf: (u64, u64) (u64, u32) (u32, u64) (u64, ());
    RobinHoodOf: (u64, u64) (u64, u32) (u32, u64) (u64, ());
    SignpostOf: (u64, u64) (u64, u32) (u32, u64) (u64, ()) (u32, ());
}

/// The passes of schemes that only tests and users of the library use.
macro_rules! passes_of_wide {
    ($($scheme:ident),*) => {$(
        #[cfg(feature = "opencl")]
        passes_of_any! {
            (K: Column, V: Column) $scheme<K, V>,
            (where (K, V): Layout, Cpu: Passes<$scheme<K, V>>, OpenCl: Passes<$scheme<K, V>>)
        }
        #[cfg(not(feature = "opencl"))]
        passes_of_any! { (K: Column, V: Column) $scheme<K, V>, (where (K, V): Layout, Cpu: Passes<$scheme<K, V>>) }
    )*};
}
passes_of_wide!(CuckooOf, SortedOf);
