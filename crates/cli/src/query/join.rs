//! `koel join`: rows of two tables whose columns are equal. Rows without names are tables `key,left` and `key,right`.
//!
//! ```text
//! columns     the left ones, then the right ones without the keys; a right name that is taken gets the suffix
//! keys        those of the left side; for a right row without a match (right, full) its own keys under the left names.
//!             A key whose types differ has no common column, so the right key is a column of the result as well
//! semi, anti  columns of the left side only
//! ```

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow_buffer::BooleanBuffer;
use arrow_schema::SchemaRef;
use arrow_select::zip::zip;
use koel::JoinKind;
use koel::backend::HashBackend;
use koel_arrow::{Column, Joined, Keys, RightKeys, plain_type};
use serde_json::json;

use super::columns::{Pieces, batch, schema_of};
use super::limited::{self, Memory};
use super::types::{both_keys, common};
use super::{Loaded, Nulls, On, Picked, Reading, Shape, check_distinct, pieces, wanted_columns};
use crate::failure::{Failure, Result, Verdict};
use crate::input::Inputs;
use crate::options::TableDevices;
use crate::options::names::{self, List};
use crate::output::RowOptions;
use crate::progress::Progress;
use crate::tables::read::Source;
use crate::tables::read::rows::{self, KEY, LEFT, Payload, RIGHT};
use crate::tables::write::Sink;
use crate::text;

/// Which columns are compared, and which are returned.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Columns")]
pub(crate) struct Options {
    /// Key columns of two tables: NAME, or LEFT=RIGHT
    ///
    /// Columns whose values are compared, separated by commas, as LEFT=RIGHT if their names differ. The files are
    /// tables in Parquet, Arrow IPC, CSV, TSV, NDJSON or .npy; columns may be of any type.
    #[arg(long, value_name = "NAME,..", value_parser = super::on)]
    #[arg(conflicts_with_all = [
        "rows", "key", "value", "skip_nulls", "kmer", "canonical_kmers", "other_letters", "keys", "values",
    ])]
    on: Option<Vec<List<On>>>,
    /// Columns of the result [default: all]
    ///
    /// By their names in the result, separated by commas.
    #[arg(long, value_name = "NAME,..", value_parser = names::names)]
    columns: Option<Vec<List<String>>>,
    /// Suffix for duplicate names [default: _right]
    ///
    /// Appended to the name of a right column if a left column has the same name.
    #[arg(long, value_name = "TEXT")]
    suffix: Option<String>,
    #[command(flatten)]
    pub(super) nulls: Nulls,
    #[command(flatten)]
    pub(crate) memory: Memory,
}

/// The key columns of rows without column names.
pub(crate) fn keys() -> Vec<On> {
    vec![On { left: KEY.into(), right: KEY.into() }]
}

/// A run of `koel join`.
pub(crate) struct Job<'a> {
    /// The files of each side.
    pub(crate) left: &'a [PathBuf],
    pub(crate) right: &'a [PathBuf],
    pub(crate) how: JoinKind,
    pub(crate) on: &'a [On],
    pub(crate) options: &'a Options,
    pub(crate) reading: Reading<'a>,
    pub(crate) output: &'a RowOptions,
    pub(crate) device: &'a TableDevices,
}

/// A column of the result, and its source.
pub(super) struct Out {
    pub(super) name: String,
    pub(super) from: From,
}

pub(super) enum From {
    Left(String),
    /// The key with this number.
    Key(usize),
    Right(String),
}

impl Options {
    /// The key columns.
    pub(crate) fn on(&self) -> Option<Vec<On>> {
        names::all(self.on.as_ref())
    }

    pub(super) fn columns(&self) -> Option<Vec<String>> {
        names::all(self.columns.as_ref())
    }

    /// The name of a right column in the result.
    pub(super) fn name_of_right(&self, name: &str, is_taken: bool) -> String {
        if is_taken { format!("{name}{}", self.suffix.as_deref().unwrap_or("_right")) } else { name.into() }
    }

    /// Refuses options that require --on.
    pub(crate) fn check_unused(&self) -> Result<()> {
        super::check_unused("--on", "--columns", self.columns.is_some())?;
        super::check_unused("--on", "--suffix", self.suffix.is_some())?;
        super::check_unused("--on", "--nulls-equal", self.nulls.is_given())
    }
}

impl Job<'_> {
    pub(crate) fn run(&self) -> Result<Verdict> {
        // Start the requested number of threads before they read the first file.
        let mut devices = self.device.open()?;
        let progress = Progress::line();
        let (left_source, right_source) = self.sources()?;
        let sources = [&left_source, &right_source];
        super::check_on(self.on, sources)?;
        if let Some(requested) = self.options.columns() {
            check_distinct("--columns", &requested)?;
        }
        let shape = Shape::of_join(&left_source, self.output, self.how);
        // Which keys have two types is known only when text has been read: until then, assume all or none.
        let is_streamed = self.device.are_several() || limited::join::pays(self, &devices, sources)?;
        if let Some(limit) = self.options.memory.limit(is_streamed) {
            return limited::join::run(self, &devices, sources, &shape, &limit, progress);
        }
        let device = devices.swap_remove(0);
        let [left_needed, right_needed] = self.needed(sources);
        let start = Instant::now();
        let mut left = Loaded::read(&left_source, &left_needed, Pieces::Many)?;
        let mut right = Loaded::read(&right_source, &right_needed, Pieces::One)?;
        let read_seconds = start.elapsed().as_secs_f64();

        let start = Instant::now();
        let (left_keys, right_keys) = both_keys(sources, &mut left, &mut right, self.on)?;
        let type_of = |keys: &Keys, at: usize| plain_type(keys.columns()[at].data_type());
        let outs = self.columns(sources, |at| type_of(&left_keys, at) != type_of(&right_keys, at));
        let outs = self.chosen(outs)?;
        progress.say(format!("indexing {}", text::counted(right.rows() as u64, "row")));
        let index = RightKeys::new(&device, &right_keys, self.options.nulls.equality())?;
        let index_seconds = start.elapsed().as_secs_f64();

        progress.say(format!("looking up {}", text::counted(left.rows() as u64, "row")));
        let start = Instant::now();
        let result = Assembly::of(&outs, &left, &right, self.on)?;
        let mut sink = Sink::create(self.output.place(), &shape.schema(&result.schema))?;
        let (mut progress, mut begun) = (Some(progress), None);
        index.join_pieces(
            &left_keys,
            self.how,
            pieces::CHUNK,
            |rows| {
                begun = progress.take().and_then(|progress| pieces::progress_of(progress, self.output, rows));
                Ok::<(), Failure>(())
            },
            |rows| {
                pieces::write(&mut sink, rows.len(), &shape, |range| {
                    result.batch(&rows.slice(range.start, range.len()))
                })
            },
        )?;
        let total = sink.finish()?;
        drop(begun);
        let (sides, before) = ([left.rows() as u64, right.rows() as u64], Some([read_seconds, index_seconds]));
        self.summarize(device.info().id.clone(), sides, total, 0, before, start)
    }

    /// Reports the number of rows of the result and of both sides. `before` is the number of seconds that reading both
    /// sides and indexing the right side took, if it is known.
    pub(super) fn summarize(
        &self,
        device: String,
        [left, right]: [u64; 2],
        rows: u64,
        spilled: u64,
        before: Option<[f64; 2]>,
        start: Instant,
    ) -> Result<Verdict> {
        let sides = [("left row", left), ("right row", right)].map(|(what, rows)| text::counted(rows, what));
        let sentence = format!("{} of {}", text::counted(rows, "row"), sides.join(" and "));
        self.output.summarize(&sentence, || {
            let [read, index] = before.map_or([None; 2], |seconds| seconds.map(Some));
            json!({
                "how": self.how.name(), "left_rows": left, "right_rows": right, "rows": rows, "device": device,
                "memory": self.options.memory.bytes(), "spilled_bytes": spilled,
                "seconds": { "read": read, "index": index, "join": start.elapsed().as_secs_f64() },
            })
        })?;
        Ok(Verdict::Fine)
    }

    /// The files of both sides.
    fn sources(&self) -> Result<(Source, Source)> {
        let (options, payload, is_spooled) = match self.reading {
            Reading::Named(reading) => {
                let mut left = Source::open_all(self.left, reading)?;
                let mut right = Source::open_all(self.right, reading)?;
                if self.output.place().is_text() {
                    let [of_left, of_right] = On::sides(self.on);
                    left.keep_text(&of_left);
                    right.keep_text(&of_right);
                }
                reading.check(&[&left, &right])?;
                return Ok((left, right));
            }
            Reading::Rows { options, payload, is_spooled } => (options, payload, is_spooled),
        };
        let (left, right) = (Inputs::open(self.left)?, Inputs::open(self.right)?);
        Inputs::check(&[&left, &right], options)?;
        self.output.check_letters(left.letters(options).and(right.letters(options)))?;
        let left = rows::read(left, options, payload, is_spooled)?;
        let of_right = if self.how.has_right() { payload } else { Payload::Nothing };
        let right = rows::read(right, options, of_right, is_spooled)?;
        let keys = common([left.keys(), right.keys()])?;
        Ok((left.into_source(keys, LEFT), right.into_source(keys, RIGHT)))
    }

    /// All columns of the result. If `differ(i)`, key `i` has two types, neither of which includes the other.
    pub(super) fn columns(&self, [left, right]: [&Source; 2], differ: impl Fn(usize) -> bool) -> Vec<Out> {
        // A key of a row without a left row is that of the right row.
        let is_either = |key: &usize| self.how.keeps_right() && !differ(*key);
        let mut outs: Vec<Out> = Vec::new();
        for name in left.columns() {
            let key = self.on.iter().position(|on| on.left == name).filter(is_either);
            outs.push(Out { name: name.into(), from: key.map_or_else(|| From::Left(name.into()), From::Key) });
        }
        let of_left: HashSet<&str> = left.columns().into_iter().collect();
        for name in right.columns() {
            let key = self.on.iter().position(|on| on.right == name);
            if !self.how.has_right() || key.is_some_and(|key| !self.how.keeps_right() || is_either(&key)) {
                continue;
            }
            let shown = self.options.name_of_right(name, of_left.contains(name));
            outs.push(Out { name: shown, from: From::Right(name.into()) });
        }
        outs
    }

    /// The requested columns, in that order, or all.
    pub(super) fn chosen(&self, mut outs: Vec<Out>) -> Result<Vec<Out>> {
        let requested = self.options.columns();
        let is_requested = |out: &&Out| requested.as_ref().is_none_or(|requested| requested.contains(&out.name));
        pieces::check_names(outs.iter().filter(is_requested).map(|out| out.name.as_str()), "give another --suffix")?;
        let Some(requested) = requested else { return Ok(outs) };
        let there: Vec<String> = outs.iter().map(|out| out.name.clone()).collect();
        let take = |name: &String| match outs.iter().position(|out| out.name == *name) {
            Some(at) => Ok(outs.swap_remove(at)),
            None => Err(koel_arrow::Error::MissingColumn { column: name.clone(), there: there.clone() }.into()),
        };
        requested.iter().map(take).collect()
    }

    /// The columns of each file that are read: its keys, and columns that may be in the result.
    pub(super) fn needed(&self, sources: [&Source; 2]) -> [Vec<String>; 2] {
        let requested = self.options.columns();
        let mut shown = [Vec::new(), Vec::new()];
        for out in self.columns(sources, |_| true) {
            if requested.as_ref().is_none_or(|requested| requested.contains(&out.name)) {
                match out.from {
                    From::Left(name) => shown[0].push(name),
                    From::Right(name) => shown[1].push(name),
                    From::Key(_) => (),
                }
            }
        }
        let [left, right] = On::sides(self.on);
        [wanted_columns(&shown[0], &left), wanted_columns(&shown[1], &right)]
    }
}

/// How the columns of the result are assembled.
struct Assembly {
    left: Picked,
    right: Picked,
    /// The left and right columns of each key whose types are equal.
    keys: Vec<(Column, Column)>,
    /// The side and the position of each column of the result.
    order: Vec<(Side, usize)>,
    schema: SchemaRef,
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
                    order.push((Side::Key, keys.len()));
                    let On { left: own, right: other } = &on[*at];
                    // The values of two dictionaries may be too many for one.
                    let both = (left.column(own)?.plain()?, right.column(other)?.plain()?);
                    let field = left.field(own)?.clone().with_name(&out.name);
                    key_fields.push(field.with_data_type(both.0.data_type().clone()));
                    keys.push(both);
                }
            }
        }
        let (left, right) = (left.pick(lefts)?, right.pick(rights)?);
        let field = |&(side, at): &(Side, usize)| match side {
            Side::Left => left.fields()[at].clone(),
            Side::Right => right.fields()[at].clone(),
            Side::Key => key_fields[at].clone(),
        };
        let schema = schema_of(order.iter().map(field).collect());
        Ok(Assembly { left, right, keys, order, schema })
    }

    /// Rows of the result.
    fn batch(&self, rows: &Joined) -> koel_arrow::Result<RecordBatch> {
        let left = self.left.take(&rows.left)?;
        let right = rows.right.as_ref().map_or(Ok(Vec::new()), |rows| self.right.take(rows))?;
        let keys =
            self.keys.iter().map(|(own, other)| either(own, other, rows)).collect::<koel_arrow::Result<Vec<_>>>()?;
        let column = |&(side, at): &(Side, usize)| match side {
            Side::Left => Arc::clone(&left[at]),
            Side::Right => Arc::clone(&right[at]),
            Side::Key => Arc::clone(&keys[at]),
        };
        batch(&self.schema, self.order.iter().map(column).collect(), rows.len())
    }
}

/// The key of each row: that of the left row, or of the right row if there is no left one.
fn either(own: &Column, other: &Column, rows: &Joined) -> koel_arrow::Result<ArrayRef> {
    let left = own.take(&rows.left)?;
    let (Some(nulls), Some(right)) = (rows.left.nulls(), &rows.right) else { return Ok(left) };
    let right = other.take(right)?;
    let there = BooleanArray::new(BooleanBuffer::collect_bool(rows.len(), |row| nulls.is_valid(row)), None);
    Ok(zip(&there, &left, &right)?)
}
