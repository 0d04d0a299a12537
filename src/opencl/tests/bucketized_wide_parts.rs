//! Compares tables of lines built one partition at a time with the scheme's own rule, and with the direct route.

use super::{device, duplicates, small};
use crate::backend::wide_tests::{self, Columns, pairs, reference};
use crate::backend::{HashBackend, Kernels, Placed};
use crate::error::Result;
use crate::opencl::{BuildRoute, LookupShape, OpenCl};
use crate::scheme::bucketized::wide::{Column, Layout, LinePlan};
use crate::scheme::{Bucketized, BucketizedOf, Request, Scheme};

/// Calls a generic function for each layout.
macro_rules! every_layout {
    ($test:ident ( $($argument:expr),* )) => {{
        $test::<u64, u64>($($argument),*)?;
        $test::<u64, u32>($($argument),*)?;
        $test::<u32, u64>($($argument),*)?;
        $test::<u64, ()>($($argument),*)
    }};
}

fn scheme<K: Column, V: Column>() -> BucketizedOf<K, V>
where
    (K, V): Layout,
{
    Bucketized::default().of::<K, V>()
}

fn plan<K: Column, V: Column>(slots: usize, attempt: u32) -> Result<LinePlan<(K, V)>>
where
    (K, V): Layout,
{
    let request = Request { slots: slots as u64, pairs: 0, seed: 3, attempt };
    scheme::<K, V>().plan(request)
}

/// An image, the result for its pairs, and whether the route by parts completed the build.
struct Built<L: Layout> {
    image: Vec<u64>,
    placed: Placed<L::Key, L::Value>,
    by_parts: bool,
}

/// Builds by a route.
fn build<K: Column, V: Column>(
    cl: &OpenCl,
    route: BuildRoute,
    plan: &LinePlan<(K, V)>,
    columns: &Columns<BucketizedOf<K, V>>,
) -> Result<Built<(K, V)>>
where
    (K, V): Layout,
    OpenCl: Kernels<BucketizedOf<K, V>>,
{
    let cl = cl.with_group(64);
    cl.set_build_route(Some(route));
    let (keys, values) = (cl.upload(&columns.0)?, cl.upload(&columns.1)?);
    cl.ledger().take();
    let (image, placed) = Kernels::<BucketizedOf<K, V>>::build(&cl, plan, &keys, &values)?;
    let stages: Vec<_> = cl.ledger().take().into_iter().map(|stage| stage.name).collect();
    assert_eq!(stages.contains(&"lines_parts"), route == BuildRoute::ByParts, "{stages:?}");
    Ok(Built { image: cl.download(&image)?, placed, by_parts: !stages.contains(&"lines_place") })
}

fn images<K: Column, V: Column>(cl: &OpenCl, percents: &[usize]) -> Result<()>
where
    (K, V): Layout,
    OpenCl: Kernels<BucketizedOf<K, V>>,
{
    let part = <(K, V)>::SLOTS << <(K, V)>::PART_BITS;
    // The last part: of one line, of a few, whole, and between; and enough parts for two digits.
    let more = if small() { vec![] } else { vec![300, part, 3 * part + 777, 40 * part + 5] };
    for slots in [vec![part + 1], more].concat() {
        for percent in percents {
            let columns = pairs(&scheme::<K, V>(), slots * percent / 100, 1);
            for attempt in 0.. {
                let plan = plan::<K, V>(slots, attempt)?;
                let expected = reference::<BucketizedOf<K, V>>(&plan, &columns);
                let Built { image, placed, by_parts } = build::<K, V>(cl, BuildRoute::ByParts, &plan, &columns)?;
                assert!(by_parts);
                assert_eq!(placed.unplaced == 0, expected.is_some(), "{plan:?}: {placed:?}");
                if let Some(expected) = expected {
                    assert_eq!(placed, Placed::default(), "{plan:?}");
                    assert!(image == expected, "{percent}% of {slots} slots, {plan:?}");
                    break;
                }
                assert!(attempt < 39, "{percent}% of {slots} slots in no attempt");
            }
        }
    }
    Ok(())
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn images_equal_the_sequential_rule() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    every_layout!(images(cl, if small() { &[95] } else { &[50, 90, 96, 97] }))
}

fn least_copies<K: Column, V: Column>(cl: &OpenCl, len: usize) -> Result<()>
where
    (K, V): Layout,
    OpenCl: Kernels<BucketizedOf<K, V>>,
{
    for sort in duplicates::sorts(len, 40) {
        let mut columns = pairs(&scheme::<K, V>(), len, 1);
        duplicates::plant(&mut columns.0, sort);
        let plan = plan::<K, V>(len * 10 / 9, 0)?;
        let Built { placed, by_parts, .. } = build::<K, V>(cl, BuildRoute::ByParts, &plan, &columns)?;
        assert!(by_parts && placed.unplaced == 0 && placed.duplicates > 0, "{sort:?}: {placed:?}");
        assert_eq!(placed.least_duplicate, duplicates::of(&columns.0).first().copied(), "{sort:?}: {placed:?}");
    }
    Ok(())
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn the_least_key_with_duplicates_is_reported() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    if small() {
        return least_copies::<u64, u32>(cl, 700);
    }
    every_layout!(least_copies(cl, 30_000))
}

fn crowds<K: Column, V: Column>(cl: &OpenCl, len: usize) -> Result<()>
where
    (K, V): Layout,
    OpenCl: Kernels<BucketizedOf<K, V>>,
{
    // A third of all pairs have one key: its part is too small for them, and so is the list of escapes.
    let mut columns = pairs(&scheme::<K, V>(), len, 1);
    let one = columns.0[5];
    columns.0.iter_mut().skip(1).step_by(3).for_each(|key| *key = one);
    let crowded = plan::<K, V>(2 * len, 0)?;
    let Built { placed, by_parts, .. } = build::<K, V>(cl, BuildRoute::ByParts, &crowded, &columns)?;
    assert_eq!((placed.unplaced, placed.least_duplicate, by_parts), (0, Some(one), small()));

    // One part, whose queue one key fills before a duplicate of a lesser key arrives.
    let mut columns = pairs(&scheme::<K, V>(), 1500, 1);
    columns.0.sort_unstable();
    let (least, crowd) = (columns.0[0], columns.0[1200]);
    columns.0[100..1000].fill(crowd);
    columns.0[1499] = least;
    let one_part = plan::<K, V>(1900, 0)?;
    let Built { placed, .. } = build::<K, V>(cl, BuildRoute::ByParts, &one_part, &columns)?;
    assert_eq!(placed.least_duplicate, Some(least));

    // More pairs than slots.
    let columns = pairs(&scheme::<K, V>(), len / 8, 1);
    let full = plan::<K, V>(len / 9, 0)?;
    let placed = build::<K, V>(cl, BuildRoute::ByParts, &full, &columns)?.placed;
    let direct = build::<K, V>(cl, BuildRoute::Direct, &full, &columns)?.placed;
    assert_eq!((placed.unplaced, placed.duplicates), (direct.unplaced, 0));
    assert!(placed.unplaced > 0);
    Ok(())
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn overfull_parts_are_placed_or_reported_by_every_strategy() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    if small() {
        return crowds::<u64, u32>(cl, 3000);
    }
    every_layout!(crowds(cl, 60_000))
}

/// Such tables also number the keys of columns with duplicates.
#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn the_greatest_value_of_duplicates_stays_and_rows_are_numbered_by_it() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let parts = cl.with_group(64);
    parts.set_build_route(Some(BuildRoute::ByParts));
    // As on GPUs, which read lines together: a key in two slots would have two results.
    parts.set_lookup_shape(Some(LookupShape::Together));
    let scheme = scheme::<u64, u32>();
    wide_tests::greatest_of_duplicates(&parts, &scheme, if small() { 300 } else { 30_000 })?;
    if small() {
        return Ok(());
    }
    wide_tests::structures(&parts, &scheme, &self::scheme::<u64, ()>(), 9000)
}
