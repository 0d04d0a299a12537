//! Results on their way out, and the line that says what is being done meanwhile.

use std::cell::RefCell;
use std::path::Path;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use arrow_select::coalesce::BatchCoalescer;
use koel_arrow::Error;
use koel_arrow::external::{Limit, Stage};

use super::super::columns::batch;
use super::super::pieces::BATCH;
use crate::failure::Result;
use crate::output::RowOptions;
use crate::progress::Progress;
use crate::tables::write::{Flushed, Sink};

/// The line of progress.
pub(super) struct Watched<'a> {
    progress: RefCell<Option<Progress>>,
    output: &'a RowOptions,
    /// What is done with a part.
    doing: &'static str,
}

impl<'a> Watched<'a> {
    pub(super) fn new(progress: Progress, output: &'a RowOptions, doing: &'static str) -> Self {
        Watched { progress: RefCell::new(Some(progress)), output, doing }
    }

    pub(super) fn tell(&self, stage: Stage) {
        let what = match stage {
            Stage::Dealing => "writing temporary files".into(),
            Stage::Part(part, parts) => format!("{} part {part} of {parts}", self.doing),
            _ => "putting rows in order".into(),
        };
        if let Some(progress) = &*self.progress.borrow() {
            progress.say(what);
        }
    }

    /// Where rows of this schema go.
    pub(super) fn results(&self, schema: &SchemaRef, limit: &Limit) -> Result<Results<'_>> {
        self.results_in(self.output.output.as_deref(), schema, limit)
    }

    /// The same, in this file.
    pub(super) fn results_in(&self, path: Option<&Path>, schema: &SchemaRef, limit: &Limit) -> Result<Results<'_>> {
        let ends = path.is_none().then_some(&self.progress);
        let waiting = BatchCoalescer::new(SchemaRef::clone(schema), BATCH);
        Ok(Results { ends, sink: Sink::create(path, schema)?, waiting, most: limit.bytes() / 4 })
    }
}

/// Rows on their way out, in batches as they are without a limit, if rows are not very long: where pages of Parquet end is a
/// matter of these.
pub(super) struct Results<'a> {
    /// The line, where rows end it: on a terminal they are progress enough.
    ends: Option<&'a RefCell<Option<Progress>>>,
    sink: Sink,
    waiting: BatchCoalescer,
    /// Bytes of rows that wait.
    most: u64,
}

impl Results<'_> {
    /// Writes rows, under the names that they have in the result.
    pub(super) fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        if let Some(progress) = self.ends {
            progress.take();
        }
        let rows = batch(&self.waiting.schema(), rows.columns().to_vec(), rows.num_rows())?;
        self.waiting.push_batch(rows).map_err(Error::from)?;
        // Long rows do not wait for others.
        if self.waiting.size() as u64 > self.most {
            self.waiting.finish_buffered_batch().map_err(Error::from)?;
        }
        self.put()
    }

    fn put(&mut self) -> Result<()> {
        while let Some(rows) = self.waiting.next_completed_batch() {
            self.sink.write(&rows)?;
        }
        Ok(())
    }

    /// Writes what is left and gives the file its name. How many rows were written.
    pub(super) fn finish(self) -> Result<u64> {
        self.flush()?.finish()
    }

    /// Writes what is left.
    pub(super) fn flush(mut self) -> Result<Flushed> {
        self.waiting.finish_buffered_batch().map_err(Error::from)?;
        self.put()?;
        self.sink.flush()
    }
}
