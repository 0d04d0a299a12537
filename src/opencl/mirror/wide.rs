//! Compares the arithmetic of 64-bit keys in cl/wide.clh and cl/bucketized_wide.clh with plain 128-bit integers, and
//! with src/scheme.

use crate::backend::HashBackend;
use crate::error::Result;
use crate::opencl::Buffer;
use crate::opencl::bucketized::wide::parameters;
use crate::opencl::runtime::program::MIRROR_WIDE;
use crate::opencl::runtime::sizes::GROUP;
use crate::opencl::tests::{device, small};
use crate::scheme::bucketized::wide::SlotKey;
use crate::scheme::hash::{MixKeys64, SplitMix64, mix_64, unmix_64};

const INPUTS: usize = 8;
const OUTPUTS: usize = 7;

const EDGES: [u64; 9] = [0, 1, 15, 16, 1 << 32, u32::MAX as u64, 1 << 63, u64::MAX - 1, u64::MAX];

/// Key, a mixer's numbers in the order of its fields, n, a bucket below it, a remainder.
fn rows() -> Vec<[u64; INPUTS]> {
    let row = |key, a, times, b, n: u64, bucket: u64, remainder: u64| {
        let MixKeys64 { before, times, back, between } = MixKeys64::new(a, times, b);
        let n = (n as u32).max(1).into();
        [key, before, times, back, between, n, bucket % n, remainder >> 4]
    };
    let mut rows = Vec::new();
    for key in EDGES {
        for n in [1, 15, 16, 17, 1 << 31, u64::from(u32::MAX)] {
            rows.extend(EDGES.map(|a| row(key, a, !a, key ^ a, n, a, !key)));
        }
    }
    let mut stream = SplitMix64::new(11);
    let mut next = || stream.next_u64();
    for _ in 0..if small() { 300 } else { 100_000 } {
        // Sizes of every magnitude.
        let n = u64::from(next() as u32 >> (next() % 32));
        rows.push(row(next(), next(), next(), next(), n, next(), next()));
    }
    rows
}

/// The results that `mirror_wide` in cl/mirror_wide.cl must compute.
fn expected([key, before, times, back, between, n, bucket, remainder]: [u64; INPUTS]) -> [u64; OUTPUTS] {
    let mixer = MixKeys64 { before, times, back, between };
    let product = u128::from(mix_64(key, mixer)) * u128::from(n);
    let (home, own) = ((product >> 64) as u64, product as u64 >> 4);
    let join = |home: u64, own: u64| {
        let numerator = u128::from(home) << 64 | u128::from(own) << 4;
        (numerator / u128::from(n) + u128::from(numerator % u128::from(n) != 0)) as u64
    };
    assert_eq!(mix_64(key, mixer).split(n as u32), (home as u32, own));
    assert_eq!(u64::join(bucket as u32, remainder, n as u32), join(bucket, remainder));
    [
        mix_64(key, mixer),
        unmix_64(key, mixer),
        home,
        own,
        unmix_64(join(home, own), mixer),
        unmix_64(join(bucket, remainder), mixer),
        (key ^ key >> 32) & u64::from(u32::MAX),
    ]
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn mixers_products_and_quotients_of_64_bit_keys_are_those_of_their_twins() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let rows = rows();
    let to: Buffer<u64> = cl.filled(rows.len() * OUTPUTS, 9)?;
    let program = cl.program(MIRROR_WIDE, &parameters::<(u64, u64)>(GROUP))?;
    let from = cl.upload(rows.as_flattened())?;
    let launch = cl.kernel(&program, "mirror_wide")?.buffer(&from).buffer(&to).value(rows.len() as u64);
    launch.over_groups_of(GROUP, rows.len(), rows.len())?;
    for (row, found) in rows.iter().zip(cl.download(&to)?.chunks_exact(OUTPUTS)) {
        assert_eq!(found, expected(*row), "inputs {row:x?}");
        // From 16 slots on no bit is lost.
        assert!(row[5] < 16 || found[4] == row[0], "inputs {row:x?}");
    }
    Ok(())
}
