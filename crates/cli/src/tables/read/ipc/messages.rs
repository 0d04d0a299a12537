//! The messages of an Arrow stream: each is looked at before the decoder sees any of it, and is in memory once.

use std::io::{self, Read};

use super::super::data::{Data, DataReader};
use super::super::guarded::guarded;
use super::claims;

/// Bytes in front of a message: its length, behind a mark.
const PREFIX: usize = 8;

/// A reader of a stream's bytes.
pub(super) struct Messages {
    data: Data,
    reader: DataReader,
    /// Where the next message begins.
    next: u64,
    /// Bytes that are left of this one.
    left: usize,
}

impl Messages {
    pub(super) fn of(data: &Data) -> Messages {
        Messages { data: data.clone(), reader: data.reader(0), next: 0, left: 0 }
    }

    /// How long the message at the next place is, with its length in front and its body behind; 0 at the end. Its bytes
    /// are dropped here, and read once more for the decoder: both would hold them otherwise.
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
