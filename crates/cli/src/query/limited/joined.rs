//! `koel join --memory` of rows `key,value`.

use std::time::Instant;

use koel::JoinKind;
use koel::device::Any;
use koel_arrow::NullEquality;
use koel_arrow::external::{Join, Limit, Output};
use serde_json::json;

use super::Stop;
use super::watched::{Lines, Watched};
use super::words::{Payload, batches, numbers};
use crate::failure::{Failure, Result, Verdict};
use crate::input::Spooled;
use crate::number::Type;
use crate::options;
use crate::output::{Column, RowOptions, Shown};
use crate::progress::Progress;
use crate::text;

/// What is joined, and how.
pub(crate) struct Joined<'a> {
    pub(crate) how: JoinKind,
    /// Whether numbers of rows come out in place of values.
    pub(crate) rows: bool,
    pub(crate) output: &'a RowOptions,
    pub(crate) devices: &'a [Any],
    pub(crate) limit: &'a Limit,
    /// The memory limit of the options.
    pub(crate) memory: Option<u64>,
    /// Letters of keys, if they are k-mers.
    pub(crate) k: Option<u32>,
    pub(crate) read_seconds: f64,
}

impl Joined<'_> {
    /// Joins rows whose keys are compared as numbers of this type; `columns` are those of the result, of keys and
    /// values that are such numbers.
    pub(crate) fn run(
        &self,
        [left, right]: [Spooled; 2],
        keys: Type,
        columns: impl Fn(Shown, Type, Type) -> Vec<Column>,
        progress: Progress,
    ) -> Result<Verdict> {
        let start = Instant::now();
        let sizes = [left.len(), right.len()];
        progress.say(format!("joining {}", sizes.map(|rows| text::counted(rows, "row")).join(" with ")));
        let value = |of: &Spooled| if self.rows { Type::of_count(of.len()) } else { of.types().1 };
        let columns = columns(self.output.shown(keys, self.k), value(&left), value(&right));
        let payload = || if self.rows { Payload::Rows } else { Payload::Values };
        let of_right = if self.how.has_right() { payload() } else { Payload::Nothing };
        let outs: &[Output] = match (self.how.has_right(), self.how.keeps_right()) {
            (false, _) => &[Output::Left(0), Output::Left(1)],
            (true, false) => &[Output::Left(0), Output::Left(1), Output::Right(1)],
            (true, true) => &[Output::Key(0), Output::Left(1), Output::Right(1)],
        };
        let watched = Watched::new(progress, self.output, "joining");
        let watch = |stage| watched.show(stage);
        let join = Join {
            devices: self.devices,
            on: &[(0, 0)],
            how: self.how,
            nulls: NullEquality::NothingEquals,
            columns: outs,
            limit: self.limit,
            watch: &watch,
        };
        let mut lines = Lines::open(&watched, columns)?;
        let mut cells = Vec::with_capacity(outs.len());
        let rows = join.run(batches(&left, keys, payload())?, batches(&right, keys, of_right)?, |piece| {
            let out = lines.rows()?;
            let all: Vec<_> = piece.columns().iter().map(numbers).collect();
            for row in 0..piece.num_rows() {
                cells.clear();
                cells.extend(all.iter().map(|column| column[row]));
                out.write(&cells)?;
            }
            Ok::<_, Stop>(())
        });
        let rows = rows.map_err(|stop| stop.into_failure(Failure::from))?;
        lines.finish()?;
        drop(watched);
        let sides = [("left row", rows.left), ("right row", rows.right)];
        let sides = sides.map(|(what, rows)| text::counted(rows, what)).join(" and ");
        self.output.summarize(&format!("{} of {sides}", text::counted(rows.joined, "row")), || {
            json!({
                "how": self.how.name(), "left_rows": rows.left, "right_rows": rows.right, "rows": rows.joined,
                "device": options::ids(self.devices), "memory": self.memory, "spilled_bytes": rows.spilled,
                "seconds": { "read": self.read_seconds, "join": start.elapsed().as_secs_f64() },
            })
        })?;
        Ok(Verdict::Fine)
    }
}
