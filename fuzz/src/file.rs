//! Shared by the targets of files.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use koel::{Cpu, Error};

/// Bytes before the image of a table.
const HEADER: usize = 128;
/// The minimum number of bytes after it: four numbers and a checksum.
const SETTINGS: usize = 48;
/// Bytes of a checksum.
const SUM: usize = 32;
/// Bytes before the lists of a multivalue table.
const MULTI_HEADER: usize = 64;
/// Bytes before the tables of shards.
const SHARDS_HEADER: usize = 64;

/// One device for all inputs: two threads, because races are tested too.
pub(crate) fn cpu() -> Cpu {
    static DEVICE: LazyLock<Cpu> = LazyLock::new(|| Cpu::with_threads(2).expect("two threads"));
    DEVICE.clone()
}

/// Writes the checksum that `open` expects to the bytes of a table's file, so that the plan and the image are read too.
/// Returns the table's digest, unless the file is too short.
fn reseal_table(bytes: &mut [u8]) -> Option<blake3::Hash> {
    let latest = bytes.len().checked_sub(SETTINGS)?;
    // The end of the image according to the header, if that is possible.
    let words = usize::try_from(number(bytes, 32)).unwrap_or(usize::MAX);
    let end = words.saturating_mul(8).saturating_add(HEADER).min(latest);
    let (digest, sum_at) = (blake3::hash(&bytes[..end]), bytes.len() - SUM);
    let mut hasher = blake3::Hasher::new();
    hasher.update(digest.as_bytes()).update(&bytes[end..sum_at]);
    bytes[sum_at..].copy_from_slice(hasher.finalize().as_bytes());
    Some(digest)
}

/// The number at this position; 0 past the end.
fn number(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).map_or(0, |number| u64::from_le_bytes(number.try_into().expect("8 bytes")))
}

/// Writes valid checksums to any file: those of multivalue tables and of sharded tables contain tables and separate
/// checksums.
pub(crate) fn reseal(bytes: &mut [u8]) {
    if bytes.starts_with(b"koelmult") {
        let _ = reseal_multi(bytes);
    } else if bytes.starts_with(b"koelshrd") {
        let _ = reseal_shards(bytes);
    } else {
        let _ = reseal_table(bytes);
    }
}

/// Reseals all shards, and the whole, if the lengths after them are possible.
fn reseal_shards(bytes: &mut [u8]) -> Option<()> {
    let lengths = usize::try_from(number(bytes, 8) >> 32).ok()?.checked_mul(8)?;
    let sum_at = bytes.len().checked_sub(SUM)?;
    let end = sum_at.checked_sub(lengths).filter(|&end| end >= SHARDS_HEADER)?;
    let mut whole = blake3::Hasher::new();
    whole.update(&bytes[..SHARDS_HEADER]);
    let mut base = SHARDS_HEADER;
    for at in (end..sum_at).step_by(8) {
        let length = usize::try_from(number(bytes, at)).ok()?;
        let next = base.checked_add(length.checked_next_multiple_of(64)?).filter(|&next| next <= end)?;
        let shard = &mut bytes[base..base + length];
        let digest = if shard.starts_with(b"koelmult") { reseal_multi(shard) } else { reseal_table(shard) };
        whole.update(digest?.as_bytes());
        base = next;
    }
    let mut hasher = blake3::Hasher::new();
    hasher.update(whole.finalize().as_bytes()).update(&bytes[end..sum_at]);
    bytes[sum_at..].copy_from_slice(hasher.finalize().as_bytes());
    Some(())
}

/// Reseals the lists, and the table after them. Returns the digest of both, if they are long enough.
fn reseal_multi(bytes: &mut [u8]) -> Option<blake3::Hash> {
    let (is_wide, keys, pairs) = (number(bytes, 8) & 0xff == 2, number(bytes, 16), number(bytes, 24));
    let starts = keys.checked_add(1)?.checked_mul(4)?;
    let values = if is_wide {
        starts.checked_next_multiple_of(8)?.checked_add(pairs.checked_mul(8)?)
    } else {
        starts.checked_add(pairs.checked_mul(4)?)
    };
    let sum_at = usize::try_from(values?).ok()?.checked_add(MULTI_HEADER)?;
    let rest = bytes.len().checked_sub(sum_at).filter(|&rest| rest >= SUM)?;
    let sum = blake3::hash(&bytes[..sum_at]);
    bytes[sum_at..sum_at + SUM].copy_from_slice(sum.as_bytes());
    let base = (sum_at + SUM).next_multiple_of(64);
    if rest <= base - sum_at {
        return None;
    }
    let mut whole = blake3::Hasher::new();
    whole.update(sum.as_bytes()).update(reseal_table(&mut bytes[base..])?.as_bytes());
    Some(whole.finalize())
}

/// A file that is deleted on drop, in a memory-backed folder if there is one.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    pub(crate) fn new() -> Scratch {
        static FILES: AtomicU64 = AtomicU64::new(0);
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
        Scratch(folder.join(format!("koel-fuzz-{}-{}", std::process::id(), FILES.fetch_add(1, Relaxed))))
    }

    pub(crate) fn holding(bytes: &[u8]) -> Scratch {
        let scratch = Scratch::new();
        std::fs::write(&scratch.0, bytes).expect("space for a small file");
        scratch
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The file does not exist if the input was rejected before it was saved.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Keys that are not in the table: neighbours and complements of its keys, and the extremes.
pub(crate) fn absent_keys(held: impl Fn(u32) -> bool, keys: impl Iterator<Item = u32>) -> Vec<u32> {
    let near = keys.take(200).flat_map(|key| [key.wrapping_add(1), key.wrapping_sub(1), !key]);
    let mut absent: Vec<u32> = near.chain([0, 1, u32::MAX, u32::MAX - 1, 1 << 31]).filter(|&key| !held(key)).collect();
    absent.sort_unstable();
    absent.dedup();
    absent
}

/// Whether a change may be rejected with this error: the pairs found no places or are too wide, or the table would be
/// too large. Contents of a file must not make a device fail in any other way.
pub(crate) fn may_refuse(error: &Error) -> bool {
    !matches!(error, Error::Io { .. } | Error::Device { .. } | Error::Damaged(_) | Error::BadFile { .. })
}
