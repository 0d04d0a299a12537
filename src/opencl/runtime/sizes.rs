//! The sizes that a handle uses: those that its device supports; tests use other sizes too.

/// Work-items of a group of a table's kernels: 64, as in the paper. In the prototypes this was 5% faster than 128 or
/// 256 on an H200 if the table fits in the L2 cache; for larger tables all three were equal.
pub(in crate::opencl) const GROUP: usize = 64;

/// Work-items of a group of all other passes, if the device supports this many. Large groups have large tiles, so that
/// work per tile is rare.
pub(in crate::opencl) const MOST_PASS_GROUP: usize = 256;

/// The sizes of a handle.
#[derive(Clone, Copy, Debug)]
pub(in crate::opencl) struct Sizes {
    /// The maximum number of work-items of a group.
    pub(in crate::opencl) most: usize,
    /// Work-items of a group of a table's kernels.
    pub(in crate::opencl) group: usize,
    /// Work-items of a group of passes that do not belong to a scheme: a power of two.
    pub(in crate::opencl) passes: usize,
    /// Bytes of a slot of pinned memory.
    pub(in crate::opencl) slot: usize,
    /// Bytes of the shortest transfer through slots.
    pub(in crate::opencl) shortest: usize,
}

impl Sizes {
    /// The sizes for a device whose groups have at most `most` work-items, which is at least 64.
    pub(in crate::opencl) fn of(most: usize) -> Sizes {
        Sizes {
            most,
            group: GROUP,
            passes: if most < MOST_PASS_GROUP { 1 << most.max(GROUP).ilog2() } else { MOST_PASS_GROUP },
            // The queries of a chunk, of 64 bits.
            slot: 8 << 20,
            shortest: 512 << 10,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_the_largest_power_of_two_that_the_device_supports() {
        let passes = [64, 65, 127, 128, 192, 255, 256, 1024, usize::MAX].map(|most| Sizes::of(most).passes);
        assert_eq!(passes, [64, 64, 64, 128, 128, 128, 256, 256, 256]);
    }
}
