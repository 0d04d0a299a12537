//! What messages of Arrow IPC claim of lengths, before memory is taken for it: no more than can be there.
//!
//! Decoders allocate what a message says. Memory that is not there ends the process, and no error can be told then.

use std::ops::Range;

use arrow_ipc::{CompressionType, MessageHeader, RecordBatch, root_as_message};

/// In front of the length of a message, since version 0.15 of the format.
const CONTINUATION: i32 = -1;

/// How many times as long as they are packed bytes can be: LZ4 packs 255 into one, and Zstandard 128 KiB into a block of 4.
const LZ4: u64 = 255;
const ZSTD: u64 = 1 << 15;

/// Goes through all messages of some bytes, as of a block of a file, which is a message with its length in front and its body
/// behind.
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

/// Where the message is whose length begins some bytes; none at the end of a stream.
pub(super) fn message(bytes: &[u8]) -> Result<Option<Range<usize>>, String> {
    let (length, start) = match (number(bytes)?, bytes.get(4..)) {
        (CONTINUATION, Some(more)) => (number(more)?, 8),
        (length, _) => (length, 4),
    };
    let length = usize::try_from(length).map_err(|_| "a message has a length below 0")?;
    Ok((length > 0).then_some(start..start + length))
}

/// How long a message says that its body is.
pub(super) fn body_length(message: &[u8]) -> Result<usize, String> {
    let message = root_as_message(message).map_err(|error| error.to_string())?;
    Ok(usize::try_from(message.bodyLength()).map_err(|_| "a body has a length below 0")?)
}

/// A message and all bytes behind it; how many of them are its body.
fn check_message(message: &[u8], behind: &[u8]) -> Result<usize, String> {
    let length = body_length(message)?;
    let message = root_as_message(message).map_err(|error| error.to_string())?;
    let body = behind.get(..length).ok_or("a body is longer than what is there")?;
    let batch = match message.header_type() {
        MessageHeader::RecordBatch => message.header_as_record_batch(),
        MessageHeader::DictionaryBatch => message.header_as_dictionary_batch().and_then(|batch| batch.data()),
        _ => None,
    };
    batch.map_or(Ok(()), |batch| check_packed(&batch, body))?;
    Ok(length)
}

/// The buffers of a batch that are packed begin with the length that they will have.
fn check_packed(batch: &RecordBatch<'_>, body: &[u8]) -> Result<(), String> {
    let most = match batch.compression().map(|compression| compression.codec()) {
        None => return Ok(()),
        Some(CompressionType::LZ4_FRAME) => LZ4,
        Some(_) => ZSTD,
    };
    for buffer in batch.buffers().into_iter().flatten() {
        let (start, length) = (usize::try_from(buffer.offset()), usize::try_from(buffer.length()));
        let (Ok(start), Ok(length)) = (start, length) else { return Err("a buffer is nowhere".into()) };
        let bytes = start.checked_add(length).and_then(|end| body.get(start..end)).ok_or("a buffer ends too late")?;
        let Some(claim) = bytes.first_chunk().map(|bytes| i64::from_le_bytes(*bytes)) else { continue };
        // -1 stands for bytes that are not packed.
        if u64::try_from(claim).is_ok_and(|claim| claim > (length as u64).saturating_mul(most)) {
            return Err(format!("a buffer of {length} bytes claims {claim}"));
        }
    }
    Ok(())
}

fn number(bytes: &[u8]) -> Result<i32, String> {
    Ok(i32::from_le_bytes(*bytes.first_chunk().ok_or("a message is cut short")?))
}
