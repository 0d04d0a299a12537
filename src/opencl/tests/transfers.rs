//! Long transfers through pinned slots, and queries in chunks: the same data and results as with plain transfers. Slots
//! are small here, so that a simulator uses many of them.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;
use crate::scheme::{Bucketized, Cuckoo};
use crate::{CompactingTable, HashTable, MultiTable};

/// Bytes of a slot: chunks of 256 queries.
const SLOT: usize = 1 << 10;

fn queries() -> usize {
    if small() { 1_300 } else { 100_003 }
}

#[test]
fn long_transfers_by_slots_move_every_word_and_no_other() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let staged = cl.with_slots(SLOT);
    for len in [127, 128, 129, 256, 511, 512, 513, 1023, 1024, 1025, queries()] {
        let data = noise(len as u64, len);
        let mut buffer = staged.upload(&data)?;
        // Uploaded data is read by another handle with a plain transfer, and the reverse.
        assert_eq!(cl.download(&buffer)?, data, "{len}");
        assert_eq!(staged.download(&buffer)?, data, "{len}");
        let part = noise(7, len - len / 3);
        staged.write(&mut buffer, len / 3, &part)?;
        let mut seen = vec![0; part.len()];
        staged.read(&buffer, len / 3, &mut seen)?;
        assert_eq!((&seen, &cl.download(&buffer)?[..len / 3]), (&part, &data[..len / 3]), "{len}");
        let wide: Vec<u64> = data.iter().map(|&x| u64::from(x) << 20 | 5).collect();
        assert_eq!(staged.download(&staged.upload(&wide)?)?, wide, "{len}");
    }
    assert!(staged.transfer_queues().is_some());
    Ok(())
}

#[test]
fn transfers_are_timed_and_their_events_do_not_pile_up() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let (plain, staged) = (cl.with_group(64), cl.with_slots(SLOT));
    let len = if small() { 2_000 } else { 1 << 20 };
    let data = noise(5, len);
    for cl in [&plain, &staged] {
        let buffer = cl.upload(&data)?;
        assert_eq!(cl.download(&buffer)?, data);
        let moved = cl.ledger().take_transfers();
        assert_eq!((moved.to_device, moved.to_host), (4 * len as u64, 4 * len as u64));
        // Oclgrind's timestamps may all be equal.
        assert!(moved.time.as_nanos() > 0 || small(), "{moved:?}");
        assert_eq!(cl.0.clocks.transfers_kept(), 0, "all are over");
        for _ in 0..200 {
            cl.upload(&data[..3])?;
        }
        assert!(cl.0.clocks.transfers_kept() < 100, "finished transfers are dropped, even if no one reads them");
        cl.finish()?;
        assert_eq!(cl.0.clocks.transfers_kept(), 0);
    }
    Ok(())
}

#[test]
fn transfers_do_without_slots_where_there_are_none() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let staged = cl.with_slots(SLOT);
    let data = noise(3, queries());
    let mut held = Vec::new();
    while let Some(slots) = staged.slots(4) {
        held.push(slots);
        assert!(held.len() <= 100, "the slots of a device are bounded");
    }
    assert!(!held.is_empty());
    let buffer = staged.upload(&data)?;
    assert_eq!(staged.download(&buffer)?, data);
    let table = HashTable::builder(Cuckoo::canonical(4)).build(&staged, &[5, data[9]], &[50, 90])?;
    let expected: Vec<_> = data.iter().map(|&key| if key == data[9] { Some(90) } else { None }).collect();
    assert_eq!(table.get(&data)?, expected);
    drop(held);
    assert!(staged.slots(4).is_some(), "slots are returned");
    assert!(
        cl.with_group(64).slots(1).is_none_or(|_| crate::tuning::tuning().staging().is_ok_and(|said| said.is_some()))
    );
    Ok(())
}

/// Keys with values, and queries of which about half are keys.
fn rows() -> (Vec<u32>, Vec<u32>, Vec<u32>) {
    let keys: Vec<u32> = (0..queries() as u32 / 4).map(|i| i.wrapping_mul(0x9e37_79b1)).collect();
    let values = noise(1, keys.len());
    let key = |x| keys[reduce(x, keys.len() as u32) as usize];
    let queried = noise(2, queries()).into_iter().map(|x| if x & 1 == 0 { x } else { key(x) }).collect();
    (keys, values, queried)
}

#[test]
fn chunks_that_overlap_are_answered_as_those_that_do_not() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let staged = cl.with_slots(SLOT);
    let plain = cl.with_group(64);
    let (keys, values, queried) = rows();
    let table = HashTable::builder(Bucketized::canonical(8)).build(&plain, &keys, &values)?;
    let same = table.to_backend(&staged)?;
    plain.ledger().take();
    staged.ledger().take();
    let lengths = [0, 1, 255, 256, 257, 512, 513, 767, 768, 1025, queried.len()];
    for len in lengths.into_iter().filter(|len| !small() || [1, 257, queried.len()].contains(len)) {
        let queried = &queried[..len];
        let answers = table.get(queried)?;
        assert_eq!(same.get(queried)?, answers, "{len}");
        assert_eq!(same.contains(queried)?, answers.iter().map(Option::is_some).collect::<Vec<_>>(), "{len}");
        table.contains(queried)?;
        let (mut values, mut found) = (vec![0xdead; len], vec![0xdead; bitmap_words(len)]);
        same.get_into(queried, &mut values, &mut found)?;
        let (mut plain_values, mut plain_found) = (vec![0xbeef; len], vec![0xbeef; bitmap_words(len)]);
        table.get_into(queried, &mut plain_values, &mut plain_found)?;
        assert!(values == plain_values && found == plain_found, "{len}");
    }
    let counts = |cl: &OpenCl| cl.ledger().take().iter().map(|stage| (stage.name, stage.kernel)).collect::<Vec<_>>();
    let lookups =
        |counts: Vec<(&str, u64)>| counts.iter().filter(|(name, _)| name.contains("lookup")).map(|c| c.1).sum();
    let (there, here): (u64, u64) = (lookups(counts(&staged)), lookups(counts(&plain)));
    assert!(there == here && here > 0, "kernels answer each query once, in chunks of whatever length: {there} {here}");
    Ok(())
}

#[test]
fn computed_queries_and_flags_are_answered_as_words_and_bits() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let (keys, values, queried) = rows();
    let write = |first: usize, to: &mut [u32]| to.copy_from_slice(&queried[first..][..to.len()]);
    for cl in [cl.with_slots(SLOT), cl.with_group(64)] {
        let table = HashTable::builder(Bucketized::canonical(8)).build(&cl, &keys, &values)?;
        for len in [0, 1, 256, 257, 1025, queried.len()] {
            let computed = Queries::Computed { len, write: &write };
            let (mut values, mut found, mut flags) = (vec![0xdead; len], vec![true; len], vec![true; len]);
            table.answer(computed, Answers::flags(&mut found).and_words(&mut values))?;
            table.answer(computed, Answers::flags(&mut flags))?;
            assert_eq!(found, flags, "{len}");
            assert!(values.iter().zip(&found).all(|(&value, &found)| found || value == 0), "{len}");
            let answers: Vec<_> = values.iter().zip(&found).map(|(&value, found)| found.then_some(value)).collect();
            assert_eq!(answers, table.get(&queried[..len])?, "{len}");
        }
    }
    Ok(())
}

#[test]
fn a_panic_while_queries_are_computed_reaches_the_caller() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let (keys, values, queried) = rows();
    let table = HashTable::builder(Bucketized::canonical(8)).build(&cl.with_slots(SLOT), &keys, &values)?;
    let write = |first: usize, _: &mut [u32]| assert!(first < 600, "query {first}");
    let computed = Queries::Computed { len: queried.len(), write: &write };
    let mut found = vec![false; queried.len()];
    let done = catch_unwind(AssertUnwindSafe(|| table.answer(computed, Answers::flags(&mut found))));
    let panic = done.expect_err("a panic");
    assert!(panic.downcast_ref::<String>().is_some_and(|text| text.starts_with("query ")));
    assert_eq!(table.get(&keys[..1])?, [Some(values[0])], "the device still works");
    Ok(())
}

#[test]
fn pinned_slices_need_no_slots() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let staged = cl.with_slots(SLOT);
    let (keys, values, queried) = rows();
    let table = HashTable::builder(Bucketized::canonical(8)).build(&staged, &keys, &values)?;
    let (mut right, mut right_found) = (vec![0; queried.len()], vec![0; bitmap_words(queried.len())]);
    table.to_backend(cl)?.get_into(&queried, &mut right, &mut right_found)?;

    let mut queries = staged.pinned(queried.len())?;
    let (mut to, mut found) = (staged.pinned(queried.len())?, staged.pinned(bitmap_words(queried.len()))?);
    assert!(queries.is_pinned() && queries.iter().all(|&word: &u32| word == 0));
    queries.copy_from_slice(&queried);
    drop(staged.slots(1));
    let made = staged.0.staging.slots_made();
    table.get_into(&queries, &mut to, &mut found)?;
    assert_eq!(made, staged.0.staging.slots_made(), "no slot was needed");
    assert!(to[..] == right && found[..] == right_found);

    // Pinned and ordinary memory, mixed; and a part of pinned memory.
    to.fill(7);
    let mut bits = vec![7; found.len()];
    table.get_into(&queried, &mut to, &mut bits)?;
    assert!(to[..] == right && bits == right_found);
    let (from, mut plain) = (queried.len() / 2 / 32 * 32, vec![7; queried.len()]);
    found.fill(7);
    table.get_into(&queries[from..], &mut plain[from..], &mut found[from / 32..])?;
    assert!(plain[from..] == right[from..] && found[from / 32..] == right_found[from / 32..]);
    assert!(plain[..from].iter().chain(&found[..from / 32]).all(|&word| word == 7), "nothing else is written");

    // Pinned memory that was freed is ordinary again.
    let address = queries.as_ptr_range();
    drop(queries);
    assert!(!staged.0.staging.is_pinned(&queried) && address.start != address.end);
    Ok(())
}

#[test]
fn structures_answer_in_chunks_and_errors_name_the_first_row() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    let (staged, plain) = (cl.with_slots(SLOT), cl.with_group(64));
    let (keys, _, queried) = rows();
    let again: Vec<u32> = keys.iter().chain(&keys[..keys.len() / 2]).copied().collect();
    let numbers: Vec<u32> = (0..again.len() as u32).collect();
    let many = MultiTable::builder(Cuckoo::canonical(4));
    let (there, here) = (many.build(&staged, &again, &numbers)?, many.build(&plain, &again, &numbers)?);
    assert_eq!(there.get(&queried)?, here.get(&queried)?);
    assert_eq!(there.count(&queried)?, here.count(&queried)?);

    let ids = CompactingTable::builder(Cuckoo::canonical(4)).build(&staged, &again)?;
    let inverse = ids.inverse(&again)?;
    assert!(inverse.iter().zip(&again).all(|(&id, &key)| keys[id as usize] == key));
    let back: Vec<_> = again.iter().copied().map(Some).collect();
    assert_eq!(ids.keys(&inverse)?, back);
    // An absent key in the middle of a later chunk, and again after it.
    let mut wrong = again.clone();
    let at = wrong.len() - 300;
    let absent_key = *queried.iter().find(|key| !keys.contains(key)).expect("a query that misses");
    (wrong[at], wrong[at + 280]) = (absent_key, absent_key);
    let error = ids.inverse(&wrong).expect_err("a stranger");
    assert!(
        matches!(error, Error::UnknownKey { key, position } if key == u64::from(absent_key) && position == at as u64),
        "{error}"
    );
    assert_eq!(ids.inverse(&again)?, inverse, "the device works on after an error in the middle");
    Ok(())
}

#[test]
fn columns_of_the_wrong_length_are_refused() -> Result<()> {
    let Some(cl) = device() else { return Ok(()) };
    for cl in [cl.with_slots(SLOT), cl.with_group(64)] {
        let queried = noise(1, 2_000);
        let mut to = vec![0; 2_000];
        let refused = |done: Result<()>| assert!(matches!(done, Err(Error::LengthMismatch { .. })), "{done:?}");
        refused(cl.in_chunks(Queries::Words(&queried), Answers::words([&mut to[1..]]), Ok));
        refused(cl.in_chunks(Queries::Words(&queried), Answers::words([&mut to[..]]), Ok));
        let short = |mut chunk: ChunkOf<OpenCl, u32, u32>| {
            chunk.words = vec![cl.filled(chunk.queries.len() - 1, 0)?];
            Ok(chunk)
        };
        refused(cl.in_chunks(Queries::Words(&queried), Answers::words([&mut to[..]]), short));
        let echo = |mut chunk: ChunkOf<OpenCl, u32, u32>| {
            chunk.words = vec![cl.clone_buffer(&chunk.queries)?];
            Ok(chunk)
        };
        cl.in_chunks(Queries::Words(&queried), Answers::words([&mut to[..]]), echo)?;
        assert_eq!(to, queried);
    }
    Ok(())
}
