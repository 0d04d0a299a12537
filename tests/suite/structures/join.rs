//! Joins on every backend, scheme and kind, compared with nested loops, and with a map if those would take too long.

use std::collections::{HashMap, HashSet};

use crate::common::{Check, current, devices, for_every_kind, holds_numbers, label, max_pairs, size, workload};
use koel::backend::HashBackend;
use koel::device::Any;
use koel::{AnyScheme, Cpu, Cuckoo, Error, JoinIndex, JoinKind, JoinRows, MultiTable, NO_ROW, join};
use quickcheck::{Arbitrary, Gen, QuickCheck};

/// The rows of each join by nested loops, ordered by left row and then by right row.
fn nested_loops(left: &[u32], right: &[u32], kind: JoinKind) -> JoinRows {
    let mut rows = JoinRows::default();
    for (i, l) in (0..).zip(left) {
        let mut partners = 0;
        for (j, _) in (0..).zip(right).filter(|&(_, r)| r == l) {
            partners += 1;
            if !matches!(kind, JoinKind::Semi | JoinKind::Anti) {
                rows.left.push(i);
                rows.right.push(j);
            }
        }
        match kind {
            JoinKind::Left | JoinKind::Full if partners == 0 => {
                rows.left.push(i);
                rows.right.push(NO_ROW);
            }
            JoinKind::Semi if partners > 0 => rows.left.push(i),
            JoinKind::Anti if partners == 0 => rows.left.push(i),
            _ => {}
        }
    }
    if matches!(kind, JoinKind::Right | JoinKind::Full) {
        for (j, _) in (0..).zip(right).filter(|(_, r)| !left.contains(r)) {
            rows.left.push(NO_ROW);
            rows.right.push(j);
        }
    }
    rows
}

/// The rows of each join, computed with a map of vectors.
fn by_map(left: &[u32], right: &[u32], kind: JoinKind) -> JoinRows {
    let mut partners: HashMap<u32, Vec<u32>> = HashMap::new();
    (0..).zip(right).for_each(|(j, &key)| partners.entry(key).or_default().push(j));
    let none = match kind {
        JoinKind::Left | JoinKind::Full => &[NO_ROW][..],
        _ => &[],
    };
    let mut rows = JoinRows::default();
    for (i, key) in (0..).zip(left) {
        match kind {
            JoinKind::Semi | JoinKind::Anti => {
                if partners.contains_key(key) == (kind == JoinKind::Semi) {
                    rows.left.push(i);
                }
            }
            _ => {
                let there = partners.get(key).map_or(none, |there| there);
                rows.left.extend(there.iter().map(|_| i));
                rows.right.extend(there);
            }
        }
    }
    if matches!(kind, JoinKind::Right | JoinKind::Full) {
        let known: HashSet<_> = left.iter().collect();
        let alone = (0..).zip(right).filter(|(_, key)| !known.contains(key)).map(|(j, _)| j);
        rows.right.extend(alone);
        rows.left.resize(rows.right.len(), NO_ROW);
    }
    rows
}

/// Every function that returns the rows of a join must return `expected`.
fn gives(index: &JoinIndex<Any, AnyScheme>, left: &[u32], kind: JoinKind, expected: &JoinRows, at: &str) {
    let device = index.backend();
    let join = index.join(left, kind).unwrap();
    let len = expected.left.len();
    assert_eq!((join.len(), join.is_empty()), (len as u64, len == 0), "{at}: len");
    assert!(join.collect().unwrap() == *expected, "{at}: collect");
    let on_device = device.upload(left).unwrap();
    let on_device = index.join_on(&on_device, kind).unwrap();
    for rows in [len / 3 + 1, len.max(1), usize::MAX] {
        let mut all = JoinRows::default();
        for piece in on_device.chunks(rows) {
            let piece = piece.unwrap();
            assert!(piece.left.len() == rows || all.left.len() + piece.left.len() == len, "{at}: whole pieces");
            all.left.extend(piece.left);
            all.right.extend(piece.right);
        }
        assert!(all == *expected, "{at}: chunks of {rows}");
    }
    for (first, rows) in [(0, 1), (len / 2, 10), (len.saturating_sub(1), 5), (len, 3), (usize::MAX, 3)] {
        let piece = join.chunk_on(first as u64, rows).unwrap();
        let part = |column: &[u32]| {
            let from = first.min(column.len());
            column[from..column.len().min(from.saturating_add(rows))].to_vec()
        };
        assert_eq!(device.download(&piece.left).unwrap(), part(&expected.left), "{at}: {rows} from {first}");
        assert_eq!(device.download(&piece.right).unwrap(), part(&expected.right), "{at}: {rows} from {first}");
    }
}

/// Pairs of left and right columns.
fn columns(scheme: &AnyScheme) -> Vec<(&'static str, Vec<u32>, Vec<u32>)> {
    let n = size(2000, 120) as usize;
    let keys = workload(scheme, (2 * n as u32).min(max_pairs(scheme))).0;
    let (some, others) = keys.split_at(keys.len() / 2);
    let duplicates = |keys: &[u32], times: usize| -> Vec<u32> { keys.iter().cycle().take(times).copied().collect() };
    let shuffled = |mut keys: Vec<u32>| {
        keys.sort_by_key(|key| key.wrapping_mul(0x9e37_79b1));
        keys
    };
    let few = &some[..some.len().min(40)];
    let half: Vec<u32> = some.iter().flat_map(|&key| [key, some[0]]).collect();
    vec![
        ("nothing on either side", vec![], vec![]),
        ("nothing on the left", vec![], some.to_vec()),
        ("nothing on the right", some.to_vec(), vec![]),
        ("all distinct, all matching", shuffled(some.to_vec()), some.to_vec()),
        ("nobody matches", others.to_vec(), some.to_vec()),
        ("half match", keys.clone(), shuffled(some.to_vec())),
        ("many to one", duplicates(few, n), few.to_vec()),
        ("one to many", few.to_vec(), duplicates(few, n)),
        ("many to many", duplicates(few, n / 4), duplicates(&keys[..keys.len().min(60)], n / 2)),
        ("one key for all rows", duplicates(&some[..1], 127), duplicates(&some[..1], n)),
        ("half of all rows one key", duplicates(&keys[..1.max(n / 40)], n / 20), half),
    ]
}

struct Definitions;
impl Check for Definitions {
    fn run(&self, scheme: &AnyScheme) {
        if !holds_numbers("joins by indices", scheme) {
            return;
        }
        for (what, left, right) in columns(scheme) {
            let expected = JoinKind::ALL.map(|how| by_map(&left, &right, how));
            for device in devices() {
                let index = JoinIndex::builder(scheme.clone()).seed(3).build(&device, &right).unwrap();
                let mut distinct = right.clone();
                distinct.sort_unstable();
                distinct.dedup();
                assert_eq!((index.len(), index.keys_len()), (right.len(), distinct.len()));
                assert_eq!((index.is_empty(), index.table().len()), (right.is_empty(), index.keys_len()));
                for (how, expected) in JoinKind::ALL.into_iter().zip(&expected) {
                    let at = format!("{}, {what}, {how}", label(scheme, &device));
                    gives(&index, &left, how, expected, &at);
                }
            }
        }
    }
}

#[test]
fn joins_match_their_definition_on_every_device() {
    for_every_kind(&Definitions);
}

/// Both reference implementations agree, so the faster one can be used for longer columns.
#[test]
fn the_map_and_the_nested_loops_agree() {
    for (what, left, right) in columns(&Cuckoo::default().into()) {
        let (left, right) = (&left[..left.len().min(300)], &right[..right.len().min(300)]);
        for how in JoinKind::ALL {
            assert_eq!(by_map(left, right, how), nested_loops(left, right, how), "{what}, {how}");
        }
    }
}

/// Two columns with few distinct keys.
#[derive(Clone, Debug)]
struct Case(Vec<u32>, Vec<u32>);

impl Arbitrary for Case {
    fn arbitrary(g: &mut Gen) -> Self {
        let mut column = |most: usize| -> Vec<u32> {
            let key = |g: &mut Gen| {
                *g.choose(&[0, 1, 2, 3, 1 << 31, u32::MAX - 1, u32::MAX]).unwrap() ^ (u32::arbitrary(g) & 9)
            };
            (0..usize::arbitrary(g) % most).map(|_| key(g)).collect()
        };
        Case(column(60), column(120))
    }

    fn shrink(&self) -> Box<dyn Iterator<Item = Self>> {
        Box::new((self.0.clone(), self.1.clone()).shrink().map(|(left, right)| Case(left, right)))
    }
}

struct Properties;
impl Check for Properties {
    fn run(&self, scheme: &AnyScheme) {
        if !holds_numbers("joins by indices", scheme) {
            return;
        }
        QuickCheck::new().tests(size(12, 2).into()).quickcheck(agrees as fn(Case) -> bool);
    }
}

fn agrees(Case(left, right): Case) -> bool {
    let scheme = &current();
    // One of the CPUs is enough here.
    for device in devices().into_iter().skip(1) {
        let index = JoinIndex::builder(scheme.clone()).build(&device, &right).unwrap();
        for how in JoinKind::ALL {
            let at = format!("{}, {how}", label(scheme, &device));
            gives(&index, &left, how, &nested_loops(&left, &right, how), &at);
        }
    }
    true
}

#[test]
fn joins_of_any_two_columns_match_nested_loops() {
    for_every_kind(&Properties);
}

#[test]
fn joins_do_not_depend_on_the_load_of_the_index() {
    let (left, right) = ([5, 0, u32::MAX, 5, 8], [u32::MAX, 5, 0, 5, 0]);
    for how in JoinKind::ALL {
        let expected = nested_loops(&left, &right, how);
        for device in devices() {
            assert_eq!(join(&device, &left, &right, how).unwrap(), expected, "{how}");
            for builder in [
                JoinIndex::builder(Cuckoo::canonical(3)).load_factor(0.2).seed(9),
                JoinIndex::builder(Cuckoo::classic(4)).slots(100).attempts(5),
            ] {
                let index = builder.build_on(&device, &device.upload(&right).unwrap()).unwrap();
                assert_eq!(index.join(&left, how).unwrap().collect().unwrap(), expected, "{how}");
            }
        }
    }
}

struct Files;
impl Check for Files {
    fn run(&self, scheme: &AnyScheme) {
        if !holds_numbers("joins by indices", scheme) {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("index.koel");
        let right: Vec<u32> = workload(scheme, 300).0.into_iter().flat_map(|key| [key, key ^ 1]).collect();
        let left: Vec<u32> = right.iter().step_by(3).map(|key| key ^ 1).collect();
        let expected = JoinKind::ALL.map(|how| nested_loops(&left, &right, how));
        let devices = devices();
        for (device, other) in devices.iter().zip(devices.iter().cycle().skip(1)) {
            let at = label(scheme, device);
            let index = JoinIndex::builder(scheme.clone()).seed(3).build(device, &right).unwrap();
            let digest = index.save(&path).unwrap();
            assert_eq!((index.digest().unwrap(), index.audit().is_ok()), (digest, true), "{at}");
            assert_eq!(index.stats().unwrap().pairs, index.keys_len() as u64, "{at}");
            let there = index.to_backend(other).unwrap();
            let opened = JoinIndex::<Any, AnyScheme>::open(other, &path).unwrap();
            for index in [&there, &opened] {
                assert_eq!((index.digest().unwrap(), index.len()), (digest, right.len()), "{at}");
                index.audit().unwrap();
                for (how, expected) in JoinKind::ALL.into_iter().zip(&expected) {
                    assert_eq!(index.join(&left, how).unwrap().collect().unwrap(), *expected, "{at}, {how}");
                }
            }
            // The same file is a multivalue table of row numbers.
            let rows = MultiTable::<Any, AnyScheme>::open(other, &path).unwrap();
            assert_eq!((rows.digest().unwrap(), rows.len()), (digest, right.len()), "{at}");
        }
    }
}

#[test]
fn indices_are_saved_opened_and_moved() {
    for_every_kind(&Files);
}

#[test]
fn multivalue_tables_of_other_values_are_not_indices() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("multi.koel");
    let cpu = Cpu::new();
    let keys = [5, 6, 5, 7];
    for (values, right) in [
        ([0, 1, 2, 3], true),
        ([2, 1, 0, 3], false),
        ([0, 1, 2, 2], false),
        ([0, 1, 2, 4], false),
        ([1, 2, 3, 0], true),
    ] {
        MultiTable::builder(Cuckoo::default()).build(&cpu, &keys, &values).unwrap().save(&path).unwrap();
        match JoinIndex::<Cpu>::open(&cpu, &path) {
            Ok(index) => assert!(right && index.len() == 4, "{values:?}"),
            Err(error) => {
                assert!(!right && error.to_string().contains("no index of a join"), "{values:?}: {error}");
            }
        }
    }
}

#[test]
fn impossible_tables_are_refused() {
    let refused = JoinIndex::builder(Cuckoo::default()).attempts(0).build(&Cpu::new(), &[1]);
    assert!(matches!(refused, Err(Error::InvalidParameter { .. })), "{refused:?}");
    let right: Vec<u32> = (0..1000).collect();
    let refused = JoinIndex::builder(Cuckoo::default()).slots(500).build(&Cpu::new(), &right);
    assert!(matches!(refused, Err(Error::TooFull { .. })), "{refused:?}");
}

/// 70,000 rows join 70,000 rows of the same key: 4.9 G rows, of which any range can be computed.
#[test]
fn results_past_2_to_the_32_are_counted_refused_as_a_whole_and_given_in_pieces() {
    let n = 70_000u32;
    let total = u64::from(n) * u64::from(n);
    let right = vec![7; n as usize];
    // One left row without a match, among the others.
    let lone = n / 2;
    let mut left = right.clone();
    left.insert(lone as usize, 8);
    for device in devices() {
        let index = JoinIndex::builder(Cuckoo::default()).build(&device, &right).unwrap();
        for (how, total) in JoinKind::ALL.into_iter().zip([total, total + 1, total, total + 1]) {
            let join = index.join(&left, how).unwrap();
            assert_eq!(join.len(), total);
            let refused = join.collect();
            assert!(matches!(refused, Err(Error::TooLarge { requested, .. }) if requested == total), "{refused:?}");
            let before = u64::from(lone) * u64::from(n);
            let row = |at: u64| match at.checked_sub(before) {
                None => (at / u64::from(n), at % u64::from(n)),
                Some(0) if how.keeps_left() => (lone.into(), NO_ROW.into()),
                Some(past) => {
                    let past = past - u64::from(how.keeps_left());
                    (u64::from(lone) + 1 + past / u64::from(n), past % u64::from(n))
                }
            };
            let len = 200_000;
            for first in [0, before - 100_000, (1 << 32) - 7, total / 3 * 2, total - 10] {
                let piece = join.chunk_on(first, len).unwrap();
                let (left, right) = (device.download(&piece.left).unwrap(), device.download(&piece.right).unwrap());
                assert_eq!(left.len() as u64, (total - first).min(len as u64));
                let rows = left.iter().zip(&right).map(|(&l, &r)| (l.into(), r.into()));
                assert!((first..).take(left.len()).map(row).eq(rows), "{how} from {first} on {}", device.info());
            }
            let pieces = total.div_ceil(999_983) as usize;
            let last = join.chunks(999_983).nth(pieces - 1).unwrap().unwrap();
            assert_eq!((last.left.last(), last.right.last()), (Some(&n), Some(&(n - 1))));
        }
        let semi = index.join(&left, JoinKind::Semi).unwrap();
        assert_eq!(semi.len(), u64::from(n));
        assert_eq!(index.join(&left, JoinKind::Anti).unwrap().collect().unwrap().left, [lone]);
    }
}
