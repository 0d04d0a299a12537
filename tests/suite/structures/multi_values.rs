//! Multivalue tables of every width of keys and values, on every device.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::Path;

use crate::common::{LONG_TRAILER, TRAILER, devices, reseal, size};
use koel::backend::{HashBackend, Runs, Word};
use koel::device::Any;
use koel::scheme::{Scheme, Value};
use koel::table::{Contents, read_info};
use koel::{Bucketized, Cpu, Cuckoo, Error, MultiBuilder, MultiTable};

/// Runs an item for each pair of widths, with a scheme for its keys.
macro_rules! for_every_width {
    ($test:ident($($argument:expr),*)) => {
        $test::<_, u32>(Cuckoo::default() $(, $argument)*);
        $test::<_, u64>(Cuckoo::default() $(, $argument)*);
        $test::<_, u32>(Bucketized::default().of::<u64, u32>() $(, $argument)*);
        $test::<_, u64>(Bucketized::default().of::<u64, u32>() $(, $argument)*);
    };
}

fn builder<S: Scheme<Value = u32>, V: Value>(scheme: S) -> MultiBuilder<S, V> {
    MultiTable::builder(scheme).seed(5).values::<V>()
}

/// Arbitrary bits of a width, including the extremes.
fn noise<T: Word>(seed: u64, len: usize) -> Vec<T> {
    let of = |i: u64| match i {
        0 => u64::MAX,
        1 => 0,
        i => (i + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31).wrapping_mul(0xd6e8_feb8_6659_fd93),
    };
    (0..len as u64).map(|i| T::low(of(i))).collect()
}

/// Pairs in which some keys have one value, and one key has a third of all pairs.
fn pairs<K: Word, V: Word>(len: usize) -> (Vec<K>, Vec<V>) {
    let keys: Vec<K> = noise(1, len);
    let of = |i: usize| if i.is_multiple_of(3) { keys[0] } else { keys[i / 3 + i % 7] };
    ((0..len).map(of).collect(), noise(2, len))
}

type Model<K, V> = BTreeMap<K, Vec<V>>;

fn model<K: Word, V: Word>(keys: &[K], values: &[V]) -> Model<K, V> {
    let mut model = Model::new();
    keys.iter().zip(values).for_each(|(&key, &value)| model.entry(key).or_default().push(value));
    model
}

fn holds<B: Runs<S>, S: Scheme<Value = u32>, V: Value>(
    table: &MultiTable<B, S, V>,
    model: &Model<S::Key, V>,
    at: &str,
) {
    let all: Vec<_> = model.iter().flat_map(|(&key, of)| of.iter().map(move |&value| (key, value))).collect();
    assert_eq!((table.len(), table.keys_len()), (all.len(), model.len()), "{at}");
    assert!(table.to_pairs().unwrap() == all, "{at}: pairs");
    assert!(table.keys().unwrap().iter().eq(model.keys()), "{at}: keys");
    table.audit().unwrap_or_else(|error| panic!("{at}: {error}"));
    let queries: Vec<S::Key> = (model.keys().copied().take(500))
        .flat_map(|key| [key, S::Key::low(!key.into()), S::Key::low(key.into() ^ 1 << (S::Key::BITS - 1))])
        .collect();
    let expected: Vec<&[V]> = queries.iter().map(|key| model.get(key).map_or(&[][..], |of| of)).collect();
    assert!(table.count(&queries).unwrap().into_iter().eq(expected.iter().map(|of| of.len() as u32)), "{at}: count");
    let values = table.values().unwrap();
    let ranges = table.get(&queries).unwrap();
    assert!(ranges.into_iter().zip(&expected).all(|(range, of)| values[range] == **of), "{at}: get");
    let flat = expected.concat();
    let retrieved = table.retrieve(&queries).unwrap();
    assert!(retrieved.values == flat && retrieved.into_iter().eq(expected.iter().copied()), "{at}: retrieve");
    let on_device = table.retrieve_on(&table.backend().upload(&queries).unwrap()).unwrap();
    assert!(table.backend().download(&on_device.values).unwrap() == flat, "{at}: retrieve_on");
    let (mut offsets, mut room) = (vec![0; queries.len() + 1], vec![V::default(); flat.len()]);
    assert_eq!(table.retrieve_into(&queries, &mut offsets, &mut room).unwrap(), flat.len() as u64);
    assert!(room == flat && offsets == retrieved.offsets, "{at}: retrieve_into");
    let chunks = table.retrieve_chunks(&queries, 77).unwrap();
    let pieces: Vec<V> = chunks.flat_map(|piece| piece.unwrap().values).collect();
    assert!(pieces == flat, "{at}: retrieve_chunks");
}

fn check_changes<S: Scheme<Value = u32>, V: Value>(scheme: S)
where
    Any: Runs<S>,
{
    let len = size(20_000, 90) as usize;
    let (keys, values) = pairs::<S::Key, V>(len);
    let mut digests = Vec::new();
    for device in devices() {
        let at = format!("{} on {}", std::any::type_name::<(S::Key, V)>(), device.info());
        let builder = builder::<S, V>(scheme.clone());
        let whole = builder.build(&device, &keys, &values).unwrap();
        holds(&whole, &model(&keys, &values), &at);
        let part = len / 3;
        let mut table = builder.build(&device, &keys[..part], &values[..part]).unwrap();
        assert!(matches!(table.insert(&keys[..2], &values[..1]), Err(Error::LengthMismatch { .. })));
        table.insert(&keys[part..], &values[part..]).unwrap();
        assert_eq!(table.digest().unwrap(), whole.digest().unwrap(), "{at}: the table of one build");
        digests.push(whole.digest().unwrap());

        let gone: Vec<S::Key> = keys.iter().copied().step_by(5).chain([keys[0]]).collect();
        let mut left = model(&keys, &values);
        let before: usize = left.values().map(Vec::len).sum();
        gone.iter().for_each(|key| drop(left.remove(key)));
        let after: usize = left.values().map(Vec::len).sum();
        assert_eq!(table.remove(&gone).unwrap(), before - after, "{at}");
        holds(&table, &left, &at);
        let (rest_keys, rest_values): (Vec<_>, Vec<_>) =
            left.iter().flat_map(|(&key, of)| of.iter().map(move |&value| (key, value))).unzip();
        let rest = builder.build(&device, &rest_keys, &rest_values).unwrap();
        assert_eq!(table.digest().unwrap(), rest.digest().unwrap(), "{at}: the table without the removed pairs");
        assert_eq!(whole.to_backend(&Any::Cpu(Cpu::new())).unwrap().digest().unwrap(), whole.digest().unwrap());

        let none = builder.build(&device, &[], &[]).unwrap();
        assert!(none.is_empty() && none.retrieve(&keys[..3]).unwrap().values.is_empty());
        let image = whole.table().slots() as u64;
        assert!(builder.memory_estimate(whole.keys_len() as u64).unwrap().image >= image, "{at}");
    }
    assert!(digests.iter().all(|digest| *digest == digests[0]), "the same on every device");
}

#[test]
fn tables_of_every_width_equal_a_map() {
    for_every_width!(check_changes());
}

#[expect(unsafe_code, reason = "the tested function is unsafe")]
fn mapped<S: Scheme<Value = u32>, V: Value>(path: &Path) -> koel::Result<MultiTable<Cpu, S, V>>
where
    Cpu: Runs<S>,
{
    // SAFETY: each test writes to its own folder.
    unsafe { MultiTable::open_mapped(&Cpu::new(), path) }
}

fn reason<T: Debug>(opened: koel::Result<T>) -> String {
    match opened {
        Err(Error::BadFile { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

fn files<S: Scheme<Value = u32>, V: Value>(scheme: S, folder: &Path)
where
    Cpu: Runs<S>,
    Any: Runs<S>,
{
    let path = folder.join("t.koel");
    let wide = V::BITS == 64;
    // Odd and even numbers of keys, so that there is a gap before the values or not.
    for len in [0, 1, 2, 40, 41, 300] {
        let (keys, values) = pairs::<S::Key, V>(len + 7);
        let (keys, values) = (&keys[..len], &values[..len]);
        let table = builder::<S, V>(scheme.clone()).build(&Cpu::new(), keys, values).unwrap();
        let digest = table.save(&path).unwrap();
        assert_eq!(digest, table.digest().unwrap());
        assert_eq!(read_info(&path).unwrap().contents, Contents::Multi);
        let bytes = std::fs::read(&path).unwrap();
        let begin = [&b"koelmult"[..], &[1 + u8::from(wide), 0, 0, 0, u8::from(wide), 0, 0, 0]].concat();
        assert_eq!(bytes[..16], begin);
        let starts = 64 + 4 * (table.keys_len() + 1);
        let at = if wide { starts.next_multiple_of(8) } else { starts };
        let stored: Vec<V> = bytemuck::pod_collect_to_vec(&bytes[at..at + size_of::<V>() * len]);
        assert!(stored == table.values().unwrap() && bytes[starts..at].iter().all(|&byte| byte == 0));
        for device in devices() {
            let opened = MultiTable::<Any, S, V>::open(&device, &path).unwrap();
            holds(&opened, &model(keys, values), "opened");
            assert_eq!(opened.digest().unwrap(), digest);
        }
        holds(&mapped::<S, V>(&path).unwrap(), &model(keys, values), "mapped");

        // Opening it with values of the other width is an error that names the width.
        let said = if wide {
            reason(MultiTable::<Cpu, S, u32>::open(&Cpu::new(), &path)) + &reason(mapped::<S, u32>(&path))
        } else {
            reason(MultiTable::<Cpu, S, u64>::open(&Cpu::new(), &path)) + &reason(mapped::<S, u64>(&path))
        };
        assert_eq!(said.matches(if wide { "values are u64" } else { "values are u32" }).count(), 2, "{said}");
        damaged::<S, V>(&path, &bytes, starts, at);
    }
}

/// Changed files are rejected, even with a valid checksum, unless the change is in a value.
fn damaged<S: Scheme<Value = u32>, V: Value>(path: &Path, good: &[u8], starts: usize, values: usize)
where
    Cpu: Runs<S>,
{
    let pairs = u64::from_le_bytes(good[24..32].try_into().unwrap()) as usize;
    let sum = values + size_of::<V>() * pairs;
    let base = (sum + 32).next_multiple_of(64);
    for at in (0..64).chain(starts..values).chain(values..sum.min(values + 9)).chain(sum..base) {
        let mut bytes = good.to_vec();
        bytes[at] ^= 0x41;
        std::fs::write(path, &bytes).unwrap();
        reason(MultiTable::<Cpu, S, V>::open(&Cpu::new(), path));
        let digest = *blake3::hash(&bytes[..sum]).as_bytes();
        bytes[sum..sum + 32].copy_from_slice(&digest);
        let trailer = bytes.len() - base;
        assert!(trailer > TRAILER.min(LONG_TRAILER));
        reseal(&mut bytes[base..]);
        std::fs::write(path, &bytes).unwrap();
        let opened = MultiTable::<Cpu, S, V>::open(&Cpu::new(), path);
        // The checksum is valid, so changed values are not detected.
        let free = (values..sum + 32).contains(&at);
        assert_eq!(opened.is_ok(), free, "byte {at}: {opened:?}");
    }
    for length in [63, 64, starts, values, sum, sum + 31, base - 1] {
        std::fs::write(path, &good[..length.min(good.len() - 1)]).unwrap();
        reason(MultiTable::<Cpu, S, V>::open(&Cpu::new(), path));
    }
}

#[test]
fn files_of_every_width_round_trip_and_store_their_width() {
    let folder = tempfile::tempdir().unwrap();
    for_every_width!(files(folder.path()));
}

/// The number of a future version is rejected.
#[test]
fn files_of_another_version_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.koel");
    let table = builder::<_, u64>(Cuckoo::default()).build(&Cpu::new(), &[1, 1], &[2, 3]).unwrap();
    table.save(&path).unwrap();
    let good = std::fs::read(&path).unwrap();
    for (version, value, part) in
        [(3, 1, "format 3"), (0, 0, "format 0"), (2, 0, "no multivalue"), (1, 1, "no multivalue")]
    {
        let mut bytes = good.clone();
        (bytes[8], bytes[12]) = (version, value);
        std::fs::write(&path, bytes).unwrap();
        let said = reason(MultiTable::<Cpu, Cuckoo, u64>::open(&Cpu::new(), &path));
        assert!(said.contains(part), "{said}");
    }
}
