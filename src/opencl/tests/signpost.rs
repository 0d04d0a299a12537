//! Signpost tables on the device.

use ocl::core::Program;

use super::{device, small};
use crate::Any;
use crate::backend::erase_tests::Erase;
use crate::backend::wide_table_tests::tables;
use crate::backend::wide_tests::{self, every_layout, images};
use crate::backend::{HashBackend, Runs};
use crate::cpu::Cpu;
use crate::error::Result;
use crate::opencl::{BuildRoute, LookupShape, OpenCl};
use crate::scheme::Signpost;
use crate::scheme::bucketized::wide::Layout;
use crate::scheme::signpost::post::{MIN_BUCKETS_WITHIN, Posts};
use crate::scheme::signpost::{Narrow, NarrowSet};
use crate::table::{Duplicates, HashTable};

/// All programs of such tables.
pub(super) fn programs(cl: &OpenCl) -> Result<Vec<Program>> {
    fn of<L: Layout>(cl: &OpenCl, programs: &mut Vec<Program>) -> Result<()> {
        let mut posts = vec![Posts::of::<L>(16), Posts::of::<L>(MIN_BUCKETS_WITHIN)];
        posts.dedup();
        for posts in posts {
            programs.push(cl.signposts_program::<L>(posts)?);
            programs.push(cl.signposts_build_program::<L>(posts)?);
            programs.push(cl.signposts_parts_program::<L>(posts)?);
            for shape in [LookupShape::Alone, LookupShape::Together] {
                programs.push(cl.signposts_lookup::<L>(posts, shape, true)?);
                programs.push(cl.signposts_lookup::<L>(posts, shape, false)?);
            }
        }
        Ok(())
    }
    let mut programs = Vec::new();
    of::<Narrow>(cl, &mut programs)?;
    of::<NarrowSet>(cl, &mut programs)?;
    of::<(u64, u64)>(cl, &mut programs)?;
    of::<(u64, u32)>(cl, &mut programs)?;
    of::<(u32, u64)>(cl, &mut programs)?;
    of::<(u64, ())>(cl, &mut programs)?;
    Ok(programs)
}

/// Runs a check of signpost tables for every pair of types.
macro_rules! every_signpost {
    ($check:path, $backend:expr $(, $argument:expr)*) => {{
        let scheme = Signpost::new();
        every_layout!($check, $backend, scheme $(, $argument)*);
        $check($backend, &scheme $(, $argument)*)?;
        $check($backend, &scheme.of::<u32, ()>() $(, $argument)*)?;
    }};
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn images_are_those_of_the_rule() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let sizes: &[(usize, f64)] = if small() {
        &[(7, 0.5), (90, 0.95)]
    } else {
        // Signposts after the lines and within the words.
        &[(0, 0.5), (7, 0.5), (5000, 0.99), (70_000, 0.95)]
    };
    every_signpost!(images, cl, sizes);
    // As on GPUs: several work-items read a line.
    let together = cl.with_group(64);
    together.set_lookup_shape(Some(LookupShape::Together));
    every_signpost!(images, &together, &sizes[1..]);
    wide_tests::duplicates(cl, &Signpost::new().of::<u64, u64>(), if small() { 60 } else { 5000 })?;
    wide_tests::greatest_of_duplicates(cl, &Signpost::new().of::<u64, u32>(), if small() { 200 } else { 30_000 })
}

/// Images are those of the rule, and built one partition at a time.
fn by_parts<S: Erase>(cl: &OpenCl, scheme: &S, sizes: &[(usize, f64)]) -> Result<()>
where
    Any: Runs<S::Any>,
{
    cl.ledger().take();
    for &size in sizes {
        images(cl, scheme, &[size])?;
        let stages: Vec<_> = cl.ledger().take().into_iter().map(|stage| stage.name).collect();
        assert!(size.0 == 0 || stages.contains(&"signpost_parts"), "{stages:?}");
        assert!(!stages.contains(&"signpost_lines"), "the other way for {size:?}: {stages:?}");
    }
    Ok(())
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn parts_are_those_of_the_rule() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let cl = cl.with_group(64);
    cl.set_build_route(Some(BuildRoute::ByParts));
    let sizes: &[(usize, f64)] = if small() {
        &[(90, 0.95)]
    } else {
        &[(0, 0.5), (1, 0.5), (500, 0.95), (9000, 0.9), (70_000, 0.95), (200_000, 0.8)]
    };
    if small() {
        // A simulator has 32 KiB of local memory, which is enough for these.
        by_parts(&cl, &Signpost::new().of::<u64, u64>(), sizes)?;
        by_parts(&cl, &Signpost::new().of::<u64, ()>(), sizes)?;
        by_parts(&cl, &Signpost::new().of::<u32, ()>(), sizes)?;
    } else {
        every_signpost!(by_parts, &cl, sizes);
    }
    // Duplicates and crowds use another strategy.
    let column: Vec<u64> = (0..if small() { 60 } else { 30_000u64 }).map(|i| if i % 3 == 0 { 7 } else { i }).collect();
    let (scheme, values) = (Signpost::new().of::<u64, u64>(), column.clone());
    let expected =
        HashTable::builder(scheme.clone()).duplicates(Duplicates::KeepLast).build(&Cpu::new(), &column, &values)?;
    let built = HashTable::builder(scheme).duplicates(Duplicates::KeepLast).build(&cl, &column, &values)?;
    assert_eq!(built.digest()?, expected.digest()?);
    Ok(())
}

#[test]
#[ignore = "slow: kernels for all parameters; CI runs it"]
fn tables_are_queried_and_changed() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    if small() {
        return tables(cl, &Signpost::new().of::<u64, u32>(), 40);
    }
    every_signpost!(tables, cl, 10_000);
    wide_tests::structures(cl, &Signpost::new().of::<u64, u32>(), &Signpost::new().of::<u64, ()>(), 9000)
}
