//! What the targets of files share.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use koel::{Cpu, Error};

/// Bytes before the image of a table.
const HEADER: usize = 128;
/// The fewest bytes behind it: four numbers and a checksum.
const SETTINGS: usize = 48;
/// Bytes of a checksum.
const SUM: usize = 32;
/// Bytes before the lists of a multivalue table.
const MULTI_HEADER: usize = 64;
/// Bytes before the tables of shards.
const SHARDS_HEADER: usize = 64;

/// One device for all inputs: two threads, because races are a part of what is tested.
pub(crate) fn cpu() -> Cpu {
    static DEVICE: LazyLock<Cpu> = LazyLock::new(|| Cpu::with_threads(2).expect("two threads"));
    DEVICE.clone()
}

/// Gives the bytes of a table's file the checksum that `open` wants, so that it goes on to the plan and the image. The
/// table's digest, unless it is too short for any.
fn reseal_table(bytes: &mut [u8]) -> Option<blake3::Hash> {
    let latest = bytes.len().checked_sub(SETTINGS)?;
    // Where the header says that the image ends, if that can be.
    let words = usize::try_from(number(bytes, 32)).unwrap_or(usize::MAX);
    let end = words.saturating_mul(8).saturating_add(HEADER).min(latest);
    let (digest, sum_at) = (blake3::hash(&bytes[..end]), bytes.len() - SUM);
    let mut hasher = blake3::Hasher::new();
    hasher.update(digest.as_bytes()).update(&bytes[end..sum_at]);
    bytes[sum_at..].copy_from_slice(hasher.finalize().as_bytes());
    Some(digest)
}

/// The number at this place; 0 behind the end.
fn number(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).map_or(0, |number| u64::from_le_bytes(number.try_into().expect("8 bytes")))
}

/// The same for any file: those of multivalue tables and of tables in shards have tables in them, and checksums of
/// their own.
pub(crate) fn reseal(bytes: &mut [u8]) {
    if bytes.starts_with(b"koelmult") {
        let _ = reseal_multi(bytes);
    } else if bytes.starts_with(b"koelshrd") {
        let _ = reseal_shards(bytes);
    } else {
        let _ = reseal_table(bytes);
    }
}

/// Of all shards, and of the whole, where the lengths behind them are possible.
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

/// Of the lists, and of the table behind them; the digest of both, if they are long enough for any.
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

/// A file that is deleted with it, in memory where there is such a folder.
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
        std::fs::write(&scratch.0, bytes).expect("room for a small file");
        scratch
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Nothing was saved if the input was refused.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Keys that are not among `held`: their neighbours, their complements and the extremes.
pub(crate) fn absent_keys(held: impl Fn(u32) -> bool, keys: impl Iterator<Item = u32>) -> Vec<u32> {
    let near = keys.take(200).flat_map(|key| [key.wrapping_add(1), key.wrapping_sub(1), !key]);
    let mut absent: Vec<u32> = near.chain([0, 1, u32::MAX, u32::MAX - 1, 1 << 31]).filter(|&key| !held(key)).collect();
    absent.sort_unstable();
    absent.dedup();
    absent
}

/// Whether a change that was refused may be: because the pairs found no places or are too wide, or the table would be
/// too large. What a file holds can make a device fail in no other way.
pub(crate) fn may_refuse(error: &Error) -> bool {
    !matches!(error, Error::Io { .. } | Error::Device { .. } | Error::Damaged(_) | Error::BadFile { .. })
}
