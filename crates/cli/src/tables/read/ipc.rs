//! Arrow IPC: files, whose batches are decoded by all threads from memory, and streams.

use std::io::Cursor;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::reader::{FileDecoder, StreamReader, read_footer_length};
use arrow_ipc::{Block, MetadataVersion, convert, root_as_footer};
use arrow_schema::{Schema, SchemaRef};
use rayon::prelude::*;

use crate::failure::{Failure, Result};
use crate::input::Name;

use super::super::Table;
use super::guarded::guarded;
use super::{Data, claims};

/// Bytes at the end of a file: the length of the footer, and `ARROW1`.
const TRAILER: usize = 10;

/// A file or a stream of which the schema is known.
pub(super) struct Ipc {
    data: Data,
    schema: SchemaRef,
    /// None of a stream.
    footer: Option<Footer>,
}

/// Where the parts of a file are.
struct Footer {
    version: MetadataVersion,
    dictionaries: Vec<Block>,
    batches: Vec<Block>,
}

impl Ipc {
    pub(super) fn file(name: &Name, data: Data) -> Result<Ipc> {
        let footer = || {
            let length = usize::try_from(data.length()).map_err(|error| error.to_string())?;
            let range =
                |start: usize, length: usize| data.range(start as u64, length).map_err(|error| error.to_string());
            let end = length.checked_sub(TRAILER).ok_or("it ends too early")?;
            let trailer: [u8; TRAILER] = range(end, TRAILER)?[..].try_into().map_err(|_| "it ends too early")?;
            let size = read_footer_length(trailer).map_err(|error| error.to_string())?;
            let start = end.checked_sub(size).ok_or("its footer is longer than the file")?;
            let bytes = range(start, size)?;
            let footer = root_as_footer(&bytes).map_err(|error| error.to_string())?;
            let schema = convert::fb_to_schema(footer.schema().ok_or("its footer has no schema")?);
            let blocks = |blocks: Option<flat::Blocks<'_>>| blocks.into_iter().flatten().copied().collect();
            let (dictionaries, batches) = (blocks(footer.dictionaries()), blocks(footer.recordBatches()));
            Ok((schema, Footer { version: footer.version(), dictionaries, batches }))
        };
        let (schema, footer) = guarded(footer).map_err(|reason| damaged(name, &reason))?;
        Ok(Ipc { data, schema: schema.into(), footer: Some(footer) })
    }

    pub(super) fn stream(name: &Name, data: Data) -> Result<Ipc> {
        let bytes = data.whole().map_err(|error| name.io(&error))?;
        let schema = guarded(|| {
            claims::check(&bytes)?;
            let reader = StreamReader::try_new(Cursor::new(&bytes), None).map_err(|error| error.to_string())?;
            Ok(reader.schema())
        });
        Ok(Ipc { schema: schema.map_err(|reason| damaged(name, &reason))?, data, footer: None })
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub(super) fn read(&self, name: &Name, places: &[usize]) -> Result<Table> {
        let project = || self.schema.project(places);
        let schema: Arc<Schema> = project().map_err(|error| damaged(name, &error.to_string()))?.into();
        // Decoders keep the order of the file.
        let mut ascending = places.to_vec();
        ascending.sort_unstable();
        let order: Vec<usize> = places.iter().filter_map(|place| ascending.binary_search(place).ok()).collect();
        let decoded = match &self.footer {
            Some(footer) => self.batches(footer, &ascending),
            None => self.messages(&ascending),
        };
        let batches = decoded.map_err(|reason| damaged(name, &reason))?;
        let in_order =
            batches.iter().map(|batch| batch.project(&order).and_then(|batch| batch.with_schema(schema.clone())));
        let batches = in_order.collect::<std::result::Result<Vec<_>, _>>();
        Ok(Table::of(schema, batches.map_err(|error| damaged(name, &error.to_string()))?))
    }

    fn batches(&self, footer: &Footer, places: &[usize]) -> std::result::Result<Vec<RecordBatch>, String> {
        let bytes = |block: &Block| {
            let length = i64::from(block.metaDataLength()).checked_add(block.bodyLength()).ok_or("no length")?;
            let (start, length) = (u64::try_from(block.offset()), usize::try_from(length));
            let (Ok(start), Ok(length)) = (start, length) else { return Err("a block is nowhere".to_owned()) };
            let bytes = self.data.range(start, length).map_err(|error| error.to_string())?;
            guarded(|| claims::check(&bytes))?;
            Ok(Buffer::from(bytes))
        };
        let mut decoder = FileDecoder::new(self.schema.clone(), footer.version).with_projection(places.to_vec());
        for block in &footer.dictionaries {
            let bytes = bytes(block)?;
            guarded(|| decoder.read_dictionary(block, &bytes).map_err(|error| error.to_string()))?;
        }
        let batch = |block: &Block| {
            let bytes = bytes(block)?;
            guarded(|| decoder.read_record_batch(block, &bytes).map_err(|error| error.to_string()))
        };
        let batches = footer.batches.par_iter().map(batch).collect::<std::result::Result<Vec<_>, _>>()?;
        Ok(batches.into_iter().flatten().collect())
    }

    fn messages(&self, places: &[usize]) -> std::result::Result<Vec<RecordBatch>, String> {
        let bytes = self.data.whole().map_err(|error| error.to_string())?;
        guarded(|| {
            let reader = StreamReader::try_new(Cursor::new(bytes), Some(places.to_vec()));
            let batches = reader.and_then(|reader| reader.collect::<std::result::Result<_, _>>());
            batches.map_err(|error| error.to_string())
        })
    }
}

mod flat {
    /// A list of blocks.
    pub(super) type Blocks<'a> = flatbuffers::Vector<'a, arrow_ipc::Block>;
}

fn damaged(name: &Name, reason: &str) -> Failure {
    name.fail(format!("this Arrow file is damaged, or has parts that koel does not read ({reason}): write it anew"))
}
