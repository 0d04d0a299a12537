//! Arrow IPC: files, whose batches all threads decode from memory, and streams.
//!
//! ```text
//! messages.rs    the messages of a stream, one in memory at a time
//! claims.rs      checks of messages before they are decoded
//! ```

mod claims;
mod messages;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
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
use super::Data;
use super::guarded::guarded;
use super::stream::Stream;
use messages::Messages;

/// The bytes at the end of a file: the length of the footer, and `ARROW1`.
const TRAILER: usize = 10;

/// A file or a stream whose schema is known.
pub(super) struct Ipc {
    data: Data,
    schema: SchemaRef,
    /// `None` for a stream.
    footer: Option<Footer>,
}

/// The positions of the parts of a file.
struct Footer {
    version: MetadataVersion,
    dictionaries: Vec<Block>,
    batches: Vec<Block>,
}

impl Ipc {
    pub(super) fn of_file(name: &Name, data: Data) -> Result<Ipc> {
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
            let schema = footer.schema().ok_or("its footer has no schema")?;
            claims::check_endianness(schema)?;
            let schema = convert::fb_to_schema(schema);
            let blocks = |blocks: Option<flat::Blocks<'_>>| blocks.into_iter().flatten().copied().collect();
            let (dictionaries, batches) = (blocks(footer.dictionaries()), blocks(footer.recordBatches()));
            Ok((schema, Footer { version: footer.version(), dictionaries, batches }))
        };
        let (schema, footer) = guarded(footer).map_err(|reason| damaged(name, &reason))?;
        Ok(Ipc { data, schema: schema.into(), footer: Some(footer) })
    }

    pub(super) fn of_stream(name: &Name, data: Data) -> Result<Ipc> {
        let schema = guarded(|| {
            let reader = StreamReader::try_new(Messages::of(&data), None).map_err(|error| error.to_string())?;
            Ok(reader.schema())
        });
        Ok(Ipc { schema: schema.map_err(|reason| damaged(name, &reason))?, data, footer: None })
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub(super) fn read(&self, name: &Name, places: &[usize]) -> Result<Table> {
        let wanted = Wanted::of(name, &self.schema, places)?;
        let decoded = match &self.footer {
            Some(footer) => self.decoder(footer, &wanted).and_then(|decoder| {
                let batches = footer.batches.par_iter().filter_map(|block| self.batch(&decoder, block).transpose());
                batches.collect::<std::result::Result<Vec<_>, _>>()
            }),
            None => self.messages(&wanted).and_then(Iterator::collect),
        };
        let batches = decoded.map_err(|reason| damaged(name, &reason))?;
        let in_order = batches.iter().map(|batch| wanted.batch(name, batch)).collect::<Result<Vec<_>>>()?;
        Ok(Table::of(wanted.schema, in_order))
    }

    /// Returns a stream that has the dictionaries and one batch of the file in memory at a time, whatever the batch's
    /// size.
    pub(super) fn stream<'a>(&'a self, name: &'a Name, places: &[usize]) -> Result<Stream<'a>> {
        let wanted = Wanted::of(name, &self.schema, places)?;
        let schema = wanted.schema.clone();
        let fail = |reason: String| damaged(name, &reason);
        let decoded: Decoded<'a> = match &self.footer {
            Some(footer) => {
                let decoder = self.decoder(footer, &wanted).map_err(fail)?;
                Box::new(footer.batches.iter().filter_map(move |block| self.batch(&decoder, block).transpose()))
            }
            None => Box::new(self.messages(&wanted).map_err(fail)?),
        };
        Ok(Stream::of(schema, decoded.map(move |batch| wanted.batch(name, &batch.map_err(fail)?))))
    }

    /// A decoder of a file's batches, with its dictionaries.
    fn decoder(&self, footer: &Footer, wanted: &Wanted) -> std::result::Result<FileDecoder, String> {
        let mut decoder = FileDecoder::new(self.schema.clone(), footer.version);
        if let Some(ascending) = &wanted.ascending {
            decoder = decoder.with_projection(ascending.clone());
        }
        let mut replaced = HashSet::new();
        for block in &footer.dictionaries {
            let bytes = self.block(block)?;
            // Batches of a file are read in any order, so all of them use the same dictionary; values may be appended
            // to it.
            if guarded(|| claims::replaced_dictionary(&bytes))?.is_some_and(|id| !replaced.insert(id)) {
                return Err("a dictionary is replaced, which streams alone may do".into());
            }
            guarded(|| decoder.read_dictionary(block, &bytes).map_err(|error| error.to_string()))?;
        }
        Ok(decoder)
    }

    fn batch(&self, decoder: &FileDecoder, block: &Block) -> std::result::Result<Option<RecordBatch>, String> {
        let bytes = self.block(block)?;
        guarded(|| decoder.read_record_batch(block, &bytes).map_err(|error| error.to_string()))
    }

    /// The bytes of a block whose claims were checked.
    fn block(&self, block: &Block) -> std::result::Result<Buffer, String> {
        let length = i64::from(block.metaDataLength()).checked_add(block.bodyLength()).ok_or("no length")?;
        let (start, length) = (u64::try_from(block.offset()), usize::try_from(length));
        let (Ok(start), Ok(length)) = (start, length) else { return Err("a block is nowhere".to_owned()) };
        let bytes = self.data.range(start, length).map_err(|error| error.to_string())?;
        guarded(|| claims::check(&bytes))?;
        Ok(Buffer::from(bytes))
    }

    /// The batches of a stream.
    fn messages(
        &self,
        wanted: &Wanted,
    ) -> std::result::Result<impl Iterator<Item = std::result::Result<RecordBatch, String>> + Send + use<'_>, String>
    {
        let mut reader = guarded(|| {
            StreamReader::try_new(Messages::of(&self.data), wanted.ascending.clone()).map_err(|error| error.to_string())
        })?;
        Ok(std::iter::from_fn(move || {
            guarded(|| reader.next().transpose().map_err(|error| error.to_string())).transpose()
        }))
    }
}

/// Batches as a decoder returns them, or its errors.
type Decoded<'a> = Box<dyn Iterator<Item = std::result::Result<RecordBatch, String>> + Send + 'a>;

/// The wanted columns. Decoders keep the order of the file.
struct Wanted {
    schema: SchemaRef,
    /// The columns that are decoded; `None` if all are.
    ascending: Option<Vec<usize>>,
    /// The position of each wanted column among those that are decoded.
    order: Vec<usize>,
}

/// The most columns of a selection: decoders search it for each column of the file.
const SELECTED: usize = 1 << 10;

impl Wanted {
    fn of(name: &Name, schema: &Schema, places: &[usize]) -> Result<Wanted> {
        let schema = Arc::new(schema.project(places).map_err(|error| damaged(name, &error.to_string()))?);
        if places.len() > SELECTED {
            return Ok(Wanted { schema, ascending: None, order: places.to_vec() });
        }
        let mut ascending = places.to_vec();
        ascending.sort_unstable();
        let order = places.iter().filter_map(|place| ascending.binary_search(place).ok()).collect();
        Ok(Wanted { schema, ascending: Some(ascending), order })
    }

    /// A batch with its columns in the order in which they are wanted.
    fn batch(&self, name: &Name, decoded: &RecordBatch) -> Result<RecordBatch> {
        let batch = decoded.project(&self.order).and_then(|batch| batch.with_schema(self.schema.clone()));
        batch.map_err(|error| damaged(name, &error.to_string()))
    }
}

mod flat {
    /// A list of blocks.
    pub(super) type Blocks<'a> = flatbuffers::Vector<'a, arrow_ipc::Block>;
}

fn damaged(name: &Name, reason: &str) -> Failure {
    name.fail(format!("this Arrow file is damaged, or has parts that koel does not read ({reason}): write it again"))
}
