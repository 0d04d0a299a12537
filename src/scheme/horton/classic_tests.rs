use std::collections::HashMap;

use super::canonical_tests::distinct_pairs;
use super::{Horton, HortonFamily, HortonPlan, bucket, canonical, classic, tokens};
use crate::scheme::hash::SplitMix64;
use crate::scheme::{Audit, Placing, Plan, Request, Scheme, Violation};
use quickcheck::quickcheck;

fn plan_of(scheme: &Horton, slots: u64, seed: u64) -> HortonPlan {
    scheme.plan(Request { slots, pairs: 0, seed, attempt: 0 }).expect("a plan")
}

fn empty(plan: &HortonPlan) -> Vec<u64> {
    vec![plan.empty_word(); plan.words() as usize]
}

fn audit_all(plan: &HortonPlan, image: &[u64]) -> Result<Audit, Violation> {
    Horton::audit(plan, image, 0..plan.words())
}

/// Buckets read per hit and per miss, minus one.
fn excess(plan: &HortonPlan, image: &[u64], keys: &[u32]) -> (f64, f64) {
    let mean = |keys: &mut dyn Iterator<Item = u32>| {
        let (mut reads, mut count) = (0u64, 0u64);
        keys.for_each(|key| {
            reads += u64::from(Horton::reads(plan, image, key));
            count += 1;
        });
        reads as f64 / count as f64 - 1.0
    };
    let mut stream = SplitMix64::new(99);
    (mean(&mut keys.iter().copied()), mean(&mut (0..200_000).map(|_| stream.next_u32())))
}

#[test]
fn inserts_and_removals_behave_like_a_map_and_pass_the_audit() {
    let schemes = [
        (Horton::classic(4), 0.78),
        (Horton::classic(8), 0.9),
        (Horton::classic(8).family(HortonFamily::Jenkins), 0.9),
        (Horton::classic(16).tags(16).bits(4), 0.93),
        (Horton::classic(8).tags(32).bits(2), 0.8),
        (Horton::classic(8).height(2), 0.75),
    ];
    for (scheme, load) in schemes {
        for seed in 0..3 {
            let plan = plan_of(&scheme, 1024, seed);
            let mut image = empty(&plan);
            let most = (plan.slots() as f64 * load) as usize;
            let pool = distinct_pairs(most * 2, seed);
            let mut model: HashMap<u32, u32> = HashMap::new();
            let mut stream = SplitMix64::new(seed);
            for step in 0..6000 {
                let (key, value) = pool[stream.next_u32() as usize % pool.len()];
                if let Some(old) = model.get_mut(&key) {
                    if stream.next_u32().is_multiple_of(3) {
                        assert_eq!(Horton::place(&plan, &mut image, &[(key, 7)]), Placing::Duplicate(key));
                        *old = (*old).max(7);
                    } else {
                        assert_eq!(Horton::remove(&plan, &mut image, &[key, key]), 1);
                        model.remove(&key);
                    }
                } else if model.len() < most {
                    assert_eq!(Horton::place(&plan, &mut image, &[(key, value)]), Placing::Placed, "{scheme:?}");
                    model.insert(key, value);
                } else {
                    assert_eq!(Horton::remove(&plan, &mut image, &[key]), 0);
                }
                if step % 50 == 0 {
                    let audit = audit_all(&plan, &image).map(|audit| audit.pairs);
                    assert_eq!(audit, Ok(model.len() as u64), "{scheme:?} {step}");
                }
            }
            for &(key, _) in &pool {
                assert_eq!(Horton::find(&plan, &image, key), model.get(&key).copied());
            }
            let all: Vec<_> = model.keys().copied().collect();
            assert_eq!(Horton::remove(&plan, &mut image, &all), all.len() as u64);
            assert_eq!(image, empty(&plan), "nothing is left behind");
        }
    }
}

#[test]
fn tables_reach_their_intended_loads() {
    for (slots, load) in [(4, 0.88), (8, 0.94), (16, 0.95)] {
        for family in HortonFamily::ALL {
            let plan = plan_of(&Horton::classic(slots).family(family), 1 << 14, 1);
            let mut image = empty(&plan);
            let pairs = distinct_pairs((plan.slots() as f64 * load) as usize, 6);
            let (placing, moves) = classic::place(&plan.functions(), plan.height(), &mut image, &pairs);
            assert_eq!(placing, Placing::Placed, "{slots} {moves:?}");
            assert_eq!(audit_all(&plan, &image).map(|audit| audit.pairs), Ok(pairs.len() as u64));
            assert!(pairs.iter().all(|&(key, value)| Horton::find(&plan, &image, key) == Some(value)));
            assert!(moves.promoted > 0 && moves.relocated > 0, "{moves:?}");
        }
    }
}

#[test]
fn the_number_of_remapped_keys_depends_on_the_keys_only() {
    let plan = plan_of(&Horton::classic(8), 1 << 13, 4);
    let functions = plan.functions();
    let mut pairs = distinct_pairs(7000, 3);
    let mut types = Vec::new();
    for _ in 0..2 {
        let mut image = empty(&plan);
        assert_eq!(Horton::place(&plan, &mut image, &pairs), Placing::Placed);
        let of_type_b = |b: &u32| bucket::is_type_b(&functions, &image, *b);
        let ages = (0..plan.words()).filter(|&at| Horton::age(&plan, &image, at) > 1).count();
        types.push(((0..plan.buckets()).filter(of_type_b).collect::<Vec<_>>(), ages));
        pairs.reverse();
    }
    assert_eq!(types[0], types[1]);
    // The canonical table of these keys has the same Type B buckets.
    let canonical_plan = plan_of(&Horton::canonical(8), 1 << 13, 4);
    let mut image = empty(&canonical_plan);
    assert_eq!(canonical::place(&canonical_plan.functions(), &mut image, &pairs), Placing::Placed);
    let of_type_b = |b: &u32| bucket::is_type_b(&canonical_plan.functions(), &image, *b);
    assert_eq!((0..plan.buckets()).filter(of_type_b).collect::<Vec<_>>(), types[0].0);
}

/// At 2^14 slots the noise of a miss, a few hundred aliasing entries, is about 3%; the limit is 10%.
#[test]
fn lookups_cost_the_same_after_a_hundred_rounds_of_changes() {
    let plan = plan_of(&Horton::classic(8), 1 << 14, 8);
    let mut image = empty(&plan);
    let count = plan.slots() as usize * 8 / 10;
    let pool = distinct_pairs(count * 4, 8);
    let mut stream = SplitMix64::new(1);
    let mut shuffle = |some: &mut Vec<(u32, u32)>| {
        (1..some.len()).rev().for_each(|at| some.swap(at, stream.next_u32() as usize % (at + 1)));
    };
    let mut outside = pool;
    shuffle(&mut outside);
    let mut inside = outside.split_off(count * 3);
    assert_eq!(Horton::place(&plan, &mut image, &inside), Placing::Placed);
    for round in 0..100 {
        shuffle(&mut inside);
        shuffle(&mut outside);
        let gone = inside.split_off(count / 2);
        let keys: Vec<_> = gone.iter().map(|&(key, _)| key).collect();
        assert_eq!(Horton::remove(&plan, &mut image, &keys), keys.len() as u64);
        let new = outside.split_off(outside.len() - gone.len());
        assert_eq!(Horton::place(&plan, &mut image, &new), Placing::Placed, "{round}");
        inside.extend(new);
        outside.extend(gone);
    }
    assert_eq!(audit_all(&plan, &image).map(|audit| audit.pairs), Ok(count as u64));
    let keys: Vec<_> = inside.iter().map(|&(key, _)| key).collect();
    let after = excess(&plan, &image, &keys);
    let mut fresh = empty(&plan);
    assert_eq!(Horton::place(&plan, &mut fresh, &inside), Placing::Placed);
    let before = excess(&plan, &fresh, &keys);
    println!("hit, miss less 1: fresh {before:?}, after 100 rounds {after:?}");
    assert_eq!(after.0, before.0, "the keys alone say how many are remapped");
    assert!((after.1 / before.1 - 1.0).abs() < 0.1, "{before:?} {after:?}");
}

#[test]
fn the_audit_detects_needless_type_b_buckets_and_foreign_keys() {
    let plan = plan_of(&Horton::classic(8), 1024, 2);
    let functions = plan.functions();
    let mut image = empty(&plan);
    let crowd: Vec<_> = (0..u32::MAX).filter(|&key| functions.home(key).0 == 5).take(9).map(|key| (key, key)).collect();
    assert_eq!(Horton::place(&plan, &mut image, &crowd[..8]), Placing::Placed);
    assert_eq!(Horton::bucket_type(&plan, &image, 5), 0);
    assert_eq!(Horton::place(&plan, &mut image, &crowd[8..]), Placing::Placed);
    assert_eq!(Horton::bucket_type(&plan, &image, 5), 1);
    assert_eq!(audit_all(&plan, &image).map(|audit| audit.pairs), Ok(9));
    // One remapped key erased and its entry cleared: the remaining eight keys fit a Type A bucket.
    let mut copy = image.clone();
    let away = (0..plan.words()).find(|&at| Horton::age(&plan, &image, at) > 1).expect("a remapped key") as usize;
    let (_, tag) = functions.home(tokens::key(copy[away]));
    copy[away] = tokens::EMPTY;
    let b = bucket::range(&functions, 5);
    copy[b.end - 1] = tokens::with_entry(copy[b.end - 1], tag, 3, 0);
    let found = audit_all(&plan, &copy);
    assert!(matches!(found, Err(Violation::Bucket { .. } | Violation::Misplaced { .. })), "{found:?}");
    // Removing a resident moves both remapped keys home.
    let resident = tokens::key(image[b.start]);
    assert_eq!(Horton::remove(&plan, &mut image, &[resident]), 1);
    assert_eq!(Horton::bucket_type(&plan, &image, 5), 0);
    assert_eq!(audit_all(&plan, &image), Ok(Audit { pairs: 8, tombstones: 0, greatest_age: 1 }));
}

quickcheck! {
    fn garbage_never_panics(words: Vec<u64>, keys: Vec<u32>, seed: u64) -> bool {
        for scheme in [Horton::classic(8), Horton::classic(4).family(HortonFamily::Jenkins).tags(16).bits(4)] {
            let plan = plan_of(&scheme, 100, seed);
            let mut image: Vec<u64> =
                (0..plan.words() as usize).map(|at| *words.get(at % words.len().max(1)).unwrap_or(&0)).collect();
            let _ = audit_all(&plan, &image);
            for &key in &keys {
                Horton::find(&plan, &image, key);
                Horton::reads(&plan, &image, key);
                Horton::place(&plan, &mut image, &[(key, 1)]);
                Horton::remove(&plan, &mut image, &[key]);
            }
            for at in 0..plan.words() {
                Horton::pair(&plan, &image, at);
                Horton::age(&plan, &image, at);
            }
        }
        true
    }

    fn tiny_tables_hold_what_they_are_given(count: u8, seed: u64) -> bool {
        let pairs = distinct_pairs(usize::from(count % 64) + 1, seed);
        [4, 8, 16].iter().all(|&slots| {
            let scheme = Horton::classic(slots);
            let plan = plan_of(&scheme, scheme.default_load().slots_for(pairs.len() as u64), seed);
            let mut image = empty(&plan);
            Horton::place(&plan, &mut image, &pairs) == Placing::Placed
                && audit_all(&plan, &image).map(|audit| audit.pairs) == Ok(pairs.len() as u64)
                && pairs.iter().all(|&(key, value)| Horton::find(&plan, &image, key) == Some(value))
        })
    }
}
