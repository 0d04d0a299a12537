use std::collections::HashSet;

use super::tokens::{EMPTY, word};
use super::{Horton, HortonPlan, bucket};
use crate::scheme::{Audit, Load, Placing, Plan, Request, Scheme, Violation};
use crate::workload::Workload;
use quickcheck::quickcheck;

/// Distinct pairs without the sentinel key.
pub(super) fn distinct_pairs(count: usize, seed: u64) -> Vec<(u32, u32)> {
    let load = Workload::new(count as u32 + 1, seed);
    let all = load.keys().into_iter().zip(load.values());
    all.filter(|&(key, _)| key != u32::MAX).take(count).collect()
}

fn variants() -> Vec<Horton> {
    vec![
        Horton::canonical(4),
        Horton::canonical(8),
        Horton::canonical(16),
        Horton::canonical(4).tags(16).bits(4),
        Horton::canonical(8).tags(5).bits(4),
        Horton::canonical(16).tags(32).bits(2),
        Horton::canonical(8).tags(2).bits(3),
    ]
}

fn plan_at(scheme: &Horton, pairs: usize, load: f64, seed: u64) -> HortonPlan {
    let slots = Load::new(load).expect("a load").slots_for(pairs as u64);
    scheme.plan(Request { slots, pairs: pairs as u64, seed, attempt: 0 }).expect("a plan")
}

fn built(plan: &HortonPlan, pairs: &[(u32, u32)]) -> (Placing, Vec<u64>) {
    let mut image = vec![plan.empty_word(); plan.words() as usize];
    let placing = Horton::place(plan, &mut image, pairs);
    (placing, image)
}

fn audit_all(plan: &HortonPlan, image: &[u64]) -> Result<Audit, Violation> {
    Horton::audit(plan, image, 0..plan.words())
}

#[test]
fn any_order_gives_the_same_image_and_it_passes_the_audit() {
    for scheme in variants() {
        let pairs = distinct_pairs(20_000, 1);
        // With two tags most leavers have no entry.
        let load = if scheme == Horton::canonical(8).tags(2) { 0.4 } else { 0.7 };
        let plan = plan_at(&scheme, pairs.len(), load, 5);
        let (placing, image) = built(&plan, &pairs);
        assert_eq!(placing, Placing::Placed, "{scheme:?}");
        let mut shuffled = pairs.clone();
        shuffled.sort_unstable_by_key(|&(key, value)| key.wrapping_mul(0x9e37_79b9) ^ value);
        assert_eq!(built(&plan, &shuffled), (Placing::Placed, image.clone()), "{scheme:?}");
        assert_eq!(audit_all(&plan, &image).map(|audit| audit.pairs), Ok(20_000), "{scheme:?}");
        assert!(pairs.iter().all(|&(key, value)| Horton::find(&plan, &image, key) == Some(value)));
        let keys: HashSet<_> = pairs.iter().map(|&(key, _)| key).collect();
        let absent = (0..20_000u32).map(|i| i * 7).filter(|key| !keys.contains(key));
        assert_eq!(absent.filter(|&key| Horton::find(&plan, &image, key).is_some()).count(), 0);
    }
}

#[test]
fn tables_at_their_greatest_loads_pass_the_audit() {
    for (slots, load) in [(4, 0.90), (8, 0.95), (16, 0.96)] {
        let pairs = distinct_pairs(30_000, 2);
        let plan = plan_at(&Horton::canonical(slots), pairs.len(), load, 3);
        let (placing, image) = built(&plan, &pairs);
        assert_eq!(placing, Placing::Placed);
        assert_eq!(audit_all(&plan, &image).map(|audit| audit.pairs), Ok(30_000));
        assert!(pairs.iter().all(|&(key, value)| Horton::find(&plan, &image, key) == Some(value)));
        // An image can be checked in parts.
        let middle = plan.words() / 2 / u64::from(slots) * u64::from(slots);
        let parts = [0..middle, middle..plan.words()].map(|words| Horton::audit(&plan, &image, words).expect("sound"));
        assert_eq!(parts[0].join(parts[1]), audit_all(&plan, &image).expect("sound"));
    }
}

#[test]
fn every_key_and_value_is_legal_and_tiny_tables_are_sound() {
    for scheme in variants() {
        for n in 1..=64usize {
            let seed = n as u64;
            let mut pairs = distinct_pairs(n, seed);
            pairs[0] = (0, u32::MAX);
            if n > 1 {
                pairs[1] = (u32::MAX - 1, 0);
            }
            let plan = plan_at(&scheme, n, scheme.default_load().get(), seed);
            let (placing, image) = built(&plan, &pairs);
            assert_eq!(placing, Placing::Placed, "{scheme:?} {n}");
            assert_eq!(audit_all(&plan, &image).map(|audit| audit.pairs), Ok(n as u64), "{scheme:?} {n}");
            assert!(pairs.iter().all(|&(key, value)| Horton::find(&plan, &image, key) == Some(value)));
            let listed: HashSet<_> = (0..plan.words()).filter_map(|at| Horton::pair(&plan, &image, at)).collect();
            assert_eq!(listed, pairs.iter().copied().collect(), "the pairs of an image are those that went in");
            assert!(
                (0..plan.words())
                    .all(|at| { (Horton::age(&plan, &image, at) > 0) == Horton::pair(&plan, &image, at).is_some() })
            );
        }
    }
}

#[test]
fn the_sentinel_pair_is_in_the_plan() {
    let plan = plan_at(&Horton::canonical(8), 10, 0.5, 1);
    let (placing, image) = built(&plan, &[(u32::MAX, 7), (3, 4)]);
    assert_eq!(placing, Placing::Duplicate(u32::MAX), "the image cannot hold it");
    assert_eq!(Horton::find(&plan, &image, u32::MAX), None);
    let plan = plan.with_outside(Some(7));
    assert_eq!(Horton::find(&plan, &image, u32::MAX), Some(7));
    assert_eq!(Horton::reads(&plan, &image, u32::MAX), 0);
    assert_eq!(Horton::find(&plan, &image, 3), Some(4));
}

#[test]
fn the_greatest_value_is_kept_and_the_least_duplicate_key_is_reported() {
    let plan = plan_at(&Horton::canonical(8), 10, 0.5, 1);
    for order in [[(9, 1), (7, 3), (9, 5), (7, 2), (9, 0)], [(9, 5), (9, 0), (7, 2), (9, 1), (7, 3)]] {
        let (placing, image) = built(&plan, &order);
        assert_eq!(placing, Placing::Duplicate(7));
        assert_eq!((Horton::find(&plan, &image, 7), Horton::find(&plan, &image, 9)), (Some(3), Some(5)));
        assert_eq!(audit_all(&plan, &image).map(|audit| audit.pairs), Ok(2));
    }
}

#[test]
fn too_many_keys_of_one_home_fail_the_attempt() {
    let plan = plan_at(&Horton::canonical(8), 1000, 0.5, 1);
    let functions = plan.functions();
    let crowd: Vec<_> = (0..u32::MAX).filter(|&key| functions.home(key).0 == 3).take(65).map(|key| (key, 1)).collect();
    assert_eq!(built(&plan, &crowd).0, Placing::Unplaced);
    // 40 keys of one home fit, with tokens and surplus.
    let (placing, image) = built(&plan, &crowd[..40]);
    assert_eq!(placing, Placing::Placed);
    assert_eq!(audit_all(&plan, &image).map(|audit| audit.pairs), Ok(40));
    let ages: HashSet<_> = (0..plan.words()).map(|at| Horton::age(&plan, &image, at)).collect();
    assert!(ages.contains(&8) && ages.contains(&1), "some are at home and some in the stash: {ages:?}");
    let slot = functions.slots as usize * 3;
    assert_eq!(Horton::pair(&plan, &image, slot as u64 + 7), None, "remap entries are not pairs");
    assert_eq!(Horton::bucket_type(&plan, &image, 3), 1);
    assert_eq!(Horton::bucket_type(&plan, &image, 4), 0);
    assert_eq!(Horton::bucket_type(&plan, &image, u64::from(plan.buckets())), 2);
}

#[test]
fn the_audit_detects_every_kind_of_damage() {
    let pairs = distinct_pairs(3000, 4);
    let plan = plan_at(&Horton::canonical(8), pairs.len(), 0.85, 4);
    let functions = plan.functions();
    let (_, image) = built(&plan, &pairs);
    let damaged = |change: &dyn Fn(&mut Vec<u64>)| {
        let mut copy = image.clone();
        change(&mut copy);
        audit_all(&plan, &copy)
    };
    assert!(damaged(&|_| ()).is_ok());
    let buckets = 0..plan.buckets();
    let type_b = buckets.clone().find(|&b| bucket::is_type_b(&functions, &image, b)).expect("a crowded bucket");
    let b = bucket::range(&functions, type_b);
    let words_of = |bucket: u32| bucket::words(&functions, &image, bucket);
    let type_a = buckets
        .clone()
        .find(|&a| {
            let words = words_of(a);
            !bucket::is_type_b(&functions, &image, a)
                && words[7] == EMPTY
                && words.iter().filter(|&&word| word != EMPTY).count() >= 3
        })
        .expect("a bucket with a free slot");
    let a = bucket::range(&functions, type_a);

    // An empty word with a value; an unsorted bucket; a pair in a wrong bucket; a pair twice.
    assert!(matches!(damaged(&|i| i[a.end - 1] |= 5), Err(Violation::Word { .. })));
    assert!(matches!(damaged(&|i| i.swap(a.start + 1, a.start + 2)), Err(Violation::Unsorted { .. })));
    assert!(matches!(damaged(&|i| i.swap(b.start + 1, b.start + 2)), Err(Violation::Unsorted { .. })));
    let foreign = (0..u32::MAX).find(|&key| functions.home(key).0 != type_a).expect("one");
    let misplaced = damaged(&|i| {
        i[a.end - 1] = word(foreign, 0);
        i[a.clone()].sort_unstable();
    });
    assert!(matches!(misplaced, Err(Violation::Misplaced { .. })), "{misplaced:?}");
    let twice = damaged(&|i| {
        i[a.end - 1] = i[a.start] ^ 1;
        i[a.clone()].sort_unstable();
    });
    assert!(matches!(twice, Err(Violation::Twice { .. })), "{twice:?}");

    // Entries: one that leads to no pair, bits after the last one, a missing one.
    let array = image[b.end - 1];
    let unset = (0..21).find(|&tag| super::tokens::entry(array, tag, 3) == 0).expect("not all are set");
    let set = (0..21).find(|&tag| super::tokens::entry(array, tag, 3) != 0).expect("one is set");
    let misleading = damaged(&|i| i[b.end - 1] = super::tokens::with_entry(array, unset, 3, 1));
    assert!(matches!(misleading, Err(Violation::Bucket { .. })), "{misleading:?}");
    assert!(matches!(damaged(&|i| i[b.end - 1] |= 1 << 63), Err(Violation::Word { .. })));
    assert!(damaged(&|i| i[b.end - 1] = super::tokens::with_entry(array, set, 3, 0)).is_err());

    // A key removed from the image together with its entry, so that only the number of keys reveals it.
    let gone = damaged(&|i| {
        i[b.clone()][..7].sort_unstable();
        i[b.end - 1] = EMPTY;
    });
    assert!(gone.is_err());

    // A token stored later than in a bucket that would have accepted it: free a slot on its list.
    let blocking = buckets.clone().filter(|&home| bucket::is_type_b(&functions, &image, home)).any(|home| {
        let array = bucket::array(&functions, &image, home);
        (0..21).any(|tag| {
            let code = super::tokens::entry(array, tag, 3);
            if !(2..=6).contains(&code) {
                return false;
            }
            let earlier = functions.remap(home, tag, code - 1);
            let found = damaged(&|i| {
                if !bucket::is_type_b(&functions, &image, earlier) {
                    i[bucket::range(&functions, earlier).end - 1] = EMPTY;
                }
            });
            matches!(found, Err(Violation::Blocking { .. }))
        })
    });
    assert!(blocking);
}

quickcheck! {
    fn garbage_never_panics(words: Vec<u64>, keys: Vec<u32>, which: u8, seed: u64) -> bool {
        let all = variants();
        let scheme = &all[usize::from(which) % all.len()];
        let plan = plan_at(scheme, 100, 0.9, seed);
        let mut image: Vec<u64> = (0..plan.words() as usize).map(|at| *words.get(at % words.len().max(1)).unwrap_or(&0)).collect();
        // Most images of arbitrary words are rejected at once; small keys pass more checks.
        if seed.is_multiple_of(2) {
            image.iter_mut().enumerate().for_each(|(at, word)| *word = word.wrapping_mul(at as u64 | 1) & 0x7_0000_ffff);
        }
        for key in keys {
            Horton::find(&plan, &image, key);
            Horton::reads(&plan, &image, key);
        }
        for at in 0..plan.words() + 3 {
            Horton::pair(&plan, &image, at);
            Horton::age(&plan, &image, at);
            Horton::bucket_type(&plan, &image, at);
        }
        let _ = audit_all(&plan, &image);
        let _ = Horton::audit(&plan, &image[..image.len() / 2], 0..plan.words());
        true
    }

    /// A valid image with one word replaced never causes a panic either, and passes more of the checks.
    fn one_damaged_word_never_panics(seed: u64, at: usize, bad: u64) -> bool {
        let pairs = distinct_pairs(110, seed);
        let plan = plan_at(&Horton::canonical(8), 110, 0.85, seed);
        let (_, mut image) = built(&plan, &pairs);
        let at = at % image.len();
        let was = std::mem::replace(&mut image[at], bad);
        for &(key, _) in &pairs {
            Horton::find(&plan, &image, key);
        }
        audit_all(&plan, &image) != Ok(Audit::default()) || was == bad
    }
}
