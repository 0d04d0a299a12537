//! The host side of cl/interchange.cl: integers as words of tables, and bitmaps as bytes.

use crate::backend::{DeviceBuffer as _, Word, bitmap_words};
use crate::error::{Error, Result};
use crate::opencl::runtime::program::INTERCHANGE;
use crate::opencl::{Buffer, OpenCl};

/// Integer keys as words of a table whose keys are signed or not, on the device: the top bit of signed keys is flipped,
/// as [`KeyType::Signed`](crate::KeyType) says. A key that the table's type does not hold becomes `absent`.
///
/// # Errors
/// [`Error::WrongDevice`], [`Error::OutOfMemory`], or what the device reports.
pub fn keys_to_words<F: Word, K: Word>(
    device: &OpenCl,
    keys: &Buffer<F>,
    are_signed: bool,
    to_signed: bool,
    absent: K,
) -> Result<Buffer<K>> {
    let program = program::<F, K>(device, are_signed, to_signed)?;
    let to = Buffer::allocate(device, keys.len())?;
    let absent: u64 = absent.into();
    let launch = device.kernel(&program, "keys_to_words")?.buffer(keys).value(keys.len() as u64).value(absent);
    launch.buffer(&to).over(keys.len())?;
    Ok(to)
}

/// The first `len` bits of a bitmap as bytes, 0 or 1: `len / 4` words, rounded up, whose last bytes may be of later
/// bits.
///
/// # Errors
/// [`Error::LengthMismatch`], [`Error::WrongDevice`], or what the device reports.
pub fn bits_to_bytes(device: &OpenCl, bits: &Buffer<u32>, len: usize, bytes: &mut Buffer<u32>) -> Result<()> {
    let words = len.div_ceil(4);
    Error::check_length("the bitmap", bits.len(), bitmap_words(len))?;
    Error::check_length("bytes", bytes.len(), words)?;
    let program = program::<u32, u32>(device, false, false)?;
    let launch = device.kernel(&program, "bits_to_bytes")?.buffer(bits).value(words as u64);
    launch.buffer(bytes).over(words)
}

fn program<F: Word, K: Word>(device: &OpenCl, from_signed: bool, to_signed: bool) -> Result<ocl::core::Program> {
    let parameters = [
        ("FROM_BITS", F::BITS),
        ("FROM_SIGNED", from_signed.into()),
        ("TO_BITS", K::BITS),
        ("TO_SIGNED", to_signed.into()),
    ];
    device.program(INTERCHANGE, &parameters)
}
