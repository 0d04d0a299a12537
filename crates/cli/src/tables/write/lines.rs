//! Text: all threads format and compress blocks (blocks.rs), and one thread writes them in order (pipeline.rs).

use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use super::Unwritten;
use super::blocks::{Block, Blocks, Size};
use super::packed::{Output, Packed, Packing, gzip};
use super::pipeline::Pipeline;

/// The rows that a thread formats at a time.
const BLOCK: Size = Size { rows: 1 << 15, bytes: 1 << 20 };
/// The bytes of these rows and their text, if most fields are numbers with many digits.
const TAKEN: u64 = 8 << 20;

/// Appends the lines of some rows to a text.
type Format = dyn Fn(&RecordBatch, &mut Vec<u8>) -> Result<(), Unwritten> + Send + Sync;

pub(super) struct Writer {
    blocks: Blocks,
    lines: Lines,
}

struct Lines {
    format: Arc<Format>,
    is_gzip: bool,
    /// Whether nothing was written.
    is_empty: bool,
    pipeline: Pipeline<Vec<u8>, Packed>,
    /// Buffers of texts that were written, to be reused.
    spare: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Writer {
    /// Creates a writer of a text that begins with `head`. `memory` is the limit in bytes; the text does not depend on
    /// it.
    pub(super) fn new(
        output: Output,
        schema: &SchemaRef,
        packing: Packing,
        memory: u64,
        head: Vec<u8>,
        format: impl Fn(&RecordBatch, &mut Vec<u8>) -> Result<(), Unwritten> + Send + Sync + 'static,
    ) -> Result<Writer, Unwritten> {
        let fitting = usize::try_from(memory / 4 / TAKEN).unwrap_or(usize::MAX);
        let at_once = fitting.clamp(1, 2 * rayon::current_num_threads());
        let spare = Arc::new(Mutex::new(Vec::new()));
        let written = Arc::clone(&spare);
        let write = move |output: &mut Packed, text: Vec<u8>| {
            output.put(&text)?;
            written.lock().unwrap_or_else(PoisonError::into_inner).push(text);
            Ok(())
        };
        let pipeline = Pipeline::new(at_once, Packed::new(output, packing)?, write)?;
        let is_gzip = packing == Packing::Gzip;
        let mut lines = Lines { format: Arc::new(format), is_gzip, is_empty: true, pipeline, spare };
        if !head.is_empty() {
            lines.put(move |text| {
                text.extend(head);
                Ok(())
            })?;
        }
        Ok(Writer { blocks: Blocks::plain(schema, BLOCK), lines })
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), Unwritten> {
        self.blocks.push(batch, |block| self.lines.push(block))
    }

    pub(super) fn finish(mut self) -> Result<(), Unwritten> {
        self.blocks.finish(|block| self.lines.push(block))?;
        // A file of gzip has at least one member.
        if self.lines.is_empty && self.lines.is_gzip {
            self.lines.put(|_| Ok(()))?;
        }
        Ok(self.lines.pipeline.finish()?.finish()?)
    }
}

impl Lines {
    fn push(&mut self, block: Block) -> Result<(), Unwritten> {
        let format = Arc::clone(&self.format);
        self.put(move |text| format(&block.batch()?, text))
    }

    /// Starts a task that formats a text with `format`, and compresses it for gzip.
    fn put(
        &mut self,
        format: impl FnOnce(&mut Vec<u8>) -> Result<(), Unwritten> + Send + 'static,
    ) -> Result<(), Unwritten> {
        self.is_empty = false;
        let (is_gzip, spare) = (self.is_gzip, Arc::clone(&self.spare));
        self.pipeline.push(move || {
            let mut text = spare.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
            text.clear();
            format(&mut text)?;
            Ok(if is_gzip { gzip(&text)? } else { text })
        })
    }
}
