//! cl/divisor.clh against src/scheme/divisor.rs, bit for bit.

use crate::backend::HashBackend;
use crate::error::Result;
use crate::opencl::runtime::program::MIRROR_DIVISOR;
use crate::opencl::runtime::sizes::GROUP;
use crate::opencl::tests::{device, noise, small};
use crate::scheme::divisor::{Divisor, Factor};

const EDGES: [u32; 9] = [0, 1, 2, 65_535, 65_536, 0x7fff_ffff, 0x8000_0000, u32::MAX - 1, u32::MAX];

#[test]
fn quotients_remainders_and_products_are_those_of_their_twins() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let random = noise(1, 3 * if small() { 300 } else { 100_000 });
    // Divisors of every magnitude.
    let random = random.chunks_exact(3).map(|x| [x[0], x[1] >> (x[1] % 32), x[2]]);
    let edges = EDGES.iter().flat_map(|&x| EDGES.iter().flat_map(move |&n| EDGES.map(|times| [x, n, times])));
    let rows: Vec<(u32, Divisor, Factor)> = edges
        .chain(random)
        .map(|[x, n, times]| {
            let n = n.clamp(1, Divisor::MOST);
            (x, Divisor::new(n), Factor::new(times % n, n))
        })
        .collect();
    let inputs: Vec<_> =
        rows.iter().map(|(x, by, factor)| [*x, by.n, by.reciprocal, factor.times, factor.ratio]).collect();
    let (from, to) = (cl.upload(inputs.as_flattened())?, cl.filled(rows.len() * 3, u64::MAX)?);
    let program = cl.program(MIRROR_DIVISOR, &[("GROUP", GROUP as u32)])?;
    let launch = cl.kernel(&program, "mirror_divisor")?.buffer(&from).buffer(&to).value(rows.len() as u64);
    launch.over_groups_of(GROUP, rows.len(), rows.len())?;
    for (&(x, by, factor), found) in rows.iter().zip(cl.download(&to)?.chunks_exact(3)) {
        let (quotient, remainder) = by.divide(x);
        let expected =
            [by.remainder(x).into(), u64::from(quotient) << 32 | u64::from(remainder), factor.product(x, by.n).into()];
        assert_eq!(found, expected, "{x:#x}, {by:?}, {factor:?}");
    }
    Ok(())
}
