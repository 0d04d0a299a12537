//! Recorded digests, so that no release changes a layout unnoticed. If one of these must change, change the format's
//! version in `src/table/digest.rs` too.

use crate::chosen::{self, Attack};
use koel::backend::{Runs, Word};
use koel::device::Any;
use koel::scheme::bucketized::{Column, Layout};
use koel::scheme::signpost::Posted;
use koel::scheme::{BucketizedOf, SignpostOf};
use koel::workload::Workload;
use koel::{
    AnyScheme, Bucketized, Cpu, Cuckoo, CuckooSet, Fks, HashTable, Horton, Perfect, Quadratic, RobinHood, Scheme,
    Sequence, Signpost, Sorted,
};

/// Checks that the digest of 1000 pairs is the recorded one on every device of this machine.
fn layout(scheme: impl Into<AnyScheme>, golden: &str) {
    has_digest(&scheme.into(), golden);
}

fn has_digest(scheme: &AnyScheme, golden: &str) {
    let load = Workload::new(1000, 1);
    let devices = std::iter::once(Any::Cpu(Cpu::new())).chain(crate::common::opencl_devices());
    for device in devices {
        let builder = HashTable::builder(scheme.clone()).seed(2026);
        let values: Vec<u32> =
            load.values().into_iter().map(|value| value & scheme.limits().greatest_value()).collect();
        let table = builder.build(&device, &load.keys(), &values).unwrap();
        assert_eq!(table.digest().unwrap().to_string(), golden, "{scheme:?}");
    }
}

#[test]
fn layouts_are_what_they_were() {
    for (functions, golden) in [
        (2, "0c9229d78b1137f97fb867b4b8977e4699913ad47568c02e4aa6a1a6c488b5d9"),
        (3, "8f1ab84165d01a81db3e3e034a9c6b606cb1c3921334aa8e262bf9c4386616c0"),
        (4, "2242a187eddecb10560de74cc051ff8f145dc402de4cca3cb95b902dd8f38374"),
        (5, "c22a5a44b5831e0f49743f7be1bc778c8fdb8c6b3ae78f52aa6c47667d39da3c"),
    ] {
        layout(Cuckoo::canonical(functions), golden);
    }
    for (slots, bucketized, horton) in [
        (
            4,
            "12edbf5595f3d74df0b798c7ad29c4ac35f3e3c223391a058b56f3cdb5b718a8",
            "60d7e38ad92e69baad1c51b8fb1668845d4daccfc05cb1020863efd7ce8b6edd",
        ),
        (
            8,
            "a0339051b1065773d53e263aeb45e89897d98068edf6fa22b9584c803efcead9",
            "34ce41ef2a218511847b539bc9721f02f7a457e57fbd96f85bd162ce65e92fce",
        ),
        (
            16,
            "92a3b9268ce5876691a2c2102ffdf3fb51ee41a74575c7057563bfe918e67942",
            "a5f38cbf24d054e0f3f510113d101680cde45e746945ff06a1f8db0ddef52893",
        ),
    ] {
        layout(Bucketized::canonical(slots), bucketized);
        layout(Horton::canonical(slots), horton);
    }
    for (functions, golden) in [
        (2, "bcf2d2db03f758237a74e81a7a7da7bf91852c3bf415462cc350912e77a37a68"),
        (3, "7b41d3f956985163243a5f9b97e5a9a30a0c8ee6767930a21bfb00387265371e"),
        (4, "e4eeffc8598dd9e734fafc90b5dad5f390aaacb910f456c0d2bfdd4418d3c6f4"),
        (5, "33a335b86192f4b019e8e21209f4b55fbf9bcc3149be8f6f9f1638962e55cd9a"),
    ] {
        layout(CuckooSet::canonical(functions), golden);
    }
    layout(Fks::canonical(), "48676be162d82702d9643c6b3da413b10a3deaa6d80626ad39d88b5092ee6044");
    layout(Quadratic, "618144f075114d483e573e5404ca9031a90ee31edfe3125694350c2aa0f67237");
    for (scheme, golden) in [
        (Perfect::default(), "38573e69afeed0ee3f0c47f77466f96cf14f146d0e76819daff929dbd193fae0"),
        (Perfect::plane(1000), "5583fe5d9a71f5a7f461e9b1b0d03165e88112cdb12d4e7347a7b1bdd0798145"),
        (Perfect::volume(256, 300), "c3d97f633208e7ef2205d6ebdbec5b4f34da9808a1d831965b6b9a2677fd1f77"),
    ] {
        layout(scheme, golden);
    }
    layout(Sorted, "30fc1d1f33b31871a4f0908f1ffb43fce596fdb80dafde0a9fc84db90cf28d82");
    for (sequence, max_ages, golden) in [
        (Sequence::Coherent, 0, "76b80701499c5fa6fb9b00707467b1b637bbd09b6de897b2444060d1cdf3b887"),
        (Sequence::Random, 4, "7e795c743df8b77d0e6e9b0d041bcb2095a1cf6189acd86bfdbbf9f3fb1f2362"),
        (Sequence::PaperRandom, 3, "de5fca148917e3f5b4ae1be7ae51ac304995046d07f7d93400b8be063f101842"),
        (Sequence::Coherent, 2, "82074c279a677fb9c92a8b7fc3235b7382abaa76c0c49e4e6dead0ef62f45f4b"),
    ] {
        layout(RobinHood::canonical().sequence(sequence).max_ages(max_ages), golden);
    }
}

/// Numbers whose halves are both these 32-bit numbers.
fn wide<T: Word>(numbers: &[u32]) -> Vec<T> {
    numbers.iter().map(|&number| T::low(u64::from(number) << 32 | u64::from(number))).collect()
}

/// Tables of 64-bit keys or values.
#[test]
fn wide_layouts_are_what_they_were() {
    fn layout<K: Column, V: Column>(golden: &str)
    where
        (K, V): Layout,
        Any: Runs<BucketizedOf<K, V>>,
    {
        let load = Workload::new(1000, 1);
        let keys = wide(&load.keys());
        let mut values = wide(&load.values());
        if <(K, V)>::VALUES.is_none() {
            values.fill(Word::low(0));
        }
        for device in std::iter::once(Any::Cpu(Cpu::new())).chain(crate::common::opencl_devices()) {
            let builder = HashTable::builder(Bucketized::default().of::<K, V>()).seed(2026);
            let table = builder.build(&device, &keys, &values).unwrap();
            assert_eq!(table.digest().unwrap().to_string(), golden, "{:#x}", <(K, V)>::CODE);
        }
    }
    layout::<u64, u64>("56f4c2fc2ee88dd3e64055dbee4cb003229ea27ea0cb8d319dc5932b6b56cad6");
    layout::<u64, u32>("3ea03381e2a4c1796cddd3a1e8619236a48ba0870d07ce7d553b8d91c0484cb4");
    layout::<u32, u64>("c68a5b010b2bea2c8ccad35dd1588fa7cc2c27ed4927e51924e4721d10e95146");
    layout::<u64, ()>("8a4680eeeea42afa922428e443bf1a6fed99fbded79ac0a304c75124338702c8");
}

/// Signpost tables: the signposts of a small one follow its lines, and those of a larger one are within its words.
#[test]
fn signpost_layouts_are_what_they_were() {
    fn layout<K: Column, V: Column>(golden: [&str; 2])
    where
        (K, V): Posted,
        SignpostOf<K, V>: Scheme,
        Any: Runs<SignpostOf<K, V>>,
    {
        let scheme = Signpost::new().of::<K, V>();
        for (count, golden) in [1000, 40_000].into_iter().zip(golden) {
            let load = Workload::new(count, 1);
            let keys = wide(&load.keys());
            let mut values = wide(&load.values());
            if scheme.limits().value_bits == 0 {
                values.fill(Word::low(0));
            }
            for device in std::iter::once(Any::Cpu(Cpu::new())).chain(crate::common::opencl_devices()) {
                let table = HashTable::builder(scheme.clone()).seed(2026).build(&device, &keys, &values).unwrap();
                assert_eq!(table.digest().unwrap().to_string(), golden, "{:#x}, {count}", SignpostOf::<K, V>::ID);
            }
        }
    }
    layout::<u32, u32>([
        "d34a7aae14a24f41dad4a9656ce24132e7f0d8f3eb57f6167c6b9fa9343a5a62",
        "d8ab2a50ef0653b5152d5c0cf1205c25e3566b88d1b34867a196e7fe5c890f30",
    ]);
    layout::<u64, u64>([
        "dd439cc64ce90478eb2f033b3275bb6d12f2b14093d368fe6fa741bd37884546",
        "7e2cefcd2f37224fce0e83c14d8a881d6010061df3c80e2c49a7f34b77d2b5fd",
    ]);
    layout::<u64, u32>([
        "a22915da97dc332552a8b120ffddf85ab3972572c62df764535410775351232a",
        "f6a884086421be989d639db8174fa209559efc2640a78d082c3834806b3d7b39",
    ]);
    layout::<u32, u64>([
        "34e18ebd7a310048f94ca23dff0582deb010e2c592134be4a1f5535f5d40560f",
        "0f08576b9fe3f7ff809342e8976d36048eceaefb5c590d310a49dd3e36c86b91",
    ]);
    layout::<u64, ()>([
        "b978155694b5a45fd71a4e96289a0ec7167b7e510ca40c9bd93a26fb7570b9a9",
        "a2aa4d22b7b2701a0fbf11ece52eaf8cd42b5cb20d839c495e44f0bb0dece123",
    ]);
    layout::<u32, ()>([
        "a0188636bf5f3953910d894c0533ecf5b583b01f4a7494928a47b6242e7d6838",
        "9e020049abc2299bd24fe445f2efc0e65588afd6c558406e2978b981ff77595e",
    ]);
}

/// Tables at salted attempts, whose files have a separate version.
#[test]
fn salted_layouts_are_what_they_were() {
    fn layout(attack: &Attack, golden: &str) {
        let table = attack.builder().build(&Cpu::new(), &attack.keys, &attack.values(&attack.keys, 77)).unwrap();
        assert_eq!(table.digest().unwrap().to_string(), golden, "{:?}", attack.scheme);
    }
    layout(
        &chosen::cuckoo(Cuckoo::canonical(4), 80),
        "8d20478d9e1972a4119bd492795d34cdfdf343de885b6ae803b8877a9036a988",
    );
    layout(
        &chosen::cuckoo_set(CuckooSet::canonical(4), 81),
        "606f39cf978fb9fc4fa70599b35d85d98fe836a33f2965d7de33c0be3a6d30ba",
    );
    layout(&chosen::bucketized_canonical(), "5f3c2c0867c7740af8b66223e9c0e5a0f2891bd6ab4915c2801537f42329c543");
    layout(&chosen::horton_canonical(), "9fa49d2360844c8f52fc7dc0b7de4ed2aab7134ac7fc0714381da556ca909bfe");
    layout(&chosen::fks(Fks::canonical()), "15262c64a5b455ebebe33d0bf5db7f1a25003c97115533a85ff7f76d212ed68b");
    layout(&chosen::quadratic(), "47b2c2ff0c6adea6876b2ab88b32af719643180c77185546ccb01e2f4ed1676a");
}
