//! One memory in two buffers, and sizes that exceed the memory.

use super::interop::{given, taken};
use super::*;
use crate::HashTable;
use crate::scheme::Cuckoo;

#[test]
fn two_handles_of_one_memory_in_a_call_are_refused() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let aliased = |result: Result<()>| assert!(matches!(result, Err(Error::Aliased)), "{result:?}");
    let theirs = ocl::Buffer::<u32>::builder().queue(cl.0.queue.clone()).len(2048).build().expect("a buffer");
    let (queries, mut values) = (given(cl, &theirs)?, given(cl, &theirs)?);
    let (mut found, mut capacity) = (cl.filled(64, 0u32)?, cl.filled(2048, 0u32)?);
    let table = HashTable::builder(Cuckoo::default()).build(cl, &[5, 6], &[50, 60])?;
    cl.write(&mut values, 0, &[6; 2048])?;
    aliased(table.get_on_into(&queries, &mut values, &mut found));
    aliased(cl.copy(&queries, 0, &mut values, 1024, 10));
    // Nothing was written, and both handles are still usable.
    table.get_on_into(&queries, &mut capacity, &mut found)?;
    assert_eq!(cl.download(&capacity)?, [60; 2048]);
    // The same buffer read twice is not an alias.
    assert!(cl.select_pairs(&found, true, &queries, &queries).is_ok());

    let part = |from: usize, len: usize| {
        let part = theirs.create_sub_buffer(None, from, len).expect("a part");
        given(cl, &part)
    };
    let (left, mut middle, mut right) = (part(0, 1024)?, part(512, 1024)?, part(1024, 1024)?);
    aliased(cl.copy(&left, 0, &mut middle, 0, 10));
    aliased(cl.copy(&middle, 0, &mut right, 0, 10));
    aliased(cl.copy(&queries, 0, &mut right, 0, 10));
    cl.copy(&left, 0, &mut right, 0, 10)?;
    let mut found = cl.filled(32, 0u32)?;
    table.get_on_into(&left, &mut right, &mut found)?;
    assert_eq!(cl.download(&right)?, [60; 1024], "parts that do not overlap are two memories");

    let mut own = cl.filled(64, 0u32)?;
    let again = given(cl, &taken(&own))?;
    aliased(cl.copy(&again, 0, &mut own, 0, 1));
    Ok(())
}

#[test]
fn more_bytes_than_can_be_counted_are_refused() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let too_large = |result: Result<()>| assert!(matches!(result, Err(Error::TooLarge { .. })), "{result:?}");
    for len in [(1 << 61) + 1, 1 << 60, usize::MAX] {
        too_large(cl.pinned::<u64>(len).map(drop));
        too_large(cl.unwritten::<u64>(len).map(drop));
        too_large(cl.filled(len, 0u64).map(drop));
    }
    too_large(cl.pinned::<u32>((1 << 62) + 1).map(drop));
    // A device that does not report the maximum size of a buffer.
    let mut unknown = cl.anew(false, cl.0.sizes);
    unknown.info.largest_buffer = None;
    let unknown = OpenCl(std::sync::Arc::new(unknown));
    too_large(unknown.unwritten::<u64>((1 << 61) + 1).map(drop));
    assert_eq!(cl.pinned::<u64>(3)?.len(), 3);
    Ok(())
}
