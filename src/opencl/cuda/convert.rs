//! The host side of cl/interchange.cl: numbers as words of tables and as values, row numbers as integers, and bitmaps
//! as bytes.

use crate::backend::{DeviceBuffer as _, HashBackend as _, Word, bitmap_words};
use crate::error::{Error, Result};
use crate::opencl::runtime::program::INTERCHANGE;
use crate::opencl::{Buffer, OpenCl};

/// Converts integer keys to words of a table with signed or unsigned keys, on the device. The top bit of signed keys is
/// flipped, as [`KeyType::Signed`](crate::KeyType) describes. A key that the table's type cannot represent becomes
/// `absent`. With equal types, it also converts words back to keys.
///
/// # Errors
/// [`Error::LengthMismatch`], [`Error::WrongDevice`], or what the device reports.
pub fn keys_to_words<F: Word, K: Word>(
    device: &OpenCl,
    keys: &Buffer<F>,
    are_signed: bool,
    to_signed: bool,
    absent: K,
    to: &mut Buffer<K>,
) -> Result<()> {
    Error::check_length("the words", to.len(), keys.len())?;
    let program = program::<F, K>(device, are_signed, to_signed)?;
    let absent: u64 = absent.into();
    let launch = device.kernel(&program, "keys_to_words")?.buffer(keys).value(keys.len() as u64).value(absent);
    launch.buffer(to).over(keys.len())
}

/// Converts integers to another width. The upper bits are cut off.
///
/// # Errors
/// [`Error::LengthMismatch`], [`Error::WrongDevice`], or what the device reports.
pub fn resized<F: Word, K: Word>(
    device: &OpenCl,
    from: &Buffer<F>,
    are_signed: bool,
    to: &mut Buffer<K>,
) -> Result<()> {
    Error::check_length("the integers", to.len(), from.len())?;
    let program = program::<F, K>(device, are_signed, are_signed)?;
    let launch = device.kernel(&program, "resized")?.buffer(from).value(from.len() as u64);
    launch.buffer(to).over(from.len())
}

/// The type of one column of a multi-column key: 8, 16, 32 or 64 bits, signed or unsigned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The bits of an item.
    pub bits: u32,
    /// Whether items are signed.
    pub is_signed: bool,
}

impl Part {
    fn program<K: Word>(self, device: &OpenCl) -> Result<ocl::core::Program> {
        if !matches!(self.bits, 8 | 16 | 32 | 64) || self.bits > K::BITS {
            return Err(Error::parameter("bits", self.bits, "use 8, 16, 32 or 64, up to those of the words"));
        }
        program_of(device, (self.bits, self.is_signed), (K::BITS, false))
    }

    fn check<K: Word>(self, column: &Buffer<u32>, words: &Buffer<K>) -> Result<()> {
        let bytes = words.len().saturating_mul(self.bits as usize / 8);
        Error::check_length("the memory of the column", column.len(), bytes.div_ceil(size_of::<u32>()))
    }
}

/// Appends a column to the words of multi-column keys, after shifting the previous columns left by its bits. The order
/// of the words is that of the keys. `column` contains the bytes of as many items as there are words.
///
/// # Errors
/// [`Error::LengthMismatch`], [`Error::InvalidParameter`] for other types, [`Error::WrongDevice`], or what the device
/// reports.
pub fn append_column<K: Word>(
    device: &OpenCl,
    column: &Buffer<u32>,
    of: Part,
    is_first: bool,
    words: &mut Buffer<K>,
) -> Result<()> {
    let program = of.program::<K>(device)?;
    of.check(column, words)?;
    let launch = device.kernel(&program, "append_column")?.buffer(column).value(words.len() as u64);
    launch.value(u32::from(is_first)).buffer(words).over(words.len())
}

/// Extracts the column of multi-column keys whose lowest bit in the words is `shift`.
///
/// # Errors
/// As [`append_column`].
pub fn column_of<K: Word>(
    device: &OpenCl,
    words: &Buffer<K>,
    shift: u32,
    of: Part,
    column: &mut Buffer<u32>,
) -> Result<()> {
    let program = of.program::<K>(device)?;
    of.check(column, words)?;
    let launch = device.kernel(&program, "column_of")?.buffer(words).value(words.len() as u64);
    launch.value(shift).buffer(column).over(words.len())
}

/// The bits of doubles, with -0.0 replaced by 0.0.
///
/// # Errors
/// [`Error::WrongDevice`], [`Error::OutOfMemory`], or what the device reports.
pub fn without_negative_zero(device: &OpenCl, values: &Buffer<u64>) -> Result<Buffer<u64>> {
    let to = Buffer::allocate(device, values.len())?;
    let program = program::<u32, u32>(device, false, false)?;
    let launch = device.kernel(&program, "without_negative_zero")?.buffer(values).value(values.len() as u64);
    launch.buffer(&to).over(values.len())?;
    Ok(to)
}

/// Converts row numbers to 64-bit integers; [`NO_ROW`](crate::NO_ROW) becomes -1.
///
/// # Errors
/// [`Error::LengthMismatch`], [`Error::WrongDevice`], or what the device reports.
pub fn rows_to_integers(device: &OpenCl, rows: &Buffer<u32>, to: &mut Buffer<u64>) -> Result<()> {
    Error::check_length("the integers", to.len(), rows.len())?;
    let program = program::<u32, u32>(device, false, false)?;
    let launch = device.kernel(&program, "rows_to_integers")?.buffer(rows).value(rows.len() as u64);
    launch.buffer(to).over(rows.len())
}

/// Converts the bits of floats to the bits of doubles with the same values. NaN stays NaN, with bits that the device
/// chooses.
///
/// # Errors
/// [`Error::LengthMismatch`], [`Error::WrongDevice`], or what the device reports.
pub fn floats_to_doubles(device: &OpenCl, from: &Buffer<u32>, to: &mut Buffer<u64>) -> Result<()> {
    Error::check_length("the doubles", to.len(), from.len())?;
    let program = program::<u32, u64>(device, false, false)?;
    let launch = device.kernel(&program, "floats_to_doubles")?.buffer(from).value(from.len() as u64);
    launch.buffer(to).over(from.len())
}

/// Converts the bits of doubles to the bits of the nearest floats. NaN becomes 0x7fc00000.
///
/// # Errors
/// [`Error::LengthMismatch`], [`Error::WrongDevice`], or what the device reports.
pub fn doubles_to_floats(device: &OpenCl, from: &Buffer<u64>, to: &mut Buffer<u32>) -> Result<()> {
    Error::check_length("the floats", to.len(), from.len())?;
    let program = program::<u64, u32>(device, false, false)?;
    let launch = device.kernel(&program, "doubles_to_floats")?.buffer(from).value(from.len() as u64);
    launch.buffer(to).over(from.len())
}

/// Returns whether any of these values, given as bits of doubles, is NaN.
///
/// # Errors
/// [`Error::WrongDevice`], [`Error::OutOfMemory`], or what the device reports.
pub fn has_nan(device: &OpenCl, values: &Buffer<u64>) -> Result<bool> {
    let found = device.filled(1, 0_u32)?;
    let program = program::<u32, u32>(device, false, false)?;
    let launch = device.kernel(&program, "find_nan")?.buffer(values).value(values.len() as u64);
    launch.buffer(&found).over(values.len())?;
    Ok(device.download(&found)? != [0])
}

/// The group of each row; [`NO_ROW`](crate::NO_ROW) for rows whose value, given as bits of a double, is NaN.
///
/// # Errors
/// [`Error::LengthMismatch`], [`Error::WrongDevice`], [`Error::OutOfMemory`], or what the device reports.
pub fn without_nan(device: &OpenCl, ids: &Buffer<u32>, values: &Buffer<u64>) -> Result<Buffer<u32>> {
    Error::check_length("values", values.len(), ids.len())?;
    let to = Buffer::allocate(device, ids.len())?;
    let program = program::<u32, u32>(device, false, false)?;
    let launch = device.kernel(&program, "without_nan")?.buffer(ids).buffer(values).value(ids.len() as u64);
    launch.buffer(&to).over(ids.len())?;
    Ok(to)
}

/// Sets the values of groups without rows, given as bits of doubles, to NaN.
///
/// # Errors
/// [`Error::LengthMismatch`], [`Error::WrongDevice`], or what the device reports.
pub fn nan_if_empty(device: &OpenCl, counts: &Buffer<u32>, values: &mut Buffer<u64>) -> Result<()> {
    Error::check_length("values", values.len(), counts.len())?;
    let program = program::<u32, u32>(device, false, false)?;
    let launch = device.kernel(&program, "nan_if_empty")?.buffer(counts).value(counts.len() as u64);
    launch.buffer(values).over(counts.len())
}

/// The first `len` bits of a bitmap as bytes, 0 or 1. Writes `len / 4` words, rounded up; the last bytes may belong to
/// later bits.
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
    program_of(device, (F::BITS, from_signed), (K::BITS, to_signed))
}

fn program_of(device: &OpenCl, from: (u32, bool), to: (u32, bool)) -> Result<ocl::core::Program> {
    let parameters =
        [("FROM_BITS", from.0), ("FROM_SIGNED", from.1.into()), ("TO_BITS", to.0), ("TO_SIGNED", to.1.into())];
    device.program(INTERCHANGE, &parameters)
}
