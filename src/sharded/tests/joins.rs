//! Joins over shards return the rows of a join on one device, in the same order.

use super::cpus;
use crate::cpu::Cpu;
use crate::error::{Error, Result};
use crate::join::{self, JoinKind};
use crate::scheme::hash::SplitMix64;
use crate::scheme::{Bucketized, BucketizedOf, Cuckoo, Key};
use crate::sharded::join_by_left_rows::join_by_left_rows;
use crate::sharded::{NO_ROW, ShardedIndex, ShardedMulti, WideJoinRows, join as join_sharded};

fn rows(count: usize, distinct: u64, seed: u64) -> Vec<u64> {
    let mut stream = SplitMix64::new(seed);
    (0..count).map(|_| stream.next_u64() % distinct).collect()
}

/// The rows of a join on one device.
fn expected<K: Key>(left: &[K], right: &[K], kind: JoinKind) -> Result<WideJoinRows>
where
    Cpu: crate::backend::Runs<K::Rows>,
{
    let rows = join::wide::join(&Cpu::new(), left, right, kind)?;
    let wide =
        |rows: Vec<u32>| rows.into_iter().map(|row| if row == join::NO_ROW { NO_ROW } else { row.into() }).collect();
    Ok(WideJoinRows { left: wide(rows.left), right: wide(rows.right) })
}

#[test]
fn joins_over_shards_equal_joins_on_one_device() -> Result<()> {
    let (left, right) = (rows(9000, 3000, 1), rows(7000, 4000, 2));
    let (narrow, short): (Vec<u32>, Vec<u32>) =
        (left.iter().map(|&key| key as u32).collect(), right.iter().map(|&key| key as u32).collect());
    for kind in JoinKind::ALL {
        let wide = expected(&left, &right, kind)?;
        assert_eq!(wide.right.is_empty(), !kind.has_right());
        for devices in cpus() {
            for shards in [1, 4] {
                let index = ShardedIndex::builder(Bucketized::canonical(8).of::<u64, u32>(), shards);
                let index = index.build(&devices, &right)?;
                assert_eq!(index.join(&left, kind)?, wide, "{kind} over {shards}");
            }
            assert_eq!(join_sharded(&devices, &narrow, &short, kind)?, expected(&narrow, &short, kind)?);
            let nothing: [u64; 0] = [];
            assert_eq!(join_sharded(&devices, &left, &nothing, kind)?, expected(&left, &nothing, kind)?);
            assert_eq!(join_sharded(&devices, &nothing, &right, kind)?, expected(&nothing, &right, kind)?);
        }
    }
    assert!(join_sharded::<Cpu, u64>(&[], &left, &right, JoinKind::Inner).is_err());
    Ok(())
}

#[test]
fn joins_by_left_rows_equal_joins_on_one_device() -> Result<()> {
    let (left, right): (Vec<u64>, Vec<u64>) = (rows(9000, 3000, 1), rows(4000, 4000, 2));
    for kind in JoinKind::ALL {
        for devices in cpus() {
            // Several rounds, the last one short; few and no left rows; a heavy key; no right rows.
            for (left, right) in [
                (&left[..], &right[..]),
                (&left[..2], &right[..900]),
                (&left[..0], &right[..70]),
                (&[9; 3000][..], &[9; 40][..]),
                (&left[..50], &[]),
            ] {
                assert_eq!(join_by_left_rows(&devices, left, right, kind)?, expected(left, right, kind)?, "{kind}");
            }
        }
        // The most right rows for this strategy, and one more.
        let many: Vec<u32> = (0..4097).map(|row| row % 4096).collect();
        for right in [&many[..4096], &many] {
            let wide = expected(&many[..100], right, kind)?;
            assert_eq!(join_sharded(&cpus()[0], &many[..100], right, kind)?, wide);
        }
    }
    Ok(())
}

#[test]
fn long_results_arrive_in_pieces() -> Result<()> {
    // 3,000 x 20,000 rows of one key, and others between.
    let right: Vec<u32> = (0..24_000).map(|row| if row % 6 == 5 { row } else { 7 }).collect();
    let left: Vec<u32> = (0..4_000).map(|row| if row % 4 == 3 { 1_000_000 + row } else { 7 }).collect();
    let index = ShardedIndex::builder(Cuckoo::canonical(4), 3).build(&cpus()[1], &right)?;
    let (mut pieces, mut next, mut sum) = (0, (0, 0), 0);
    index.join_pieces(&left, JoinKind::Left, |piece| {
        pieces += 1;
        assert!(piece.left.len() <= (1 << 24) + 20_000 && piece.left.len() == piece.right.len());
        for (&left, &right) in piece.left.iter().zip(&piece.right) {
            // Rows ascend, by the left one and then by the right one.
            assert!((left, right) >= next);
            next = (left, right.wrapping_add(1));
            sum += 1;
        }
        Ok(())
    })?;
    assert_eq!((sum, pieces > 3), (3_000 * 20_000 + 1_000, true));
    let stopped = index.join_pieces(&left, JoinKind::Inner, |_| Err(Error::WrongDevice));
    assert!(matches!(stopped, Err(Error::WrongDevice)));
    Ok(())
}

#[test]
fn indices_are_saved_and_opened() -> Result<()> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("index.koel");
    let (left, right) = (rows(500, 300, 1), rows(900, 400, 2));
    let builder = ShardedIndex::builder(Bucketized::canonical(8).of::<u64, u32>(), 5);
    let index = builder.build(&cpus()[2], &right)?;
    let digest = index.save(&path)?;
    let opened: ShardedIndex<Cpu, BucketizedOf<u64, u32>> = ShardedIndex::open(&[Cpu::new()], &path)?;
    opened.audit()?;
    assert_eq!((digest, opened.digest()?, opened.len()), (index.digest()?, index.digest()?, right.len()));
    assert_eq!(opened.keys_len(), index.keys_len());
    assert_eq!(opened.join(&left, JoinKind::Full)?, index.join(&left, JoinKind::Full)?);
    // Values that are not row numbers: one out of range, and a duplicate.
    let multi = ShardedMulti::builder(Bucketized::canonical(8).of::<u64, u32>(), 5).values::<u64>();
    for values in [[0, 1, 3], [0, 1, 1]] {
        multi.build(&[Cpu::new()], &right[..3], &values)?.save(&path)?;
        assert!(matches!(
            ShardedIndex::<Cpu, BucketizedOf<u64, u32>>::open(&[Cpu::new()], &path),
            Err(Error::BadFile { .. })
        ));
    }
    Ok(())
}
