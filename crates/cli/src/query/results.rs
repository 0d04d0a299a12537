//! The output of results, and the progress line during other work.

use std::cell::{Cell, RefCell};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use koel_arrow::external::{Limit, Stage};

use super::columns::batch;
use crate::failure::Result;
use crate::output::RowOptions;
use crate::progress::Progress;
use crate::tables::write::{Flushed, Place, Sink};

/// The progress line of a command, and the options of its output.
pub(super) struct Watched<'a> {
    progress: RefCell<Option<Progress>>,
    output: &'a RowOptions,
    /// The current operation, for the progress line.
    doing: Cell<&'static str>,
}

impl<'a> Watched<'a> {
    pub(super) fn new(progress: Progress, output: &'a RowOptions, doing: &'static str) -> Self {
        Watched { progress: RefCell::new(Some(progress)), output, doing: Cell::new(doing) }
    }

    /// Sets the current operation.
    pub(super) fn set(&self, doing: &'static str) {
        self.doing.set(doing);
    }

    pub(super) fn show(&self, stage: Stage) {
        let what = match stage {
            Stage::Partitioning => "writing temporary files".into(),
            Stage::Part(part, parts) => format!("{}, part {part} of {parts}", self.doing.get()),
            _ => "putting rows in order".into(),
        };
        self.say(what);
    }

    fn say(&self, what: String) {
        if let Some(progress) = &*self.progress.borrow() {
            progress.say(what);
        }
    }

    /// Creates an output for rows with this schema.
    pub(super) fn results(&self, schema: &SchemaRef, limit: &Limit) -> Result<Results<'_>> {
        self.results_in(self.output.place(), schema, limit)
    }

    /// As `results`, in this place.
    pub(super) fn results_in(&self, place: Place<'a>, schema: &SchemaRef, limit: &Limit) -> Result<Results<'_>> {
        self.say(self.doing.get().into());
        // On stdout, nothing is written before the first row, because an error may still occur.
        let sink = match place {
            Place::Stdout(_) => None,
            Place::File(_) => Some(Sink::within(limit.bytes(), place, schema)?),
        };
        let (progress, schema) = (&self.progress, SchemaRef::clone(schema));
        Ok(Results { progress, place, sink, schema, memory: limit.bytes(), is_counted: false })
    }
}

/// An output of rows.
pub(super) struct Results<'a> {
    progress: &'a RefCell<Option<Progress>>,
    place: Place<'a>,
    /// The sink of stdout is opened with the first rows.
    sink: Option<Sink>,
    schema: SchemaRef,
    memory: u64,
    /// Whether the progress line counts rows.
    is_counted: bool,
}

impl Results<'_> {
    /// Writes rows, with the column names of the result.
    pub(super) fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        let rows = batch(&self.schema, rows.columns().to_vec(), rows.num_rows())?;
        let mut sink = self.opened()?;
        if !self.is_counted {
            self.is_counted = true;
            self.progress.borrow().iter().for_each(|progress| progress.rows(None));
        }
        sink.write(&rows)?;
        self.sink = Some(sink);
        Ok(())
    }

    /// The sink, which is opened if necessary.
    fn opened(&mut self) -> Result<Sink> {
        self.sink.take().map_or_else(
            || {
                self.progress.take();
                Sink::within(self.memory, self.place, &self.schema)
            },
            Ok,
        )
    }

    /// Writes the remaining rows and gives the file its name. Returns the number of rows.
    pub(super) fn finish(self) -> Result<u64> {
        self.flush()?.finish()
    }

    /// Writes the remaining rows.
    pub(super) fn flush(mut self) -> Result<Flushed> {
        self.opened()?.flush()
    }
}
