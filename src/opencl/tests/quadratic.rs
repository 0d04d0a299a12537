//! Compares quadratic tables of the device with the sequential rule: the cuckoo table's kernels with a single function.

use super::{device, noise, small};
use crate::backend::{HashBackend, Kernels, Placed, bitmap_words};
use crate::error::Result;
use crate::scheme::cuckoo::CuckooImage as _;
use crate::scheme::{CuckooPlan, Placing, Plan as _, Quadratic, QuadraticPlan, Request, Scheme as _, slot};

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
            let pairs: Vec<(u32, u32)> = keys.iter().copied().zip(values.iter().copied()).collect();
            let (there, values_there) = (cl.upload(&keys)?, cl.upload(&values)?);
            let built = (0..40).find(|&attempt| {
                let (plan, _) = plan(len, attempt);
                let mut expected = vec![slot::EMPTY; plan.words() as usize];
                let rule = Quadratic::place(&plan, &mut expected, &pairs);
                let mut image = cl.filled(expected.len(), slot::EMPTY).expect("memory");
                let placed =
                    Kernels::<Quadratic>::place(&cl, &plan, &mut image, &there, &values_there).expect("placed");
                assert_eq!(placed.unplaced > 0, rule == Placing::Unplaced, "{len} pairs, attempt {attempt}");
                placed.unplaced == 0 && {
                    assert_eq!(placed, Placed::default());
                    assert!(cl.download(&image).expect("readable") == expected, "{len} pairs in groups of {group}");
                    let mut answers = cl.filled(len, 7).expect("memory");
                    let mut found = cl.filled(bitmap_words(len), 0).expect("memory");
                    let looked_up = Kernels::<Quadratic>::lookup(&cl, &plan, &image, &there, &mut answers, &mut found);
                    looked_up.expect("looked up");
                    assert_eq!(cl.download(&answers).expect("readable"), values);
                    true
                }
            });
            assert!(built.is_some(), "{len} pairs");
        }
    }
    Ok(())
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn copies_take_no_slot_and_the_greatest_stays() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let (plan, _) = plan(4, 0);
    let mut image = cl.filled(plan.words() as usize, slot::EMPTY)?;
    let (keys, values) = (cl.upload(&vec![9; 1000])?, cl.upload(&noise(1, 1000))?);
    let placed = Kernels::<Quadratic>::place(cl, &plan, &mut image, &keys, &values)?;
    assert_eq!(placed, Placed { duplicates: 999, least_duplicate: Some(9), ..Placed::default() });
    assert_eq!(Quadratic::find(&plan, &cl.download(&image)?, 9), noise(1, 1000).into_iter().max());
    assert_eq!(Kernels::<Quadratic>::remove(cl, &plan, &mut image, &keys)?.pairs, 1);
    assert_eq!(cl.download(&image)?.iter().filter(|&&word| word == slot::TOMBSTONE).count(), 1);
    let lifted = Kernels::<Quadratic>::lift(cl, &plan, &mut image)?;
    assert_eq!(cl.download(&lifted.taken)?, [0], "a tombstone goes, and no pair is to be placed again");
    assert!(cl.download(&image)?.iter().all(|&word| word == slot::EMPTY));
    Ok(())
}
