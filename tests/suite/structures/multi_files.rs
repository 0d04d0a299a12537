//! Files of multivalue tables: no contents cause a crash, whatever the checksums.

use std::path::Path;

use crate::common::{TRAILER, open_mapped, reseal};
use koel::scheme::Plan;
use koel::table::{Contents, read_info};
use koel::{Cpu, Cuckoo, Error, HashTable, Kind, MultiTable};

const HEADER: usize = 64;
const SUM: usize = 32;
const TABLE_HEADER: usize = 128;
const KEYS: u32 = 40;

/// A file and the offsets of its parts.
struct File {
    bytes: Vec<u8>,
    sum: usize,
    base: usize,
}

impl File {
    /// Forty keys with one to five values each.
    fn saved(path: &Path, scheme: Cuckoo) -> File {
        let mut keys: Vec<u32> = (0..KEYS).flat_map(|i| vec![i * 977; i as usize % 5 + 1]).collect();
        keys.iter_mut().filter(|key| **key == 977).for_each(|key| *key = u32::MAX);
        let values: Vec<u32> = (100..).take(keys.len()).collect();
        MultiTable::builder(scheme).build(&Cpu::new(), &keys, &values).unwrap().save(path).unwrap();
        let sum = HEADER + 4 * (KEYS as usize + 1 + keys.len());
        File { bytes: std::fs::read(path).unwrap(), sum, base: (sum + SUM).next_multiple_of(64) }
    }

    /// Writes valid checksums to changed bytes, as an attacker would.
    fn reseal(&mut self) {
        let sum = *blake3::hash(&self.bytes[..self.sum]).as_bytes();
        self.bytes[self.sum..self.sum + SUM].copy_from_slice(&sum);
        reseal(&mut self.bytes[self.base..]);
    }

    fn put(&mut self, at: usize, number: &[u8]) {
        self.bytes[at..at + number.len()].copy_from_slice(number);
    }
}

/// Opens the bytes on two devices, and runs all queries if that succeeds.
fn opened(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    std::fs::write(path, bytes).unwrap();
    let _ = read_info(path);
    let mut table: MultiTable<Cpu> = MultiTable::open(&Cpu::new(), path)?;
    let queries: Vec<u32> = (0..60).map(|i| i * 977).chain([u32::MAX]).collect();
    table.get(&queries).unwrap();
    table.retrieve(&queries).unwrap();
    table.to_pairs().unwrap();
    table.audit().unwrap();
    table.remove(&queries[..3]).unwrap();
    Ok(())
}

fn refused(path: &Path, bytes: &[u8], at: &str) -> String {
    match opened(path, bytes) {
        Err(Error::BadFile { reason, .. }) => reason,
        other => panic!("{at}: {other:?}"),
    }
}

fn in_a_folder(test: impl Fn(&Path, Cuckoo)) {
    let folder = tempfile::tempdir().unwrap();
    for scheme in [Cuckoo::canonical(4), Cuckoo::classic(4)] {
        test(&folder.path().join("t.koel"), scheme);
    }
}

#[test]
fn every_changed_byte_is_detected_or_harmless() {
    in_a_folder(|path, scheme| {
        let good = File::saved(path, scheme.clone());
        opened(path, &good.bytes).unwrap();
        let end = good.bytes.len();
        let table = good.base..good.base + TABLE_HEADER;
        let image = (table.end..end - TRAILER).step_by(13);
        for at in (0..good.base).chain(table).chain(image).chain(end - TRAILER..end) {
            for flip in [0x41, 0xff] {
                let mut file = File { bytes: good.bytes.clone(), ..good };
                file.bytes[at] ^= flip;
                refused(path, &file.bytes, &format!("byte {at}"));
                file.reseal();
                let result = opened(path, &file.bytes);
                assert!(result.is_ok() || matches!(result, Err(Error::BadFile { .. })), "byte {at}: {result:?}");
                // Values are arbitrary, and so are some settings; every other byte is checked.
                let value = (HEADER + 4 * (KEYS as usize + 1)..good.sum).contains(&at);
                let sum = (good.sum..good.sum + SUM).contains(&at);
                assert!(at >= good.base || result.is_ok() == (value || sum), "byte {at}: {result:?}");
            }
        }
    });
}

#[test]
fn lengths_that_contradict_the_header_are_refused() {
    in_a_folder(|path, scheme| {
        let File { bytes, sum, base } = File::saved(path, scheme);
        for length in
            [0, 1, 8, HEADER - 1, HEADER, sum - 1, sum, sum + SUM, base - 1, base, base + 127, bytes.len() - 1]
        {
            refused(path, &bytes[..length], &format!("{length} bytes"));
        }
        let mut longer = bytes.clone();
        longer.extend([0; 64]);
        refused(path, &longer, "64 bytes more");
    });
}

#[test]
fn counts_that_no_table_has_are_refused_before_anything_is_allocated() {
    in_a_folder(|path, scheme| {
        for (keys, pairs) in [
            (u64::MAX, u64::MAX),
            (u64::MAX, 1),
            (1, u64::MAX),
            (0, 5),
            (121, 120),
            (40, 1 << 32),
            (40, u64::from(u32::MAX)),
            (u64::from(u32::MAX), u64::from(u32::MAX)),
            (u64::MAX / 4, u64::MAX / 4),
            (39, 120),
            (41, 120),
            (40, 119),
        ] {
            let mut file = File::saved(path, scheme.clone());
            file.put(16, &keys.to_le_bytes());
            file.put(24, &pairs.to_le_bytes());
            file.reseal();
            refused(path, &file.bytes, &format!("{keys} keys, {pairs} pairs"));
        }
    });
}

#[test]
fn runs_that_do_not_follow_each_other_are_refused() {
    in_a_folder(|path, scheme| {
        let start = |i: usize| HEADER + 4 * i;
        let last = KEYS as usize;
        let read = |file: &File, i| u32::from_le_bytes(file.bytes[start(i)..start(i) + 4].try_into().unwrap());
        let good = File::saved(path, scheme.clone());
        for (i, number) in [
            (0, 1),
            (5, read(&good, 4)),
            (5, read(&good, 6)),
            (5, 0),
            (5, u32::MAX),
            (last, read(&good, last) + 1),
            (last, read(&good, last) - 1),
            (last, u32::MAX),
        ] {
            let mut file = File { bytes: good.bytes.clone(), ..good };
            file.put(start(i), &number.to_le_bytes());
            file.reseal();
            let reason = refused(path, &file.bytes, &format!("start {i} = {number}"));
            assert!(reason.contains("follow each other"), "{reason}");
        }
    });
}

/// A valid table that numbers the runs differently is refused.
#[test]
fn runs_that_do_not_match_the_keys_are_refused() {
    in_a_folder(|path, scheme| {
        let good = File::saved(path, scheme);
        let words = (good.base + TABLE_HEADER..good.bytes.len() - TRAILER).step_by(8);
        let number = |at: usize| u32::from_le_bytes(good.bytes[at..at + 4].try_into().unwrap());
        let of = |wanted: u32| {
            let taken = |at: &usize| good.bytes[at + 4..at + 8] != [0; 4] && good.bytes[at + 4..at + 8] != [0xff; 4];
            words.clone().filter(taken).find(|&at| number(at) == wanted).unwrap()
        };
        for (changes, part) in [
            (vec![(of(3), 4), (of(4), 3)], "order of their keys"),
            (vec![(of(3), 4)], "two keys"),
            (vec![(of(3), KEYS)], "two keys"),
            (vec![(of(3), u32::MAX)], "two keys"),
        ] {
            let mut file = File { bytes: good.bytes.clone(), ..good };
            changes.iter().for_each(|&(at, number)| file.put(at, &u32::to_le_bytes(number)));
            file.reseal();
            let reason = refused(path, &file.bytes, &format!("{changes:?}"));
            assert!(reason.contains(part), "{reason}");
        }
    });
}

#[test]
fn files_store_their_type_and_open_only_as_it() {
    in_a_folder(|path, scheme| {
        let file = File::saved(path, scheme.clone());
        let info = read_info(path).unwrap();
        let kind = if scheme == Cuckoo::canonical(4) { Kind::Canonical } else { Kind::Classic };
        assert_eq!((info.contents, info.kind), (Contents::Multi, kind));
        let as_map = HashTable::<Cpu, Cuckoo>::open(&Cpu::new(), path);
        assert!(matches!(&as_map, Err(Error::BadFile { reason, .. }) if reason.contains("multi")), "{as_map:?}");
        let as_other = MultiTable::<Cpu, koel::Horton>::open(&Cpu::new(), path);
        assert!(matches!(as_other, Err(Error::BadFile { .. })), "{as_other:?}");

        // The bytes of the table inside the file are not a map.
        std::fs::write(path, &file.bytes[file.base..]).unwrap();
        assert!(matches!(read_info(path), Err(Error::BadFile { .. })));
        assert!(matches!(HashTable::<Cpu, Cuckoo>::open(&Cpu::new(), path), Err(Error::BadFile { .. })));
        assert!(matches!(open_mapped::<Cuckoo>(path), Err(Error::BadFile { .. })));

        // A map in place of the table is not a multivalue table.
        let values: Vec<u32> = (0..KEYS).collect();
        HashTable::builder(scheme).build(&Cpu::new(), &values, &values).unwrap().save(path).unwrap();
        assert_eq!(read_info(path).unwrap().contents, Contents::Map);
        let mut bytes = file.bytes[..file.base].to_vec();
        let map = std::fs::read(path).unwrap();
        refused(path, &map, "a map");
        bytes.extend(map);
        refused(path, &bytes, "a map after the values");
        assert!(matches!(read_info(path), Err(Error::BadFile { .. })));
    });
}

/// Opening by mapping does not check the checksum of the keys' table, but must still detect a missing key.
#[test]
fn a_mapped_table_in_which_a_run_has_no_key_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("multi.koel");
    let table = MultiTable::builder(Cuckoo::canonical(4)).build(&Cpu::new(), &[5, 9, 9, 12], &[1, 2, 3, 4]).unwrap();
    table.save(&path).unwrap();
    assert_eq!(crate::common::mapped_multi(&path).unwrap().to_pairs().unwrap(), table.to_pairs().unwrap());
    let bytes = std::fs::read(&path).unwrap();
    let words = table.table().image().words();
    let image = bytes.len() - TRAILER - 8 * words.len();
    let taken: Vec<usize> = (0..words.len()).filter(|&at| words[at] != table.table().plan().empty_word()).collect();
    assert_eq!(taken.len(), 3);
    for at in taken {
        let mut damaged = bytes.clone();
        damaged[image + 8 * at..][..8].copy_from_slice(&table.table().plan().empty_word().to_le_bytes());
        std::fs::write(&path, &damaged).unwrap();
        let refused = crate::common::mapped_multi(&path);
        assert!(matches!(refused, Err(Error::BadFile { .. })), "word {at}: {refused:?}");
    }
}
