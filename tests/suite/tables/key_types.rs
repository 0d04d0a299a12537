//! Key types, which are stored in the files of tables, but are not part of digests.

use std::path::Path;

use koel::layout::{Layout, Rows2, Rows3};
use koel::table::read_info;
use koel::{
    Bucketized, CompactingTable, Cpu, Cuckoo, CuckooSet, Digest, Error, HashSet, HashTable, KeyType, MultiTable,
    TableBuilder, ValueType,
};

use crate::common::{LONG_TRAILER, TRAILER, devices, open_mapped, reseal_settings_at};

const KMERS: KeyType = KeyType::Kmers { k: 12 };
const KEYS: [u32; 5] = [7, 1 << 23, 0, 99, u32::MAX];
const VALUES: [u32; 5] = [5, 4, 3, 2, 1];

fn builder() -> TableBuilder<Cuckoo> {
    HashTable::builder(Cuckoo::default())
}

/// The types that a file can have, except numbers.
fn types() -> Vec<KeyType> {
    let cells = [
        Layout::Rows2(Rows2::new(640, 480).unwrap()),
        Layout::Rows2(Rows2::new(1 << 16, 1 << 16).unwrap()),
        Layout::Rows3(Rows3::new(512, 256, 3).unwrap()),
        Layout::Rows3(Rows3::new(0, 0, 0).unwrap()),
        Layout::Morton2,
        Layout::Morton3,
        Layout::BitReversed2 { bits: 13 },
    ];
    let kmers = [1, 2, 12, 16].map(|k| KeyType::Kmers { k });
    let canonical = [1, 15, 16].map(|k| KeyType::CanonicalKmers { k });
    kmers.into_iter().chain(canonical).chain(cells.map(KeyType::Cells)).chain([KeyType::Signed]).collect()
}

fn len(path: &Path) -> usize {
    std::fs::read(path).unwrap().len()
}

#[test]
fn files_keep_the_type_and_their_digest() {
    let folder = tempfile::tempdir().unwrap();
    let (plain, typed) = (folder.path().join("plain"), folder.path().join("typed"));
    let digest = builder().build(&Cpu::new(), &KEYS, &VALUES).unwrap().save(&plain).unwrap();
    assert_eq!((read_info(&plain).unwrap().key_type, len(&plain)), (KeyType::Numbers, 128 + 8 * 16 + TRAILER));
    for key_type in types() {
        let table = builder().key_type(key_type).build(&Cpu::new(), &KEYS, &VALUES).unwrap();
        assert_eq!(
            (table.key_type(), table.save(&typed).unwrap()),
            (key_type, digest),
            "the type is not part of the digest"
        );
        assert_eq!((read_info(&typed).unwrap().key_type, len(&typed)), (key_type, 128 + 8 * 16 + LONG_TRAILER));
        let opened: HashTable<Cpu> = HashTable::open(&Cpu::new(), &typed).unwrap();
        let mapped: HashTable<Cpu> = open_mapped(&typed).unwrap();
        assert_eq!((opened.key_type(), mapped.key_type()), (key_type, key_type));
        assert_eq!(mapped.digest().unwrap(), digest);
        // The type `Numbers` results in the same file as no type.
        builder().key_type(KeyType::Numbers).build(&Cpu::new(), &KEYS, &VALUES).unwrap().save(&typed).unwrap();
        assert_eq!(std::fs::read(&typed).unwrap(), std::fs::read(&plain).unwrap());
    }
    for impossible in [
        KeyType::Kmers { k: 0 },
        KeyType::Kmers { k: 17 },
        KeyType::CanonicalKmers { k: 17 },
        KeyType::Cells(Layout::BitReversed2 { bits: 17 }),
    ] {
        let refused = builder().key_type(impossible).build(&Cpu::new(), &KEYS, &VALUES);
        assert!(matches!(refused, Err(Error::InvalidParameter { .. })), "{impossible:?}");
    }
}

#[test]
fn changes_and_devices_keep_the_type() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.koel");
    for device in devices() {
        let mut table =
            builder().key_type(KMERS).build(&Cpu::new(), &KEYS, &VALUES).unwrap().to_backend(&device).unwrap();
        table.insert(&[1000, 1001], &[1, 2]).unwrap();
        table.upsert(&[1000, 1002], &[1, 2]).unwrap();
        table.remove(&[7]).unwrap();
        table.compact().unwrap();
        table.rebuild().unwrap();
        assert_eq!(table.key_type(), KMERS);
        table.save(&path).unwrap();
        assert_eq!(read_info(&path).unwrap().key_type, KMERS);
    }
}

#[test]
fn every_structure_has_a_type() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.koel");
    let saved = |digest: koel::Result<Digest>| (digest.unwrap(), read_info(&path).unwrap().key_type).1;
    for device in devices() {
        let sets = |key_type| HashSet::builder(CuckooSet::default()).key_type(key_type).build(&device, &KEYS).unwrap();
        let (set, other) = (sets(KMERS), sets(KeyType::Kmers { k: 11 }));
        assert_eq!(saved(set.save(&path)), KMERS);
        assert_eq!(HashSet::<_, CuckooSet>::open(&device, &path).unwrap().key_type(), KMERS);
        for (with, of_both) in [(&sets(KMERS), KMERS), (&other, KeyType::Numbers)] {
            let results = [
                set.union(with).unwrap(),
                set.intersection(with).unwrap(),
                set.difference(with).unwrap(),
                set.symmetric_difference(with).unwrap(),
            ];
            assert!(results.iter().all(|result| result.key_type() == of_both));
        }
        let compact = CompactingTable::from_set(set).unwrap();
        assert_eq!((compact.key_type(), saved(compact.save(&path))), (KMERS, KMERS));
        let compact = CompactingTable::builder(Cuckoo::default()).key_type(KMERS).build(&device, &KEYS).unwrap();
        assert_eq!((compact.key_type(), saved(compact.save(&path))), (KMERS, KMERS));
        assert_eq!(CompactingTable::<_, Cuckoo>::open(&device, &path).unwrap().key_type(), KMERS);
        let multi = MultiTable::builder(Cuckoo::default());
        let plain = multi.build(&device, &KEYS, &VALUES).unwrap().digest().unwrap();
        let mut multi = multi.key_type(KMERS).build(&device, &KEYS, &VALUES).unwrap();
        assert_eq!(multi.digest().unwrap(), plain);
        multi.remove(&[7]).unwrap();
        assert_eq!((multi.key_type(), saved(multi.save(&path))), (KMERS, KMERS));
        assert_eq!(MultiTable::<_, Cuckoo>::open(&device, &path).unwrap().key_type(), KMERS);
    }
}

/// Files of tables with 64-bit keys or values store the widths, and types if there are any.
#[test]
fn wide_files_store_their_types() {
    let folder = tempfile::tempdir().unwrap();
    let (plain, path) = (folder.path().join("plain"), folder.path().join("t.koel"));
    let (keys, values) = (KEYS.map(|key| u64::from(key) << 31), VALUES.map(|value| u64::from(value) << 60));
    let builder = || HashTable::builder(Bucketized::default().of::<u64, u64>());
    let digest = builder().build(&Cpu::new(), &keys, &values).unwrap().save(&plain).unwrap();
    let info = read_info(&plain).unwrap();
    assert_eq!((info.key_bits, info.value_bits), (64, 64));
    assert_eq!((info.key_type, info.value_type), (KeyType::Numbers, ValueType::Numbers));
    let short = len(&plain);
    for (key_type, value_type) in [
        (KeyType::Signed, ValueType::Numbers),
        (KeyType::Numbers, ValueType::Signed),
        (KeyType::Signed, ValueType::Signed),
        (KeyType::Kmers { k: 32 }, ValueType::Numbers),
        (KeyType::Kmers { k: 17 }, ValueType::Signed),
        (KeyType::CanonicalKmers { k: 31 }, ValueType::Numbers),
    ] {
        let typed = builder().key_type(key_type).value_type(value_type);
        let table = typed.build(&Cpu::new(), &keys, &values).unwrap();
        assert_eq!(table.save(&path).unwrap(), digest, "the type is not part of the digest");
        assert_eq!(len(&path), short + LONG_TRAILER - TRAILER);
        let info = read_info(&path).unwrap();
        assert_eq!((info.key_type, info.value_type, info.key_bits), (key_type, value_type, 64));
        type Wide = koel::scheme::BucketizedOf<u64, u64>;
        let opened = HashTable::<Cpu, Wide>::open(&Cpu::new(), &path).unwrap();
        let mapped = open_mapped::<Wide>(&path).unwrap();
        for table in [&opened, &mapped] {
            assert_eq!((table.key_type(), table.value_type()), (key_type, value_type));
            assert_eq!(table.get(&keys).unwrap(), values.map(Some));
        }
    }
    // Errors name other widths, also in readers of 32-bit tables.
    let refused = |error: Error| error.to_string();
    let error = refused(HashTable::<Cpu, Cuckoo>::open(&Cpu::new(), &path).unwrap_err());
    let held = "it contains a bucketized table of u64 keys and u64 values";
    assert!(error.contains(&format!("{held}, not a cuckoo table")), "{error}");
    let narrow = HashTable::<Cpu, koel::scheme::BucketizedOf<u64, u32>>::open(&Cpu::new(), &path);
    let error = refused(narrow.unwrap_err());
    assert!(error.contains(&format!("{held}, not a bucketized table of u64 keys and u32 values")), "{error}");
    let error = refused(HashTable::<Cpu, koel::AnyScheme>::open(&Cpu::new(), &path).unwrap_err());
    assert!(error.contains(&format!("{held}, not a table of 32-bit keys and values")), "{error}");
    for impossible in [KeyType::Kmers { k: 0 }, KeyType::Kmers { k: 33 }, KeyType::CanonicalKmers { k: 33 }] {
        let refused = builder().key_type(impossible).build(&Cpu::new(), &keys, &values);
        assert!(matches!(refused, Err(Error::InvalidParameter { .. })), "{impossible:?}");
    }
    for (bits, shift) in [(3u32, 16), (3, 20), (1, 24)] {
        let mut bytes = std::fs::read(&plain).unwrap();
        let number = u32::from_le_bytes(bytes[12..16].try_into().unwrap());
        bytes[12..16].copy_from_slice(&(number & !(0xf << shift) | bits << shift).to_le_bytes());
        std::fs::write(&path, bytes).unwrap();
        let error = refused(read_info(&path).unwrap_err());
        assert!(error.contains("which this koel does not know: use a newer one"), "{error}");
    }
}

#[test]
fn multivalue_tables_keep_the_type_of_values() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.koel");
    let scheme = Bucketized::default().of::<u64, u32>();
    let builder = MultiTable::builder(scheme).key_type(KeyType::Signed).value_type(ValueType::Signed);
    let table = builder.build(&Cpu::new(), &[1 << 63, 5, 5], &[1, u32::MAX, 3]).unwrap();
    table.save(&path).unwrap();
    let info = read_info(&path).unwrap();
    assert_eq!((info.key_bits, info.key_type, info.value_type), (64, KeyType::Signed, ValueType::Signed));
    let again = MultiTable::<Cpu, koel::scheme::BucketizedOf<u64, u32>>::open(&Cpu::new(), &path).unwrap();
    assert_eq!((again.key_type(), again.value_type()), (KeyType::Signed, ValueType::Signed));
}

/// Returns the reason why a file is rejected, and checks that every function that opens it gives the same one.
fn refused(path: &Path, bytes: &[u8], at: &str) -> String {
    std::fs::write(path, bytes).unwrap();
    let results = [
        read_info(path).map(drop),
        HashTable::<Cpu>::open(&Cpu::new(), path).map(drop),
        open_mapped::<Cuckoo>(path).map(drop),
    ];
    let reasons = results.map(|result| match result {
        Err(Error::BadFile { reason, .. }) => reason,
        other => panic!("{at}: {other:?}"),
    });
    assert!(reasons.iter().all(|reason| *reason == reasons[0]), "{at}: {reasons:?}");
    reasons[0].clone()
}

/// Types of future versions are rejected as such, and impossible types as damage, whatever the checksum.
#[test]
fn unknown_types_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.koel");
    let saved = |key_type| {
        builder().key_type(key_type).build(&Cpu::new(), &KEYS, &VALUES).unwrap().save(&path).unwrap();
        std::fs::read(&path).unwrap()
    };
    let picture = KeyType::Cells(Layout::Rows2(Rows2::new(640, 480).unwrap()));
    // Offsets from the end of the image: 12 contents, 16 the key's bits, type, flags, parameters, 48 the same of the
    // value.
    let newer = "with a newer koel";
    for (key_type, place, number, part) in [
        (KMERS, 14, 1, newer),
        (KMERS, 16, 64, newer),
        (KMERS, 18, 6, newer),
        (KMERS, 18, 999, newer),
        (KMERS, 20, 1, newer),
        (KMERS, 28, 1, newer),
        (KMERS, 44, 1, newer),
        (KMERS, 24, 0, "k 0"),
        (KMERS, 24, 17, "k 17"),
        (picture, 24, 5, newer),
        (picture, 36, 1, newer),
        (picture, 30, 0x7fff, "too many cells"),
        (KMERS, 48, 64, newer),
        (KMERS, 50, 4, newer),
        (KMERS, 52, 1, newer),
        (KMERS, 76, 1, newer),
    ] {
        let mut bytes = saved(key_type);
        let end = bytes.len() - LONG_TRAILER;
        bytes[end + place..][..2].copy_from_slice(&u16::to_le_bytes(number));
        reseal_settings_at(&mut bytes, end);
        let at = format!("{number} at {place}");
        let reason = refused(&path, &bytes, &at);
        assert!(reason.contains(part), "{at}: {reason}");
    }
    // Plain numbers with a long trailer, types without the flag for them, and the flag without types.
    let mut bytes = saved(KMERS);
    let end = bytes.len() - LONG_TRAILER;
    bytes[end + 18..end + 48].fill(0);
    reseal_settings_at(&mut bytes, end);
    assert!(refused(&path, &bytes, "plain").contains("needs no saying"));
    let mut bytes = saved(KMERS);
    bytes[end + 13] = 0;
    reseal_settings_at(&mut bytes, end);
    assert!(refused(&path, &bytes, "long").contains("length"));
    let mut bytes = saved(KeyType::Numbers);
    bytes[end + 13] = 1;
    reseal_settings_at(&mut bytes, end);
    assert!(refused(&path, &bytes, "short").contains("length"));
}

/// The checksum covers the types.
#[test]
fn every_changed_byte_of_the_settings_is_detected() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.koel");
    builder().key_type(KMERS).build(&Cpu::new(), &KEYS, &VALUES).unwrap().save(&path).unwrap();
    let good = std::fs::read(&path).unwrap();
    for at in good.len() - LONG_TRAILER..good.len() {
        for change in [0x01, 0x41, 0x80] {
            let mut bytes = good.clone();
            bytes[at] ^= change;
            std::fs::write(&path, bytes).unwrap();
            let opened = HashTable::<Cpu>::open(&Cpu::new(), &path);
            assert!(matches!(opened, Err(Error::BadFile { .. })), "byte {at} by {change}: {opened:?}");
        }
    }
}
