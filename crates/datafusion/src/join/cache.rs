//! Build sides that partitions, queries and sessions share.
//!
//! ```text
//! slot      one for each digest (identity.rs): the first query to need it builds it, others wait for it
//! keep      the sides that were used last, within the limit of the session that adds one
//! ```
//!
//! A side that is removed is freed after the last query that uses it. If a query that builds a side ends early, another
//! one that waits builds it.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion::execution::memory_pool::MemoryReservation;
use koel_arrow::PreparedJoin;
use tokio::sync::OnceCell;

/// A build side, with its memory in the pool of the query that built it.
pub(super) struct Shared {
    pub(super) prepared: Arc<PreparedJoin>,
    pub(super) reservation: MemoryReservation,
}

/// A place for a build side.
pub(super) type Slot = Arc<OnceCell<Arc<Shared>>>;

/// Build sides of joins that queries share: those of files that did not change.
///
/// [`with_koel`](crate::WithKoel::with_koel) adds an empty one to a session, unless its config has one. It is used if
/// `koel.build_cache_bytes` is not 0. Sessions that are created with one `Arc` of it in their config share it, for
/// example those of the tasks of an executor:
///
/// ```
/// use std::sync::Arc;
/// use datafusion::execution::SessionStateBuilder;
/// use datafusion::prelude::SessionConfig;
/// use koel_datafusion::{KoelBuildCache, KoelOptions, WithKoel};
///
/// let cache = Arc::new(KoelBuildCache::default());
/// for _ in 0..2 {
///     let config = SessionConfig::new().with_extension(Arc::clone(&cache));
///     let options = KoelOptions::default().build_cache_bytes(4 << 30);
///     let state = SessionStateBuilder::new().with_default_features().with_config(config).with_koel(options).build();
/// #   let _ = state;
/// }
/// assert!(cache.is_empty());
/// ```
#[derive(Default)]
pub struct KoelBuildCache {
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    sides: HashMap<u128, Entry>,
    /// The number of uses.
    uses: u64,
}

struct Entry {
    slot: Slot,
    /// 0 until it is built.
    bytes: usize,
    /// The number of its last use.
    used: u64,
}

impl KoelBuildCache {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of build sides.
    pub fn len(&self) -> usize {
        self.lock().built().count()
    }

    /// Whether there are no build sides.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The memory of the build sides in bytes, as reserved in the memory pool: without rows that are in files.
    pub fn bytes(&self) -> usize {
        self.lock().bytes()
    }

    /// Removes all build sides. Queries that use one keep it.
    pub fn clear(&self) {
        self.lock().sides.clear();
    }

    /// The place of a build side.
    pub(super) fn slot(&self, identity: u128) -> Slot {
        let mut kept = self.lock();
        kept.uses += 1;
        let used = kept.uses;
        let entry = kept.sides.entry(identity).or_insert_with(|| Entry { slot: Slot::default(), bytes: 0, used });
        entry.used = used;
        Arc::clone(&entry.slot)
    }

    /// Keeps a build side that was built, and removes those that were not used for the longest time while there are
    /// more than `limit` bytes.
    pub(super) fn keep(&self, identity: u128, slot: &Slot, bytes: usize, limit: usize) {
        let mut kept = self.lock();
        let used = kept.uses;
        // An entry of 0 bytes would count as not built.
        kept.sides.insert(identity, Entry { slot: Arc::clone(slot), bytes: bytes.max(1), used });
        while kept.bytes() > limit {
            let oldest = kept.built().min_by_key(|(_, entry)| entry.used).map(|(&identity, _)| identity);
            let Some(oldest) = oldest else { return };
            kept.sides.remove(&oldest);
        }
    }

    /// Removes the place of a build side that was not built.
    pub(super) fn forget(&self, identity: u128) {
        let mut kept = self.lock();
        if kept.sides.get(&identity).is_some_and(|entry| entry.bytes == 0) {
            kept.sides.remove(&identity);
        }
    }
}

impl Kept {
    fn built(&self) -> impl Iterator<Item = (&u128, &Entry)> {
        self.sides.iter().filter(|(_, entry)| entry.bytes > 0)
    }

    fn bytes(&self) -> usize {
        self.sides.values().map(|entry| entry.bytes).sum()
    }
}

impl fmt::Debug for KoelBuildCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kept = self.lock();
        f.debug_struct("KoelBuildCache").field("sides", &kept.built().count()).field("bytes", &kept.bytes()).finish()
    }
}
