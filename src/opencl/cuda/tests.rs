//! Compares the kernels of cl/interchange.cl with the same arithmetic on the host, and tests what happens without a
//! driver.

use super::{
    Cuda, Grid, Matrix, Part, Voxels, append_column, bits_to_bytes, column_of, doubles_to_floats, floats_to_doubles,
    has_nan, keys_to_words, nan_if_empty, neighbours, resized, rows_to_integers, without_nan, without_negative_zero,
};
use crate::backend::{HashBackend as _, Word};
use crate::error::{Error, Result};
use crate::opencl::Buffer;
use crate::opencl::OpenCl;
use crate::opencl::tests::{device, small};

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
    let mut words = device.unwritten(keys.len())?;
    keys_to_words(device, &device.upload(&keys)?, are_signed, to_signed, K::low(77), &mut words)?;
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
fn words_become_keys_again_and_integers_are_resized() -> Result<()> {
    let Some(device) = device() else { return Ok(()) };
    let keys = device.upload(&EDGES)?;
    let (mut words, mut back) = (device.unwritten(EDGES.len())?, device.unwritten(EDGES.len())?);
    keys_to_words(device, &keys, true, true, 0_u64, &mut words)?;
    keys_to_words(device, &words, true, true, 0_u64, &mut back)?;
    assert_eq!(device.download(&back)?, EDGES);
    let low: Vec<u32> = EDGES.iter().map(|&edge| edge as u32).collect();
    let mut narrow = device.unwritten::<u32>(EDGES.len())?;
    resized(device, &keys, true, &mut narrow)?;
    assert_eq!(device.download(&narrow)?, low);
    for is_signed in [false, true] {
        resized(device, &narrow, is_signed, &mut back)?;
        let wide = |&low: &u32| if is_signed { low as i32 as u64 } else { low.into() };
        assert_eq!(device.download(&back)?, low.iter().map(wide).collect::<Vec<u64>>());
    }
    Ok(())
}

#[test]
fn row_numbers_become_integers() -> Result<()> {
    let Some(device) = device() else { return Ok(()) };
    let rows = [0, 7, u32::MAX, u32::MAX - 1];
    let mut to = device.unwritten(rows.len())?;
    rows_to_integers(device, &device.upload(&rows)?, &mut to)?;
    assert_eq!(device.download(&to)?, [0, 7, u64::MAX, 0xffff_fffe]);
    let refused = rows_to_integers(device, &device.upload(&rows[1..])?, &mut to);
    assert!(matches!(refused, Err(Error::LengthMismatch { .. })));
    Ok(())
}

#[test]
fn floats_become_doubles_and_floats_again() -> Result<()> {
    let Some(device) = device() else { return Ok(()) };
    let floats =
        [0.0, -0.0, 0.1, -f32::MAX, f32::INFINITY, f32::MIN_POSITIVE, f32::from_bits(1), f32::from_bits(0x7f_ffff)];
    let (mut wide, mut back) = (device.unwritten(floats.len())?, device.unwritten(floats.len())?);
    floats_to_doubles(device, &device.upload(&floats.map(f32::to_bits))?, &mut wide)?;
    assert_eq!(device.download(&wide)?, floats.map(|float| f64::from(float).to_bits()));
    doubles_to_floats(device, &wide, &mut back)?;
    assert_eq!(device.download(&back)?, floats.map(f32::to_bits));
    let (mut nans, sorts) = (device.unwritten(3)?, [f64::NAN, -f64::NAN, f64::from_bits(0x7ff0_0000_0000_0001)]);
    doubles_to_floats(device, &device.upload(&sorts.map(f64::to_bits))?, &mut nans)?;
    assert_eq!(device.download(&nans)?, [f32::NAN.to_bits(); 3]);
    assert!(!has_nan(device, &wide)? && !has_nan(device, &device.upload(&[])?)?);
    for nan in sorts {
        assert!(has_nan(device, &device.upload(&[1.0, nan, 2.0].map(f64::to_bits))?)?);
    }
    Ok(())
}

#[test]
fn rows_with_nan_have_no_group() -> Result<()> {
    let Some(device) = device() else { return Ok(()) };
    let values = [0.0, -0.0, f64::NAN, f64::INFINITY, -f64::NAN, f64::NEG_INFINITY, f64::MIN_POSITIVE];
    let ids: Vec<u32> = (0..values.len() as u32).collect();
    let expected: Vec<u32> = ids.iter().map(|&id| if values[id as usize].is_nan() { u32::MAX } else { id }).collect();
    let bits = device.upload(&values.map(f64::to_bits))?;
    assert_eq!(device.download(&without_nan(device, &device.upload(&ids)?, &bits)?)?, expected);
    let mut means = device.upload(&[1.5, 2.5].map(f64::to_bits))?;
    nan_if_empty(device, &device.upload(&[0, 3])?, &mut means)?;
    assert_eq!(device.download(&means)?, [f64::NAN.to_bits(), 2.5_f64.to_bits()]);
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

/// The lowest bytes of items, in words.
fn packed(items: &[u64], bits: u32) -> Vec<u32> {
    let mut bytes: Vec<u8> = items.iter().flat_map(|item| item.to_le_bytes()[..bits as usize / 8].to_vec()).collect();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytemuck::pod_collect_to_vec(&bytes)
}

fn check_columns<K: Word>(device: &OpenCl, parts: &[Part]) -> Result<()> {
    // Combines each item with each item of the next column.
    let len = EDGES.len() * EDGES.len();
    let items = |column: usize| (0..len).map(move |i| EDGES[(i / EDGES.len().pow(column as u32 % 2)) % EDGES.len()]);
    let mut words = device.unwritten::<K>(len)?;
    for (column, &of) in parts.iter().enumerate() {
        let items: Vec<u64> = items(column).collect();
        append_column(device, &device.upload(&packed(&items, of.bits))?, of, column == 0, &mut words)?;
    }
    // Keys have the same order as their words.
    let signed = |item: u64, of: Part| match of.is_signed {
        true => i128::from((item << (64 - of.bits)) as i64 >> (64 - of.bits)),
        false => i128::from(item & u64::MAX >> (64 - of.bits)),
    };
    let key = |i: usize| -> Vec<i128> {
        parts.iter().enumerate().map(|(column, &of)| signed(items(column).nth(i).unwrap_or(0), of)).collect()
    };
    let found = device.download(&words)?;
    let mut order: Vec<usize> = (0..len).collect();
    order.sort_by_key(|&i| found[i]);
    for pair in order.windows(2) {
        let (lower, upper) = (key(pair[0]), key(pair[1]));
        assert_eq!(lower.cmp(&upper), found[pair[0]].cmp(&found[pair[1]]), "{parts:?}: {lower:?}, {upper:?}");
    }
    let mut shift = parts.iter().map(|of| of.bits).sum::<u32>();
    for (column, &of) in parts.iter().enumerate() {
        shift -= of.bits;
        let expected = packed(&items(column).collect::<Vec<_>>(), of.bits);
        let mut to = device.filled(expected.len(), 0_u32)?;
        column_of(device, &words, shift, of, &mut to)?;
        assert_eq!(device.download(&to)?, expected, "column {column} of {parts:?}");
        let refused = column_of(device, &words, shift, of, &mut device.filled(expected.len() + 1, 0)?);
        assert!(matches!(refused, Err(Error::LengthMismatch { .. })));
    }
    Ok(())
}

#[test]
fn keys_of_several_columns_are_words() -> Result<()> {
    let Some(device) = device() else { return Ok(()) };
    let part = |bits, is_signed| Part { bits, is_signed };
    check_columns::<u64>(device, &[part(32, true), part(32, false)])?;
    check_columns::<u64>(device, &[part(16, false), part(8, true), part(32, true), part(8, false)])?;
    check_columns::<u64>(device, &[part(64, true)])?;
    check_columns::<u32>(device, &[part(16, true), part(8, false)])?;
    let (column, mut words) = (device.filled(2, 0_u32)?, device.filled(1, 0_u32)?);
    for bits in [4, 64] {
        let refused = append_column(device, &column, part(bits, false), true, &mut words);
        assert!(matches!(refused, Err(Error::InvalidParameter { .. })), "{bits}");
    }
    Ok(())
}

#[test]
fn zeros_are_one_value() -> Result<()> {
    let Some(device) = device() else { return Ok(()) };
    let values = [0.0, -0.0, -1.5, f64::INFINITY, f64::MIN_POSITIVE].map(f64::to_bits);
    let found = without_negative_zero(device, &device.upload(&values)?)?;
    assert_eq!(device.download(&found)?, [0.0, 0.0, -1.5, f64::INFINITY, f64::MIN_POSITIVE].map(f64::to_bits));
    Ok(())
}

/// A matrix of these rows, and its transpose.
fn in_both_orders<const C: usize>(device: &OpenCl, rows: &[[u32; C]]) -> Result<[(Buffer<u32>, usize, usize); 2]> {
    let transposed: Vec<u32> = (0..C).flat_map(|column| rows.iter().map(move |row| row[column])).collect();
    Ok([(device.upload(rows.as_flattened())?, C, 1), (device.upload(&transposed)?, 1, rows.len())])
}

#[test]
fn points_are_gathered_by_voxel() -> Result<()> {
    let Some(device) = device() else { return Ok(()) };
    let points = [[0.1, 0.0, 0.0, 7.0], [5.0, 0.0, -0.5, 8.0], [0.2, 0.0, 0.0, 9.0], [f32::NAN, 0.0, 0.0, 6.0]];
    let points = [&points[..], &[[0.9, 0.99, 0.0, 5.0], [-0.1, 0.0, 3.0, 4.0]]].concat();
    let bits: Vec<[u32; 4]> = points.iter().map(|point| point.map(f32::to_bits)).collect();
    let grid = |cells| Grid { size: [1.0; 3], least: [0.0; 3], cells };
    // The kernels are the same for both orders, and a simulator is slow.
    let skipped = usize::from(small());
    for (items, row_step, column_step) in in_both_orders(device, &bits)?.into_iter().skip(skipped) {
        let matrix = Matrix { items: &items, rows: points.len(), columns: 4, row_step, column_step };
        for (grid, most, expected) in [
            (grid(None), 9, &[([0, 0, 0], &[7.0, 9.0][..]), ([-1, 0, 5], &[8.0]), ([3, 0, -1], &[4.0])][..]),
            (grid(None), 1, &[([0, 0, 0], &[7.0, 9.0])]),
            (grid(Some([9, 9, 9])), 9, &[([0, 0, 0], &[7.0, 9.0])]),
        ] {
            let voxels = Voxels::of(device, &matrix, &grid, most)?;
            assert_eq!(voxels.len(), expected.len());
            let (mut places, mut counts) = (device.unwritten(3 * voxels.len())?, device.unwritten(voxels.len())?);
            let mut gathered = device.unwritten(voxels.len() * 2 * 4)?;
            voxels.places(&mut places)?;
            voxels.points(&matrix, 2, &mut gathered, &mut counts)?;
            let (places, counts) = (device.download(&places)?, device.download(&counts)?);
            let gathered = device.download(&gathered)?;
            for (i, &(place, fourths)) in expected.iter().enumerate() {
                assert_eq!(places[3 * i..][..3], place.map(|place: i32| place as u32));
                assert_eq!(counts[i] as usize, fourths.len());
                for slot in 0..2 {
                    let fourth = fourths.get(slot).copied().unwrap_or(0.0_f32);
                    assert_eq!(f32::from_bits(gathered[(2 * i + slot) * 4 + 3]), fourth);
                }
            }
        }
        let tiny = Grid { size: [1e-9; 3], ..grid(None) };
        assert!(matches!(Voxels::of(device, &matrix, &tiny, 9), Err(Error::InvalidParameter { .. })));
        let outside = Matrix { rows: 7, ..matrix };
        assert!(matches!(Voxels::of(device, &outside, &grid(None), 9), Err(Error::InvalidParameter { .. })));
    }
    Ok(())
}

#[test]
fn neighbours_are_numbered() -> Result<()> {
    let Some(device) = device() else { return Ok(()) };
    let far = 1 << 20;
    let places = [[0, 0, 0], [0, 0, 1], [-1, 1, 0], [far - 1, 0, -far], [-far, 0, far - 1]];
    let bits = places.map(|place| place.map(|place: i32| place as u32));
    for (items, row_step, column_step) in in_both_orders(device, &bits)? {
        let matrix = Matrix { items: &items, rows: places.len(), columns: 3, row_step, column_step };
        let mut found = device.unwritten(places.len() * 27)?;
        neighbours(device, &matrix, 3, &mut found)?;
        let found = device.download(&found)?;
        for (i, place) in places.iter().enumerate() {
            for cell in 0..27_i32 {
                let moved = [place[0] + cell / 9 - 1, place[1] + cell / 3 % 3 - 1, place[2] + cell % 3 - 1];
                let expected = places.iter().position(|&place| place == moved).map_or(u32::MAX, |at| at as u32);
                assert_eq!(found[27 * i + cell as usize], expected, "cell {cell} of place {i}");
            }
        }
    }
    for (places, span) in [([[0_u32; 3]; 2], 3), ([[0; 3], [1 << 20, 0, 0]], 3), ([[0; 3], [1, 0, 0]], 2)] {
        let items = device.upload(places.as_flattened())?;
        let matrix = Matrix { items: &items, rows: 2, columns: 3, row_step: 3, column_step: 1 };
        let refused = neighbours(device, &matrix, span, &mut device.unwritten(54)?);
        assert!(matches!(refused, Err(Error::InvalidParameter { .. })));
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
