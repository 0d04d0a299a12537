//! `koel join --on`: rows of two tables whose columns are equal.
//!
//! ```text
//! columns    left ones, then right ones without the keys; a right one whose name is taken has the suffix
//! keys       of the left side; of a right row without a partner (right, full) its own, under the left names. Where the
//!            types of both differ there is no column for both, and the right key comes out as well
//! semi, anti columns of the left side alone
//! ```

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{Field, Schema};
use arrow_select::zip::zip;
use koel::JoinKind;
use koel::backend::HashBackend;
use koel_arrow::{Column, Joined, Keys, RightKeys, check_types};
use serde_json::json;

use super::{CHUNK, Loaded, Nulls, On, Picked, check_distinct, wanted_columns};
use crate::failure::{Failure, Result, Verdict};
use crate::options::OneDevice;
use crate::output::RowOptions;
use crate::progress::Progress;
use crate::tables::TableReading;
use crate::tables::read::{Source, wanted};
use crate::tables::write::Sink;
use crate::text;

/// What is for rows `key,value` alone: how they are read, and the table that is made of their keys.
const KEY_VALUE_OPTIONS: [&str; 27] = [
    "rows",
    "kmer",
    "canonical_kmers",
    "other_letters",
    "keys",
    "values",
    "scheme",
    "kind",
    "load",
    "capacity",
    "slots",
    "seed",
    "functions",
    "bucket_slots",
    "hash",
    "reinsertion",
    "insertion",
    "lookup_mode",
    "reach",
    "tags",
    "bits",
    "height",
    "iterations",
    "sequence",
    "max_ages",
    "keys_alone",
    "extent",
];

/// Which columns are compared, and which come out.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Columns")]
pub(crate) struct Options {
    /// Join tables by these columns, separated by commas: NAME, or LEFT=RIGHT where the names differ. Files are Parquet,
    /// Arrow IPC, CSV, TSV or .npy, and columns of any types
    #[arg(long, value_name = "NAME,..", value_delimiter = ',', value_parser = super::on)]
    #[arg(conflicts_with_all = KEY_VALUE_OPTIONS)]
    pub(crate) on: Option<Vec<On>>,
    /// Columns of the result, by the names that they have there [default: all]
    #[arg(long, value_name = "NAME,..", value_delimiter = ',', requires = "on")]
    columns: Option<Vec<String>>,
    /// What is put behind the name of a right column that a left one has too
    #[arg(long, value_name = "TEXT", default_value = "_right", requires = "on")]
    suffix: String,
    #[command(flatten)]
    nulls: Nulls,
}

/// What `koel join` was asked for, with --on.
pub(crate) struct Job<'a> {
    pub(crate) left: &'a Path,
    pub(crate) right: &'a Path,
    pub(crate) how: JoinKind,
    pub(crate) on: &'a [On],
    pub(crate) options: &'a Options,
    pub(crate) reading: &'a TableReading,
    pub(crate) output: &'a RowOptions,
    pub(crate) device: &'a OneDevice,
}

/// A column of the result, and where it comes from.
struct Out {
    name: String,
    from: From,
}

enum From {
    Left(String),
    /// The key of this number.
    Key(usize),
    Right(String),
}

impl Job<'_> {
    pub(crate) fn run(&self) -> Result<Verdict> {
        // Threads are started as they are asked for before the first file is read by them.
        let device = self.device.open(&[self.left, self.right])?;
        let (left_source, right_source) =
            (Source::open(self.left, self.reading)?, Source::open(self.right, self.reading)?);
        self.reading.check(&[&left_source, &right_source])?;
        // Which keys have two types is known when text has been read: until then all may.
        let outs = self.columns(&left_source, &right_source, |_| true)?;
        let progress = Progress::line();
        let start = Instant::now();
        let left = Loaded::read(&left_source, &self.needed(&left_source, &outs, true), &progress)?;
        let right = Loaded::read(&right_source, &self.needed(&right_source, &outs, false), &progress)?;
        let read_seconds = start.elapsed().as_secs_f64();

        let start = Instant::now();
        let (left_keys, right_keys) = (left.keys(&self.left_names())?, right.keys(&self.right_names())?);
        check_types(&left_keys, &right_keys)?;
        let type_of = |keys: &Keys, at: usize| keys.columns()[at].data_type().clone();
        let outs =
            self.columns(&left_source, &right_source, |at| type_of(&left_keys, at) != type_of(&right_keys, at))?;
        if let Some((_, twice)) =
            outs.iter().enumerate().find(|(i, out)| outs[..*i].iter().any(|other| other.name == out.name))
        {
            return Err(Failure::Input(format!(
                "two columns of the result would be called `{}`: give another --suffix",
                twice.name
            )));
        }
        progress.say(format!("indexing {}", text::counted(right.rows() as u64, "row")));
        let index = RightKeys::new(&device, &right_keys, self.options.nulls.equality())?;
        let index_seconds = start.elapsed().as_secs_f64();

        progress.say(format!("looking up {}", text::counted(left.rows() as u64, "row")));
        let start = Instant::now();
        let result = Assembly::of(&outs, &left, &right, self.on)?;
        let mut sink = Sink::create(self.output.output.as_deref(), &result.schema)?;
        // Rows on a terminal are progress enough.
        let progress = self.output.output.is_some().then_some(progress);
        index.join_pieces(
            &left_keys,
            self.how,
            CHUNK,
            |rows| {
                if let Some(progress) = &progress {
                    progress.rows(rows);
                }
                Ok::<(), Failure>(())
            },
            |rows| sink.write(&result.batch(&rows)?),
        )?;
        let total = sink.finish()?;
        drop(progress);
        let sides = [("left row", left.rows()), ("right row", right.rows())];
        let sides = sides.map(|(what, rows)| text::counted(rows as u64, what)).join(" and ");
        self.output.summarize(&format!("{} of {sides}", text::counted(total, "row")), || {
            json!({
                "how": self.how.name(), "left_rows": left.rows(), "right_rows": right.rows(), "rows": total,
                "device": device.info().id,
                "seconds": { "read": read_seconds, "index": index_seconds, "join": start.elapsed().as_secs_f64() },
            })
        })?;
        Ok(Verdict::Fine)
    }

    fn left_names(&self) -> Vec<String> {
        self.on.iter().map(|on| on.left.clone()).collect()
    }

    fn right_names(&self) -> Vec<String> {
        self.on.iter().map(|on| on.right.clone()).collect()
    }

    /// The columns of the result. Key `i` has two types, of which neither can stand for the other, if `differ(i)`.
    fn columns(&self, left: &Source, right: &Source, differ: impl Fn(usize) -> bool) -> Result<Vec<Out>> {
        let (left_names, right_names) = (self.left_names(), self.right_names());
        check_distinct("--on", &left_names)?;
        check_distinct("--on", &right_names)?;
        for (source, names) in [(left, &left_names), (right, &right_names)] {
            let there = source.columns();
            if let Some(name) = names.iter().find(|name| !there.contains(&name.as_str())) {
                return Err(wanted::missing(source.name(), &there, name));
            }
        }
        // A key of a row without a left one is that of the right one.
        let is_either = |key: &usize| self.how.keeps_right() && !differ(*key);
        let mut outs: Vec<Out> = Vec::new();
        for name in left.columns() {
            let key = left_names.iter().position(|key| key == name).filter(is_either);
            outs.push(Out { name: name.into(), from: key.map_or_else(|| From::Left(name.into()), From::Key) });
        }
        for name in right.columns() {
            let key = right_names.iter().position(|key| key == name);
            if !self.how.has_right() || key.is_some_and(|key| !self.how.keeps_right() || is_either(&key)) {
                continue;
            }
            let taken = left.columns().contains(&name);
            let shown = if taken { format!("{name}{}", self.options.suffix) } else { name.into() };
            outs.push(Out { name: shown, from: From::Right(name.into()) });
        }
        let Some(asked) = &self.options.columns else { return Ok(outs) };
        check_distinct("--columns", asked)?;
        let there: Vec<String> = outs.iter().map(|out| out.name.clone()).collect();
        let mut chosen = Vec::new();
        for name in asked {
            let Some(at) = outs.iter().position(|out| out.name == *name) else {
                return Err(koel_arrow::Error::MissingColumn { column: name.clone(), there }.into());
            };
            chosen.push(outs.remove(at));
        }
        Ok(chosen)
    }

    /// The columns of a file that are read: its keys, and what comes out.
    fn needed(&self, source: &Source, outs: &[Out], is_left: bool) -> Vec<String> {
        let shown: Vec<String> = outs
            .iter()
            .filter_map(|out| match &out.from {
                From::Left(name) if is_left => Some(name.clone()),
                From::Right(name) if !is_left => Some(name.clone()),
                _ => None,
            })
            .collect();
        wanted_columns(source, Some(&shown), &if is_left { self.left_names() } else { self.right_names() })
    }
}

/// How rows of the result are put together.
struct Assembly {
    left: Picked,
    right: Picked,
    /// The columns of each key, left and right, of one type.
    keys: Vec<(Column, Column)>,
    /// Which column of which side each of the result is.
    order: Vec<(Side, usize)>,
    schema: Arc<Schema>,
}

#[derive(Clone, Copy)]
enum Side {
    Left,
    Key,
    Right,
}

impl Assembly {
    fn of(outs: &[Out], left: &Loaded, right: &Loaded, on: &[On]) -> Result<Self> {
        let (mut lefts, mut rights, mut keys) = (Vec::new(), Vec::new(), Vec::new());
        let mut order = Vec::new();
        let mut key_fields = Vec::new();
        for out in outs {
            match &out.from {
                From::Left(name) => {
                    order.push((Side::Left, lefts.len()));
                    lefts.push((name.as_str(), out.name.clone()));
                }
                From::Right(name) => {
                    order.push((Side::Right, rights.len()));
                    rights.push((name.as_str(), out.name.clone()));
                }
                From::Key(at) => {
                    let (own, other) = (left.column(&on[*at].left)?, right.column(&on[*at].right)?);
                    order.push((Side::Key, keys.len()));
                    key_fields.push(Field::new(&out.name, own.data_type().clone(), true));
                    keys.push((own, other));
                }
            }
        }
        let (left, right) = (left.pick(lefts)?, right.pick(rights)?);
        let field = |&(side, at): &(Side, usize)| match side {
            Side::Left => left.fields()[at].clone(),
            Side::Right => right.fields()[at].clone(),
            Side::Key => key_fields[at].clone(),
        };
        let schema = Arc::new(Schema::new(order.iter().map(field).collect::<Vec<_>>()));
        Ok(Assembly { left, right, keys, order, schema })
    }

    /// Rows of the result.
    fn batch(&self, rows: &Joined) -> Result<RecordBatch> {
        let left = self.left.take(&rows.left)?;
        let right = rows.right.as_ref().map_or(Ok(Vec::new()), |rows| self.right.take(rows))?;
        let keys =
            self.keys.iter().map(|(own, other)| either(own, other, rows)).collect::<koel_arrow::Result<Vec<_>>>()?;
        let column = |&(side, at): &(Side, usize)| match side {
            Side::Left => Arc::clone(&left[at]),
            Side::Right => Arc::clone(&right[at]),
            Side::Key => Arc::clone(&keys[at]),
        };
        let columns = self.order.iter().map(column).collect();
        let count = arrow_array::RecordBatchOptions::new().with_row_count(Some(rows.len()));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &count);
        Ok(batch.map_err(koel_arrow::Error::from)?)
    }
}

/// The key of each row: that of the left row, or where there is none of the right one.
fn either(own: &Column, other: &Column, rows: &Joined) -> koel_arrow::Result<ArrayRef> {
    let left = own.take(&rows.left)?;
    let (Some(nulls), Some(right)) = (rows.left.nulls(), &rows.right) else { return Ok(left) };
    let right = other.take(right)?;
    let there = BooleanArray::new(BooleanBuffer::collect_bool(rows.len(), |row| nulls.is_valid(row)), None);
    Ok(zip(&there, &left, &right)?)
}
