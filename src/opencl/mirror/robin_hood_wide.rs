//! Compares cl/robin_hood_wide.clh with src/scheme/robin_hood/wide, bit for bit: every sequence, both widths of keys,
//! sizes from the smallest to the greatest.

use crate::backend::{HashBackend, Word};
use crate::error::Result;
use crate::opencl::Buffer;
use crate::opencl::bucketized::wide::DeviceKey;
use crate::opencl::robin_hood::wide::{parameters, slot_table};
use crate::opencl::runtime::program::MIRROR_ROBIN_HOOD_WIDE;
use crate::opencl::runtime::sizes::GROUP;
use crate::opencl::tests::{device, small};
use crate::scheme::bucketized::wide::{Column, Layout};
use crate::scheme::hash::SplitMix64;
use crate::scheme::robin_hood::wide::{FIELDS, RobinHoodLinePlan};
use crate::scheme::robin_hood::{MOST_SLOTS, Sequence};
use crate::scheme::slot_lists::SlotLists;
use crate::scheme::{Request, RobinHood, Scheme};

/// Inputs of one work-item: key, slot, age, a word.
const INPUTS: usize = 4;
const OUTPUTS: usize = 8;

/// Random rows; every third key is an extreme, and every fourth word that of a pair.
fn rows<L: Layout>(plan: &RobinHoodLinePlan<L>) -> Vec<[u64; INPUTS]> {
    let slots = u64::from(plan.slot_count());
    let edges = [0, 1, 1 << 32, 1 << 63, u64::MAX, slots, slots - 1, slots + 1, u64::MAX / slots * slots];
    let mut stream = SplitMix64::new(slots);
    let row = |at: usize| {
        let [key, place, age, word] = [(); INPUTS].map(|()| stream.next_u64());
        let key = if at.is_multiple_of(3) { edges[at / 3 % edges.len()] } else { key };
        let word = if at.is_multiple_of(4) { word } else { word >> 6 | (1 + word % 62) << 58 };
        [L::Key::low(key).into(), place % slots, age % 64, L::Key::low(word).into()]
    };
    (0..if small() { 200 } else { 10_000 }).map(row).collect()
}

/// The results that `mirror_robin_hood_wide` in cl/mirror_robin_hood_wide.cl must compute.
fn expected<L: Layout>(plan: &RobinHoodLinePlan<L>, [key, slot, age, word]: [u64; INPUTS]) -> [u64; OUTPUTS] {
    let lists = plan.functions();
    let (goal, other) = (lists.goal(L::Key::low(key)), lists.goal_in(slot as u32, word));
    let (at, remainder) = lists.probe(goal, age as u32);
    assert_eq!(lists.key(goal).into(), key, "nothing is lost");
    let of_word = u64::from(FIELDS.age::<L::Key>(word)) << 1 | u64::from(FIELDS.is_pair::<L::Key>(word));
    [
        goal.home.into(),
        goal.quotient.into(),
        key,
        at.into(),
        L::Key::low(FIELDS.word(age as u32, remainder)).into(),
        other.home.into(),
        lists.key(other).into(),
        of_word,
    ]
}

fn mirrored<K: Column, V: Column>() -> Result<()>
where
    (K, V): Layout,
    <(K, V) as Layout>::Key: DeviceKey,
{
    let Some(cl) = device() else { return Ok(()) };
    for sequence in Sequence::ALL {
        for (seed, slots) in [67, 1000, 65_521, 77_777, 1 << 28, MOST_SLOTS].into_iter().enumerate() {
            let scheme = RobinHood::canonical().sequence(sequence).of::<K, V>();
            let plan = scheme.plan(Request { slots, pairs: 0, seed: seed as u64, attempt: seed as u32 })?;
            let rows = rows(&plan);
            let from: Buffer<u64> = cl.upload(rows.as_flattened())?;
            let to: Buffer<u64> = cl.filled(rows.len() * OUTPUTS, 9)?;
            let program = cl.program(MIRROR_ROBIN_HOOD_WIDE, &parameters::<(K, V)>(sequence, GROUP))?;
            let launch = slot_table(cl.kernel(&program, "mirror_robin_hood_wide")?.buffer(&from), &plan.functions());
            launch.buffer(&to).value(rows.len() as u64).over_groups_of(GROUP, rows.len(), rows.len())?;
            for (row, found) in rows.iter().zip(cl.download(&to)?.chunks_exact(OUTPUTS)) {
                assert_eq!(found, expected(&plan, *row), "{plan:?}, inputs {row:x?}");
            }
        }
    }
    Ok(())
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn every_function_of_wide_robin_hood_tables_is_its_twin() -> Result<()> {
    mirrored::<u64, u64>()?;
    mirrored::<u32, u64>()
}
