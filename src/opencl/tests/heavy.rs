//! Keys with thousands of duplicates, in every scheme: counts as without races, images as on the CPU.

use super::{device, noise, small};
use crate::backend::scheme_tests::{self, zipped};
use crate::backend::{HashBackend, Kernels, Placed};
use crate::cpu::Cpu;
use crate::error::Result;
use crate::opencl::OpenCl;
use crate::scheme::{Kind, Plan, Request, Scheme};
use crate::workload::Workload;
use crate::{for_each_scheme, scheme};

/// A name and this many keys.
type Keys = (&'static str, Vec<u32>);

fn heavy_inputs(distinct: &[u32], greatest: u32) -> Vec<Keys> {
    let len = distinct.len();
    let heavy = distinct[len / 3];
    // Few enough that each overfills its home in a Horton table, however short the batch.
    let few = (len / 65).clamp(1, 9);
    let half = |heavy| distinct.iter().enumerate().map(|(i, &key)| if i % 2 == 0 { heavy } else { key }).collect();
    let from = |heavy: usize| distinct.iter().skip(heavy).take(len - len / 2).copied();
    vec![
        ("one key", vec![heavy; len]),
        ("half of all", half(heavy)),
        // The sentinel key, in tables that have one.
        ("half of all the greatest", half(greatest)),
        ("the first half", vec![heavy; len / 2].into_iter().chain(from(0)).collect()),
        ("the last half", from(0).chain(vec![heavy; len / 2]).collect()),
        ("a few", (0..len).map(|i| distinct[(i * 7 + i / 100) % few]).collect()),
    ]
}

/// The expected counts.
fn counted(keys: &[u32], values: &[u32], outside: Option<u32>) -> Placed {
    let pairs = zipped(keys, values);
    let aside = pairs.iter().filter(|&&(key, _)| Some(key) == outside).map(|&(_, value)| value);
    Placed { outside: aside.max(), ..scheme_tests::counted(&pairs) }
}

fn agree<S: Scheme<Key = u32, Value = u32>>(cl: &OpenCl, cpu: &Cpu) -> Result<()>
where
    OpenCl: Kernels<S>,
    Cpu: Kernels<S>,
{
    for &kind in S::KINDS.iter().filter(|&&kind| !S::of_kind(kind).host_built()) {
        let scheme = S::of_kind(kind);
        let limits = scheme.limits();
        let len = if small() { 130 } else { 40_000.min(limits.pairs as usize) };
        let distinct = Workload::new(len as u32, 4).within(limits)?.keys();
        let values_of_every_sort = {
            let rising: Vec<u32> = (0..len as u32).collect();
            let falling = rising.iter().map(|value| len as u32 - value).collect();
            [rising, falling, noise(3, len)].map(|values: Vec<u32>| {
                values.into_iter().map(|value| value & limits.greatest_value()).collect::<Vec<_>>()
            })
        };
        // The third and the last in a simulator: one crowd, and several.
        let (skipped, step) = if small() { (2, 3) } else { (0, 1) };
        let inputs = heavy_inputs(&distinct, limits.greatest_key()).into_iter();
        for (name, keys) in inputs.skip(skipped).step_by(step) {
            for values in values_of_every_sort.iter().skip(if small() { 2 } else { 0 }) {
                let request = Request {
                    slots: scheme.default_load().slots_for(len as u64),
                    pairs: len as u64,
                    seed: 6,
                    attempt: 0,
                };
                let plan = scheme.plan(request)?;
                let (words, empty) = (plan.words() as usize, plan.empty_word());
                let mut there = cl.filled(words, empty)?;
                let placed = Kernels::<S>::place(cl, &plan, &mut there, &cl.upload(&keys)?, &cl.upload(values)?)?;
                let mut here = cpu.filled(words, empty)?;
                let on_cpu = Kernels::<S>::place(cpu, &plan, &mut here, &cpu.upload(&keys)?, &cpu.upload(values)?)?;
                let said = format!("{kind} {}, {name}", S::NAME);
                let expected = counted(&keys, values, plan.outside_key());
                if placed.unplaced == 0 {
                    assert_eq!(placed, expected, "{said}");
                }
                // Duplicates take no slot in tables of single slots, so the attempt succeeds, and the greatest word is
                // kept.
                if kind == Kind::Canonical && ["cuckoo", "cuckoo_set", "robin_hood", "quadratic"].contains(&S::NAME) {
                    assert_eq!((placed, on_cpu), (expected, expected), "{said}");
                    assert!(cl.download(&there)? == here.words(), "{said}");
                }
                // If it fails because of a crowd, the crowd is the same. Few duplicates overfill some homes of a Horton
                // table and not others: then the CPU stops, but the device also counts the unplaced pairs of the
                // others.
                if ["horton", "fks"].contains(&S::NAME) {
                    assert_eq!(placed.unplaced > 0, on_cpu.unplaced > 0, "{said}");
                }
                if S::NAME == "fks" || S::NAME == "horton" && !small() {
                    assert_eq!(placed.unplaced, on_cpu.unplaced, "{said}");
                }
            }
        }
    }
    Ok(())
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn every_scheme_counts_the_duplicates_of_heavy_keys() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let cpu = Cpu::with_threads(2)?;
    macro_rules! each_scheme {
        ($($module:ident, $scheme:ident, $name:literal;)*) => {
            $(agree::<scheme::$scheme>(cl, &cpu)?;)*
        };
    }
    for_each_scheme!(each_scheme);
    Ok(())
}
