//! Parallel passes over columns, on the current thread pool, or on the calling thread with [`alone`].
//!
//! ```text
//! fold(input, size, of_chunk, join):
//!     split the input into about 16 pieces per thread; a piece consists of whole chunks of `size`
//!     input longer than a piece:  fold both halves, in parallel if a thread is free; join the two results
//!     a piece:                    of_chunk(number, chunk) for each chunk in turn; join the results
//! ```
//!
//! This module replaces rayon's parallel iterators, because every use of one is compiled separately, into about 2,000
//! lines of LLVM. With 206 uses, that was a third of this crate's code (docs/decisions/40). Here only the recursion
//! depends on the types of the input and the result, `rayon::join` is compiled once, and the work is a plain loop.
//!
//! The passes do not adapt to the load: all pieces have the same length and are known at the start. A thread that
//! finishes early takes over whole pieces, but does not split them.

use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rayon::ThreadPool;

use crate::error::Result;
use crate::memory;

/// The number of pieces per thread. It is greater than 1, because pieces may take different times, and threads may be
/// busy with other work.
const PIECES: usize = 16;

/// An input that can be split in two.
pub(crate) trait Divide: Sized + Send {
    /// The number of elements.
    fn len(&self) -> usize;

    /// The first `at` elements, or all if there are fewer, and the remaining elements.
    fn cut(self, at: usize) -> (Self, Self);
}

impl Divide for Range<usize> {
    fn len(&self) -> usize {
        ExactSizeIterator::len(self)
    }
    #[inline]
    fn cut(self, at: usize) -> (Self, Self) {
        let middle = self.end.min(self.start.saturating_add(at));
        (self.start..middle, middle..self.end)
    }
}

impl<T: Sync> Divide for &[T] {
    fn len(&self) -> usize {
        <[T]>::len(self)
    }
    #[inline]
    fn cut(self, at: usize) -> (Self, Self) {
        self.split_at(at.min(<[T]>::len(self)))
    }
}

impl<T: Send> Divide for &mut [T] {
    fn len(&self) -> usize {
        <[T]>::len(self)
    }
    #[inline]
    fn cut(self, at: usize) -> (Self, Self) {
        let at = at.min(<[T]>::len(self));
        self.split_at_mut(at)
    }
}

/// A column with one element per group of `self.0` elements of the other columns, such as the words of a bitmap or the
/// state of each chunk. It is split between groups.
pub(crate) struct Per<T>(pub usize, pub T);

impl<T: Divide> Divide for Per<T> {
    fn len(&self) -> usize {
        self.1.len().saturating_mul(self.0)
    }
    #[inline]
    fn cut(self, at: usize) -> (Self, Self) {
        let (first, second) = self.1.cut(at.div_ceil(self.0));
        (Per(self.0, first), Per(self.0, second))
    }
}

/// Columns of equal length. The first column determines the length.
macro_rules! columns {
    ($($name:ident)*) => {
        impl<$($name: Divide),*> Divide for ($($name,)*) {
            fn len(&self) -> usize {
                self.0.len()
            }
            #[inline]
            #[allow(non_snake_case, reason = "a column is called by its type")]
            fn cut(self, at: usize) -> (Self, Self) {
                let ($($name,)*) = self;
                $(let $name = $name.cut(at);)*
                (($($name.0,)*), ($($name.1,)*))
            }
        }
    };
}
columns!(A B);
columns!(A B C);
columns!(A B C D);
columns!(A B C D E);

/// Calls `of_chunk` with each chunk and its number. Chunks have `size` elements; the last one may have fewer.
pub(crate) fn each<I: Divide>(input: I, size: usize, of_chunk: impl Fn(usize, I) + Sync) {
    fold(input, size, of_chunk, |(), ()| ());
}

/// As [`each`], with state that a thread keeps from chunk to chunk.
pub(crate) fn each_with<I: Divide, W>(
    input: I,
    size: usize,
    lend: impl Fn() -> W + Sync,
    of_chunk: impl Fn(&mut W, usize, I) + Sync,
) {
    fold_with(input, size, lend, of_chunk, |(), ()| ());
}

/// The results of `of_chunk`, in the order of the chunks.
pub(crate) fn collect<I: Divide, R: Default + Send>(
    input: I,
    size: usize,
    of_chunk: impl Fn(usize, I) -> R + Sync,
) -> Result<Vec<R>> {
    let chunks = input.len().div_ceil(size);
    let mut all = memory::reserved(chunks)?;
    all.resize_with(chunks, R::default);
    each((input, Per(size, &mut all[..])), size, |number, (chunk, Per(_, to))| {
        to[0] = of_chunk(number, chunk);
    });
    Ok(all)
}

/// Appends the results of `of_index` for 0 to `len` to a vector with enough capacity. A thread computes `size` results
/// at a time.
#[expect(unsafe_code, reason = "the length of a vector that was filled from several threads")]
pub(crate) fn append<T: Send>(to: &mut Vec<T>, len: usize, size: usize, of_index: impl Fn(usize) -> T + Sync) {
    let before = to.len();
    let spare = &mut to.spare_capacity_mut()[..len];
    each(spare, size, |number, spare| {
        for (i, spare) in (number * size..).zip(spare) {
            spare.write(of_index(i));
        }
    });
    // SAFETY: `each` has returned, so it was called with every chunk of the `len` elements after the first `before`,
    // and each call wrote all elements of its chunk.
    unsafe { to.set_len(before + len) }
}

/// The results of `of_chunk`, joined in order; the default if there are no chunks.
pub(crate) fn fold<I: Divide, R: Default + Send>(
    input: I,
    size: usize,
    of_chunk: impl Fn(usize, I) -> R + Sync,
    join: impl Fn(R, R) -> R + Sync,
) -> R {
    fold_with(input, size, || (), |(), number, chunk| of_chunk(number, chunk), join).unwrap_or_default()
}

/// Whether `of_chunk` is true for any chunk. Stops at the first such chunk.
pub(crate) fn any<I: Divide>(input: I, size: usize, of_chunk: impl Fn(usize, I) -> bool + Sync) -> bool {
    let known = AtomicBool::new(false);
    each(input, size, |number, chunk| {
        if !known.load(Relaxed) && of_chunk(number, chunk) {
            known.store(true, Relaxed);
        }
    });
    known.into_inner()
}

/// As [`fold`], with state that a thread keeps from chunk to chunk of a piece. `None` if there are no chunks.
pub(crate) fn fold_with<I: Divide, W, R: Send>(
    input: I,
    size: usize,
    lend: impl Fn() -> W + Sync,
    of_chunk: impl Fn(&mut W, usize, I) -> R + Sync,
    join: impl Fn(R, R) -> R + Sync,
) -> Option<R> {
    let of_piece = |first: usize, piece: I| {
        let (mut kept, mut all, mut rest) = (lend(), None, piece);
        for number in first.. {
            let (chunk, behind) = rest.cut(size);
            if chunk.len() == 0 {
                break;
            }
            all = joined(all, Some(of_chunk(&mut kept, number, chunk)), &join);
            rest = behind;
        }
        all
    };
    let chunks = input.len().div_ceil(size);
    if chunks <= 1 {
        // `threads` would start them.
        return of_piece(0, input);
    }
    let threads = threads();
    let most = if threads == 1 { chunks } else { chunks.div_ceil(PIECES * threads) };
    halves(input, 0, Pieces { size, most }, &of_piece, &join)
}

/// How an input is split.
#[derive(Clone, Copy)]
struct Pieces {
    /// The number of elements per chunk.
    size: usize,
    /// The maximum number of chunks per piece.
    most: usize,
}

/// Calls `of_piece` with each piece, and the number of its first chunk.
fn halves<I: Divide, R: Send>(
    input: I,
    first: usize,
    pieces: Pieces,
    of_piece: &(dyn Fn(usize, I) -> Option<R> + Sync),
    join: &(dyn Fn(R, R) -> R + Sync),
) -> Option<R> {
    let chunks = input.len().div_ceil(pieces.size);
    if chunks <= pieces.most {
        return of_piece(first, input);
    }
    let middle = chunks / 2;
    let (left, right) = input.cut(middle * pieces.size);
    let (mut left, mut right) = (Some(left), Some(right));
    let (mut of_left, mut of_right) = (None, None);
    both(&mut || of_left = left.take().and_then(|half| halves(half, first, pieces, of_piece, join)), &mut || {
        of_right = right.take().and_then(|half| halves(half, first + middle, pieces, of_piece, join))
    });
    joined(of_left, of_right, join)
}

#[inline]
fn joined<R>(a: Option<R>, b: Option<R>, join: impl Fn(R, R) -> R) -> Option<R> {
    match (a, b) {
        (Some(a), Some(b)) => Some(join(a, b)),
        (a, b) => a.or(b),
    }
}

/// Calls both functions, on two threads if another one is free. It has no type parameters, so it is compiled once.
pub(crate) fn both(a: &mut (dyn FnMut() + Send), b: &mut (dyn FnMut() + Send)) {
    rayon::join(a, b);
}

/// A task that [`with_tasks`] starts.
#[cfg(feature = "opencl")]
pub(crate) type Task<'t> = Box<dyn FnOnce() + Send + 't>;

/// Calls `work` with a function that starts tasks on other threads, in order. Returns when all tasks have ended.
#[cfg(feature = "opencl")]
pub(crate) fn with_tasks<'t, R>(work: impl FnOnce(&dyn Fn(Task<'t>)) -> R) -> R {
    rayon::in_place_scope_fifo(|scope| work(&|task| scope.spawn_fifo(|_| task())))
}

thread_local! {
    /// Whether this thread runs its passes without other threads.
    static ALONE: Cell<bool> = const { Cell::new(false) };
}

/// The number of threads that share the passes of this thread.
pub(crate) fn threads() -> usize {
    if ALONE.get() { 1 } else { rayon::current_num_threads() }
}

/// Calls `work`, during which this thread runs all passes without other threads.
pub(crate) fn alone(work: &mut (dyn FnMut() + Send)) {
    /// Restores the previous setting, also after a panic.
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            ALONE.set(self.0);
        }
    }
    let _before = Before(ALONE.replace(true));
    work();
}

/// Calls `work` on a thread of the pool, so that [`each`] and the other passes use that pool. This is also compiled
/// once.
pub(crate) fn within(pool: &ThreadPool, work: &mut (dyn FnMut() + Send)) {
    pool.install(work);
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[test]
    fn alone_runs_all_work_on_the_calling_thread() {
        let me = std::thread::current().id();
        let others = AtomicUsize::new(0);
        let pass = || {
            each(0..100_000, 10, |_, _| {
                if std::thread::current().id() != me {
                    others.fetch_add(1, Relaxed);
                }
            });
        };
        alone(&mut || alone(&mut || pass()));
        alone(&mut || pass());
        assert_eq!((others.load(Relaxed), threads()), (0, rayon::current_num_threads()));
        std::panic::catch_unwind(|| alone(&mut || panic!("on purpose"))).expect_err("a panic");
        assert_eq!(threads(), rayon::current_num_threads());
    }

    const LENGTHS: [usize; 8] = [0, 1, 6, 7, 8, 69, 70, 10_001];

    #[test]
    fn chunks_run_once_and_return_results_in_order() {
        for threads in [1, 2, 5] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
            for len in LENGTHS {
                let mut all = Ok(Vec::new());
                within(&pool, &mut || all = collect(0..len, 7, |number, chunk| (number, chunk)));
                let expected = (0..len.div_ceil(7)).map(|i| (i, 7 * i..len.min(7 * i + 7)));
                assert_eq!(all.expect("memory"), expected.collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn columns_are_split_at_the_same_positions() {
        for len in LENGTHS {
            let from: Vec<u32> = (0..len as u32).collect();
            let (mut to, mut bits, sums) = (vec![0; len], vec![0u32; len.div_ceil(32)], vec![1; len.div_ceil(64)]);
            let columns = (&from[..], &mut to[..], Per(32, &mut bits[..]), Per(64, &sums[..]));
            each(columns, 64, |number, (from, to, Per(_, bits), Per(_, sum))| {
                assert_eq!((from[0] as usize, to.len(), sum.len()), (64 * number, from.len(), 1));
                assert_eq!(bits.len(), from.len().div_ceil(32));
                to.copy_from_slice(from);
                bits.fill(sum[0]);
            });
            assert!(to == from && bits.iter().all(|&word| word == 1), "{len}");
        }
    }

    #[test]
    fn results_are_joined_in_order_and_pieces_have_their_own_state() {
        for len in LENGTHS {
            let begun = AtomicUsize::new(0);
            let lend = || begun.fetch_add(1, Relaxed);
            let concat = |a: String, b: String| a + &b;
            let text = fold_with(0..len, 3, lend, |_, _, chunk| format!("{chunk:?} "), concat).unwrap_or_default();
            let expected: String = (0..len.div_ceil(3)).map(|i| format!("{:?} ", 3 * i..len.min(3 * i + 3))).collect();
            assert_eq!(text, expected);
            assert!(begun.into_inner() <= 2 * PIECES * rayon::current_num_threads());
        }
    }

    #[test]
    fn elements_are_appended_after_existing_ones() {
        for len in LENGTHS {
            let mut all = vec![String::from("first")];
            all.reserve(len);
            append(&mut all, len, 7, |i| i.to_string());
            assert_eq!(all.len(), len + 1);
            assert!(all[0] == "first" && all[1..].iter().enumerate().all(|(i, text)| *text == i.to_string()), "{len}");
        }
    }

    #[test]
    fn any_finds_a_matching_chunk() {
        for len in LENGTHS {
            assert_eq!(any(0..len, 7, |_, chunk| chunk.contains(&69)), len > 69);
        }
    }
}
