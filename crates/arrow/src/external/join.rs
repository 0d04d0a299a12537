//! Joins under a memory limit: in memory if the right rows fit, and otherwise one partition at a time.
//!
//! ```text
//! right batches  buffered until they exceed the limit
//! all fit        build an index; all threads look up left morsels, and results are passed on in order (ordered.rs)
//! too many       partition both sides; join each pair of partitions (pair.rs); merge the runs of results
//!                in right and full joins, the unmatched right rows follow
//! ```
//!
//! If there are several devices, each has an index and they share the left batches, or they share the partitions.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, Field, Schema, SchemaRef};
use koel::backend::DeviceKind;
use koel::{Any, HashBackend, JoinKind};

use super::buffered::{Collected, buffer_or_partition};
use super::devices::{Emit, Work, shared_out, some};
use super::hash::Hashing;
use super::merge::{Order, merged};
use super::pair::{Pairing, Results, Runs};
use super::parts::{Parts, numbered_schema, with_numbers};
use super::right::{Indexed, RightRows};
use super::windows::{LeftBatch, Windows};
use super::{Batches, Limit, Side, Stage, without_numbers};
use crate::encode::NullEquality;
use crate::error::{Error, Result};
use crate::kind::{check_kinds, check_types, common_scales};
use crate::plain::plain_type;
use crate::prepared::PreparedJoin;

/// A column of the result of a join, given by its index in one of the sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// A left column.
    Left(usize),
    /// A right column.
    Right(usize),
    /// The key column with this number: of the left row, or of the right row if there is no left row. Both columns must
    /// have the same type, apart from dictionaries, which are replaced by their values.
    Key(usize),
}

/// The parameters of a join.
///
/// ```
/// use std::sync::Arc;
/// use arrow_array::{ArrayRef, Int64Array, RecordBatch};
/// use koel_arrow::external::{Batches, Join, Limit, Output};
/// use koel_arrow::{Error, JoinKind, NullEquality};
///
/// let batch = |k: Vec<i64>| RecordBatch::try_from_iter([("k", Arc::new(Int64Array::from(k)) as ArrayRef)]);
/// let (left, right) = (batch(vec![3, 1, 2])?, batch(vec![2, 3])?);
/// let columns = [Output::Left(0), Output::Right(0)];
/// let join = Join {
///     devices: &[koel::auto().backend],
///     on: &[(0, 0)],
///     how: JoinKind::Inner,
///     nulls: NullEquality::NothingEquals,
///     columns: &columns,
///     limit: &Limit::new(100_000_000),
///     watch: &|_| (),
/// };
/// let batches = |batch: RecordBatch| Batches::new(batch.schema(), [Ok::<_, Error>(batch)]);
/// let mut keys = Vec::new();
/// let rows = join.run(batches(left), batches(right), |batch| {
///     keys.push(batch.column(0).clone());
///     Ok(())
/// })?;
/// assert_eq!((rows.left, rows.right, rows.joined, rows.spilled), (3, 2, 2, 0));
/// assert_eq!(keys[0].as_ref(), &Int64Array::from(vec![3, 2]));
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct Join<'a> {
    /// The devices that look up keys; a device may occur twice. The result does not depend on them. If the right table
    /// fits in memory, each device has an index of it.
    pub devices: &'a [Any],
    /// The key columns, left and right, by index.
    pub on: &'a [(usize, usize)],
    /// The kind of join.
    pub how: JoinKind,
    /// Whether nulls are equal.
    pub nulls: NullEquality,
    /// The columns of the result. Semi and anti joins have left columns only.
    pub columns: &'a [Output],
    /// The memory limit.
    pub limit: &'a Limit,
    /// Receives progress reports, on the calling thread.
    pub watch: &'a dyn Fn(Stage),
}

/// The numbers of rows, and of spilled bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JoinedRows {
    /// The number of left rows.
    pub left: u64,
    /// The number of right rows.
    pub right: u64,
    /// The number of rows of the result.
    pub joined: u64,
    /// The number of bytes written to temporary files: by the first partitioning of the rows, and for results.
    pub spilled: u64,
}

impl Join<'_> {
    /// The schema of the result for tables with these schemas.
    ///
    /// # Errors
    /// [`Error::Arrow`] for a column that does not exist, or for a result column of keys whose types differ.
    pub fn schema(&self, left: &Schema, right: &Schema) -> Result<SchemaRef> {
        let wrong = |what: String| Error::Arrow(ArrowError::SchemaError(what));
        let field = |of: &Schema, at: usize| match of.fields().get(at) {
            Some(field) => Ok(self.field(field)),
            None => Err(wrong(format!("column {at} of {}", of.fields().len()))),
        };
        let fields = self.columns.iter().map(|column| match *column {
            Output::Left(at) => field(left, at),
            Output::Right(_) if !self.how.has_right() => Err(wrong(format!("a right column of a {} join", self.how))),
            Output::Right(at) => field(right, at),
            Output::Key(number) => {
                let &(own, other) = self.on.get(number).ok_or_else(|| wrong(format!("key {number}")))?;
                let (own, other) = (field(left, own)?, field(right, other)?);
                let of = plain_type(own.data_type());
                match of == plain_type(other.data_type()) {
                    true => Ok(Arc::new(own.as_ref().clone().with_data_type(of))),
                    false => Err(wrong(format!("a column of keys of {} and {}", own.data_type(), other.data_type()))),
                }
            }
        });
        Ok(Arc::new(Schema::new(fields.collect::<Result<Vec<_>>>()?)))
    }

    /// As [`run`](Self::run), with a prepared right side. Its device looks up the rows, and its key columns are
    /// compared with the left columns of `on`, in their order. The fields `devices` and `nulls` are not used.
    ///
    /// # Errors
    /// As [`run`](Self::run); [`koel::Error::InvalidParameter`] for right and full joins.
    pub fn run_prepared<E: From<Error> + Send>(
        &self,
        left: Batches<'_, E>,
        right: &PreparedJoin,
        mut take: impl FnMut(RecordBatch) -> std::result::Result<(), E>,
    ) -> std::result::Result<JoinedRows, E> {
        if self.how.keeps_right() {
            let (given, advice) = (self.how.to_string(), "join the right table itself");
            return Err(Error::from(koel::Error::InvalidParameter { what: "prepared join", given, advice }).into());
        }
        let schema = self.schema(&left.schema, right.schema())?;
        let left_side = Side::new(&left.schema, self.on.iter().map(|&(own, _)| own).collect(), self.limit)?;
        let left_keys = left_side.keys_of(&RecordBatch::new_empty(Arc::clone(&left_side.unnumbered)))?;
        check_types(&left_keys, right.keys())?;
        let devices = std::slice::from_ref(right.device());
        let mut pairing = Pairing::new(self, schema, self.limit.each(devices, 0), Hashing::new(self.nulls));
        let rows = RightRows::prepared(right, &pairing.shown(false));
        let (indexed, mut joined) = (Indexed::with(&rows, right.index()), 0);
        let mut take = |batch: RecordBatch| {
            joined += batch.num_rows() as u64;
            take(batch)
        };
        let left = match right.device().info().kind {
            DeviceKind::Cpu => pairing.streamed(&left_side, left, &indexed, &mut take)?,
            _ => {
                pairing.on_gpu();
                let (mut rows, bytes) = (0, pairing.limit.device_bytes());
                for batch in left_side.gathered(left, pairing.limit.batch_bytes(), bytes) {
                    let batch = batch?;
                    rows += batch.num_rows() as u64;
                    pairing.whole(&left_side, batch, &indexed, &mut take)?;
                }
                rows
            }
        };
        Ok(JoinedRows { left, right: right.len() as u64, joined, spilled: 0 })
    }

    /// A field of the result. It is nullable, because any row of an outer join may be null.
    fn field(&self, field: &Field) -> Arc<Field> {
        let data_type = self.limit.result_type(field.data_type());
        Arc::new(field.clone().with_data_type(data_type).with_nullable(true))
    }

    /// Joins two tables, and calls `take` with the result in batches, ordered by left row, then by right row. The
    /// calling thread calls `take` and the iterators of the tables. On a single CPU, all threads of rayon's pool run
    /// morsels and look up rows. On other devices, if the right table fits in memory, the calling thread runs the
    /// morsels of the left table, and each GPU looks up several of them at a time.
    ///
    /// Cost: if the right table fits, that of a join in memory, with a few batches of left rows in memory. Otherwise
    /// each row of both tables and of the result is written to a temporary file and read back: once, and once more for
    /// each factor of 32 between the right table and the limit. If the rows of one right key do not fit, the left rows
    /// of that key are read again for each piece of those rows. Tables with known ranges of keys
    /// ([`Batches::of_ranges`]) are joined one range at a time, and both are read once.
    ///
    /// # Errors
    /// As [`join`](fn@crate::join), [`Error::KeyRange`](crate::Error::KeyRange), [`koel::Error::Spill`],
    /// [`koel::Error::InvalidParameter`] if there are no devices, and those of the tables and of `take`, after which
    /// the work stops and temporary files are removed.
    pub fn run<E: From<Error> + Send>(
        &self,
        left: Batches<'_, E>,
        right: Batches<'_, E>,
        mut take: impl FnMut(RecordBatch) -> std::result::Result<(), E>,
    ) -> std::result::Result<JoinedRows, E> {
        let schema = self.schema(&left.schema, &right.schema)?;
        let (left_keys, right_keys) = self.on.iter().copied().unzip();
        let mut left_side = Side::new(&left.schema, left_keys, self.limit)?;
        let mut right_side = Side::new(&right.schema, right_keys, self.limit)?;
        let keys = |side: &Side| side.keys_of(&RecordBatch::new_empty(Arc::clone(&side.unnumbered)));
        let (left_keys, right_keys) = (keys(&left_side)?, keys(&right_side)?);
        check_kinds(&left_keys, &right_keys)?;
        let scales = common_scales(&left_keys, &right_keys)?;
        (left_side.scales, right_side.scales) = (scales.clone(), scales);
        let (devices, hashing) = (some(self.devices)?, Hashing::new(self.nulls));
        let mut pairing = Pairing::new(self, Arc::clone(&schema), self.limit.each(devices, 0), hashing);
        let mut sizes = JoinedRows::default();
        let mut joined = 0;
        let mut take = |batch: RecordBatch| {
            joined += batch.num_rows() as u64;
            take(batch)
        };

        let whole = self.limit.of(devices, 0).of_copies(devices);
        let windows = match self.how.keeps_right() {
            // Right rows without a match follow all others.
            true => None,
            false => Windows::of(self.on, self.nulls, &pairing.limit, devices, (&left, &right))?,
        };
        if let Some(windows) = windows {
            pairing.alone = true;
            let work = |left: &LeftBatch, emit: Emit<'_, RecordBatch>| pairing.merged(&left_side, left, emit);
            let (limit, shown) = (&pairing.limit, pairing.shown(false));
            let left = windows.run(&right_side, limit, &shown, &work, &mut take)?;
            return Ok(JoinedRows { left, right: windows.right_rows(), joined, spilled: 0 });
        }
        match buffer_or_partition(&right_side, right, &mut sizes.right, &whole, hashing, self.watch)? {
            Collected::Buffered(buffered) => {
                let rows = RightRows::new(&right_side, buffered.batches, &pairing.shown(false))?;
                let is_on_cpu = matches!(devices, [device] if device.info().kind == DeviceKind::Cpu);
                let are_cpus = devices.iter().all(|device| device.info().kind == DeviceKind::Cpu);
                if !are_cpus {
                    pairing.on_gpu();
                }
                pairing.alone = is_on_cpu && left.morsels.size_hint().0 >= 2 * rayon::current_num_threads();
                let on_each = Work {
                    begin: &|device| Indexed::new(device, &rows, pairing.how, pairing.nulls),
                    work: &|indexed: &mut Indexed<'_>, batch: RecordBatch, emit: Emit<'_, RecordBatch>| {
                        pairing.whole(&left_side, batch, indexed, emit)
                    },
                };
                let indexed = match devices {
                    [device] if is_on_cpu => {
                        let indexed = (on_each.begin)(device)?;
                        sizes.left = pairing.streamed(&left_side, left, &indexed, &mut take)?;
                        vec![indexed]
                    }
                    _ => {
                        // Each device processes a batch, and takes the next one when it has finished.
                        let bytes = whole.batch_bytes();
                        let pieces = left_side.gathered(left, bytes, if are_cpus { 0 } else { whole.device_bytes() });
                        let mut pieces = pieces.inspect(|piece| {
                            sizes.left += piece.as_ref().map_or(0, |piece| piece.num_rows() as u64);
                        });
                        shared_out(devices, 2 * devices.len(), &mut pieces, &mut |_| (), &on_each, &mut take)?
                    }
                };
                pairing.rest(&indexed, take)?;
            }
            Collected::Partitioned(right_parts) => {
                pairing.schema = numbered_schema(&schema);
                let mut left_parts = Parts::new(&pairing.limit)?;
                left_side.read(left, &whole, &mut sizes.left, &mut |batch, first, _| {
                    let batch = with_numbers(&left_side.schema, &batch, first)?;
                    Ok(left_parts.partition(&left_side, &batch, hashing)?)
                })?;
                let (files, mut runs) = (pairing.files()?, Runs::default());
                let on_each = Work {
                    begin: &Ok,
                    work: &|device: &mut &Any, part: usize, emit: Emit<'_, Runs>| {
                        let mut results = Results::new(device, &files);
                        pairing.join((&left_side, &left_parts), (&right_side, &right_parts), part, &mut results)?;
                        emit(results.runs)
                    },
                };
                let parts = left_parts.parts.len();
                let mut front = |part| (self.watch)(Stage::Part(part + 1, parts));
                let mut items = (0..parts).map(Ok::<_, E>);
                shared_out(devices, parts, &mut items, &mut front, &on_each, &mut |of_part: Runs| {
                    runs.iter_mut().zip(of_part).for_each(|(runs, of_part)| runs.extend(of_part));
                    Ok(())
                })?;
                let written = [&left_parts.spill, &right_parts.spill].into_iter().chain(&files);
                sizes.spilled = written.map(|spill| spill.bytes()).sum();
                drop((left_parts, right_parts));
                (self.watch)(Stage::Merging);
                for (spill, runs) in files.into_iter().zip(runs) {
                    let mut take = |batch: RecordBatch| take(without_numbers(&schema, &batch)?);
                    merged(spill, runs, &pairing.schema, &Order::Numbers, &pairing.limit, &mut take)?;
                }
            }
        }
        sizes.joined = joined;
        Ok(sizes)
    }
}

impl std::fmt::Debug for Join<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Join");
        shown.field("on", &self.on).field("how", &self.how).field("columns", &self.columns);
        shown.field("limit", &self.limit).finish_non_exhaustive()
    }
}
