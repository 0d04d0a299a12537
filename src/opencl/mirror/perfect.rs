//! Compares cl/perfect.clh with src/scheme/perfect/functions.rs, bit for bit.

use crate::backend::HashBackend;
use crate::error::Result;
use crate::opencl::perfect::sizes;
use crate::opencl::runtime::program::MIRROR_PERFECT;
use crate::opencl::runtime::sizes::GROUP;
use crate::opencl::tests::{device, noise, small};
use crate::scheme::{Perfect, Request, Scheme};

const EDGES: [u32; 9] = [0, 1, 2, 65_535, 65_536, 0x7fff_ffff, 0x8000_0000, u32::MAX - 1, u32::MAX];

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn keys_go_where_their_twins_go() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let planes = [1, 3, 1000, 65_536, 1 << 31].map(Perfect::plane);
    let volumes = [(256, 256), (1000, 30), (1, 1), (1 << 31, 7)].map(|(width, height)| Perfect::volume(width, height));
    for scheme in planes.iter().chain(&volumes) {
        for slots in [1, 2, 50, 1000, 123_456, 1 << 30] {
            for attempt in [0, 5, 40] {
                let plan = scheme.plan(Request { slots, pairs: 0, seed: 3, attempt })?;
                let functions = plan.functions();
                let count = if small() { 100 } else { 3000 };
                let random = noise(slots, 2 * count);
                let random = random.chunks_exact(2).map(|x| [x[0], x[1]]);
                let edges = EDGES.iter().flat_map(|&key| EDGES.map(|offset| [key, offset]));
                let rows: Vec<[u32; 2]> = edges.chain(random).collect();
                let (from, to) = (cl.upload(rows.as_flattened())?, cl.filled(rows.len() * 2, u64::MAX)?);
                let program = cl.program(MIRROR_PERFECT, &[("AXES", plan.axes()), ("GROUP", GROUP as u32)])?;
                let launch = cl.kernel(&program, "mirror_perfect")?.buffer(&from).buffer(&to).value(rows.len() as u64);
                launch.value(sizes(&functions)).over_groups_of(GROUP, rows.len(), rows.len())?;
                for (&[key, offset], found) in rows.iter().zip(cl.download(&to)?.chunks_exact(2)) {
                    let (cell, base) = functions.home(key);
                    let expected = [u64::from(cell) << 32 | u64::from(base), functions.slot(base, offset).into()];
                    assert_eq!(found, expected, "{plan:?}, key {key:#x}, offset {offset:#x}");
                }
            }
        }
    }
    Ok(())
}
