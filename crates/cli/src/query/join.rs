//! `koel join`: rows of two tables whose columns are equal. Rows without names are tables `key,left` and `key,right`.
//!
//! ```text
//! columns     the left ones, then the right ones without the keys; a right name that is taken gets the suffix
//! keys        those of the left side; for a right row without a match (right, full) its own keys under the left names.
//!             A key whose types differ has no common column, so the right key is a column of the result as well
//! semi, anti  columns of the left side only
//! ```

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::time::Instant;

use koel::JoinKind;
use koel_arrow::external::{Join, Output};
use koel_arrow::plain_type;
use serde_json::json;

use super::columns::{Places, places, renamed, wanted_columns};
use super::inputs::{Ranges, Resources, Rows, Stop, ranges};
use super::results::Watched;
use super::types::{check_keys, common, give_types, to_failure};
use super::{Memory, Nulls, On, Reading, Shape, check_distinct, check_names};
use crate::failure::{Result, Verdict};
use crate::input::Inputs;
use crate::options::names::{self, List};
use crate::options::{self, TableDevices};
use crate::output::RowOptions;
use crate::progress::Progress;
use crate::tables::read::Source;
use crate::tables::read::rows::{self, KEY, LEFT, Payload, RIGHT};
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
        let devices = &self.device.open()?;
        let progress = Progress::line();
        let (left_source, right_source) = self.sources()?;
        let sources = [&left_source, &right_source];
        super::check_on(self.on, sources)?;
        if let Some(requested) = self.options.columns() {
            check_distinct("--columns", &requested)?;
        }
        let shape = Shape::of_join(&left_source, self.output, self.how);
        let start = Instant::now();
        let resources = Resources { memory: &self.options.memory, devices, are_several: self.device.are_several() };
        let [left_needed, right_needed] = self.needed(sources);
        let limit = &resources.limit(&[(sources[0], &left_needed), (sources[1], &right_needed)])?;
        let mut left = resources.open(sources[0], left_needed)?.rows()?;
        let mut right = resources.open(sources[1], right_needed)?.rows()?;
        let read_seconds = start.elapsed().as_secs_f64();

        let start = Instant::now();
        let [own, other] = On::sides(self.on);
        let on: Vec<(usize, usize)> =
            places(left.schema(), &own)?.into_iter().zip(places(right.schema(), &other)?).collect();
        give_types([&mut left, &mut right], &on);
        check_keys(left.schema(), right.schema(), &on).map_err(|error| to_failure(error, sources))?;
        let ranges = self.ranges(sources, [&left, &right])?;
        let type_of = |rows: &Rows<'_>, at: usize| plain_type(rows.schema().field(at).data_type());
        let differ = |key: usize| type_of(&left, on[key].0) != type_of(&right, on[key].1);
        let outs = self.chosen(self.columns(sources, differ))?;
        let columns: Vec<Output> = {
            let (of_left, of_right) = (Places::new(left.schema()), Places::new(right.schema()));
            let output = |out: &Out| match &out.from {
                From::Left(name) => of_left.of(name).map(Output::Left),
                From::Right(name) => of_right.of(name).map(Output::Right),
                From::Key(at) => Ok(Output::Key(*at)),
            };
            outs.iter().map(output).collect::<Result<_>>()?
        };
        let watched = Watched::new(progress, self.output, "joining");
        let watch = |stage| watched.show(stage);
        let nulls = self.options.nulls.equality();
        let join = Join { devices, on: &on, how: self.how, nulls, columns: &columns, limit, watch: &watch };
        let schema = renamed(&*join.schema(left.schema(), right.schema())?, outs.iter().map(|out| &out.name));
        let mut results = watched.results(&shape.schema(&schema), limit)?;
        let [of_left, of_right] = ranges;
        let (left, right) = (left.into_ranges(limit, of_left), right.into_ranges(limit, of_right));
        let rows = join.run(left, right, |rows| Ok(results.write(&shape.batch(rows)?)?));
        let rows = rows.map_err(|stop: Stop| stop.into_failure(|error| to_failure(error, sources)))?;
        let total = results.finish()?;
        let sides = [("left row", rows.left), ("right row", rows.right)].map(|(what, rows)| text::counted(rows, what));
        let sentence = format!("{} of {}", text::counted(total, "row"), sides.join(" and "));
        self.output.summarize(&sentence, || {
            json!({
                "how": self.how.name(), "left_rows": rows.left, "right_rows": rows.right, "rows": total,
                "device": options::ids(devices), "memory": self.options.memory.bytes(),
                "spilled_bytes": rows.spilled,
                "seconds": { "read": read_seconds, "join": start.elapsed().as_secs_f64() },
            })
        })?;
        Ok(Verdict::Fine)
    }

    /// The ranges of the key in the parts of each side, for a single key. Under a limit, only if rows have a known
    /// length: the footer may not state the length of texts, so it does not show whether rows fit.
    fn ranges(&self, sources: [&Source; 2], sides: [&Rows<'_>; 2]) -> Result<[Option<Ranges>; 2]> {
        let is_known = |rows: &Rows<'_>| {
            let mut types = rows.schema().fields().iter().map(|field| field.data_type());
            !self.options.memory.is_given() || types.all(|of| of.primitive_width().is_some())
        };
        match self.on {
            [on] if sides.into_iter().all(is_known) => Ok([
                ranges(sources[0], sides[0].schema(), &on.left)?,
                ranges(sources[1], sides[1].schema(), &on.right)?,
            ]),
            _ => Ok([None, None]),
        }
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
    pub(super) fn chosen(&self, outs: Vec<Out>) -> Result<Vec<Out>> {
        let requested = self.options.columns();
        let is_requested = among(requested.as_deref());
        let names = outs.iter().map(|out| out.name.as_str());
        check_names(names.clone().filter(|name| is_requested(name)), "give another --suffix")?;
        let Some(requested) = &requested else { return Ok(outs) };
        let there: Vec<String> = names.map(Into::into).collect();
        let mut outs: HashMap<String, Out> = outs.into_iter().map(|out| (out.name.clone(), out)).collect();
        let missing =
            |column: &String| koel_arrow::Error::MissingColumn { column: column.clone(), there: there.clone() };
        requested.iter().map(|name| Ok(outs.remove(name).ok_or_else(|| missing(name))?)).collect()
    }

    /// The columns of each file that are read: its keys, and columns that may be in the result.
    pub(super) fn needed(&self, sources: [&Source; 2]) -> [Vec<String>; 2] {
        let requested = self.options.columns();
        let is_requested = among(requested.as_deref());
        let mut shown = [Vec::new(), Vec::new()];
        for out in self.columns(sources, |_| true) {
            if is_requested(&out.name) {
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

/// Returns a predicate: whether a name is one of `names`. Without names, it accepts every name.
fn among(names: Option<&[String]>) -> impl Fn(&str) -> bool {
    let names: Option<HashSet<&str>> = names.map(|names| names.iter().map(String::as_str).collect());
    move |name| names.as_ref().is_none_or(|names| names.contains(name))
}
