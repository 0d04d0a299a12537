//! Tables of lines built one partition at a time, compared with the scheme's rule and with direct builds.

use crate::backend::wide_tests::{self, Columns, pairs, reference};
use crate::backend::{BuildRoute, DeviceBuffer, HashBackend, Kernels, Placed};
use crate::cpu::Cpu;
use crate::error::Result;
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

/// Lines of a part on the CPU.
const PART: usize = 1 << 12;

fn cpus() -> Result<Vec<Cpu>> {
    [1, 2, 5].into_iter().map(Cpu::with_threads).collect()
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
    scheme::<K, V>().plan(Request { slots: slots as u64, pairs: 0, seed: 3, attempt })
}

/// An image, the counts of its pairs, and, if it was built one partition at a time, how many pairs left their parts.
struct Built<L: Layout> {
    image: Vec<u64>,
    placed: Placed<L::Key, L::Value>,
    left: Option<u64>,
}

/// Builds by a route.
fn build<K: Column, V: Column>(
    cpu: &Cpu,
    route: BuildRoute,
    plan: &LinePlan<(K, V)>,
    columns: &Columns<BucketizedOf<K, V>>,
) -> Result<Built<(K, V)>>
where
    (K, V): Layout,
    Cpu: Kernels<BucketizedOf<K, V>>,
{
    cpu.set_build_route(Some(route));
    let (keys, values) = (cpu.upload(&columns.0)?, cpu.upload(&columns.1)?);
    cpu.ledger().take();
    let (image, placed) = Kernels::<BucketizedOf<K, V>>::build(cpu, plan, &keys, &values)?;
    let stages = cpu.ledger().take();
    let counted = |name| stages.iter().find(|stage| stage.name == name).map(|stage| stage.kernel + stage.host);
    let left = counted("bucketized_escapes");
    assert_ne!(left.is_some(), counted("bucketized_place").is_some(), "{stages:?}");
    assert_eq!(counted("bucketized_deal").is_some(), route == BuildRoute::ByParts && keys.len() > 0, "{stages:?}");
    Ok(Built { image: cpu.download(&image)?, placed, left })
}

/// A plan and an image.
type Table<L> = (LinePlan<L>, Vec<u64>);

/// The first attempt for which the rule builds, and its image.
fn referenced<K: Column, V: Column>(slots: usize, columns: &Columns<BucketizedOf<K, V>>) -> Result<Table<(K, V)>>
where
    (K, V): Layout,
{
    for attempt in 0..40 {
        let plan = plan::<K, V>(slots, attempt)?;
        if let Some(image) = reference::<BucketizedOf<K, V>>(&plan, columns) {
            return Ok((plan, image));
        }
    }
    panic!("{} pairs in {slots} slots in no attempt", columns.0.len())
}

fn images<K: Column, V: Column>() -> Result<()>
where
    (K, V): Layout,
    Cpu: Kernels<BucketizedOf<K, V>>,
{
    let each = <(K, V)>::SLOTS;
    // Less than a part; one; one and a line; a short last one; whole ones; one that ends within a part of the plan.
    for lines in [16, 300, PART, PART + 1, 2 * PART + 777, 3 * PART, 5 * PART + 3 * 512 + 9] {
        for percent in [2, 50, 90, 96, 97] {
            let slots = lines * each;
            let columns = pairs(&scheme::<K, V>(), slots * percent / 100, 1);
            let (plan, expected) = referenced::<K, V>(slots, &columns)?;
            for cpu in cpus()? {
                let said = format!("{percent}% of {lines} lines of {each}, {}", cpu.info().driver);
                let Built { image, placed, left } = build::<K, V>(&cpu, BuildRoute::ByParts, &plan, &columns)?;
                assert_eq!((placed, left.is_some()), (Placed::default(), !columns.0.is_empty()), "{said}");
                assert!(image == expected, "{said}");
            }
        }
    }
    Ok(())
}

#[test]
fn images_equal_the_sequential_rule() -> Result<()> {
    every_layout!(images())
}

/// At such a load that many pairs leave their parts: more than one block of them is placed in the whole image.
fn leavers<K: Column, V: Column>(per_thousand: usize) -> Result<()>
where
    (K, V): Layout,
    Cpu: Kernels<BucketizedOf<K, V>>,
{
    let slots = 200_000;
    let columns = pairs(&scheme::<K, V>(), slots * per_thousand / 1000, 1);
    let (plan, expected) = referenced::<K, V>(slots, &columns)?;
    for cpu in cpus()? {
        let Built { image, placed, left } = build::<K, V>(&cpu, BuildRoute::ByParts, &plan, &columns)?;
        assert_eq!(placed, Placed::default());
        assert!(left.is_some_and(|left| left > 1000), "{left:?} left");
        assert!(image == expected, "{}", cpu.info().driver);
    }
    Ok(())
}

#[test]
fn crowds_that_leave_their_parts_are_placed() -> Result<()> {
    leavers::<u64, u64>(975)?;
    leavers::<u64, u32>(982)?;
    leavers::<u32, u64>(982)?;
    leavers::<u64, ()>(995)
}

/// Duplicates are counted, the smallest duplicate key is reported, and the greatest value is kept.
fn duplicates<K: Column, V: Column>() -> Result<()>
where
    (K, V): Layout,
    Cpu: Kernels<BucketizedOf<K, V>>,
{
    let distinct = pairs(&scheme::<K, V>(), 60_000, 1);
    let others = pairs(&scheme::<K, V>(), 60_002, 9).1;
    // Duplicates of one key and of many, adjacent and far apart; capacity for all pairs, or only for the distinct keys.
    for (every, times, load) in [(60_000, 1, 0.9), (9_999, 1, 0.95), (50, 1, 0.95), (3, 1, 0.8), (1, 2, 0.9)] {
        for apart in [false, true] {
            let (mut rows, mut again) = (Vec::new(), Vec::new());
            for (i, (&key, &value)) in distinct.0.iter().zip(&distinct.1).enumerate() {
                rows.push((key, value));
                if i % every == 0 {
                    let duplicates = (0..times).map(|copy| (key, others[i + copy]));
                    if apart { &mut again } else { &mut rows }.extend(duplicates);
                }
            }
            rows.append(&mut again);
            let columns: Columns<BucketizedOf<K, V>> = rows.iter().copied().unzip();
            let least_duplicate = distinct.0.iter().step_by(every).min().copied();
            let expected = Placed { duplicates: (rows.len() - 60_000) as u64, least_duplicate, ..Placed::default() };
            let slots = (columns.0.len() as f64 / load) as usize;
            let plan = plan::<K, V>(slots, 0)?;
            let mut image = vec![0; 8 * plan.buckets() as usize];
            BucketizedOf::<K, V>::place(&plan, &mut image, &rows);
            for cpu in cpus()? {
                let said = format!("every {every}, {times} times, apart {apart}, {}", cpu.info().driver);
                let built = build::<K, V>(&cpu, BuildRoute::ByParts, &plan, &columns)?;
                assert_eq!((built.placed, built.left.is_some()), (expected, true), "{said}");
                assert!(built.image == image, "{said}");
            }
        }
    }
    Ok(())
}

#[test]
fn duplicates_are_counted_exactly_and_the_greatest_value_is_kept() -> Result<()> {
    every_layout!(duplicates())
}

fn crowds<K: Column, V: Column>() -> Result<()>
where
    (K, V): Layout,
    Cpu: Kernels<BucketizedOf<K, V>>,
{
    // A third of the rows has one key: too many for its part and for the escapes. A few thousand are within the limit.
    for (len, crowd, by_parts) in [(300_000, 3, false), (120_000, 40, true)] {
        let mut columns = pairs(&scheme::<K, V>(), len, 1);
        let one = columns.0[0];
        columns.0.iter_mut().skip(1).step_by(crowd).for_each(|key| *key = one);
        let duplicates = (len - 1).div_ceil(crowd) as u64;
        let plan = plan::<K, V>(len * 10 / 9, 0)?;
        for cpu in cpus()? {
            let built = build::<K, V>(&cpu, BuildRoute::ByParts, &plan, &columns)?;
            let counted = Placed { duplicates, least_duplicate: Some(one), ..Placed::default() };
            assert_eq!((built.placed, built.left.is_some()), (counted, by_parts), "{}", cpu.info().driver);
            let direct = build::<K, V>(&cpu, BuildRoute::Direct, &plan, &columns)?;
            assert_eq!((direct.placed, direct.left), (counted, None));
            assert!(built.image == direct.image);
        }
    }

    // More pairs than slots, by a few or by many: the same pairs are unplaced.
    for slots in [50_000, 49_700, 45_000] {
        let columns = pairs(&scheme::<K, V>(), 50_000, 1);
        let plan = plan::<K, V>(slots, 0)?;
        for cpu in cpus()? {
            let by_parts = build::<K, V>(&cpu, BuildRoute::ByParts, &plan, &columns)?.placed;
            let direct = build::<K, V>(&cpu, BuildRoute::Direct, &plan, &columns)?.placed;
            assert_eq!((by_parts.unplaced, by_parts.duplicates), (direct.unplaced, 0));
            assert!(direct.unplaced > 0 || slots == 50_000);
        }
    }
    Ok(())
}

#[test]
#[ignore = "slow: slots of 64 bits; CI runs it"]
fn overfull_parts_are_placed_or_reported_by_every_strategy() -> Result<()> {
    every_layout!(crowds())
}

/// Such builds also number columns with duplicate keys.
#[test]
fn rows_are_numbered_by_the_greatest_value() -> Result<()> {
    for cpu in cpus()? {
        cpu.set_build_route(Some(BuildRoute::ByParts));
        wide_tests::greatest_of_duplicates(&cpu, &scheme::<u64, u32>(), 100_000)?;
        wide_tests::duplicates(&cpu, &scheme::<u64, u64>(), 9000)?;
        wide_tests::structures(&cpu, &scheme::<u64, u32>(), &scheme::<u64, ()>(), 9000)?;
    }
    Ok(())
}

#[test]
fn the_strategy_depends_on_the_size_unless_it_is_set() -> Result<()> {
    if std::env::var_os(BuildRoute::VARIABLE).is_some() {
        return Ok(());
    }
    for (len, by_parts) in [(1000, false), (1 << 17, true)] {
        let cpu = Cpu::with_threads(2)?;
        let columns = pairs(&scheme::<u64, u32>(), len, 1);
        let (keys, values) = (cpu.upload(&columns.0)?, cpu.upload(&columns.1)?);
        cpu.ledger().take();
        Kernels::<BucketizedOf<u64, u32>>::build(&cpu, &plan::<u64, u32>(2 * len, 0)?, &keys, &values)?;
        let partitioned = cpu.ledger().take().iter().any(|stage| stage.name == "bucketized_deal");
        assert_eq!(partitioned, by_parts, "{len} pairs");
    }
    Ok(())
}
