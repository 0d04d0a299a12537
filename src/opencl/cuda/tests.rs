//! The kernels of cl/interchange.cl against the same arithmetic here, and what happens without a driver.

use super::{Cuda, bits_to_bytes, keys_to_words};
use crate::backend::{HashBackend as _, Word};
use crate::error::{Error, Result};
use crate::opencl::OpenCl;
use crate::opencl::tests::device;

const EDGES: [u64; 14] = [
    0,
    1,
    0x7fff_ffff,
    0x8000_0000,
    0x8000_0001,
    0xffff_fffe,
    0xffff_ffff,
    0x1_0000_0000,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    0xffff_ffff_7fff_ffff,
    0xffff_ffff_8000_0000,
    0xffff_ffff_ffff_fffe,
    u64::MAX,
];

fn value(word: u64, bits: u32, is_signed: bool) -> i128 {
    match (is_signed, bits) {
        (false, _) => word.into(),
        (true, 32) => i128::from(word as u32 as i32),
        (true, _) => i128::from(word as i64),
    }
}

fn compare<F: Word, K: Word>(device: &OpenCl, are_signed: bool, to_signed: bool) -> Result<()> {
    let keys: Vec<F> = EDGES.into_iter().map(F::low).collect();
    let words = keys_to_words(device, &device.upload(&keys)?, are_signed, to_signed, K::low(77))?;
    let (least, most) = match to_signed {
        true => (-1_i128 << (K::BITS - 1), (1_i128 << (K::BITS - 1)) - 1),
        false => (0, (1_i128 << K::BITS) - 1),
    };
    let expected = keys.iter().map(|&key| {
        let value = value(key.into(), F::BITS, are_signed);
        // In the order of the words, the least value is 0.
        if (least..=most).contains(&value) { K::low((value - least) as u64) } else { K::low(77) }
    });
    let expected: Vec<K> = expected.collect();
    assert_eq!(device.download(&words)?, expected, "{} {are_signed} -> {} {to_signed}", F::BITS, K::BITS);
    Ok(())
}

#[test]
fn integers_of_every_type_become_words_of_every_type() -> Result<()> {
    let Some(device) = device() else { return Ok(()) };
    for (are_signed, to_signed) in [(false, false), (false, true), (true, false), (true, true)] {
        compare::<u32, u32>(device, are_signed, to_signed)?;
        compare::<u32, u64>(device, are_signed, to_signed)?;
        compare::<u64, u32>(device, are_signed, to_signed)?;
        compare::<u64, u64>(device, are_signed, to_signed)?;
    }
    Ok(())
}

#[test]
fn bitmaps_become_bytes() -> Result<()> {
    let Some(device) = device() else { return Ok(()) };
    for len in [0_usize, 1, 3, 4, 31, 32, 33, 1000] {
        let bits: Vec<u32> = (0..len.div_ceil(32) as u32).map(|i| 0x9e37_79b9_u32.wrapping_mul(i + 1)).collect();
        let mut bytes = device.filled(len.div_ceil(4), 0_u32)?;
        bits_to_bytes(device, &device.upload(&bits)?, len, &mut bytes)?;
        let bytes = device.download(&bytes)?;
        let bytes: &[u8] = bytemuck::cast_slice(&bytes);
        for i in 0..len {
            assert_eq!(u32::from(bytes[i]), bits[i / 32] >> (i % 32) & 1, "bit {i} of {len}");
        }
        let refused = bits_to_bytes(device, &device.upload(&bits)?, len, &mut device.filled(len / 4 + 2, 0)?);
        assert!(matches!(refused, Err(Error::LengthMismatch { .. })));
    }
    Ok(())
}

#[test]
fn a_device_that_is_not_nvidias_has_no_cuda() -> Result<()> {
    let Some(device) = device() else { return Ok(()) };
    if device.info().driver.contains("NVIDIA") {
        return Ok(());
    }
    assert!(matches!(Cuda::of(device), Err(Error::NoDevice { .. })));
    assert!(matches!(Cuda::nth(-1), Err(Error::NoDevice { .. })));
    Ok(())
}
