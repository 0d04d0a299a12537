//! Compares cl/horton.clh with src/scheme/horton, bit for bit: every family, sizes from the smallest to the greatest,
//! and all arguments that can occur.

use crate::backend::HashBackend;
use crate::error::Result;
use crate::opencl::Buffer;
use crate::opencl::horton;
use crate::opencl::runtime::program::MIRROR_HORTON;
use crate::opencl::runtime::sizes::GROUP;
use crate::opencl::tests::{device, noise, small};
use crate::scheme::horton::functions::{jenkins6, jenkins7};
use crate::scheme::horton::{Functions, HortonFamily, tokens};
use crate::scheme::{Horton, HortonPlan, Request, Scheme};

/// Inputs of one work-item: key, home, tag, entry, age, token, mask, keys of the group.
const INPUTS: usize = 8;
const OUTPUTS: usize = 12;

/// Random rows; every third key is an extreme.
fn rows(functions: &Functions, seed: u64) -> Vec<[u32; INPUTS]> {
    let edges = [0, 1, u32::MAX, u32::MAX - 1, 1 << 31];
    let random = noise(seed, INPUTS * if small() { 60 } else { 10_000 });
    let row = |(at, x): (usize, &[u32])| {
        let &[key, home, tag, code, age, token, mask, keys] = x else { panic!("a row") };
        let key = if at % 3 == 0 { edges[at / 3 % edges.len()] } else { key };
        let all = u32::MAX >> (32 - functions.tags);
        let mask = if mask & all == 0 { all } else { mask & all };
        let keys = functions.slots + 1 + keys % (tokens::GROUP_MAX - functions.slots);
        let count = tokens::token_count(keys, functions.slots, mask);
        let token = token % count;
        let last = tokens::last_age(tokens::list_length(mask, count, token), functions.count);
        let code = 1 + code % tokens::stash_code(functions.bits);
        let home = if at % 5 == 0 { functions.buckets - 1 } else { home % functions.buckets };
        [key, home, tag % functions.tags, code, 1 + age % (last + 2), token, mask, keys]
    };
    random.chunks_exact(INPUTS).enumerate().map(row).collect()
}

/// The results that `mirror_horton` in cl/mirror_horton.cl must compute.
fn expected(functions: &Functions, row: [u32; INPUTS]) -> [u64; OUTPUTS] {
    let [key, home, tag, code, age, token, mask, keys] = row;
    let two = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
    let &Functions { slots, bits, count, .. } = functions;
    let any = two(key, mask);
    let (home_of_key, tag_of_key) = functions.home(key);
    let unpacked = tokens::unpacked(any);
    let tokens_here = tokens::token_count(keys, slots, mask);
    let length = tokens::list_length(mask, tokens_here, token);
    let (next_tag, function) = tokens::step(mask, tokens_here, token, age, count).unwrap_or((0, 0));
    let small = tokens::leavers(keys, slots) << 16 | tokens_here << 8 | tokens::nth_bit(mask, token);
    [
        two(home_of_key, tag_of_key),
        functions.remap(home, tag, (code - 1) % count + 1).into(),
        functions.led(key, home, tag, code).expect("an entry that leads somewhere").into(),
        functions.stash(key).into(),
        two(jenkins6(key), jenkins7(key)),
        tokens::entry(any, tag, bits).into(),
        tokens::with_entry(any, tag, bits, code),
        tokens::proposal(age, home, token),
        two(unpacked.0, unpacked.2),
        unpacked.1.into(),
        two(length, small),
        two(next_tag, function),
    ]
}

/// Every family and kind, with various tags and bits.
fn schemes() -> Vec<Horton> {
    vec![
        Horton::canonical(8),
        Horton::canonical(4).tags(16).bits(4),
        Horton::canonical(16).tags(32).bits(2),
        Horton::canonical(8).tags(2),
        Horton::classic(8),
        Horton::classic(4).tags(16).bits(4).family(HortonFamily::Jenkins),
        Horton::classic(8).family(HortonFamily::Jenkins),
        Horton::classic(16).tags(5).bits(2).family(HortonFamily::Jenkins),
    ]
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn every_function_of_horton_tables_is_its_twin() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    for scheme in schemes() {
        // With so few buckets Jenkins' functions often return one twice.
        for (seed, buckets) in [16u64, 17, 31, 1000, 77_777, 1 << 31].into_iter().enumerate() {
            let slots = u64::from(plan_of(&scheme, 0, 0)?.functions().slots);
            let plan = plan_of(&scheme, buckets * slots, seed as u64)?;
            let functions = plan.functions();
            assert_eq!(u64::from(functions.buckets), buckets);
            let rows = rows(&functions, seed as u64);
            let (from, to) = (cl.upload(rows.as_flattened())?, cl.filled(rows.len() * OUTPUTS, u64::MAX)?);
            compare(cl, &plan, &functions, &rows, &from, &to)?;
        }
    }
    Ok(())
}

fn plan_of(scheme: &Horton, slots: u64, seed: u64) -> Result<HortonPlan> {
    // The first attempt of seed 0 uses Jenkins' functions exactly as in the paper.
    scheme.plan(Request { slots, pairs: 0, seed, attempt: seed as u32 % 2 })
}

fn compare(
    cl: &crate::opencl::OpenCl,
    plan: &HortonPlan,
    functions: &Functions,
    rows: &[[u32; INPUTS]],
    from: &Buffer<u32>,
    to: &Buffer<u64>,
) -> Result<()> {
    let program = cl.program(MIRROR_HORTON, &horton::parameters(plan, GROUP))?;
    let launch = horton::table(cl.kernel(&program, "mirror_horton")?.buffer(from), functions);
    launch.buffer(to).value(rows.len() as u64).over_groups_of(GROUP, rows.len(), rows.len())?;
    for (row, found) in rows.iter().zip(cl.download(to)?.chunks_exact(OUTPUTS)) {
        assert_eq!(found, expected(functions, *row), "{plan:?}, inputs {row:x?}");
    }
    Ok(())
}
