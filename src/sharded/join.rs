//! Joins over shards: the right column is a multivalue table in shards, from keys to row numbers.
//!
//! ```text
//! build    partition the right rows by key; each shard stores their row numbers, of 64 bits
//! join     partition the left rows by key, so that each is in the shard of its matches; each shard lists the right rows of
//!          its left rows; the lists are written in the order of the left rows, so the order is that of one index
//! right    then the right rows whose keys no left row has, ascending, as from one index; each shard keeps a flag for each of
//!          its keys that a left row has
//! ```

use std::path::Path;

use super::builder::some;
use super::devices::is_out_of_memory;
use super::exchange;
use super::host_partition::{MOST_ROWS, Partitioned};
use super::join_by_left_rows::join_by_left_rows;
use super::multi::{ShardedMulti, ShardedMultiBuilder};
use super::{ROWS_OF_A_PIECE, pieces_of};
use crate::backend::{HashBackend, Runs};
use crate::cpu::Cpu;
use crate::error::{Error, Result};
use crate::join::JoinKind;
use crate::memory;
use crate::multi::Retrieved;
use crate::scheme::{Audit, Cuckoo, Key, Scheme, Violation};
use crate::table::{Digest, table_settings};

/// The row number of the other side for a row of an outer join without a match.
pub const NO_ROW: u64 = u64::MAX;

/// Rows of one piece of a result.
const PIECE: u64 = 1 << 24;

/// Left rows that are looked up at a time.
const LEFT_ROWS: usize = if cfg!(test) { 1 << 11 } else { 1 << 22 };

/// An index of a right column of keys in shards, on one device or several, for joins with any number of left columns;
/// created by [`ShardedIndex::builder`].
///
/// ```
/// use koel::sharded::NO_ROW;
/// use koel::{Cpu, Cuckoo, JoinKind, ShardedIndex};
/// let devices = [Cpu::with_threads(1)?, Cpu::with_threads(1)?];
/// let index = ShardedIndex::builder(Cuckoo::default(), 4).build(&devices, &[30, 10, 30])?;
/// let rows = index.join(&[10, 20, 30], JoinKind::Left)?;
/// assert_eq!((rows.left, rows.right), (vec![0, 1, 2, 2], vec![1, NO_ROW, 0, 2]));
/// # Ok::<(), koel::Error>(())
/// ```
pub struct ShardedIndex<B: HashBackend, S: Scheme = Cuckoo> {
    rows: ShardedMulti<B, S, u64>,
}

/// The rows of a join, by row number; there may be 2^32 rows and more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WideJoinRows {
    /// The left row of each row of the result, or [`NO_ROW`].
    pub left: Vec<u64>,
    /// The right row, or [`NO_ROW`]. Empty in semi and anti joins, which return left rows only.
    pub right: Vec<u64>,
}

/// Builds indices in shards; created by [`ShardedIndex::builder`]. Numbers of keys and slots are those of all shards
/// together.
#[derive(Clone, Debug)]
pub struct ShardedIndexBuilder<S: Scheme> {
    table: ShardedMultiBuilder<S, u64>,
}

table_settings!(ShardedIndexBuilder, "Distinct keys");

/// Implemented for one backend so that `ShardedIndex::builder(..)` needs no type; it builds on any.
impl<S: Scheme<Value = u32>> ShardedIndex<Cpu, S> {
    /// Returns a builder of an index with this number of shards, 1 to 4096; see
    /// [`Sharded::builder`](super::Sharded::builder).
    pub fn builder(scheme: S, shards: usize) -> ShardedIndexBuilder<S> {
        ShardedIndexBuilder { table: ShardedMultiBuilder::new(scheme, shards).values() }
    }
}

impl<S: Scheme<Value = u32>> ShardedIndexBuilder<S> {
    /// Builds an index of the right column of a join; the shards are assigned to the devices in turn.
    ///
    /// Cost and memory: as [`ShardedMultiBuilder::build`] of the keys and their row numbers of 64 bits.
    ///
    /// # Errors
    /// As [`ShardedMultiBuilder::build`].
    pub fn build<B: Runs<S>>(&self, devices: &[B], right: &[S::Key]) -> Result<ShardedIndex<B, S>> {
        some(devices)?;
        let mut rows = memory::reserved(right.len())?;
        rows.extend(0..right.len() as u64);
        Ok(ShardedIndex { rows: self.table.build(devices, right, &rows)? })
    }
}

impl<B: Runs<S>, S: Scheme<Value = u32>> ShardedIndex<B, S> {
    /// The number of right rows.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether the right column is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of distinct keys of the right column.
    pub fn keys_len(&self) -> usize {
        self.rows.keys_len()
    }

    /// The row numbers of each key.
    pub fn rows(&self) -> &ShardedMulti<B, S, u64> {
        &self.rows
    }

    /// Joins a left column of keys with the indexed column; the rows are ordered as by
    /// [`JoinIndex::join`](crate::JoinIndex::join).
    ///
    /// Cost: left rows are partitioned and looked up on all devices, 2^22 at a time, twice (semi and anti joins: once;
    /// right and full joins: three times). The result takes 16 bytes per row.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] or what a device reports; [`Error::TooLarge`] if one left row has 2^32 or more matches.
    pub fn join(&self, left: &[S::Key], kind: JoinKind) -> Result<WideJoinRows> {
        let mut all = WideJoinRows::default();
        self.join_pieces(left, kind, |piece| {
            memory::reserve(&mut all.left, piece.left.len())?;
            memory::reserve(&mut all.right, piece.right.len())?;
            all.left.extend(piece.left);
            all.right.extend(piece.right);
            Ok(())
        })?;
        Ok(all)
    }

    /// As [`join`](Self::join), but calls `take` with pieces of about 2^24 rows, in order, for results that do not fit
    /// in memory. All matches of one left row are in one piece, however many they are.
    ///
    /// ```
    /// use koel::{Cpu, Cuckoo, JoinKind, ShardedIndex};
    /// let index = ShardedIndex::builder(Cuckoo::default(), 2).build(&[Cpu::new()], &[30, 10, 30])?;
    /// let mut joined = 0;
    /// index.join_pieces(&[30, 30], JoinKind::Inner, |piece| Ok(joined += piece.left.len()))?;
    /// assert_eq!(joined, 4);
    /// # Ok::<(), koel::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`join`](Self::join), and those of `take`, after which the join stops.
    pub fn join_pieces(
        &self,
        left: &[S::Key],
        kind: JoinKind,
        mut take: impl FnMut(WideJoinRows) -> Result<()>,
    ) -> Result<()> {
        let mut matched = if kind.keeps_right() { Some(self.none_matched()?) } else { None };
        for (number, left) in left.chunks(LEFT_ROWS).enumerate() {
            let first = (number * LEFT_ROWS) as u64;
            if let Some(matched) = &mut matched {
                self.look_up(left, matched)?;
            }
            if kind.has_right() {
                self.rows.retrieve_pieces(left, PIECE, |start, found| {
                    take(listed(found, first + start as u64, kind.keeps_left())?)
                })?;
                continue;
            }
            let found = self.rows.contains(left)?;
            let mut rows = memory::reserved(found.len())?;
            let wanted = kind == JoinKind::Semi;
            rows.extend((first..).zip(found).filter(|&(_, found)| found == wanted).map(|(row, _)| row));
            take(WideJoinRows { left: rows, right: Vec::new() })?;
        }
        match matched {
            Some(matched) => self.rest(matched, take),
            None => Ok(()),
        }
    }

    /// A byte for each key of each shard, which is set if a left row has the key; initially 0.
    fn none_matched(&self) -> Result<Vec<Vec<u8>>> {
        self.rows.shards().iter().map(|shard| memory::zeroed(shard.keys_len())).collect()
    }

    fn look_up(&self, left: &[S::Key], matched: &mut [Vec<u8>]) -> Result<()> {
        for left in left.chunks(MOST_ROWS) {
            let partitioned = Partitioned::of(&self.rows.which, left)?;
            let found = self.rows.answers(&partitioned, left, &|shard, mine| shard.table().get(&mine))?;
            for (matched, found) in matched.iter_mut().zip(found) {
                found.into_iter().flatten().for_each(|run| matched[run as usize] = 1);
            }
        }
        Ok(())
    }

    /// Emits the right rows without a match, ascending.
    fn rest(&self, matched: Vec<Vec<u8>>, mut take: impl FnMut(WideJoinRows) -> Result<()>) -> Result<()> {
        let alone = self.rows.of_each(&|number, shard| {
            let (starts, values) = (shard.starts()?, shard.values()?);
            let mut alone = Vec::new();
            for (run, _) in starts.windows(2).zip(&matched[number]).filter(|(_, matched)| **matched == 0) {
                let rows = &values[run[0] as usize..run[1] as usize];
                memory::reserve(&mut alone, rows.len())?;
                alone.extend_from_slice(rows);
            }
            Ok(alone)
        })?;
        let mut rows: Vec<u64> = memory::reserved(alone.iter().map(Vec::len).sum())?;
        alone.into_iter().for_each(|alone| rows.extend(alone));
        rows.sort_unstable();
        for rows in rows.chunks(PIECE as usize) {
            let (mut left, mut right) = (memory::reserved(rows.len())?, memory::reserved(rows.len())?);
            left.resize(rows.len(), NO_ROW);
            right.extend_from_slice(rows);
            take(WideJoinRows { left, right })?;
        }
        Ok(())
    }

    /// The digest: if the index is canonical, it depends only on the right column, the parameters, the seed and the
    /// number of shards.
    ///
    /// # Errors
    /// What a device reports.
    pub fn digest(&self) -> Result<Digest> {
        self.rows.digest()
    }

    /// Checks every invariant of every shard, and that its values are row numbers.
    ///
    /// # Errors
    /// [`Error::Damaged`] or what a device reports.
    pub fn audit(&self) -> Result<Audit> {
        let audit = self.rows.audit()?;
        self.check_rows()?;
        Ok(audit)
    }

    /// Writes all shards to one file; see [`ShardedMulti::save`].
    ///
    /// # Errors
    /// As [`ShardedMulti::save`].
    pub fn save(&self, path: impl AsRef<Path>) -> Result<Digest> {
        self.rows.save(path)
    }

    /// Opens a file, checks everything in it, and assigns the shards to these devices in turn.
    ///
    /// # Errors
    /// As [`ShardedMulti::open`], and [`Error::BadFile`] for a file whose values are not row numbers.
    pub fn open(devices: &[B], path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let index = ShardedIndex { rows: ShardedMulti::open(devices, path)? };
        index.check_rows().map_err(|error| match error {
            Error::Damaged(violation) => Error::BadFile { path: path.into(), reason: violation.to_string() },
            other => other,
        })?;
        Ok(index)
    }

    fn check_rows(&self) -> Result<()> {
        let reason = "its values are not the numbers of rows: it is a multivalue table, and no index of a join";
        let mut there: Vec<u8> = memory::zeroed(self.len())?;
        for shard in self.rows.shards() {
            let (starts, values) = (shard.starts()?, shard.values()?);
            let ascend = starts.windows(2).all(|run| {
                let run = values.get(run[0] as usize..run[1] as usize).unwrap_or(&[]);
                run.is_sorted_by(|before, after| before < after)
            });
            let once = values.iter().all(|&row| {
                let place = usize::try_from(row).ok().and_then(|row| there.get_mut(row));
                place.is_some_and(|place| std::mem::replace(place, 1) == 0)
            });
            if !ascend || !once {
                return Err(Violation::Contradiction { reason }.into());
            }
        }
        Ok(())
    }
}

/// The rows of a join of left rows, numbered from `first`, with these matches.
fn listed(found: Retrieved<u64>, first: u64, keeps_left: bool) -> Result<WideJoinRows> {
    let Retrieved { offsets, values } = found;
    let counts = || (first..).zip(offsets.windows(2).map(|two| (two[1] - two[0]) as usize));
    let missing = if keeps_left { counts().filter(|&(_, count)| count == 0).count() } else { 0 };
    let mut left = memory::reserved(values.len() + missing)?;
    if missing == 0 {
        counts().for_each(|(row, count)| left.extend(std::iter::repeat_n(row, count)));
        return Ok(WideJoinRows { left, right: values });
    }
    let (mut right, mut rest) = (memory::reserved(values.len() + missing)?, &values[..]);
    for (row, count) in counts() {
        left.extend(std::iter::repeat_n(row, count.max(1)));
        match rest.split_off(..count) {
            Some([]) | None => right.push(NO_ROW),
            Some(rows) => right.extend_from_slice(rows),
        }
    }
    Ok(WideJoinRows { left, right })
}

/// Joins two columns of keys on several devices: [`join::wide::join`](crate::join::wide::join) with row numbers of 64
/// bits.
///
/// Cost: each device builds an index of all right rows and joins a part of the left rows, 2^24 at a time; besides
/// these, memory holds 16 bytes per row of the result. One index in shards ([`ShardedIndex`]) is used instead if there
/// are more than 2^27 right rows, if they take more than an eighth of a device's memory, if a device runs out of
/// memory, or if several devices use host memory.
///
/// ```
/// use koel::{Cpu, JoinKind, sharded};
/// let devices = [Cpu::with_threads(1)?, Cpu::with_threads(1)?];
/// let rows = sharded::join(&devices, &[10_u64, 20, 30], &[30, 10, 30], JoinKind::Inner)?;
/// assert_eq!((rows.left, rows.right), (vec![0, 2, 2], vec![1, 0, 2]));
/// # Ok::<(), koel::Error>(())
/// ```
///
/// # Errors
/// As [`ShardedIndexBuilder::build`] and [`ShardedIndex::join`].
pub fn join<B: Runs<K::Rows>, K: Key>(devices: &[B], left: &[K], right: &[K], kind: JoinKind) -> Result<WideJoinRows> {
    let devices = some(devices)?;
    let most = exchange::most_rows(devices, size_of::<K>() + size_of::<u32>()).min(ROWS_OF_A_PIECE);
    if right.len() <= most && devices.iter().filter(|device| device.shares_memory()).count() <= 1 {
        match join_by_left_rows(devices, left, right, kind) {
            Err(error) if is_out_of_memory(&error) => {}
            done => return done,
        }
    }
    let shards = pieces_of(devices.len(), right.len());
    ShardedIndex::builder(K::Rows::default(), shards).build(devices, right)?.join(left, kind)
}

impl<B: Runs<S>, S: Scheme<Value = u32>> std::fmt::Debug for ShardedIndex<B, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ShardedIndex").field("rows", &self.rows).finish()
    }
}
