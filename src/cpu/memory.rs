//! Buffers of the CPU backend, and prefetches. All `unsafe` code of the backend is here, except for instructions
//! (`lanes/x86.rs`).
//!
//! ```text
//! below 2 MiB    a Vec
//! from there     an anonymous map, advised to take huge pages: random access to a large table on 4 KiB pages
//!                spends its time in page walks (1.2 times slower at 64 lines in flight, 1.6 times at 128)
//! mapped file    read-only pages of a file; `&mut` access is an error
//! ```
//!
//! New maps are zero without being written, and the kernel assigns each page to the thread that first touches it. So a
//! buffer of zeros costs nothing until it is used, and a buffer of any other value is written by all threads.
//!
//! This is not an allocator: each large buffer is one map, and is returned to the system when it is dropped.

use std::fmt;
use std::fs::File;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, AtomicU64};

use memmap2::{Mmap, MmapMut, MmapOptions};

use crate::backend::{DeviceBuffer, Word};
use crate::cpu::{CHUNK, failed};
use crate::error::{Error, Result};
use crate::parallel::each;

/// The size of a huge page, and of the smallest buffer that uses them.
const HUGE_PAGE: usize = 2 << 20;

/// Memory of the CPU backend: words of one type, owned, or mapped read-only from a file.
pub struct Memory<T: Word> {
    pages: Pages<T>,
    len: usize,
    of: PhantomData<T>,
}

enum Pages<T> {
    Small(Vec<T>),
    /// The words begin at byte `start`, the first huge page boundary of the map.
    Large {
        map: MmapMut,
        start: usize,
    },
    File(Mmap),
}

impl<T: Word> Memory<T> {
    /// `len` copies of `value`.
    pub(super) fn filled(len: usize, value: T) -> Result<Self> {
        let mut memory = Memory::zeroed(len)?;
        if value != T::zeroed() {
            each(memory.words_mut()?, CHUNK, |_, chunk| chunk.fill(value));
        }
        Ok(memory)
    }

    /// Shortens the buffer. The other words stay allocated; untouched pages cost nothing.
    pub(super) fn shortened(mut self, len: usize) -> Self {
        if let Pages::Small(words) = &mut self.pages {
            words.truncate(len);
        }
        Memory { len: self.len.min(len), ..self }
    }

    /// `len` zeros.
    pub(super) fn zeroed(len: usize) -> Result<Self> {
        let bytes = len.checked_mul(size_of::<T>()).ok_or_else(|| out_of_memory(usize::MAX))?;
        let pages = if bytes < HUGE_PAGE || cfg!(miri) {
            let mut words = Vec::new();
            words.try_reserve_exact(len).map_err(|_| out_of_memory(bytes))?;
            words.resize(len, T::zeroed());
            Pages::Small(words)
        } else {
            let length = bytes.checked_add(HUGE_PAGE).ok_or_else(|| out_of_memory(bytes))?;
            let map = MmapMut::map_anon(length).map_err(|_| out_of_memory(bytes))?;
            // Only a hint: without huge pages everything is slower and nothing is wrong.
            #[cfg(target_os = "linux")]
            let _ = map.advise(memmap2::Advice::HugePage);
            let start = map.as_ptr().align_offset(HUGE_PAGE).min(HUGE_PAGE);
            Pages::Large { map, start }
        };
        Ok(Memory { pages, len, of: PhantomData })
    }

    /// A copy of `data`.
    pub(super) fn of(data: &[T]) -> Result<Self> {
        let mut memory = Memory::zeroed(data.len())?;
        copy(data, memory.words_mut()?);
        Ok(memory)
    }

    /// The words.
    pub fn words(&self) -> &[T] {
        match &self.pages {
            Pages::Small(words) => words,
            Pages::Large { map, start } => bytemuck::cast_slice(&map[*start..start + self.len * size_of::<T>()]),
            Pages::File(map) => bytemuck::cast_slice(map),
        }
    }

    /// The words, mutably.
    ///
    /// # Errors
    /// [`Error::Device`] if they are mapped from a file.
    pub fn words_mut(&mut self) -> Result<&mut [T]> {
        match &mut self.pages {
            Pages::Small(words) => Ok(words),
            Pages::Large { map, start } => {
                let start = *start;
                Ok(bytemuck::cast_slice_mut(&mut map[start..start + self.len * size_of::<T>()]))
            }
            Pages::File(_) => {
                Err(failed("writing to a table", "it is mapped read-only from a file; change a copy of it"))
            }
        }
    }
}

impl Memory<u64> {
    /// The `words` 64-bit words of `file` from byte `offset_bytes` on. They are read on first use and never written.
    ///
    /// # Safety
    /// Until the buffer is dropped, no one, in this process or another, may write to those bytes or truncate the file.
    /// To the compiler the words are `&[u64]`, which it may assume not to change; reading past a new end kills the
    /// process (SIGBUS). Replacing the file by renaming another one over it is allowed: existing maps keep the old
    /// contents.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`] unless the offset is a multiple of 8; [`Error::LengthMismatch`] if the file is too
    /// short; [`Error::Device`] if the system refuses.
    #[expect(unsafe_code, reason = "other processes may write to the file")]
    pub unsafe fn map_file(file: &File, offset_bytes: u64, words: usize) -> Result<Memory<u64>> {
        if !offset_bytes.is_multiple_of(8) {
            return Err(Error::parameter("offset", offset_bytes, "words begin at multiples of 8 bytes"));
        }
        let doing = "mapping a file";
        let found = file.metadata().map_err(|error| failed(doing, error))?.len();
        let expected = (words as u64).saturating_mul(8).saturating_add(offset_bytes);
        if found < expected {
            return Err(Error::LengthMismatch { what: "the file", found, expected });
        }
        if words == 0 {
            return Memory::zeroed(0);
        }
        // SAFETY: the bytes are only read as u64, for which every pattern is valid, and the caller guarantees that they
        // do not change.
        let map = unsafe { MmapOptions::new().offset(offset_bytes).len(words * 8).map(file) };
        let map = map.map_err(|error| failed(doing, error))?;
        Ok(Memory { pages: Pages::File(map), len: words, of: PhantomData })
    }
}

impl<T: Word> DeviceBuffer for Memory<T> {
    fn len(&self) -> usize {
        self.len
    }
}

impl<T: Word> fmt::Debug for Memory<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pages = match &self.pages {
            Pages::Small(_) => "vec",
            Pages::Large { .. } => "map",
            Pages::File(_) => "file",
        };
        f.debug_struct("Memory").field("pages", &pages).field("len", &self.len).finish()
    }
}

/// The error for a failed allocation of this many bytes.
pub(super) fn out_of_memory(bytes: usize) -> Error {
    Error::OutOfMemory { device: "cpu".into(), bytes: bytes as u64 }
}

/// Copies on all threads; the slices have equal lengths.
pub(super) fn copy<T: Word>(from: &[T], to: &mut [T]) {
    each((to, from), CHUNK, |_, (to, from)| to.copy_from_slice(from));
}

/// The same words as atomics, for the duration of the exclusive borrow.
#[expect(unsafe_code, reason = "AtomicU64::from_mut_slice is not stable")]
pub(crate) fn atomic(words: &mut [u64]) -> &[AtomicU64] {
    const { assert!(align_of::<AtomicU64>() == align_of::<u64>(), "32-bit targets align u64 to less") }
    // SAFETY: the types have the same size, alignment (just above) and valid bit patterns. The exclusive borrow lasts
    // as long as the result, so all access in that time is atomic.
    unsafe { &*(std::ptr::from_mut(words) as *const [AtomicU64]) }
}

/// [`atomic`] for words of 32 bits. `bytemuck` casts an image of 64-bit words to its halves.
#[expect(unsafe_code, reason = "AtomicU32::from_mut_slice is not stable")]
pub(super) fn atomic_u32(words: &mut [u32]) -> &[AtomicU32] {
    const { assert!(align_of::<AtomicU32>() == align_of::<u32>()) }
    // SAFETY: as above.
    unsafe { &*(std::ptr::from_mut(words) as *const [AtomicU32]) }
}

/// Prefetches the cache line of `words[index]`. An index past the end is harmless.
///
/// On x86 it is fetched into the L2 cache, because an L1 cache supports fewer outstanding lines (on Zen 4, 130 million
/// random lines per second into L1, and 230 million into L2), and a core hides the latency from L2.
#[allow(unsafe_code, reason = "prefetch instructions take pointers; Miri and some processors have none")]
#[inline(always)]
pub(super) fn prefetch<T>(words: &[T], index: usize) {
    let line = words.as_ptr().wrapping_add(index);
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch is a hint on an address: it reads nothing into the program and never faults, whatever the
    // address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(line.cast());
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: as above; `core::arch::aarch64::_prefetch` is not stable.
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{line}]", line = in(reg) line, options(nostack, readonly, preserves_flags));
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    let _ = line;
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn small_large_and_empty() {
        for len in [0usize, 1, 1000, (HUGE_PAGE / 4) - 1, HUGE_PAGE / 4, HUGE_PAGE + 3] {
            let mut memory = Memory::filled(len, 7u32).expect("memory");
            assert_eq!((memory.len(), memory.words().len()), (len, len));
            assert!(memory.words().iter().all(|&word| word == 7));
            memory.words_mut().expect("writable").fill(9);
            assert!(memory.words().iter().all(|&word| word == 9));
            assert!(Memory::<u64>::zeroed(len).expect("memory").words().iter().all(|&word| word == 0));
        }
    }

    #[test]
    fn too_large_allocations_are_errors() {
        for len in [usize::MAX, usize::MAX / 8, isize::MAX as usize / 8, 1 << 52] {
            assert!(matches!(Memory::<u64>::zeroed(len), Err(Error::OutOfMemory { .. })), "{len}");
        }
    }

    #[test]
    fn a_file_is_read_in_place_and_never_written() {
        let mut file = tempfile::tempfile().expect("a file");
        let words: Vec<u64> = (0..3000).collect();
        file.write_all(&[0; 24]).expect("written");
        file.write_all(bytemuck::cast_slice(&words)).expect("written");
        #[expect(unsafe_code, reason = "what is tested")]
        let map_file = |offset, words| {
            // SAFETY: the file has no name, and is not written to any more.
            unsafe { Memory::map_file(&file, offset, words) }
        };
        let mut mapped = map_file(24, 3000).expect("mapped");
        assert_eq!(mapped.words(), words);
        assert!(matches!(mapped.words_mut(), Err(Error::Device { .. })));
        assert_eq!(map_file(24 + 8 * 2999, 1).expect("mapped").words(), [2999]);
        assert!(map_file(24, 0).expect("mapped").words().is_empty());
        assert!(matches!(map_file(24, 3001), Err(Error::LengthMismatch { .. })));
        assert!(matches!(map_file(u64::MAX - 7, 3001), Err(Error::LengthMismatch { .. })));
        assert!(matches!(map_file(0, usize::MAX), Err(Error::LengthMismatch { .. })));
        assert!(matches!(map_file(4, 1), Err(Error::InvalidParameter { .. })));
    }

    #[test]
    fn prefetching_nonsense_is_harmless() {
        for index in [0, 1, 1 << 20, usize::MAX] {
            prefetch(&[1u64], index);
            prefetch::<u64>(&[], index);
        }
    }
}
