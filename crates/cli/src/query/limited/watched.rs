//! Results on their way out, and the line that says what is being done meanwhile.

use std::cell::RefCell;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use koel_arrow::external::Stage;

use super::super::columns::batch;
use crate::failure::Result;
use crate::output::RowOptions;
use crate::progress::Progress;
use crate::tables::write::Sink;

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

    /// Writes rows under the names that they have in the result.
    pub(super) fn write(&self, sink: &mut Sink, schema: &SchemaRef, rows: &RecordBatch) -> Result<()> {
        if self.output.output.is_none() {
            // Rows on a terminal are progress enough.
            self.progress.take();
        }
        sink.write(&batch(schema, rows.columns().to_vec(), rows.num_rows())?)
    }

    /// Takes the line away.
    pub(super) fn end(&self) {
        self.progress.take();
    }
}
