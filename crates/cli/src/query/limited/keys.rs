//! `koel unique --memory` of keys alone: numbers, and k-mers of sequences.
//!
//! Keys are in a temporary file until it is known of which type they are, and then a column of that type.

use std::time::Instant;

use koel::IdOrder;
use koel::device::Any;
use koel_arrow::external::{GroupBy, Limit, Of};
use koel_arrow::{Function, NullKeys};
use serde_json::json;

use super::Stop;
use super::watched::{Lines, Watched};
use super::words::{Beside, batches, numbers};
use crate::failure::{Failure, Result, Verdict};
use crate::input::{Inputs, ReadOptions, Spooled, Want};
use crate::number::Type;
use crate::options;
use crate::output::{Column, RowOptions};
use crate::progress::Progress;
use crate::text;

/// What is wanted of keys.
pub(crate) struct Keys<'a> {
    pub(crate) counts: bool,
    pub(crate) min_count: u32,
    pub(crate) order: IdOrder,
    pub(crate) output: &'a RowOptions,
    pub(crate) devices: &'a [Any],
    pub(crate) limit: &'a Limit,
    /// The limit that is told.
    pub(crate) memory: Option<u64>,
    /// Letters of keys, if they are k-mers.
    pub(crate) k: Option<u32>,
}

impl Keys<'_> {
    pub(crate) fn run(&self, inputs: Inputs<'_>, reading: &ReadOptions, progress: Progress) -> Result<Verdict> {
        let start = Instant::now();
        let rows = Spooled::read(inputs, reading, Want::Keys)?;
        let (kind, count) = (rows.types().0, rows.len());
        let read_seconds = start.elapsed().as_secs_f64();
        progress.say(format!("finding the distinct keys of {}", text::counted(count, "row")));
        let start = Instant::now();
        let table = batches(rows, kind, Beside::Nothing)?;
        let counted = [Of { function: Function::Count, column: None, name: "count".into() }];
        let is_counted = self.counts || self.min_count > 1;
        let watched = Watched::new(progress, self.output, "finding keys of");
        let group_by = GroupBy {
            devices: self.devices,
            by: &[0],
            aggregates: if is_counted { &counted } else { &[] },
            order: self.order,
            nulls: NullKeys::Group,
            limit: self.limit,
            watch: &|stage| watched.tell(stage),
        };
        let columns = [Column::Of("key", self.output.shown(kind, self.k)), Column::of("count", Type::of_count(count))];
        let mut lines = Lines::open(&watched, columns.into_iter().take(1 + usize::from(self.counts)).collect())?;
        let mut distinct = 0;
        let found = group_by.run(table, |groups| {
            let rows = lines.rows()?;
            let counts = is_counted.then(|| numbers(groups.column(1)));
            for (row, key) in numbers(groups.column(0)).into_iter().enumerate() {
                let count = counts.as_ref().and_then(|counts| counts[row]);
                if count.is_some_and(|count| count < self.min_count.into()) {
                    continue;
                }
                distinct += 1;
                rows.write(&[key, count][..1 + usize::from(self.counts)])?;
            }
            Ok::<_, Stop>(())
        });
        let found = found.map_err(|stop| stop.told(Failure::from))?;
        lines.finish()?;
        drop(watched);
        let sentence = format!("{} of {}", text::counted(distinct, "key"), text::counted(count, "row"));
        self.output.summarize(&sentence, || {
            json!({
                "rows": count, "keys": distinct, "ids": self.order.name(), "min_count": self.min_count,
                "device": options::ids(self.devices), "memory": self.memory, "spilled_bytes": found.spilled,
                "seconds": { "read": read_seconds, "unique": start.elapsed().as_secs_f64() },
            })
        })?;
        Ok(Verdict::Fine)
    }
}
