//! `koel groupby --memory` of rows `key,value`.

use std::time::Instant;

use koel::device::Any;
use koel::{Aggregate, IdOrder};
use koel_arrow::external::{GroupBy, Limit, Of};
use koel_arrow::{Error, Function, NullKeys};
use serde_json::json;

use super::Stop;
use super::watched::{Lines, Watched};
use super::words::{Beside, batches, numbers};
use crate::failure::{Failure, Result, Verdict};
use crate::groupby;
use crate::input::{Inputs, ReadOptions, Spooled, Want};
use crate::options;
use crate::output::RowOptions;
use crate::progress::Progress;
use crate::text;

/// What is wanted of rows.
pub(crate) struct Grouped<'a> {
    pub(crate) aggregates: &'a [Aggregate],
    pub(crate) min_count: Option<u32>,
    pub(crate) order: IdOrder,
    pub(crate) output: &'a RowOptions,
    pub(crate) devices: &'a [Any],
    pub(crate) limit: &'a Limit,
    /// The limit that is told.
    pub(crate) memory: Option<u64>,
    /// Letters of keys, if they are k-mers.
    pub(crate) k: Option<u32>,
}

impl Grouped<'_> {
    pub(crate) fn run(
        &self,
        inputs: Inputs<'_>,
        reading: &ReadOptions,
        want: Want,
        progress: Progress,
    ) -> Result<Verdict> {
        let start = Instant::now();
        let rows = Spooled::read(inputs, reading, want)?;
        let ((keys_are, values_are), count) = (rows.types(), rows.len());
        let read_seconds = start.elapsed().as_secs_f64();
        progress.say(format!("grouping {}", text::counted(count, "row")));
        let start = Instant::now();
        // Counts come last where they are not asked for, and say which groups stay.
        let is_counted = self.min_count.is_some() && !self.aggregates.contains(&Aggregate::Count);
        let counts = is_counted.then_some(Aggregate::Count);
        let wanted: Vec<Of> = self.aggregates.iter().copied().chain(counts).map(of).collect::<Result<_>>()?;
        let count_at = 1 + wanted.iter().position(|of| of.function == Function::Count).unwrap_or_default();
        let least = i128::from(self.min_count.unwrap_or(1));
        let watched = Watched::new(progress, self.output, "grouping");
        let group_by = GroupBy {
            devices: self.devices,
            by: &[0],
            aggregates: &wanted,
            order: self.order,
            nulls: NullKeys::Group,
            limit: self.limit,
            watch: &|stage| watched.tell(stage),
        };
        let columns = groupby::columns(self.aggregates, self.output.shown(keys_are, self.k), values_are, count);
        let width = columns.len();
        let mut lines = Lines::open(&watched, columns)?;
        let (mut left, mut cells) = (0, Vec::with_capacity(width));
        let found = group_by.run(batches(&rows, keys_are, Beside::Values)?, |groups| {
            let out = lines.rows()?;
            let all: Vec<_> = groups.columns().iter().map(numbers).collect();
            for row in 0..groups.num_rows() {
                if least > 1 && all[count_at][row] < Some(least) {
                    continue;
                }
                left += 1;
                cells.clear();
                cells.extend(all[..width].iter().map(|column| column[row]));
                out.write(&cells)?;
            }
            Ok::<_, Stop>(())
        });
        let found = found.map_err(|stop| {
            stop.told(|error| match error {
                Error::Overflow { .. } => {
                    Failure::Input(format!("a sum of values of one key does not fit 64 bits: {}", groupby::SUMS_ADVICE))
                }
                other => other.into(),
            })
        })?;
        lines.finish()?;
        drop(watched);
        let sentence = format!("{} of {}", text::counted(left, "group"), text::counted(count, "row"));
        self.output.summarize(&sentence, || {
            json!({
                "rows": count, "groups": left, "ids": self.order.name(), "min_count": self.min_count,
                "device": options::ids(self.devices), "memory": self.memory, "spilled_bytes": found.spilled,
                "aggregates": self.aggregates.iter().map(|aggregate| aggregate.name()).collect::<Vec<_>>(),
                "types": { "keys": keys_are.name(), "values": values_are.name() },
                "seconds": { "read": read_seconds, "group": start.elapsed().as_secs_f64() },
            })
        })?;
        Ok(Verdict::Fine)
    }
}

fn of(aggregate: Aggregate) -> Result<Of> {
    let (function, column) = match aggregate {
        Aggregate::Count => (Function::Count, None),
        Aggregate::Sum => (Function::Sum, Some(1)),
        Aggregate::Mean => (Function::Mean, Some(1)),
        Aggregate::Min => (Function::Min, Some(1)),
        Aggregate::Max => (Function::Max, Some(1)),
        other => return Err(Failure::Input(format!("{} is unknown here", other.name()))),
    };
    Ok(Of { function, column, name: aggregate.name().into() })
}
