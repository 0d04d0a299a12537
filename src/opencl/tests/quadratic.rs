//! Compares quadratic tables of the device with the sequential rule: the cuckoo table's kernels with a single function.

use super::{device, noise, small};
use crate::backend::scheme_tests::{build_as_by_the_rule, compare_lookups, place_in_empty, remove};
use crate::backend::{HashBackend, Kernels, Placed};
use crate::error::Result;
use crate::scheme::cuckoo::CuckooImage as _;
use crate::scheme::{CuckooPlan, Quadratic, QuadraticPlan, Request, Scheme as _, slot};

/// A plan for this many pairs, and the one that the kernels read.
pub(super) fn plan(pairs: usize, attempt: u32) -> (QuadraticPlan, CuckooPlan) {
    let request = Request { slots: pairs as u64, pairs: pairs as u64, seed: 5, attempt };
    let plan = Quadratic.plan(request).expect("a plan");
    (plan, Quadratic::cuckoo_plan(&plan))
}

/// Attempts fail on the device exactly if they fail by the rule, and the first successful image is that of the rule.
#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn images_and_failures_are_those_of_the_sequential_rule() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    for group in [32, 64, 256] {
        let cl = cl.with_group(group);
        for len in if small() { [0, 1, 40, 65] } else { [0, 1, 65, 700] } {
            let keys: Vec<u32> = (0..len as u32).map(|i| i.wrapping_mul(0x9e37_79b9)).collect();
            let values = noise(3, len);
            let (plan, image, placed) = build_as_by_the_rule(&cl, &|attempt| plan(len, attempt).0, &keys, &values)?;
            assert_eq!(placed, Placed::default());
            compare_lookups(&cl, &plan, &image, &keys)?;
        }
    }
    Ok(())
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn copies_take_no_slot_and_the_greatest_stays() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let (plan, _) = plan(4, 0);
    let keys = vec![9; 1000];
    let (mut image, placed) = place_in_empty(cl, &plan, &keys, &noise(1, 1000))?;
    assert_eq!(placed, Placed { duplicates: 999, least_duplicate: Some(9), ..Placed::default() });
    assert_eq!(Quadratic::find(&plan, &cl.download(&image)?, 9), noise(1, 1000).into_iter().max());
    assert_eq!(remove(cl, &plan, &mut image, &keys)?.pairs, 1);
    assert_eq!(cl.download(&image)?.iter().filter(|&&word| word == slot::TOMBSTONE).count(), 1);
    let lifted = Kernels::<Quadratic>::lift(cl, &plan, &mut image)?;
    assert_eq!(cl.download(&lifted.taken)?, [0], "a tombstone goes, and no pair is to be placed again");
    assert!(cl.download(&image)?.iter().all(|&word| word == slot::EMPTY));
    Ok(())
}
