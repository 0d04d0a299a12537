//! The messages of an Arrow stream: each is checked before the decoder reads it, and is in memory only once.

use std::io::{self, Read};

use super::super::data::{Data, DataReader};
use super::super::guarded::guarded;
use super::claims;

/// Bytes before a message: a marker, and the length.
const PREFIX: usize = 8;

/// Reads the bytes of a stream.
pub(super) struct Messages {
    data: Data,
    reader: DataReader,
    /// The position of the next message.
    next: u64,
    /// The number of unread bytes of the current message.
    left: usize,
}

impl Messages {
    pub(super) fn of(data: &Data) -> Messages {
        Messages { data: data.clone(), reader: data.reader(0), next: 0, left: 0 }
    }

    /// The length of the next message, including the length before it and the body after it; 0 at the end. The bytes
    /// that were checked are dropped, and the decoder reads them again, so that they are in memory only once.
    fn following(&self) -> Result<usize, String> {
        let left = usize::try_from(self.data.length() - self.next).unwrap_or(usize::MAX);
        let range = |length: usize| self.data.range(self.next, length).map_err(|error| error.to_string());
        if left == 0 {
            return Ok(0);
        }
        let prefix = range(left.min(PREFIX))?;
        let Some(message) = claims::message(&prefix)? else { return Ok(prefix.len()) };
        if message.end > left {
            return Err("a message is cut short".into());
        }
        let body = claims::body_length(&range(message.end)?[message.clone()])?;
        let length = message.end.checked_add(body).filter(|&length| length <= left);
        let length = length.ok_or("a body is longer than what is there")?;
        claims::check(&range(length)?)?;
        Ok(length)
    }
}

impl Read for Messages {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            self.left = guarded(|| self.following()).map_err(io::Error::other)?;
            self.next += self.left as u64;
        }
        let length = self.left.min(buffer.len());
        let read = self.reader.read(&mut buffer[..length])?;
        self.left -= read;
        Ok(read)
    }
}
