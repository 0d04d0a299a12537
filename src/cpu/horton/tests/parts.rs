//! Builds of several parts compared with the reference: a part has 2^15 words on one thread, and fewer on several.

use super::*;

fn many_cpus() -> [Cpu; 4] {
    schemes::with_threads([1, 2, 5, 16])
}

/// A new table. Placing the pairs in an existing image gives the same ([`built`]).
fn new(cpu: &Cpu, plan: &HortonPlan, pairs: &[(u32, u32)]) -> (Vec<u64>, Placed) {
    let (keys, values) = columns(cpu, pairs);
    let (image, placed) = Kernels::<Horton>::build(cpu, plan, &keys, &values).expect("built");
    (image.words().to_vec(), placed)
}

/// Checks the image of these pairs, in some order, on any number of threads, twice.
fn assert_reference(plan: &HortonPlan, pairs: &Pairs, context: &str) {
    let (expected, placing) = sequential(plan, pairs);
    assert_eq!(placing, Placing::Placed, "{context}");
    for cpu in many_cpus() {
        for built in [new, built] {
            let (image, placed) = built(&cpu, plan, &shuffled(pairs.clone(), 3));
            assert_eq!(placed, Placed::default(), "{context}, {}", cpu.info().driver);
            assert!(image == expected, "{context}, {}", cpu.info().driver);
        }
    }
}

#[test]
fn images_of_several_parts_equal_the_reference() {
    for (scheme, load) in variants() {
        // Words of the table: a part and a bucket; more than two parts; four parts less a bucket.
        for slots in [(1 << 15) + 16, 75_008, (1 << 17) - 16] {
            let pairs = distinct((slots as f64 * load) as usize);
            let plan = scheme.plan(Request { slots, pairs: 0, seed: 5, attempt: 0 }).expect("a plan");
            assert_eq!(plan.slots(), slots, "the last part was to be of this size");
            assert_reference(&plan, &pairs, &format!("{scheme:?}, {slots} slots at {load}"));
        }
    }
}

#[test]
fn images_without_pairs_or_with_only_the_sentinel_pair_are_empty() {
    for slots in [4, 8, 16] {
        let plan = planned(&Horton::canonical(slots), 100_000, 0.9, 0);
        for cpu in many_cpus() {
            for (pairs, outside) in [(vec![], None), (vec![(u32::MAX, 7)], Some(7))] {
                for built in [new, built] {
                    let (image, placed) = built(&cpu, &plan, &pairs);
                    assert_eq!(placed, Placed { outside, ..Placed::default() });
                    assert!(
                        image.len() == plan.words() as usize && image.iter().all(|&word| word == plan.empty_word())
                    );
                }
            }
        }
    }
}

#[test]
fn images_at_the_greatest_loads_equal_the_reference() {
    for (slots, load) in [(4, 0.88), (8, 0.95), (16, 0.96)] {
        let plan = planned(&Horton::canonical(slots), 150_000, load, 1);
        assert_reference(&plan, &distinct(150_000), &format!("{slots} at {load}"));
    }
}

/// Every part but one is empty, and that one has more pairs than slots.
#[test]
fn pairs_that_do_not_fit_in_the_slice_of_their_part_are_placed() {
    for slots in [4, 8, 16] {
        let plan = planned(&Horton::canonical(slots), 75_000, 0.5, 0);
        let functions = plan.functions();
        let buckets = (1 << 15) / slots;
        let of_part = |part: u32| {
            let pairs = distinct(400_000).into_iter();
            pairs.filter(|&(key, _)| functions.home(key).0 / buckets == part).take(36_000).collect::<Pairs>()
        };
        for part in [0, 3] {
            let here = functions.buckets.min((part + 1) * buckets) - part * buckets;
            let most = (f64::from(here * slots) * 1.06) as usize;
            let pairs: Pairs = of_part(part).into_iter().take(most).collect();
            assert!(pairs.len() == most, "the requested number of pairs");
            assert_reference(&plan, &pairs, &format!("{slots}, part {part}"));
        }
    }
}

/// Crowds in the first bucket, at the border of two parts, and in the last bucket: with a surplus of keys of one tag,
/// and with enough keys to overfill a home.
#[test]
fn crowds_in_any_part_are_built_unless_they_are_too_large() {
    for slots in [4, 8, 16] {
        let plan = planned(&Horton::canonical(slots), 40_000, 0.6, 0);
        let functions = plan.functions();
        let buckets = functions.buckets;
        let border = (1 << 15) / slots;
        let mut pairs = distinct(30_000);
        let crowds = [0, border - 1, border, buckets - 1];
        pairs.retain(|&(key, _)| !crowds.contains(&functions.home(key).0));
        let ordinary = pairs.clone();
        let crowd = |home: u32, count: usize| {
            let of_home = (0..u32::MAX).filter(|&key| functions.home(key).0 == home);
            of_home.take(count).map(|key| (key, !key)).collect::<Pairs>()
        };
        for (home, count) in crowds.into_iter().zip([slots as usize + 1, 30, 40, 25]) {
            pairs.extend(crowd(home, count));
        }
        assert_reference(&plan, &pairs, &format!("{slots}"));
        for cpu in many_cpus() {
            let overfull = [ordinary.clone(), crowd(border, 65), crowd(0, 66)].concat();
            assert_eq!(new(&cpu, &plan, &overfull).1, Placed { unplaced: 2, ..Placed::default() });
        }
    }
}

/// Duplicates with equal and with different values: of keys of normal and of crowded homes, and of the marker's key.
#[test]
fn duplicates_of_any_part_are_counted_exactly() {
    for slots in [4, 8, 16] {
        let all = distinct(90_000);
        let plan = planned(&Horton::canonical(slots), all.len(), 0.85, 0);
        let functions = plan.functions();
        let mut homes: HashMap<u32, u32> = HashMap::new();
        all.iter().for_each(|&(key, _)| *homes.entry(functions.home(key).0).or_default() += 1);
        let of = |crowded: bool| {
            let (homes, functions) = (&homes, &functions);
            move |&&(key, _): &&(u32, u32)| (homes[&functions.home(key).0] > slots) == crowded
        };
        let at_ease: Pairs = all.iter().filter(of(false)).step_by(50).map(|&(key, value)| (key, value ^ 5)).collect();
        let crowded: Pairs = all.iter().filter(of(true)).step_by(70).copied().collect();
        let marked: Pairs = vec![(u32::MAX, 3), (u32::MAX, 9), (u32::MAX, 4)];
        for duplicates in
            [&at_ease[..1], &crowded[..1], &at_ease, &crowded, &[at_ease.clone(), crowded.clone()].concat()]
        {
            let least_duplicate = duplicates.iter().map(|&(key, _)| key).min();
            let counted = Placed { duplicates: duplicates.len() as u64, least_duplicate, ..Placed::default() };
            let with_marked = Placed { duplicates: counted.duplicates + 2, outside: Some(9), ..counted };
            for cpu in many_cpus() {
                let pairs = shuffled([&all[..], duplicates].concat(), 9);
                assert_eq!(new(&cpu, &plan, &pairs).1, counted, "{slots}, {}", cpu.info().driver);
                let pairs = shuffled([pairs, marked.clone()].concat(), 9);
                assert_eq!(new(&cpu, &plan, &pairs).1, with_marked, "{slots}, {}", cpu.info().driver);
            }
        }
    }
}
