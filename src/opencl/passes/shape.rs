//! The shapes of lookups, and which is fastest on a device: one work-item per key, several that read a bucket together,
//! or one for many keys.
//!
//! ```text
//! alone      one work-item reads the 64 bytes of a bucket in four loads       no barriers
//! together   four work-items read 16 bytes each of the same bucket, for four  GPUs: a bucket is one access; on an H200
//!            keys; they combine the results in local memory                   up to twice the rate
//! runs       one work-item takes 256 keys: it prefetches all their buckets,   CPUs: about ten times the rate of alone,
//!            then compares each as one vector (cl/runs.clh)                   because accesses overlap
//! ```
//!
//! CPUs use runs. Which of the others is faster does not follow from the name of a device, so the first lookup times
//! two small kernels (cl/shape.cl). That takes a millisecond on a GPU.

use std::time::{Duration, Instant};

use crate::backend::{DeviceKind, HashBackend};
use crate::error::Result;
use crate::opencl::runtime::program::SHAPE;
use crate::opencl::{Buffer, LookupShape, OpenCl, lock};
use crate::tuning::tuning;

/// Keys of a work-item in runs. On four cores, runs of 256 were 1.5 times as fast as runs of 64, and as fast as runs of
/// 1024. Shorter runs let more cores work on a small batch.
const RUN: usize = 256;
// No run ends within a word of the bitmap.
const _: () = assert!(RUN.is_multiple_of(32));

/// Blocks of 64 bytes to read from: 4 MiB, which exceeds a GPU's L1 cache and is quick to fill on any device.
const BLOCKS: usize = 1 << 16;
/// Reads of the warm-up, in which drivers compile.
const WARM_UP_READS: usize = 1 << 8;
/// Reads of the first measurement. They double ..
const FEWEST_READS: usize = 1 << 10;
/// .. up to this number, ..
const MOST_READS: usize = 1 << 22;
/// .. until the faster shape takes long enough for the resolution of a device's clock, ..
const LONG_ENOUGH: Duration = Duration::from_micros(40);
/// .. or a measurement takes so long that more would be noticeable (simulators).
const TOO_LONG: Duration = Duration::from_millis(5);
/// The best of this many measurements is used, ..
const RUNS: usize = 5;
/// .. as long as all of them together take less than this.
const PATIENCE: Duration = Duration::from_millis(100);

impl OpenCl {
    /// Work-items of a group of lookups. If work-items share their reads, larger groups distribute the keys that need a
    /// further bucket better: on an H200, in a table that fits in the cache, groups of 128 were 3% faster than 64 and
    /// 256.
    pub(in crate::opencl) fn lookup_group(&self, shape: LookupShape) -> usize {
        match shape {
            LookupShape::Alone => self.0.sizes.group,
            // Not every device supports more.
            LookupShape::Together => (2 * self.0.sizes.group).min(self.pass_group()),
            // Work-items share nothing.
            LookupShape::Runs => 1,
        }
    }

    /// Work-items of lookups of this many keys.
    pub(in crate::opencl) fn lookup_items(&self, shape: LookupShape, keys: usize) -> usize {
        match shape {
            LookupShape::Alone | LookupShape::Together => keys,
            LookupShape::Runs => keys.div_ceil(RUN),
        }
    }

    /// Memory for values that the caller did not request. Runs need it, because they store their results there.
    pub(in crate::opencl) fn scratch_values(
        &self,
        shape: LookupShape,
        values: Option<&Buffer<u32>>,
        len: usize,
    ) -> Result<Option<Buffer<u32>>> {
        match shape {
            LookupShape::Runs if values.is_none() => Buffer::allocate(self, len).map(Some),
            _ => Ok(None),
        }
    }

    /// The parameters with which cl/runs.clh is compiled.
    pub(in crate::opencl) fn run_parameters(&self, shape: LookupShape) -> [(&'static str, u32); 2] {
        let run = if shape == LookupShape::Runs { RUN as u32 } else { 0 };
        [("RUN", run), ("CPU", u32::from(self.0.info.kind == DeviceKind::Cpu))]
    }

    /// The shape of lookups in tables with buckets: the one set by [`OpenCl::set_lookup_shape`]; otherwise the one in
    /// the environment variable `KOEL_LOOKUP_SHAPE` (`alone`, `together` or `runs`); otherwise runs on a CPU, and on
    /// other devices the faster of the other two, which the first call measures in some milliseconds. Cuckoo and Robin
    /// Hood tables support runs as well, and otherwise use one work-item per key.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`](crate::Error::InvalidParameter) if the variable has any other value; the device's
    /// errors.
    pub fn lookup_shape(&self) -> Result<LookupShape> {
        let mut known = lock(&self.0.shape);
        if let Some(shape) = *known {
            return Ok(shape);
        }
        let shape = match self.shape_without_measuring()? {
            Some(shape) => shape,
            // Clocks of callers that time a lookup do not include this measurement.
            None => self.0.clocks.aside(|| self.faster_shape())?,
        };
        *known = Some(shape);
        Ok(shape)
    }

    /// The shape of lookups in tables of single slots, which cannot be read together: runs or alone. It is not
    /// measured.
    pub(in crate::opencl) fn slot_lookup_shape(&self) -> Result<LookupShape> {
        let known = *lock(&self.0.shape);
        let shape = match known {
            Some(shape) => Some(shape),
            None => self.shape_without_measuring()?,
        };
        Ok(if shape == Some(LookupShape::Runs) { LookupShape::Runs } else { LookupShape::Alone })
    }

    /// The shape that follows from the environment or the kind of device.
    fn shape_without_measuring(&self) -> Result<Option<LookupShape>> {
        let by_kind = (self.0.info.kind == DeviceKind::Cpu).then_some(LookupShape::Runs);
        Ok(tuning().lookup_shape()?.or(by_kind))
    }

    /// Sets the shape of lookups on this device, for all clones of this handle. With `None` the next lookup measures it
    /// (again).
    pub fn set_lookup_shape(&self, shape: Option<LookupShape>) {
        *lock(&self.0.shape) = shape;
    }

    /// Measures whether alone or together is faster.
    fn faster_shape(&self) -> Result<LookupShape> {
        let program = self.program(SHAPE, &[("GROUP", self.0.sizes.group as u32)])?;
        let blocks: Buffer<u64> = self.filled(BLOCKS * 8, 0)?;
        // Runs both shapes once. Returns how long the device was busy with each, and the total time.
        let run = |reads: usize| -> Result<([Duration; 2], Duration)> {
            let (to, start, mut busy) = (Buffer::<u32>::allocate(self, reads)?, Instant::now(), [Duration::ZERO; 2]);
            for (busy, name) in busy.iter_mut().zip(["shape_alone", "shape_together"]) {
                let launch = self.kernel(&program, name)?.buffer(&blocks).value(BLOCKS as u32);
                let launch = launch.value(reads as u32).buffer(&to);
                (_, *busy) = self.busy_time(|| launch.over(reads))?;
            }
            Ok((busy, start.elapsed()))
        };
        run(WARM_UP_READS)?;
        let (start, mut reads) = (Instant::now(), FEWEST_READS);
        let mut best = loop {
            let (busy, elapsed) = run(reads)?;
            if busy.iter().all(|&busy| busy >= LONG_ENOUGH) || elapsed >= TOO_LONG || reads >= MOST_READS {
                break busy;
            }
            reads *= 2;
        };
        for _ in 1..RUNS {
            if start.elapsed() >= PATIENCE {
                break;
            }
            let (busy, _) = run(reads)?;
            best = std::array::from_fn(|i| best[i].min(busy[i]));
        }
        Ok(if best[1] < best[0] { LookupShape::Together } else { LookupShape::Alone })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Probe;
    use crate::opencl::tests::{device, small};

    #[test]
    fn a_shape_is_measured_once_quickly_and_can_be_set() -> Result<()> {
        let Some(cl) = device() else { return Ok(()) };
        let cl = cl.with_group(64);
        cl.faster_shape()?;
        let start = Instant::now();
        cl.faster_shape()?;
        // A simulator runs on the host, which other processes use too.
        let quickly = Duration::from_secs(if small() { 30 } else { 1 });
        assert!(start.elapsed() < quickly, "{:?}", start.elapsed());
        let (shape, busy) = cl.timed(|| cl.with_group(32).lookup_shape())?;
        let is_cpu = cl.info().kind == DeviceKind::Cpu;
        let chosen = tuning().lookup_shape()?.is_some();
        assert!(busy.is_zero() && (chosen || is_cpu == (shape == LookupShape::Runs)), "{shape}, {busy:?}");
        let (_, busy) = cl.timed(|| cl.lookup_shape())?;
        assert!(busy.is_zero(), "the runs are not timed by a clock: {busy:?}");
        cl.ledger().take();
        for shape in LookupShape::ALL {
            cl.set_lookup_shape(Some(shape));
            assert_eq!(cl.clone().lookup_shape()?, shape);
        }
        assert!(cl.ledger().take().is_empty(), "what is known is not measured");
        Ok(())
    }
}
