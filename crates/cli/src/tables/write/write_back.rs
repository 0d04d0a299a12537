//! A file that the system begins to write to the disk while the command is still running.
//!
//! A file gets its name after all of its data is on the disk. Without an early start, that wait was a tenth of a join
//! on 16 cores, with all threads idle.

use std::fs::File;
use std::io::{self, Write};

/// Write-back starts after this many bytes.
const BYTES: u64 = 8 << 20;

/// A file that is written sequentially.
pub(super) struct WriteBack {
    file: File,
    written: u64,
    /// The number of bytes that the system has begun to write to the disk.
    begun: u64,
}

impl WriteBack {
    pub(super) fn new(file: File) -> Self {
        WriteBack { file, written: 0, begun: 0 }
    }
}

impl Write for WriteBack {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.written += written as u64;
        if self.written - self.begun >= BYTES {
            begin(&self.file, self.begun, self.written - self.begun);
            self.begun = self.written;
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Makes the system write these bytes to the disk. Pipes, and file systems that do not support this, ignore it.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "a call of the system")]
fn begin(file: &File, start: u64, bytes: u64) {
    use std::os::fd::AsRawFd;

    let (start, bytes) = (start as libc::off64_t, bytes as libc::off64_t);
    // SAFETY: the file is open, and the call changes no memory.
    unsafe { libc::sync_file_range(file.as_raw_fd(), start, bytes, libc::SYNC_FILE_RANGE_WRITE) };
}

#[cfg(not(target_os = "linux"))]
fn begin(_file: &File, _start: u64, _bytes: u64) {}
