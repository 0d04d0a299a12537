//! Who did the work: for each stage, how many items kernels processed and how many a loop on the host did.
//!
//! `verify --json` prints it, so that a "GPU build" that runs on the host can be seen for what it is.

use std::sync::Mutex;

/// The counts of one stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// The kernel's or the loop's name.
    pub name: &'static str,
    /// Items that kernels (on the CPU backend: parallel passes) processed.
    pub kernel: u64,
    /// Items that one host thread looped over.
    pub host: u64,
}

/// The stages of a device, in order of first use.
#[derive(Debug, Default)]
pub struct Ledger {
    stages: Mutex<Vec<Stage>>,
}

impl Ledger {
    /// Counts items that a kernel processed.
    pub fn kernel(&self, name: &'static str, items: usize) {
        self.add(name, items as u64, 0);
    }

    /// Counts items that a loop on the host processed.
    pub fn host(&self, name: &'static str, items: usize) {
        self.add(name, 0, items as u64);
    }

    /// All stages since this was last asked.
    pub fn take(&self) -> Vec<Stage> {
        std::mem::take(&mut *self.lock())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Stage>> {
        self.stages.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn add(&self, name: &'static str, kernel: u64, host: u64) {
        let mut stages = self.lock();
        let at = match stages.iter().position(|stage| stage.name == name) {
            Some(at) => at,
            None => {
                stages.push(Stage { name, kernel: 0, host: 0 });
                stages.len() - 1
            }
        };
        stages[at].kernel += kernel;
        stages[at].host += host;
    }
}
