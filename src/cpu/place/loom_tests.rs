//! [`raise`] under every interleaving of two threads.

use loom::sync::Arc;
use loom::thread;

use super::raise;
use crate::cpu::atomic::modelled::{Blind, Modelled, Sound, Split};

/// Two threads raise one slot, each to two words. The slot ends with the greatest, and every other word is either
/// refused or displaced, exactly once.
fn keeps_the_greatest<A: Modelled>() {
    loom::model(|| {
        let slot = Arc::new(A::of(0));
        let raised = |words: [u64; 2]| {
            let slot = Arc::clone(&slot);
            move || words.map(|mine| (mine, raise(&*slot, mine)))
        };
        let other = thread::spawn(raised([2, 3]));
        let mut seen = raised([1, 4])().to_vec();
        seen.extend(other.join().expect("no panic"));
        let mut out: Vec<u64> = seen.iter().map(|&(mine, there)| mine.min(there)).filter(|&word| word > 0).collect();
        out.sort_unstable();
        assert_eq!(out, [1, 2, 3], "{seen:?}");
        assert_eq!(raise(&*slot, 0), 4, "{seen:?}");
    });
}

#[test]
fn loom_raise_keeps_the_greatest() {
    keeps_the_greatest::<Sound>();
}

#[test]
#[should_panic(expected = "assertion")]
fn loom_raise_in_two_steps_is_detected() {
    keeps_the_greatest::<Split>();
}

#[test]
#[should_panic(expected = "assertion")]
fn loom_raise_without_comparing_is_detected() {
    keeps_the_greatest::<Blind>();
}
