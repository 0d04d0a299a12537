//! Multivalue tables on every backend, scheme and kind, compared with a map of vectors, and with tables that never
//! contained the removed pairs.

use std::collections::BTreeMap;

use crate::common::{Check, current, devices, for_every_kind, holds_numbers, label, max_pairs, size, workload};
use koel::backend::HashBackend;
use koel::device::Any;
use koel::{AnyScheme, Cpu, Cuckoo, CuckooSet, Error, Kind, MultiBuilder, MultiTable, Quadratic, Scheme};
use quickcheck::{Arbitrary, Gen, QuickCheck};

type Model = BTreeMap<u32, Vec<u32>>;

fn builder(scheme: &AnyScheme) -> MultiBuilder<AnyScheme> {
    MultiTable::builder(scheme.clone()).seed(31)
}

/// The values of each key, in input order.
fn model(keys: &[u32], values: &[u32]) -> Model {
    let mut model = Model::new();
    keys.iter().zip(values).for_each(|(&key, &value)| model.entry(key).or_default().push(value));
    model
}

/// Pairs with the given number of values for each key, in the order of a multiplicative hash. Values are arbitrary
/// 32-bit numbers, including the extremes, for every scheme, because its table contains the numbers of the keys.
fn pairs(keys: &[u32], sizes: impl IntoIterator<Item = u32>) -> (Vec<u32>, Vec<u32>) {
    let all = keys.iter().zip(sizes).flat_map(|(&key, size)| std::iter::repeat_n(key, size as usize));
    let mut all: Vec<_> = (0u32..).zip(all).map(|(i, key)| (i.wrapping_mul(0x9e37_79b1), key)).collect();
    all.sort_unstable();
    let value = |i: u32| [0, u32::MAX].get(i as usize).copied().unwrap_or(i.wrapping_mul(0x85eb_ca6b));
    (0..).zip(all).map(|(i, (_, key))| (key, value(i))).unzip()
}

/// Runs every query on a multivalue table and compares the results with a map of vectors.
fn holds_exactly(table: &MultiTable<Any, AnyScheme>, model: &Model, at: &str) {
    let all: Vec<(u32, u32)> =
        model.iter().flat_map(|(&key, values)| values.iter().map(move |&value| (key, value))).collect();
    assert_eq!((table.len(), table.keys_len()), (all.len(), model.len()), "{at}: len");
    assert_eq!(table.is_empty(), all.is_empty(), "{at}");
    assert_eq!(table.keys().unwrap(), model.keys().copied().collect::<Vec<_>>(), "{at}: keys");
    assert_eq!(table.to_pairs().unwrap(), all, "{at}: pairs");
    table.audit().unwrap_or_else(|error| panic!("{at}: {error}"));

    // Each key, the first of them again, and absent keys in between.
    let queries: Vec<u32> =
        model.keys().flat_map(|&key| [key, key.wrapping_add(1), !key]).chain(model.keys().copied().take(3)).collect();
    let expected: Vec<&[u32]> = queries.iter().map(|key| model.get(key).map_or(&[][..], |values| values)).collect();
    let counts: Vec<u32> = expected.iter().map(|values| values.len() as u32).collect();
    assert_eq!(table.count(&queries).unwrap(), counts, "{at}: count");
    let values = table.values().unwrap();
    for (range, expected) in table.get(&queries).unwrap().into_iter().zip(&expected) {
        assert_eq!(&values[range], *expected, "{at}: get");
    }
    retrieves(table, &queries, &expected, at);
}

/// Every function that returns the values of many keys.
fn retrieves(table: &MultiTable<Any, AnyScheme>, queries: &[u32], expected: &[&[u32]], at: &str) {
    let flat: Vec<u32> = expected.concat();
    let mut offsets = vec![0];
    expected.iter().for_each(|values| offsets.push(offsets[offsets.len() - 1] + values.len() as u64));
    let retrieved = table.retrieve(queries).unwrap();
    assert_eq!((&retrieved.values, &retrieved.offsets), (&flat, &offsets), "{at}: retrieve");
    assert!((0..expected.len()).all(|i| retrieved.of(i) == expected[i]), "{at}");
    assert!(retrieved.of(expected.len()).is_empty() && retrieved.of(usize::MAX).is_empty(), "{at}");

    let there = table.retrieve_on(&table.backend().upload(queries).unwrap()).unwrap();
    let there = (table.backend().download(&there.values).unwrap(), table.backend().download(&there.offsets).unwrap());
    assert_eq!(there, (flat.clone(), offsets.clone()), "{at}: retrieve_on");

    let (mut places, mut room) = (vec![9; queries.len() + 1], vec![77; flat.len() + 5]);
    assert_eq!(table.retrieve_into(queries, &mut places, &mut room).unwrap(), flat.len() as u64, "{at}");
    assert_eq!(
        (&room[..flat.len()], &room[flat.len()..]),
        (&flat[..], &[77; 5][..]),
        "{at}: the rest of the buffer is unchanged"
    );
    assert_eq!(places, offsets, "{at}");
    if let Some(short) = flat.len().checked_sub(1) {
        let (mut places, mut room) = (vec![9; queries.len() + 1], vec![77; short]);
        let refused = table.retrieve_into(queries, &mut places, &mut room);
        let (given, needed) = (short as u64, flat.len() as u64);
        assert!(matches!(refused, Err(Error::TooShort { given: g, needed: n, .. }) if (g, n) == (given, needed)));
        assert!(room.iter().all(|&value| value == 77) && places.iter().all(|&place| place == 9), "{at}: untouched");
    }
    assert!(matches!(table.retrieve_into(queries, &mut [], &mut room), Err(Error::LengthMismatch { .. })), "{at}");

    let runs: Vec<u32> = (0..).zip(expected).flat_map(|(i, v)| std::iter::repeat_n(i, v.len())).collect();
    for len in [flat.len() / 3 + 1, flat.len().max(1), usize::MAX] {
        let chunks = table.retrieve_chunks(queries, len).unwrap();
        assert_eq!(chunks.total(), flat.len() as u64, "{at}");
        assert_eq!(chunks.offsets().unwrap(), offsets, "{at}");
        let pieces: Vec<_> = chunks.map(Result::unwrap).collect();
        assert_eq!(pieces.len(), flat.len().div_ceil(len), "{at}");
        assert_eq!(pieces.iter().flat_map(|piece| piece.values.clone()).collect::<Vec<_>>(), flat, "{at}: chunks");
        assert_eq!(pieces.iter().flat_map(|piece| piece.queries.clone()).collect::<Vec<_>>(), runs, "{at}: chunks");
    }
}

/// Columns with groups of every kind, with as many keys as the scheme's tables can hold.
fn columns(scheme: &AnyScheme) -> Vec<(&'static str, Vec<u32>, Vec<u32>)> {
    let n = size(3000, 200);
    let keys = workload(scheme, n.min(max_pairs(scheme))).0;
    // Around the block sizes of devices: 128, 256, 512 and 1,024.
    let sizes = [127, 128, 129, 255, 256, 257, 511, 512, 513, 1023, 1024, 1025];
    let sizes = &sizes[..size(12, 1) as usize];
    let few: Vec<u32> = keys.iter().copied().take(sizes.len()).collect();
    let half = [n].into_iter().chain(std::iter::repeat(1));
    let (all, part) = (keys.len(), keys.len().min(n as usize));
    [
        ("nothing", pairs(&[], [])),
        ("one pair", pairs(&keys[..1], [1])),
        ("all distinct", pairs(&keys, vec![1; all])),
        ("groups round powers of two", pairs(&few, sizes.iter().copied())),
        ("groups of all sizes", pairs(&keys[..part.min(70)], 1..)),
        ("one key for all rows", pairs(&keys[1..2], [size(20_000, 300)])),
        ("half of all rows one key", pairs(&keys, half)),
    ]
    .map(|(what, (keys, values))| (what, keys, values))
    .into()
}

struct Holds;
impl Check for Holds {
    fn run(&self, scheme: &AnyScheme) {
        let kind = scheme.kind();
        if !holds_numbers("multivalue tables", scheme) {
            return;
        }
        for (what, keys, values) in columns(scheme) {
            let model = model(&keys, &values);
            let mut first = None;
            for device in devices() {
                let at = format!("{}, {what}", label(scheme, &device));
                let table = builder(scheme).build(&device, &keys, &values).unwrap();
                holds_exactly(&table, &model, &at);
                let (on_keys, on_values) = (device.upload(&keys).unwrap(), device.upload(&values).unwrap());
                let again = builder(scheme).build_on(&device, &on_keys, &on_values).unwrap();
                assert_eq!(again.to_pairs().unwrap(), table.to_pairs().unwrap(), "{at}");
                if kind == Kind::Canonical {
                    let digest = table.digest().unwrap();
                    assert_eq!(again.digest().unwrap(), digest, "{at}");
                    assert_eq!(*first.get_or_insert(digest), digest, "{at}: the same bytes on every device");
                }
            }
        }
    }
}

#[test]
fn multivalue_tables_equal_a_map_of_vectors() {
    for_every_kind(&Holds);
}

struct Moves;
impl Check for Moves {
    fn run(&self, scheme: &AnyScheme) {
        let kind = scheme.kind();
        if !holds_numbers("multivalue tables", scheme) {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let keys = workload(scheme, size(300, 60)).0;
        let (keys, values) = pairs(&keys, (0..).map(|i| i % 7 + 1));
        let model = model(&keys, &values);
        let mut files = Vec::new();
        for device in devices() {
            let at = label(scheme, &device);
            let table = builder(scheme).build(&device, &keys, &values).unwrap();
            let path = folder.path().join("table");
            let digest = table.save(&path).unwrap();
            assert_eq!(digest, table.digest().unwrap(), "{at}: `save` returns the digest of the table");
            files.push(std::fs::read(&path).unwrap());
            for other in devices() {
                let moved = table.to_backend(&other).unwrap();
                assert_eq!(moved.digest().unwrap(), digest, "{at}: moved");
                let mut opened: MultiTable<Any, AnyScheme> = MultiTable::open(&other, &path).unwrap();
                assert_eq!(opened.digest().unwrap(), digest, "{at}: opened");
                opened.remove(&keys[..1]).unwrap();
                let mut rest = model.clone();
                rest.remove(&keys[0]);
                holds_exactly(&opened, &rest, &format!("{at}, opened"));
            }
        }
        if kind == Kind::Canonical {
            assert!(files.iter().all(|file| *file == files[0]), "{}: equal tables, equal files", scheme.name());
        }
    }
}

#[test]
fn tables_move_through_files_and_between_devices() {
    for_every_kind(&Moves);
}

struct Removes;
impl Check for Removes {
    fn run(&self, scheme: &AnyScheme) {
        let kind = scheme.kind();
        if !holds_numbers("multivalue tables", scheme) {
            return;
        }
        let keys = workload(scheme, size(500, 60)).0;
        let absent: Vec<u32> = (1..100).filter(|key| !keys.contains(key)).collect();
        // One skewed key among them.
        let sizes = (0..).map(|i| if i == 3 { size(2000, 100) } else { i % 5 + 1 });
        let (column, values) = pairs(&keys, sizes);
        let whole = model(&column, &values);
        for device in devices() {
            let at = label(scheme, &device);
            let builders = [builder(scheme), builder(scheme).load_factor(0.3)];
            for builder in &builders {
                let mut table = builder.build(&device, &column, &values).unwrap();
                let untouched = table.digest().unwrap();
                assert_eq!((table.remove(&[]).unwrap(), table.remove(&absent).unwrap()), (0, 0), "{at}");
                assert_eq!(table.digest().unwrap(), untouched, "{at}: no keys to remove, no change");
                let mut model = whole.clone();
                for gone in [&keys[3..4], &keys[..keys.len() / 2], &keys[..]] {
                    let batch: Vec<u32> = gone.iter().chain(&absent).chain(gone).copied().collect();
                    let pairs: usize = gone.iter().map(|key| model.remove(key).map_or(0, |values| values.len())).sum();
                    assert_eq!(table.remove(&batch).unwrap(), pairs, "{at}");
                    holds_exactly(&table, &model, &format!("{at}, without some"));
                    let rest: Vec<(u32, u32)> = column
                        .iter()
                        .copied()
                        .zip(values.iter().copied())
                        .filter(|p| model.contains_key(&p.0))
                        .collect();
                    let (rest, its_values): (Vec<u32>, Vec<u32>) = rest.into_iter().unzip();
                    let fresh = builder.build(&device, &rest, &its_values).unwrap();
                    assert_eq!(
                        fresh.table().plan(),
                        table.table().plan(),
                        "{at}: the size of a table of the remaining pairs"
                    );
                    if kind == Kind::Canonical {
                        assert_eq!(
                            fresh.digest().unwrap(),
                            table.digest().unwrap(),
                            "{at}: the table of the remaining pairs"
                        );
                    }
                }
                assert!(table.is_empty(), "{at}");
            }
        }
    }
}

#[test]
fn removing_gives_the_table_of_the_remaining_pairs() {
    for_every_kind(&Removes);
}

/// Pairs with few distinct keys, and keys to query and to remove.
#[derive(Clone, Debug)]
struct Case {
    pairs: Vec<(u32, u32)>,
    gone: Vec<u32>,
}

impl Arbitrary for Case {
    fn arbitrary(g: &mut Gen) -> Self {
        let key = |g: &mut Gen| {
            *g.choose(&[0, 1, 2, 3, 5, 1 << 31, u32::MAX - 1, u32::MAX]).unwrap() ^ (u32::arbitrary(g) & 17)
        };
        let len = usize::arbitrary(g) % 200;
        let pairs = (0..len).map(|_| (key(g), u32::arbitrary(g))).collect();
        Case { pairs, gone: (0..usize::arbitrary(g) % 8).map(|_| key(g)).collect() }
    }

    fn shrink(&self) -> Box<dyn Iterator<Item = Self>> {
        let gone = self.gone.clone();
        Box::new(self.pairs.shrink().map(move |pairs| Case { pairs, gone: gone.clone() }))
    }
}

struct Properties;
impl Check for Properties {
    fn run(&self, scheme: &AnyScheme) {
        if !holds_numbers("multivalue tables", scheme) {
            return;
        }
        QuickCheck::new().tests(size(20, 2).into()).quickcheck(agrees as fn(Case) -> bool);
    }
}

fn agrees(case: Case) -> bool {
    let scheme = &current();
    let (keys, values): (Vec<u32>, Vec<u32>) = case.pairs.iter().copied().unzip();
    let mut rest = model(&keys, &values);
    let whole = rest.clone();
    case.gone.iter().for_each(|key| _ = rest.remove(key));
    // One of the CPUs is enough here.
    for device in devices().into_iter().skip(1) {
        let at = label(scheme, &device);
        let mut table = builder(scheme).build(&device, &keys, &values).unwrap();
        holds_exactly(&table, &whole, &at);
        table.remove(&case.gone).unwrap();
        holds_exactly(&table, &rest, &at);
    }
    true
}

#[test]
fn inserts_and_removals_equal_those_of_a_map() {
    for_every_kind(&Properties);
}

/// Values need not fit into the scheme's tables, which contain only the distinct keys and their numbers.
#[test]
fn limits_are_those_of_the_distinct_keys() {
    let n = size(100_000, 2000);
    let keys: Vec<u32> = (0..n).map(|i| i % 100).collect();
    let values: Vec<u32> = (0..n).collect();
    let table = MultiTable::builder(Quadratic).build(&Cpu::new(), &keys, &values).unwrap();
    assert_eq!((table.len(), table.keys_len()), (n as usize, 100));
    // The tables of the cuckoo set have no values, so they cannot number keys.
    let refused = MultiTable::builder(CuckooSet::canonical(4)).build(&Cpu::new(), &keys, &values);
    assert!(matches!(refused, Err(Error::TooWide { given: 99, bits: 0, .. })), "{refused:?}");
    let distinct: Vec<u32> = (0..5000).collect();
    let refused = MultiTable::builder(Quadratic).build(&Cpu::new(), &distinct, &distinct);
    assert!(matches!(refused, Err(Error::TooLarge { .. })), "{refused:?}");
}

#[test]
fn impossible_tables_are_refused() {
    let (cpu, builder) = (Cpu::new(), MultiTable::builder(Cuckoo::default()));
    let refused = builder.build(&cpu, &[1, 2], &[1]);
    assert!(matches!(refused, Err(Error::LengthMismatch { found: 1, expected: 2, .. })), "{refused:?}");
    for builder in
        [builder.clone().load_factor(0.0), builder.clone().attempts(0), builder.clone().load_factor(0.5).slots(9)]
    {
        let refused = builder.build(&cpu, &[1], &[1]);
        assert!(matches!(refused, Err(Error::InvalidParameter { .. })), "{refused:?}");
    }
    let keys: Vec<u32> = (0..1000).collect();
    let refused = builder.slots(500).build(&cpu, &keys, &keys);
    assert!(matches!(refused, Err(Error::TooFull { .. })), "{refused:?}");
}

/// 70,000 queries of a key with 70,000 values: 4.9 G values, which do not fit in memory at once.
#[test]
fn totals_past_2_to_the_32_are_counted_refused_as_a_whole_and_given_in_pieces() {
    let n = 70_000u32;
    let total = u64::from(n) * u64::from(n);
    let (keys, values): (Vec<u32>, Vec<u32>) = (vec![7; n as usize], (0..n).map(|i| i ^ 0x5555).collect());
    for device in devices() {
        let table = MultiTable::builder(Cuckoo::default()).build(&device, &keys, &values).unwrap();
        let refused = table.retrieve(&keys);
        assert!(matches!(refused, Err(Error::TooLarge { requested, .. }) if requested == total), "{refused:?}");
        let refused = table.retrieve_on(&device.upload(&keys).unwrap());
        assert!(matches!(refused, Err(Error::TooLarge { requested, .. }) if requested == total), "{refused:?}");
        let (mut offsets, mut room) = (vec![5; keys.len() + 1], [6; 100]);
        let refused = table.retrieve_into(&keys, &mut offsets, &mut room);
        assert!(matches!(refused, Err(Error::TooShort { given: 100, needed, .. }) if needed == total), "{refused:?}");
        assert!(offsets.iter().all(|&offset| offset == 5) && room == [6; 100], "untouched");

        let len = 999_983;
        let pieces = total.div_ceil(len) as usize;
        for skipped in [0, 1, 4295, 4296, pieces - 1] {
            let mut chunks = table.retrieve_chunks(&keys, len as usize).unwrap();
            assert_eq!((chunks.total(), chunks.size_hint().1), (total, Some(pieces)));
            let piece = chunks.nth(skipped).unwrap().unwrap();
            let first = skipped as u64 * len;
            let expected = (first..total.min(first + len)).map(|at| (at / u64::from(n), at % u64::from(n)));
            assert!(
                expected.eq(piece.queries.iter().zip(&piece.values).map(|(&q, &v)| (q.into(), u64::from(v ^ 0x5555)))),
                "piece {skipped} on {}",
                device.info()
            );
            assert_eq!(chunks.next().is_none(), skipped == pieces - 1);
        }
        let mut chunks = table.retrieve_chunks(&keys, len as usize).unwrap();
        assert!(chunks.nth(pieces).is_none() && chunks.next().is_none());
    }
}

/// Results that pass through the host, or are assembled on the device, in more than one chunk of 2^24.
#[test]
fn pieces_of_long_results_are_contiguous() {
    let n = 4200;
    if size(n, 0) == 0 {
        return crate::common::skip("results longer than a piece", "they take hours in a simulator");
    }
    let (keys, values): (Vec<u32>, Vec<u32>) = (vec![7; n as usize], (0..n).collect());
    for device in devices().into_iter().skip(1) {
        let table = MultiTable::builder(Cuckoo::default()).build(&device, &keys, &values).unwrap();
        let each = table.values().unwrap();
        let whole = |values: &[u32]| values.len() == (n * n) as usize && values.chunks(n as usize).all(|v| v == each);
        let retrieved = table.retrieve(&keys).unwrap();
        assert!(whole(&retrieved.values), "{}", device.info());
        let there = table.retrieve_on(&device.upload(&keys).unwrap()).unwrap();
        assert!(device.download(&there.values).unwrap() == retrieved.values, "{}", device.info());
        let mut room = vec![5; (n * n) as usize + 1];
        table.retrieve_into(&keys, &mut vec![0; keys.len() + 1], &mut room).unwrap();
        assert_eq!(room.pop(), Some(5));
        assert!(room == retrieved.values, "{}", device.info());
        // The right rows without a match follow in the same chunk as the last matches.
        let right = [&keys[..], &[8, 9, 8]].concat();
        let mut rows = koel::join(&device, &keys, &right, koel::JoinKind::Full).unwrap();
        assert_eq!(rows.left.split_off(retrieved.values.len()), [koel::NO_ROW; 3], "{}", device.info());
        assert_eq!(rows.right.split_off(retrieved.values.len()), [n, n + 1, n + 2], "{}", device.info());
        assert!(rows.right == retrieved.values, "{}", device.info());
        assert!((0..).zip(rows.left.chunks(n as usize)).all(|(i, left)| left.iter().all(|&row| row == i)));
    }
}

struct Inserts;
impl Check for Inserts {
    fn run(&self, scheme: &AnyScheme) {
        if !holds_numbers("multivalue tables", scheme) {
            return;
        }
        let keys: Vec<u32> = workload(scheme, size(400, 60)).0.into_iter().flat_map(|key| [key, key ^ 3]).collect();
        let values: Vec<u32> = (0..keys.len() as u32).map(|i| i.wrapping_mul(0x9e37_79b1)).collect();
        let (folder, cpu) = (tempfile::tempdir().unwrap(), Any::Cpu(Cpu::new()));
        let path = folder.path().join("multi.koel");
        for device in devices() {
            let at = label(scheme, &device);
            let whole = builder(scheme).build(&device, &keys, &values).unwrap();
            let mut grown = builder(scheme).build(&device, &[], &[]).unwrap();
            let third = keys.len() / 3;
            for batch in [0..third, third..third, third..third + 1, third + 1..keys.len()] {
                grown.insert(&keys[batch.clone()], &values[batch]).unwrap();
            }
            holds_exactly(&grown, &model(&keys, &values), &at);
            if scheme.kind() == Kind::Canonical {
                assert_eq!(grown.digest().unwrap(), whole.digest().unwrap(), "{at}: the table of one build");
            }
            // A table that was moved, or opened from a file, continues like one that was not.
            let mut moved = builder(scheme).build(&cpu, &keys[..third], &values[..third]).unwrap();
            moved = moved.to_backend(&device).unwrap();
            moved.insert(&keys[third..2 * third], &values[third..2 * third]).unwrap();
            moved.save(&path).unwrap();
            let mut opened = MultiTable::<Any, AnyScheme>::open(&device, &path).unwrap();
            let mut mapped = crate::common::mapped_multi(&path).unwrap();
            opened.insert(&keys[2 * third..], &values[2 * third..]).unwrap();
            mapped.insert(&keys[2 * third..], &values[2 * third..]).unwrap();
            holds_exactly(&opened, &model(&keys, &values), &at);
            assert_eq!(mapped.to_pairs().unwrap(), whole.to_pairs().unwrap(), "{at}");
            // A batch that does not fit changes nothing.
            let mut full = builder(scheme).slots(64).build(&device, &keys[..20], &values[..20]).unwrap();
            let before = full.digest().unwrap();
            let many: Vec<u32> = (0..4000).map(|i| i * 7 + 1).collect();
            assert!(full.insert(&many, &many).is_err(), "{at}");
            assert_eq!(full.digest().unwrap(), before, "{at}");
            assert!(matches!(full.insert(&[1], &[]), Err(Error::LengthMismatch { .. })), "{at}");
            holds_exactly(&full, &model(&keys[..20], &values[..20]), &at);
        }
    }
}

#[test]
fn inserted_pairs_follow_existing_ones() {
    for_every_kind(&Inserts);
}
