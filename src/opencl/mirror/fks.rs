//! Compares cl/fks.clh with src/scheme/fks, bit for bit: both kinds and families, the fewest buckets and the most.

use crate::backend::HashBackend;
use crate::error::Result;
use crate::opencl::Buffer;
use crate::opencl::fks;
use crate::opencl::runtime::program::MIRROR_FKS;
use crate::opencl::runtime::sizes::GROUP;
use crate::opencl::tests::{device, noise, small};
use crate::scheme::fks::{FksFamily, Functions, SUBTABLE_SLOTS, SUBTABLES, canonical, turn, tweak};
use crate::scheme::{Fks, FksPlan, Kind, Plan, Request, Scheme, slot};

/// Inputs of one work-item: key, seed number, slot of a sub-table, upper half.
const INPUTS: usize = 4;
const OUTPUTS: usize = 1 + 4 * SUBTABLES as usize;

/// Random rows. Every third key is an extreme, and every other upper half is one that its key would have in a first or
/// second round of offers.
fn rows(functions: &Functions, seed: u64) -> Vec<[u32; INPUTS]> {
    let edges = [0, 1, u32::MAX, u32::MAX - 1, 1 << 31];
    let random = noise(seed, INPUTS * if small() { 200 } else { 10_000 });
    let row = |(at, x): (usize, &[u32])| {
        let &[key, number, slot, half] = x else { panic!("a row") };
        let key = if at % 3 == 0 { edges[at / 3 % edges.len()] } else { key };
        let number = number % functions.seeds();
        let (own, rem) = functions.probe(half % SUBTABLES, tweak(number), key);
        match at % 4 {
            0 => [key, number, own, slot::upper(1 + half % (slot::MAX_AGE + 1), rem)],
            2 => [key, number, own, key],
            _ => [key, number, slot % SUBTABLE_SLOTS, half],
        }
    };
    random.chunks_exact(INPUTS).enumerate().map(row).collect()
}

/// The results that `mirror_fks` in cl/mirror_fks.cl must compute.
fn expected(plan: &FksPlan, functions: &Functions, [key, number, at, half]: [u32; INPUTS]) -> Vec<u64> {
    let word = u64::from(half) << 32;
    let mut to = vec![u64::from(functions.bucket(key))];
    for i in 0..SUBTABLES {
        let (place, rest, there, stands, ends);
        if plan.kind() == Kind::Canonical {
            (place, rest) = functions.probe(i, tweak(number), key);
            there = canonical::pair(functions, number, i, at, word).map(|(key, _)| key);
            stands = slot::is_pair(word) && slot::remainder(word) == rest && turn(slot::age(word)) == i;
            ends = half < slot::upper(i + 1, rest);
        } else {
            (place, rest) = (functions.location(i, number, key), key);
            there = (half != u32::MAX).then_some(half);
            (stands, ends) = (half == key, false);
        }
        to.push((Functions::word(0, i, place) as u64) << 32 | u64::from(rest));
        to.extend([there.map_or(u64::MAX, u64::from), stands.into(), ends.into()]);
    }
    to
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn every_function_of_two_level_tables_is_its_twin() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    for scheme in [Fks::canonical(), Fks::classic(), Fks::classic().family(FksFamily::Sahu)] {
        for (seed, slots) in [1u64, 577, 5760, 576 * 1_900_813].into_iter().enumerate() {
            let plan = scheme.plan(Request { slots, pairs: 0, seed: seed as u64, attempt: seed as u32 })?;
            let functions = plan.functions();
            let rows = rows(&functions, seed as u64);
            let (from, to) = (cl.upload(rows.as_flattened())?, cl.filled(rows.len() * OUTPUTS, 7u64)?);
            compare(cl, &plan, &functions, &rows, &from, &to)?;
        }
    }
    Ok(())
}

fn compare(
    cl: &crate::opencl::OpenCl,
    plan: &FksPlan,
    functions: &Functions,
    rows: &[[u32; INPUTS]],
    from: &Buffer<u32>,
    to: &Buffer<u64>,
) -> Result<()> {
    let program = cl.program(MIRROR_FKS, &fks::parameters(plan, GROUP))?;
    let table = fks::Table::new(cl, plan)?;
    let launch = table.given_to(cl.kernel(&program, "mirror_fks")?.buffer(from)).buffer(to).value(rows.len() as u64);
    launch.over_groups_of(GROUP, rows.len(), rows.len())?;
    for (row, found) in rows.iter().zip(cl.download(to)?.chunks_exact(OUTPUTS)) {
        assert_eq!(found, expected(plan, functions, *row), "{plan:?}, inputs {row:x?}");
    }
    Ok(())
}
