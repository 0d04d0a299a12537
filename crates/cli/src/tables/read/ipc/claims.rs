//! Checks of the messages of Arrow IPC before they are decoded.
//!
//! Lengths: decoders allocate what a message claims, and a failed allocation ends the process without an error. Other
//! checks: arrow-ipc does not make them, and would return other values than those that were written.
//!
//! ```text
//! big-endian schemas        checked by arrow-ipc's `FileReader`, which is not used: it decodes one batch at a time
//! versions 1 to 3           have other buffers; Arrow C++ refuses them too
//! compression of Arrow 0.17 is stated only in custom metadata, which decoders ignore: they would take bytes for values
//! negative null counts      would be taken for 0, so that nulls become values
//! rows of a batch           must equal those of its first column, which need not be among the wanted ones
//! ```

use std::ops::Range;

use arrow_ipc::{
    BodyCompressionMethod, CompressionType, Endianness, Message, MessageHeader, MetadataVersion, RecordBatch, Schema,
    root_as_message,
};

/// Precedes the length of a message, since version 0.15 of the format.
const CONTINUATION: i32 = -1;

/// The largest compression ratios: LZ4 packs 255 bytes into one, and Zstandard a block of 128 KiB into 4 bytes.
const LZ4: u64 = 255;
const ZSTD: u64 = 1 << 15;

/// Checks all messages in `bytes`. A block of a file is a message, preceded by its length and followed by its body.
pub(super) fn check(bytes: &[u8]) -> Result<(), String> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let Some(Range { start, end }) = message(rest)? else { break };
        let body =
            check_message(rest.get(start..end).ok_or("a message is cut short")?, rest.get(end..).unwrap_or(&[]))?;
        rest = rest.get(end + body..).unwrap_or(&[]);
    }
    Ok(())
}

/// The range of the message whose length is at the start of `bytes`; `None` at the end of a stream.
pub(super) fn message(bytes: &[u8]) -> Result<Option<Range<usize>>, String> {
    let (length, start) = match (number(bytes)?, bytes.get(4..)) {
        (CONTINUATION, Some(more)) => (number(more)?, 8),
        (length, _) => (length, 4),
    };
    let length = usize::try_from(length).map_err(|_| "a message has a length below 0")?;
    Ok((length > 0).then_some(start..start + length))
}

/// The length of the body that a message states.
pub(super) fn body_length(message: &[u8]) -> Result<usize, String> {
    let message = root_as_message(message).map_err(|error| error.to_string())?;
    Ok(usize::try_from(message.bodyLength()).map_err(|_| "a body has a length below 0")?)
}

/// Checks a message, given all bytes after it. Returns the length of its body.
fn check_message(message: &[u8], behind: &[u8]) -> Result<usize, String> {
    let length = body_length(message)?;
    let message = root_as_message(message).map_err(|error| error.to_string())?;
    check_version(&message)?;
    let body = behind.get(..length).ok_or("a body is longer than what is there")?;
    let batch = match message.header_type() {
        MessageHeader::Schema => {
            message.header_as_schema().map_or(Ok(()), check_endianness)?;
            None
        }
        MessageHeader::RecordBatch => message.header_as_record_batch(),
        MessageHeader::DictionaryBatch => message.header_as_dictionary_batch().and_then(|batch| batch.data()),
        _ => None,
    };
    if let Some(batch) = batch {
        check_counts(&batch)?;
        check_packed(&batch, body)?;
    }
    Ok(length)
}

/// Checks that numbers are little-endian.
pub(super) fn check_endianness(schema: Schema<'_>) -> Result<(), String> {
    match schema.endianness() {
        Endianness::Little => Ok(()),
        _ => Err("it is big-endian; pyarrow reads such files and writes little-endian ones".into()),
    }
}

/// The id of the dictionary in a block of a file, if the block replaces all earlier values of that dictionary.
pub(super) fn replaced_dictionary(block: &[u8]) -> Result<Option<i64>, String> {
    let bytes = message(block)?.and_then(|range| block.get(range)).ok_or("a message is cut short")?;
    let message = root_as_message(bytes).map_err(|error| error.to_string())?;
    let dictionary = message.header_as_dictionary_batch();
    Ok(dictionary.filter(|dictionary| !dictionary.isDelta()).map(|dictionary| dictionary.id()))
}

fn check_version(message: &Message<'_>) -> Result<(), String> {
    if !matches!(message.version(), MetadataVersion::V4 | MetadataVersion::V5) {
        return Err(format!("a message is of version {} of the format", i32::from(message.version().0) + 1));
    }
    let mut metadata = message.custom_metadata().into_iter().flatten();
    if metadata.any(|pair| pair.key() == Some("ARROW:experimental_compression")) {
        return Err("it is compressed as Arrow 0.17 did".into());
    }
    Ok(())
}

fn check_counts(batch: &RecordBatch<'_>) -> Result<(), String> {
    let mut nodes = batch.nodes().into_iter().flatten();
    if batch.length() < 0
        || batch.nodes().is_some_and(|nodes| !nodes.is_empty() && nodes.get(0).length() != batch.length())
    {
        return Err(format!("a batch claims {} rows, and its first column has others", batch.length()));
    }
    match nodes.find(|node| !(0..=node.length()).contains(&node.null_count())) {
        Some(node) => Err(format!("a column of {} rows claims {} nulls", node.length(), node.null_count())),
        None => Ok(()),
    }
}

/// Checks the compressed buffers of a batch, each of which begins with its decompressed length.
fn check_packed(batch: &RecordBatch<'_>, body: &[u8]) -> Result<(), String> {
    let most = match batch.compression().map(|compression| compression.codec()) {
        None => return Ok(()),
        Some(_) if batch.compression().is_some_and(|of| of.method() != BodyCompressionMethod::BUFFER) => {
            return Err("a batch is compressed by a method that koel does not know".into());
        }
        Some(CompressionType::LZ4_FRAME) => LZ4,
        Some(_) => ZSTD,
    };
    for buffer in batch.buffers().into_iter().flatten() {
        let (start, length) = (usize::try_from(buffer.offset()), usize::try_from(buffer.length()));
        let (Ok(start), Ok(length)) = (start, length) else { return Err("a buffer is nowhere".into()) };
        let bytes = start.checked_add(length).and_then(|end| body.get(start..end)).ok_or("a buffer ends too late")?;
        let Some(claim) = bytes.first_chunk().map(|bytes| i64::from_le_bytes(*bytes)) else { continue };
        // -1 means that the bytes are not compressed.
        if u64::try_from(claim).is_ok_and(|claim| claim > (length as u64).saturating_mul(most)) {
            return Err(format!("a buffer of {length} bytes claims {claim}"));
        }
    }
    Ok(())
}

fn number(bytes: &[u8]) -> Result<i32, String> {
    Ok(i32::from_le_bytes(*bytes.first_chunk().ok_or("a message is cut short")?))
}
