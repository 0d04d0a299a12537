//! The CPU backend used by several threads: tables, structures, shards and files, compared with maps of std.
//!
//! ```text
//! tables.rs       one table: every scheme of `u32` keys, and of 64-bit keys or values
//! structures.rs   sets, ids, multivalue tables, groups and joins
//! shards.rs       the same, sharded over two devices, and files of sharded structures
//! ```
//!
//! These tests are for tools that check memory accesses: Miri, with a few keys, and ThreadSanitizer, with 20,000 pairs
//! (`.ci/nightly`). `KOEL_TEST_THREADS` is the number of threads in the pool. They are in this package rather than in
//! the library's suite because these tools instrument every dependency, and here the library is the only one.

mod shards;
mod structures;
mod tables;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use koel::Cpu;
use koel::backend::Word;
use koel::scheme::hash::SplitMix64;
use koel::scheme::{Limits, Scheme};
use rayon::{ThreadPool, ThreadPoolBuilder};

/// The number of pairs of a table. Under Miri chunks are short (`CHUNK` in `src/cpu/mod.rs`), and half of these pairs
/// are two.
const PAIRS: usize = if cfg!(miri) { 72 } else { 20_000 };
/// The number of rows of a column. Half of them exceed what one thread processes alone (`ALONE` in `src/cpu`).
const ROWS: usize = if cfg!(miri) { 72 } else { 150_000 };

/// The pool of all tests.
fn pool() -> &'static Arc<ThreadPool> {
    static POOL: OnceLock<Arc<ThreadPool>> = OnceLock::new();
    POOL.get_or_init(|| {
        let threads = std::env::var("KOEL_TEST_THREADS").map_or(4, |threads| threads.parse().expect("a number"));
        Arc::new(ThreadPoolBuilder::new().num_threads(threads).build().expect("threads"))
    })
}

/// A new device on the pool.
fn new_cpu() -> Cpu {
    Cpu::from_pool(Arc::clone(pool()))
}

/// The device of all tests that need one.
fn cpu() -> &'static Cpu {
    static CPU: OnceLock<Cpu> = OnceLock::new();
    CPU.get_or_init(new_cpu)
}

/// Runs a test on a thread of the pool: under Miri, waking the pool for each pass takes longer than the pass.
fn inside(test: impl FnOnce() + Send) {
    pool().install(test);
}

/// The model of a table of `S`.
type Map<S> = BTreeMap<<S as Scheme>::Key, <S as Scheme>::Value>;

/// The columns of a model, in an order that is not that of the keys.
fn columns<K: Word, V: Word>(model: &BTreeMap<K, V>) -> (Vec<K>, Vec<V>) {
    let mut pairs: Vec<(K, V)> = model.iter().map(|(&key, &value)| (key, value)).collect();
    pairs.sort_by_key(|&(key, _)| key.into().wrapping_mul(0x9e37_79b9_7f4a_7c15));
    pairs.into_iter().unzip()
}

/// [`PAIRS`] random pairs within the limits of a scheme, or as many as it can hold. The least and the greatest key are
/// among them.
fn pairs<S: Scheme>(scheme: &S) -> Map<S> {
    let Limits { key_bits, value_bits, pairs } = scheme.limits();
    let mut stream = SplitMix64::new(3);
    let mut bits = |bits: u32| stream.next_u64().checked_shr(64 - bits).unwrap_or(0);
    let count = PAIRS.min(usize::try_from(pairs).unwrap_or(PAIRS));
    let extremes = [0, u64::MAX >> (64 - key_bits)];
    let keys: Vec<u64> = (2..count).map(|_| bits(key_bits)).chain(extremes).collect();
    keys.into_iter().map(|key| (S::Key::low(key), S::Value::low(bits(value_bits)))).collect()
}

/// A column of `rows` keys, of which about `distinct` are distinct, all multiples of an odd number.
fn column<K: Word>(rows: usize, distinct: usize, seed: u64) -> Vec<K> {
    let mut stream = SplitMix64::new(seed);
    let key = |number: u64| K::low(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    (0..rows).map(|_| key(stream.next_u64() % distinct as u64)).collect()
}

/// The path of a temporary file, which is deleted on drop.
struct Temporary(PathBuf);

impl Temporary {
    /// `test` is a name that no other test uses.
    fn new(test: &str) -> Temporary {
        Temporary(std::env::temp_dir().join(format!("koel-threads-{}-{test}", std::process::id())))
    }
}

impl AsRef<Path> for Temporary {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).ok();
    }
}
