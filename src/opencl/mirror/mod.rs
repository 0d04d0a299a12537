//! Compares cl/scheme.clh and cl/bucketized.clh with src/scheme, bit for bit: random inputs, and the extremes of
//! arguments.

mod divisor;
mod fks;
mod horton;
mod perfect;
mod robin_hood;
mod robin_hood_wide;
mod signpost;
mod wide;

use super::Buffer;
use super::bucketized;
use super::runtime::program::{MIRROR, MIRROR_BUCKETIZED};
use super::runtime::sizes::GROUP;
use super::tests::{device, small};
use crate::backend::{HashBackend, bitmap_words};
use crate::error::Result;
use crate::scheme::hash::{ALCANTARA_PRIME, MixKeys, SplitMix64, linear_family, mix, reduce, unmix, xor_family};
use crate::scheme::{Bucketized, BucketizedPlan, Kind, Plan, Request, Scheme, slot};

/// Inputs of one work-item: x, n, and a mixer's keys in the order of its fields.
const INPUTS: usize = 6;
const OUTPUTS: usize = 12;

const EDGES: [u32; 10] = [0, 1, 2, 15, 16, 0x7fff_ffff, 0x8000_0000, ALCANTARA_PRIME, u32::MAX - 1, u32::MAX];

fn rows() -> Vec<[u32; INPUTS]> {
    let row = |x, n, a, times, b| {
        let MixKeys { before, times, back, between } = MixKeys::new(a, times, b);
        [x, n, before, times, back, between]
    };
    let mut rows = Vec::new();
    for x in EDGES {
        for n in EDGES {
            rows.extend(EDGES.map(|a| row(x, n, a, !a, x ^ a)));
        }
    }
    let mut stream = SplitMix64::new(7);
    let mut next = || stream.next_u32();
    for _ in 0..if small() { 500 } else { 200_000 } {
        // Sizes of every magnitude.
        let n = next() >> (next() % 32);
        rows.push(row(next(), n, next(), next(), next()));
    }
    rows
}

/// The results that `mirror` in cl/mirror.cl must compute.
fn expected([x, n, before, times, back, between]: [u32; INPUTS]) -> [u64; OUTPUTS] {
    let keys = MixKeys { before, times, back, between };
    let (bucket, remainder) = slot::split(x, n);
    let any = u64::from(x) << 32 | u64::from(n);
    [
        mix(x, keys).into(),
        unmix(x, keys).into(),
        unmix(mix(x, keys), keys).into(),
        reduce(x, n).into(),
        u64::from(bucket) << 32 | u64::from(remainder),
        slot::join(bucket, remainder, n).into(),
        slot::join(before, between, n).into(),
        linear_family(x, before, between, ALCANTARA_PRIME, n.max(1)).into(),
        xor_family(x, before, between, ALCANTARA_PRIME, n.max(1)).into(),
        slot::word(before % 16, remainder, x),
        u64::from(slot::age(any)) << 32 | u64::from(slot::remainder(any)),
        slot::upper(before % 16, remainder).into(),
    ]
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn every_function_is_its_twin() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let rows = rows();
    let to: Buffer<u64> = cl.filled(rows.len() * OUTPUTS, u64::MAX)?;
    let program = cl.program(MIRROR, &[("GROUP", GROUP as u32)])?;
    let from = cl.upload(rows.as_flattened())?;
    let launch = cl.kernel(&program, "mirror")?.buffer(&from).buffer(&to).value(rows.len() as u64);
    launch.over_groups_of(GROUP, rows.len(), rows.len())?;
    for (row, found) in rows.iter().zip(cl.download(&to)?.chunks_exact(OUTPUTS)) {
        assert_eq!(found, expected(*row), "inputs {row:x?}");
    }
    Ok(())
}

/// Both implementations could have the same error, so the mixer is compared with published values of MurmurHash3.
#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn the_mixer_on_the_device_is_murmur3s() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let known = [(0, 0), (1, 0x514e_28b7), (u32::MAX, 0x81f1_6f39u64)];
    let rows = known.map(|(x, _)| [x, 1, 0, 1, 1, 0]);
    let to: Buffer<u64> = cl.filled(rows.len() * OUTPUTS, 0)?;
    let program = cl.program(MIRROR, &[("GROUP", GROUP as u32)])?;
    let from = cl.upload(rows.as_flattened())?;
    let launch = cl.kernel(&program, "mirror")?.buffer(&from).buffer(&to).value(rows.len() as u64);
    launch.over_groups_of(GROUP, rows.len(), rows.len())?;
    let found: Vec<u64> = cl.download(&to)?.chunks_exact(OUTPUTS).map(|row| row[0]).collect();
    assert_eq!(found, known.map(|(_, mixed)| mixed));
    Ok(())
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn answers_are_packed_in_order() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    for group in [32, 64, 256] {
        let program = cl.program(MIRROR, &[("GROUP", group)])?;
        for len in [1, 7, 8, 31, 32, 33, 63, 64, 65, 257, 1000] {
            let answers = super::tests::noise(len as u64, len);
            let from = cl.upload(&answers)?;
            let to = cl.filled(bitmap_words(len), 0x5555_5555u32)?;
            let launch = cl.kernel(&program, "mirror_bitmap")?.buffer(&from).buffer(&to).value(len as u64);
            launch.over_groups_of(group as usize, len, len)?;
            let packed: Vec<u32> = answers
                .chunks(32)
                .map(|chunk| chunk.iter().enumerate().fold(0, |bits, (i, x)| bits | (x & 1) << i))
                .collect();
            assert_eq!(cl.download(&to)?, packed, "{len} answers in groups of {group}");
        }
    }
    Ok(())
}

/// The results that `mirror_bucketized` in cl/mirror_bucketized.cl must compute.
fn expected_places(plan: &BucketizedPlan, key: u32, bucket: u32, remainder: u32) -> [u64; 10] {
    let f = plan.functions();
    if plan.kind() == Kind::Classic {
        let mut places: Vec<u64> = f.locations(key).map(u64::from).collect();
        places.resize(4, 0);
        return [places[0], places[1], places[2], places[3], f.first_choice(key).into(), 0, 0, 0, 0, 0];
    }
    let (home, own) = f.home(key);
    let mut to = [0; 10];
    to[0] = u64::from(home) << 32 | u64::from(own);
    for turn in 0..3 {
        to[1 + turn] = f.bucket(turn, home, own).into();
        to[4 + turn] = f.home_of(turn, bucket, remainder).into();
        to[7 + turn] = f.key_at(turn, bucket, remainder).into();
    }
    to
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn keys_of_bucketized_tables_go_where_their_twins_go() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let canonical = [4, 8, 16].map(Bucketized::canonical);
    let classic = [2, 3, 4].map(|functions| Bucketized::classic(functions, 8));
    for scheme in canonical.iter().chain(&classic) {
        // Buckets: the fewest, a part and one more, parts and a rest, and the most.
        for (seed, buckets) in [16, 129, 257, 513, 77_777, 1 << 30].into_iter().enumerate() {
            let slots =
                buckets * u64::from(scheme.plan(Request { slots: 0, pairs: 0, seed: 0, attempt: 0 })?.bucket_slots());
            let plan = scheme.plan(Request { slots, pairs: 0, seed: seed as u64, attempt: 3 })?;
            let count = if small() { 200 } else { 20_000 };
            let random = super::tests::noise(seed as u64, 3 * count);
            let random = random.chunks_exact(3).map(|x| [x[0], reduce(x[1], plan.buckets()), x[2] >> slot::AGE_BITS]);
            let last = plan.buckets() - 1;
            let edges = EDGES.iter().flat_map(|&key| [[key, 0, 0], [key, last, u32::MAX >> slot::AGE_BITS]]);
            let rows: Vec<[u32; 3]> = edges.chain(random).collect();
            let (from, to) = (cl.upload(rows.as_flattened())?, cl.filled(rows.len() * 10, u64::MAX)?);
            let program = cl.program(MIRROR_BUCKETIZED, &bucketized::parameters(&plan, GROUP))?;
            let launch = cl.kernel(&program, "mirror_bucketized")?.buffer(&from).buffer(&to).value(rows.len() as u64);
            let launch = launch.value(plan.buckets()).mixers(&plan.functions().keys);
            launch.over_groups_of(GROUP, rows.len(), rows.len())?;
            for (row, found) in rows.iter().zip(cl.download(&to)?.chunks_exact(10)) {
                assert_eq!(found, expected_places(&plan, row[0], row[1], row[2]), "{plan:?}, inputs {row:x?}");
            }
        }
    }
    Ok(())
}
