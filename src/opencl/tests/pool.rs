//! Cached memory: which memory is reused or never reused, and what happens if there is no other memory.

use super::interop::{given, taken};
use super::*;
use crate::HashTable;
use crate::backend::Runs;
use crate::scheme::{Bucketized, Cuckoo, Fks, Horton, RobinHood, Scheme};

fn pairs() -> (Vec<u32>, Vec<u32>) {
    let len = if small() { 500 } else { 200_000 };
    ((0..len).map(|i| i * 7 + 1).collect(), noise(4, len as usize))
}

/// Builds and looks up twice; the second time must allocate nothing.
fn second_build_allocates_nothing<S: Scheme<Key = u32, Value = u32>>(scheme: S) -> Result<()>
where
    OpenCl: Runs<S>,
{
    let Some(cl) = device() else { return Ok(()) };
    let cl = cl.with_group(64);
    let (keys, values) = pairs();
    let run = |keys: &[u32]| -> Result<(String, Vec<Option<u32>>)> {
        let table = HashTable::builder(scheme.clone()).build(&cl, keys, &values)?;
        Ok((table.digest()?.to_string(), table.get(keys)?))
    };
    let first = run(&keys)?;
    let allocated = cl.ledger().take_allocations();
    assert!(allocated.count > 0 && allocated.bytes >= 8 * keys.len() as u64, "{}: {allocated:?}", S::NAME);
    assert_eq!(run(&keys)?, first, "{}", S::NAME);
    let allocated = cl.ledger().take_allocations();
    assert_eq!((allocated.count, allocated.bytes), (0, 0), "{}", S::NAME);
    Ok(())
}

#[test]
#[ignore = "slow: kernels of every scheme; CI runs it"]
fn a_second_build_of_the_same_size_allocates_nothing() -> Result<()> {
    second_build_allocates_nothing(Cuckoo::canonical(4))?;
    second_build_allocates_nothing(Bucketized::canonical(8))?;
    second_build_allocates_nothing(Horton::canonical(8))?;
    second_build_allocates_nothing(RobinHood::canonical())?;
    second_build_allocates_nothing(Fks::canonical())
}

#[test]
fn memory_is_reused_for_buffers_of_its_kind_and_size() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let cl = cl.with_group(64);
    let allocated = || cl.ledger().take_allocations().count;
    drop(cl.filled(1000, 1u32)?);
    assert_eq!(allocated(), 1);
    let buffer = cl.filled(1000, 2u32)?;
    assert_eq!((allocated(), cl.download(&buffer)?), (0, vec![2; 1000]));
    let (other, wide) = (cl.filled(1000, 3u32)?, cl.filled(1000, 4u64)?);
    assert_eq!(allocated(), 2, "one in use is not given, nor one of other words");
    drop((buffer, other, wide));
    drop(cl.upload(&[5u32; 999])?);
    assert_eq!(allocated(), 1, "nor one of another size");
    assert_eq!(cl.0.pool.kept_bytes(), 4 * (1000 + 1000 + 999) + 8 * 1000);
    // Long buffers of similar lengths.
    let len = 1 << 20;
    drop(cl.upload(&noise(1, len - 5))?);
    let data = noise(2, len);
    let buffer = cl.upload(&data)?;
    assert_eq!((allocated(), buffer.len(), cl.download(&buffer)?), (1, len, data));
    Ok(())
}

#[test]
fn memory_that_others_may_use_is_not_given_again() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let (cl, other) = (cl.with_group(64), cl.with_group(64));
    let allocated = |cl: &OpenCl| cl.ledger().take_allocations().count;
    let buffer = cl.filled(77, 1u32)?;
    let theirs = taken(&buffer);
    drop(buffer);
    drop(cl.filled(77, 2u32)?);
    assert_eq!(allocated(&cl), 2);
    let still = given::<u32>(&cl, &theirs)?;
    assert_eq!(cl.download(&still)?[..77], [1; 77], "what was lent is still what it was");
    // Nor memory used through another handle of the same context.
    let mut buffer = cl.filled(78, 1u32)?;
    other.complement(&mut buffer)?;
    drop(buffer);
    drop(cl.filled(78, 2u32)?);
    assert_eq!((allocated(&cl), other.0.pool.kept_bytes()), (2, 0));
    // Nor imported memory.
    let made = ocl::Buffer::<u32>::builder().queue(cl.0.queue.clone()).len(79).build().expect("a buffer");
    drop(given::<u32>(&cl, &made)?);
    drop(cl.filled(79, 2u32)?);
    assert_eq!(allocated(&cl), 1);
    Ok(())
}

#[test]
fn what_is_kept_is_bounded_and_given_back_when_there_is_no_other() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let cl = cl.with_group(64);
    for len in 1..=300 {
        drop(cl.filled(len, 0u32)?);
    }
    let kept = cl.0.pool.kept_bytes();
    assert!(kept > 0 && kept < 4 * 300 * 301 / 2, "{kept}");
    // No real driver runs out of memory on request.
    let lacking = |error: &ocl::Error| error.to_string().contains("lacking");
    let mut tries = 0;
    let done = cl.again_if(lacking, || {
        tries += 1;
        if tries == 1 { Err("lacking") } else { Ok(tries) }
    });
    assert_eq!((done.ok(), cl.0.pool.kept_bytes()), (Some(2), 0), "tried again with all given back");
    // With nothing to free, and after other errors, it is not retried.
    for (error, kept) in [("lacking", false), ("broken", true)] {
        if kept {
            drop(cl.filled(9, 0u32)?);
        }
        let mut tries = 0;
        let failed: ocl::Result<()> = cl.again_if(lacking, || {
            tries += 1;
            Err(error)
        });
        assert!(failed.is_err() && tries == 1 && (cl.0.pool.kept_bytes() > 0) == kept, "{error}");
    }
    Ok(())
}
