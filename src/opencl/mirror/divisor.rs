//! Compares cl/divisor.clh with src/scheme/divisor.rs, bit for bit.

use crate::backend::HashBackend;
use crate::error::Result;
use crate::opencl::runtime::program::MIRROR_DIVISOR;
use crate::opencl::runtime::sizes::GROUP;
use crate::opencl::tests::{device, noise, small};
use crate::scheme::divisor::{Divisor, Factor, LongDivisor};

const EDGES: [u32; 9] = [0, 1, 2, 65_535, 65_536, 0x7fff_ffff, 0x8000_0000, u32::MAX - 1, u32::MAX];

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn quotients_remainders_and_products_are_those_of_their_twins() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let random = noise(1, 3 * if small() { 300 } else { 100_000 });
    // Divisors of every magnitude.
    let random = random.chunks_exact(3).map(|x| [x[0], x[1] >> (x[1] % 32), x[2]]);
    let edges = EDGES.iter().flat_map(|&x| EDGES.iter().flat_map(move |&n| EDGES.map(|times| [x, n, times])));
    let rows: Vec<(u32, Divisor, Factor, u64, LongDivisor)> = edges
        .chain(random)
        .map(|[x, n, times]| {
            // Numbers of 64 bits, and divisors of all 32.
            let (long, of_long) = (u64::from(x) << 32 | u64::from(times), LongDivisor::new(n));
            let n = n.clamp(1, Divisor::MOST);
            (x, Divisor::new(n), Factor::new(times % n, n), long, of_long)
        })
        .collect();
    let inputs: Vec<_> =
        rows.iter().map(|(x, by, factor, ..)| [*x, by.n, by.reciprocal, factor.times, factor.ratio]).collect();
    let of_long: Vec<_> = rows.iter().map(|(.., long, by)| [*long, by.n.into(), by.reciprocal]).collect();
    let (from, to) = (cl.upload(inputs.as_flattened())?, cl.filled(rows.len() * 5, u64::MAX)?);
    let from_long = cl.upload(of_long.as_flattened())?;
    let program = cl.program(MIRROR_DIVISOR, &[("GROUP", GROUP as u32)])?;
    let launch =
        cl.kernel(&program, "mirror_divisor")?.buffer(&from).buffer(&from_long).buffer(&to).value(rows.len() as u64);
    launch.over_groups_of(GROUP, rows.len(), rows.len())?;
    for (&(x, by, factor, long, by_long), found) in rows.iter().zip(cl.download(&to)?.chunks_exact(5)) {
        let (quotient, remainder) = by.divide(x);
        let of_long = by_long.divide(long);
        let expected = [
            by.remainder(x).into(),
            u64::from(quotient) << 32 | u64::from(remainder),
            factor.product(x, by.n).into(),
            of_long.0,
            of_long.1.into(),
        ];
        assert_eq!(found, expected, "{x:#x}, {by:?}, {factor:?}, {long:#x}, {by_long:?}");
    }
    Ok(())
}
