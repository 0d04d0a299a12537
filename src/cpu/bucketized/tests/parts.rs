//! Builds one partition at a time, compared with the reference and with direct builds.

use super::*;
use crate::backend::BuildRoute;
use crate::scheme::Scheme;

/// The result of a build by this route; and, if it did not switch to another route, how many pairs left their parts.
fn build(cpu: &Cpu, route: BuildRoute, plan: &BucketizedPlan, pairs: &[(u32, u32)]) -> (Vec<u64>, Placed, Option<u64>) {
    let (keys, values) = columns(cpu, pairs);
    cpu.set_build_route(Some(route));
    cpu.ledger().take();
    let (image, placed) = Kernels::<Bucketized>::build(cpu, plan, &keys, &values).expect("built");
    let stages = cpu.ledger().take();
    let counted = |name| stages.iter().find(|stage| stage.name == name).map(|stage| stage.kernel + stage.host);
    let left = counted("bucketized_escapes");
    assert_ne!(left.is_some(), counted("bucketized_place").is_some(), "{stages:?}");
    (image.words().to_vec(), placed, left)
}

fn many_cpus() -> [Cpu; 4] {
    schemes::with_threads([1, 2, 3, 8])
}

/// Pairs with some duplicates, each with another value; the number of duplicates, and the smallest duplicate key.
fn with_duplicates(pairs: &[(u32, u32)], every: usize) -> (Pairs, Placed) {
    let again: Pairs = pairs.iter().skip(every / 2).step_by(every).map(|&(key, value)| (key, value ^ 5)).collect();
    let least_duplicate = again.iter().map(|&(key, _)| key).min();
    let placed = Placed { duplicates: again.len() as u64, least_duplicate, ..Placed::default() };
    (shuffled([pairs, &again].concat(), every as u64), placed)
}

#[test]
fn images_equal_the_reference() {
    // A part has 32,768 slots: one part, slightly more than one, two and a half, and several whole ones.
    let slots = [16, 30_000, 32_768, 32_784, 80_000, 3 * 32_768, 5 * 32_768 + 48];
    for (slots, bucket_slots) in
        slots.into_iter().flat_map(|slots| [4, 8, 16].map(|bucket_slots| (slots, bucket_slots)))
    {
        let most = if bucket_slots == 4 { 0.97 } else { 0.985 };
        for load in [0.02, 0.5, 0.9, most] {
            let size = (slots as f64 * load) as usize;
            let pairs = shuffled(distinct(size), 7);
            let (plan, expected) = referenced(&Bucketized::canonical(bucket_slots), &pairs, slots);
            for cpu in cpus() {
                let (image, placed, left) = build(&cpu, BuildRoute::ByParts, &plan, &pairs);
                assert_eq!((placed, left.is_some()), (Placed::default(), size > 0));
                assert!(image == expected, "S {bucket_slots}, {size} pairs in {slots}, {}", cpu.info().driver);
            }
        }
    }
}

/// At such a load that more pairs leave their parts than one thread places.
#[test]
fn crowds_that_leave_their_parts_are_placed_by_all_threads() {
    for (bucket_slots, load) in [(4, 0.98), (8, 0.995), (16, 0.998)] {
        let pairs = distinct(500_000);
        let (plan, expected) = referenced(&Bucketized::canonical(bucket_slots), &pairs, slots_for(500_000, load));
        for cpu in many_cpus() {
            let (image, placed, left) = build(&cpu, BuildRoute::ByParts, &plan, &pairs);
            assert_eq!(placed, Placed::default());
            assert!(left.is_some_and(|left| left > 4096 + plan.slots() / 4096), "S {bucket_slots}: {left:?} left");
            assert!(image == expected, "S {bucket_slots}, {}", cpu.info().driver);
        }
    }
}

#[test]
fn duplicates_are_counted_exactly_on_any_number_of_threads() {
    let pairs = distinct(120_000);
    for every in [1, 2, 3, 50, 9_999] {
        let (batch, counted) = with_duplicates(&pairs, every);
        for bucket_slots in [4, 8, 16] {
            // Duplicates need no slots: the table has only as many as distinct keys need. The slices have the same
            // capacity, so with many duplicates too many pairs escape, and the table is built directly.
            let (plan, expected) = referenced(&Bucketized::canonical(bucket_slots), &batch, slots_for(120_000, 0.95));
            for cpu in many_cpus() {
                let (image, placed, left) = build(&cpu, BuildRoute::ByParts, &plan, &batch);
                assert_eq!(placed, counted, "every {every}, S {bucket_slots}, {}", cpu.info().driver);
                assert!(image == expected, "every {every}, S {bucket_slots}, {}", cpu.info().driver);
                assert_eq!(left.is_some(), every > 3);
            }
        }
    }
}

#[test]
fn duplicates_that_fit_stay_in_their_parts() {
    let pairs = distinct(40_000);
    for times in [2, 3, 9] {
        let batch: Pairs = pairs.iter().flat_map(|&(key, value)| (0..times).map(move |i| (key, value ^ i))).collect();
        let least_duplicate = pairs.iter().map(|&(key, _)| key).min();
        let counted = Placed { duplicates: (times as u64 - 1) * 40_000, least_duplicate, ..Placed::default() };
        for bucket_slots in [4, 8, 16] {
            let (plan, expected) =
                referenced(&Bucketized::canonical(bucket_slots), &batch, slots_for(batch.len(), 0.9));
            for cpu in cpus() {
                for seed in 0..2 {
                    let batch = if seed == 0 { batch.clone() } else { shuffled(batch.clone(), seed) };
                    let (image, placed, left) = build(&cpu, BuildRoute::ByParts, &plan, &batch);
                    assert_eq!((placed, left.is_some()), (counted, true), "{times} times, S {bucket_slots}");
                    assert!(image == expected, "{times} times, S {bucket_slots}");
                }
            }
        }
    }
}

/// A few thousand duplicates of one key are within the limit for escapes; with more, the table is built directly.
#[test]
fn crowds_of_one_key_are_reported_by_every_strategy() {
    let pairs = distinct(100_000);
    for (crowd, by_parts) in [(2, true), (300, true), (4_000, true), (30_000, false), (1_000_000, false)] {
        let batch: Pairs = pairs.iter().copied().chain((0..crowd).map(|i| (pairs[77].0, i))).collect();
        let counted = Placed { duplicates: u64::from(crowd), least_duplicate: Some(pairs[77].0), ..Placed::default() };
        let (plan, expected) = referenced(&Bucketized::canonical(8), &batch, slots_for(100_000, 0.9));
        for cpu in cpus() {
            let found = build(&cpu, BuildRoute::ByParts, &plan, &batch);
            assert_eq!((found.1, found.2.is_some()), (counted, by_parts), "{crowd} of one key, {}", cpu.info().driver);
            assert!(found.0 == expected, "{crowd} of one key, {}", cpu.info().driver);
        }
    }
}

#[test]
fn the_number_of_unplaced_pairs_does_not_depend_on_the_strategy() {
    let pairs = distinct(70_000);
    for bucket_slots in [4, 8, 16] {
        for slots in [70_000, 69_600, 66_000, 35_000] {
            let request = Request { slots, pairs: 70_000, seed: 1, attempt: 0 };
            let plan = Bucketized::canonical(bucket_slots).plan(request).expect("a plan");
            for cpu in cpus() {
                let (_, direct, _) = build(&cpu, BuildRoute::Direct, &plan, &pairs);
                let (_, by_parts, _) = build(&cpu, BuildRoute::ByParts, &plan, &pairs);
                assert!(direct.unplaced > 0 || slots == 70_000);
                assert_eq!(by_parts.unplaced, direct.unplaced, "S {bucket_slots}, {slots} slots");
            }
        }
    }
}

#[test]
fn the_strategy_depends_on_the_size_unless_it_is_set() -> Result<()> {
    if std::env::var_os(BuildRoute::VARIABLE).is_some() {
        return Ok(());
    }
    let cpu = Cpu::with_threads(2)?;
    assert_eq!((cpu.build_route(1000)?, cpu.build_route(1 << 20)?), (BuildRoute::Direct, BuildRoute::ByParts));
    for route in BuildRoute::ALL {
        cpu.clone().set_build_route(Some(route));
        assert_eq!((cpu.build_route(1000)?, cpu.build_route(1 << 20)?), (route, route));
    }
    cpu.set_build_route(None);
    assert_eq!(cpu.build_route(1000)?, BuildRoute::Direct);
    Ok(())
}

#[test]
fn classic_tables_are_not_built_by_parts() -> Result<()> {
    let cpu = Cpu::with_threads(2)?;
    let pairs: Pairs = distinct(1000).into_iter().filter(|&(key, _)| key != u32::MAX).collect();
    let (plan, expected) = referenced(&Bucketized::classic(2, 8), &pairs, slots_for(1000, 0.9));
    let (image, _, left) = build(&cpu, BuildRoute::ByParts, &plan, &pairs);
    assert!(image == expected && left.is_none());
    Ok(())
}
