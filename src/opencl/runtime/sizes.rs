//! Sizes of a handle, which tests vary; all other handles use the defaults.

/// Work-items of a group of a table's kernels: the paper's 64. In the prototypes that was 5% better than 128 or 256 on
/// an H200 while a table fits the L2 cache; from memory all were equal.
pub(in crate::opencl) const GROUP: usize = 64;

/// The sizes of a handle.
#[derive(Clone, Copy, Debug)]
pub(in crate::opencl) struct Sizes {
    /// Work-items of a group of a table's kernels.
    pub(in crate::opencl) group: usize,
    /// Bytes of a slot of pinned memory.
    pub(in crate::opencl) slot: usize,
    /// Bytes of the shortest transfer through slots.
    pub(in crate::opencl) shortest: usize,
}

impl Default for Sizes {
    fn default() -> Self {
        Sizes {
            group: GROUP,
            // The queries of a chunk.
            slot: 4 << 20,
            shortest: 512 << 10,
        }
    }
}
