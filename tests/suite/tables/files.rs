//! Files: equal tables have equal bytes, and no file causes a crash, whatever its checksum.

use std::path::Path;

use crate::common::{TRAILER, open_mapped, reseal};
use koel::device::Any;
use koel::table::read_info;
use koel::workload::Workload;
use koel::{CompactingTable, Cpu, Cuckoo, Duplicates, Error, HashSet, HashTable, MultiTable};

const HEADER: usize = 128;

fn saved(path: &Path, scheme: Cuckoo) -> Vec<u8> {
    let load = Workload::new(100, 1);
    let (mut keys, values) = (load.keys(), load.values());
    keys[7] = u32::MAX;
    let table = HashTable::builder(scheme).build(&Cpu::new(), &keys, &values).unwrap();
    table.save(path).unwrap();
    std::fs::read(path).unwrap()
}

#[test]
fn saving_and_opening_keeps_everything() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.koel");
    for device in crate::common::devices() {
        for scheme in [Cuckoo::canonical(3), Cuckoo::classic(4)] {
            let load = Workload::new(5000, 1);
            let table = HashTable::builder(scheme)
                .duplicates(Duplicates::KeepFirst)
                .load_factor(0.7)
                .build(&device, &load.keys(), &load.values())
                .unwrap();
            table.save(&path).unwrap();
            let mut again = HashTable::<Any, Cuckoo>::open(&device, &path).unwrap();
            assert_eq!(again.digest().unwrap(), table.digest().unwrap());
            let mapped = open_mapped::<Cuckoo>(&path).unwrap();
            assert_eq!(mapped.digest().unwrap(), table.digest().unwrap());
            let queries = load.queries(3000, 50);
            assert_eq!(mapped.get(&queries).unwrap(), table.get(&queries).unwrap());
            // The rules are stored too: KeepFirst and the load.
            let known = load.keys()[0];
            let before = again.get(&[known]).unwrap();
            again.insert(&[known, 12_345], &[1, 2]).unwrap();
            assert_eq!(again.get(&[known]).unwrap(), before);
            assert!((again.load_factor() - 0.7).abs() < 0.001);
            // A mapped table can grow in memory, but not in the file.
            let mut grown = mapped;
            let bytes = std::fs::read(&path).unwrap();
            grown.upsert(&[known], &[77]).unwrap();
            assert_eq!(grown.get(&[known]).unwrap(), [Some(77)]);
            assert_eq!(std::fs::read(&path).unwrap(), bytes);
        }
    }
}

#[test]
fn a_failed_save_leaves_the_old_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("no/such/folder/t.koel");
    let table = HashTable::builder(Cuckoo::default()).build(&Cpu::new(), &[1], &[2]).unwrap();
    assert!(matches!(table.save(&path), Err(Error::Io { .. })));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "no temporary file is left");
}

#[cfg(unix)]
#[test]
fn links_are_followed_and_threads_may_save_to_one_name() {
    let folder = tempfile::tempdir().unwrap();
    let table = HashTable::builder(Cuckoo::default()).build(&Cpu::new(), &[1], &[2]).unwrap();
    let (real, link) = (folder.path().join("real"), folder.path().join("link"));
    std::fs::write(&real, "old").unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let digest = table.save(&link).unwrap();
    assert!(link.symlink_metadata().unwrap().is_symlink());
    let opened: HashTable<Cpu> = HashTable::open(&Cpu::new(), &real).unwrap();
    assert_eq!(opened.digest().unwrap(), digest);
    let path = folder.path().join("shared");
    std::thread::scope(|scope| {
        let saves: Vec<_> = (0..8).map(|_| scope.spawn(|| table.save(&path).map(drop))).collect();
        saves.into_iter().for_each(|save| save.join().unwrap().unwrap());
    });
    assert!(HashTable::<Cpu>::open(&Cpu::new(), &path).is_ok());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3, "no parts are left");
}

/// A number of attempts that no build could finish is rejected, even with a valid checksum.
#[test]
fn endless_attempts_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.koel");
    let mut bytes = saved(&path, Cuckoo::canonical(2));
    let at = bytes.len() - TRAILER + 8;
    bytes[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    reseal(&mut bytes);
    let (opened, mapped) = try_both(&path, &bytes);
    assert!(matches!(opened, Err(Error::BadFile { .. })), "{opened:?}");
    assert!(matches!(mapped, Err(Error::BadFile { .. })), "{mapped:?}");
    let refused = HashTable::builder(Cuckoo::default()).attempts(u32::MAX).build(&Cpu::new(), &[1], &[2]);
    assert!(matches!(refused, Err(Error::InvalidParameter { .. })));
}

/// A small file with a load of a millionth would allocate half a gigabyte at its first batch.
#[test]
fn loads_that_contradict_the_slots_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.koel");
    let build = |load: f64, pairs: u32| {
        let load = HashTable::builder(Cuckoo::default()).load_factor(load);
        let keys: Vec<u32> = (0..pairs).collect();
        let table = load.build(&Cpu::new(), &keys, &keys).unwrap();
        table.save(&path).unwrap();
        (table, std::fs::read(&path).unwrap())
    };
    for (pairs, millionths) in [(100, 1), (100, 799_000), (1, 1), (0, 1), (0, 15)] {
        let (_, mut bytes) = build(0.8, pairs);
        let at = bytes.len() - TRAILER;
        bytes[at..at + 4].copy_from_slice(&u32::to_le_bytes(millionths));
        reseal(&mut bytes);
        let is_refused = |result: Result<(), Error>| match result {
            Err(Error::BadFile { reason, .. }) => reason.contains("contradicts"),
            _ => false,
        };
        // For one pair 16 slots are the minimum at any load down to 0.0625, and for 100 pairs 125 slots at 0.8.
        let (opened, mapped) = try_both(&path, &bytes);
        assert!(is_refused(opened) && is_refused(mapped), "{pairs} pairs, {millionths} millionths");
    }
    // A table that was built with a small load can be opened, empty or not, and grows like the saved one.
    for (load, pairs) in [(0.8, 0), (0.8, 100), (0.01, 0), (0.01, 100), (16e-6, 0), (1e-6, 0), (1e-6, 2)] {
        let (mut table, _) = build(load, pairs);
        let at = format!("load {load}, {pairs} pairs");
        let gone: Vec<u32> = (0..pairs / 2).collect();
        table.remove(&gone).unwrap();
        table.save(&path).unwrap();
        let mut opened: HashTable<Cpu> = HashTable::open(&Cpu::new(), &path).unwrap_or_else(|e| panic!("{at}: {e}"));
        let mapped: HashTable<Cpu> = open_mapped(&path).unwrap();
        assert_eq!(mapped.len(), table.len(), "{at}");
        opened.insert(&[1000], &[1]).unwrap();
        table.insert(&[1000], &[1]).unwrap();
        assert_eq!((opened.digest().unwrap(), opened.slots()), (table.digest().unwrap(), table.slots()), "{at}");
    }
}

/// Opening a pipe would wait forever for a writer.
#[cfg(unix)]
#[test]
fn files_other_than_plain_ones_are_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for (path, part) in [(pipe, "pipe"), (folder.path().into(), "folder"), ("/dev/zero".into(), "device")] {
        let (sender, receiver) = std::sync::mpsc::channel();
        let at = path.display().to_string();
        std::thread::spawn(move || {
            let cpu = Cpu::new();
            let results = [
                read_info(&path).map(drop),
                HashTable::<Cpu>::open(&cpu, &path).map(drop),
                open_mapped::<Cuckoo>(&path).map(drop),
                HashSet::<Cpu>::open(&cpu, &path).map(drop),
                CompactingTable::<Cpu>::open(&cpu, &path).map(drop),
                MultiTable::<Cpu>::open(&cpu, &path).map(drop),
            ];
            sender.send(results).unwrap();
        });
        // Refusals take no time; the timeout of a minute is for busy machines.
        let results =
            receiver.recv_timeout(std::time::Duration::from_secs(60)).unwrap_or_else(|_| panic!("{at}: waits"));
        for result in results {
            assert!(matches!(&result, Err(Error::BadFile { reason, .. }) if reason.contains(part)), "{at}: {result:?}");
        }
    }
    let missing = HashTable::<Cpu>::open(&Cpu::new(), folder.path().join("missing"));
    assert!(matches!(missing, Err(Error::Io { .. })), "{missing:?}");
}

/// Opens the bytes with both functions, and looks up keys in the tables that open.
fn try_both(path: &Path, bytes: &[u8]) -> (Result<(), Error>, Result<(), Error>) {
    std::fs::write(path, bytes).unwrap();
    let queries = Workload::new(0, 3).queries(500, 0);
    let use_it = |table: HashTable<Cpu, Cuckoo>| {
        table.get(&queries).unwrap();
        table.get(&[0, u32::MAX]).unwrap();
        table.to_pairs().unwrap();
        let _ = table.audit();
        table.stats().unwrap();
        let mut table = table;
        let _ = table.upsert(&queries[..50], &queries[..50]);
    };
    let opened = HashTable::open(&Cpu::new(), path).map(use_it);
    let mapped = open_mapped(path).map(use_it);
    (opened, mapped)
}

#[test]
fn damaged_and_hostile_files_are_refused_or_harmless() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.koel");
    for scheme in [Cuckoo::canonical(4), Cuckoo::classic(4)] {
        let good = saved(&path, scheme);
        assert!(matches!(try_both(&path, &good), (Ok(()), Ok(()))));
        // The checksum detects changes of each byte of the header and trailer, and of some bytes of the image.
        let places =
            (0..HEADER).chain((HEADER..good.len() - TRAILER).step_by(37)).chain(good.len() - TRAILER..good.len());
        for at in places {
            let mut bytes = good.clone();
            bytes[at] ^= 0x41;
            let (opened, _) = try_both(&path, &bytes);
            assert!(matches!(opened, Err(Error::BadFile { .. })), "byte {at}: {opened:?}");
            // With a valid checksum, a change is rejected by the plan's checks or by the audit, or it is harmless.
            reseal(&mut bytes);
            let (opened, _) = try_both(&path, &bytes);
            assert!(opened.is_ok() || matches!(opened, Err(Error::BadFile { .. })), "byte {at}: {opened:?}");
        }
        for length in [0, 1, 7, 8, HEADER - 1, HEADER, HEADER + TRAILER, good.len() - 1] {
            let (opened, mapped) = try_both(&path, &good[..length]);
            assert!(matches!(opened, Err(Error::BadFile { .. })), "{length} bytes");
            assert!(matches!(mapped, Err(Error::BadFile { .. })), "{length} bytes");
        }
        let mut longer = good.clone();
        longer.extend([0; 8]);
        assert!(matches!(try_both(&path, &longer), (Err(Error::BadFile { .. }), Err(Error::BadFile { .. }))));
    }
}

#[test]
fn random_images_fail_the_audit_and_are_harmless_when_mapped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.koel");
    for scheme in [Cuckoo::canonical(2), Cuckoo::canonical(5), Cuckoo::classic(4)] {
        for filler in [0xff, 0xf0, 0x10, 0xee, 0x01] {
            let mut bytes = saved(&path, scheme.clone());
            let end = bytes.len() - TRAILER;
            bytes[HEADER..end].fill(filler);
            reseal(&mut bytes);
            let (opened, mapped) = try_both(&path, &bytes);
            assert!(matches!(opened, Err(Error::BadFile { .. })), "{opened:?}");
            assert!(mapped.is_ok(), "{mapped:?}");
        }
        // Sizes that no file can have.
        for words in [u64::MAX, 1 << 61, 1 << 40] {
            let mut bytes = saved(&path, scheme.clone());
            bytes[32..40].copy_from_slice(&words.to_le_bytes());
            reseal(&mut bytes);
            let (opened, mapped) = try_both(&path, &bytes);
            assert!(matches!(opened, Err(Error::BadFile { .. })), "{opened:?}");
            assert!(matches!(mapped, Err(Error::BadFile { .. })), "{mapped:?}");
        }
    }
}
