//! Which shape of a lookup is faster on a device: a work-item a key, several that read a bucket together, or one for many
//! keys.
//!
//! ```text
//! alone      one work-item reads the 64 bytes of a bucket in four loads       no barriers, no detours
//! together   four work-items read 16 bytes each of the same bucket, for four  GPUs: a bucket is one access; on an H200
//!            keys; what they find meets in local memory                       up to twice the rate
//! runs       one work-item takes 256 keys: it asks for all their buckets,     CPUs: some ten times the rate of the first,
//!            then looks at each as one vector (cl/runs.clh)                   as nobody waits for a single bucket
//! ```
//!
//! CPUs take runs. Which of the others a device wants its name does not tell, so two small kernels (cl/shape.cl) are timed
//! against each other when the first lookup needs to know. That takes a millisecond on a GPU.

use std::time::{Duration, Instant};

use crate::backend::{DeviceKind, HashBackend};
use crate::error::Result;
use crate::opencl::runtime::program::SHAPE;
use crate::opencl::{Buffer, LookupShape, OpenCl, lock};
use crate::tuning::tuning;

/// Keys of a work-item that takes runs. On four cores 256 were half as fast again as 64 and as fast as 1024; the shorter they
/// are, the more cores have something to do in a small batch.
const RUN: usize = 256;
// None ends within a word of the bitmap.
const _: () = assert!(RUN.is_multiple_of(32));

/// Blocks of 64 bytes that are read from: 4 MiB, beyond a GPU's L1 and quick to make on anything.
const BLOCKS: usize = 1 << 16;
/// Reads of the runs that are not counted, in which drivers compile.
const WARM_UP_READS: usize = 1 << 8;
/// Reads of the first run that counts; they double ..
const FEWEST_READS: usize = 1 << 10;
/// .. up to here, ..
const MOST_READS: usize = 1 << 22;
/// .. until the faster shape takes so long that the ticks of a device's clock no longer matter, ..
const LONG_ENOUGH: Duration = Duration::from_micros(40);
/// .. or waiting for a run takes so long that more would be felt (simulators).
const TOO_LONG: Duration = Duration::from_millis(5);
/// The best of so many runs counts, ..
const RUNS: usize = 5;
/// .. as long as all of it stays within this.
const PATIENCE: Duration = Duration::from_millis(100);

impl OpenCl {
    /// Work-items of a group of lookups. Where they share their reads, more of them share the keys that need a further
    /// bucket: on an H200, in a table that fits the cache, 128 were 3% faster than 64 and 256.
    pub(in crate::opencl) fn lookup_group(&self, shape: LookupShape) -> usize {
        match shape {
            LookupShape::Alone => self.0.sizes.group,
            // More than 256 not every device takes.
            LookupShape::Together => (2 * self.0.sizes.group).min(256),
            // Nothing is shared.
            LookupShape::Runs => 1,
        }
    }

    /// Work-items of lookups of so many keys.
    pub(in crate::opencl) fn lookup_items(&self, shape: LookupShape, keys: usize) -> usize {
        match shape {
            LookupShape::Alone | LookupShape::Together => keys,
            LookupShape::Runs => keys.div_ceil(RUN),
        }
    }

    /// Memory for values that nobody asked for, where a lookup needs it all the same: runs keep their answers there.
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

    /// What cl/runs.clh wants to know when a program is built.
    pub(in crate::opencl) fn run_parameters(&self, shape: LookupShape) -> [(&'static str, u32); 2] {
        let run = if shape == LookupShape::Runs { RUN as u32 } else { 0 };
        [("RUN", run), ("CPU", u32::from(self.0.info.kind == DeviceKind::Cpu))]
    }

    /// The shape of lookups in tables with buckets: what [`OpenCl::set_lookup_shape`] said, or the environment variable
    /// `KOEL_LOOKUP_SHAPE` (`alone`, `together` or `runs`), or else runs on a CPU, and elsewhere what is faster of the
    /// others. That is found out at the first call, in some milliseconds, and then kept. Cuckoo and Robin Hood tables
    /// have runs as well, and otherwise a work-item a key.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`](crate::Error::InvalidParameter) if the variable holds anything else; the device's errors.
    pub fn lookup_shape(&self) -> Result<LookupShape> {
        let mut known = lock(&self.0.shape);
        if let Some(shape) = *known {
            return Ok(shape);
        }
        let shape = match self.shape_without_measuring()? {
            Some(shape) => shape,
            // Whoever times a lookup does not mean this.
            None => self.0.clocks.aside(|| self.faster_shape())?,
        };
        *known = Some(shape);
        Ok(shape)
    }

    /// The shape of lookups in tables of single slots, where there is nothing to read together: runs or alone. Nothing is
    /// measured for it.
    pub(in crate::opencl) fn slot_lookup_shape(&self) -> Result<LookupShape> {
        let known = *lock(&self.0.shape);
        let shape = match known {
            Some(shape) => Some(shape),
            None => self.shape_without_measuring()?,
        };
        Ok(if shape == Some(LookupShape::Runs) { LookupShape::Runs } else { LookupShape::Alone })
    }

    /// What the environment says, or the kind of device.
    fn shape_without_measuring(&self) -> Result<Option<LookupShape>> {
        let by_kind = (self.0.info.kind == DeviceKind::Cpu).then_some(LookupShape::Runs);
        Ok(tuning().lookup_shape()?.or(by_kind))
    }

    /// Decides the shape of lookups on this device, for all clones of this handle; `None` leaves it to the next lookup
    /// to find it out (again).
    pub fn set_lookup_shape(&self, shape: Option<LookupShape>) {
        *lock(&self.0.shape) = shape;
    }

    /// Alone or together.
    fn faster_shape(&self) -> Result<LookupShape> {
        let program = self.program(SHAPE, &[("GROUP", self.0.sizes.group as u32)])?;
        let blocks: Buffer<u64> = self.filled(BLOCKS * 8, 0)?;
        // Both shapes once: how long the device was busy with each, and how long it all took.
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
        // A simulator's clock is that of its machine, which does other things too.
        let quickly = Duration::from_secs(if small() { 30 } else { 1 });
        assert!(start.elapsed() < quickly, "{:?}", start.elapsed());
        let (shape, busy) = cl.timed(|| cl.with_group(32).lookup_shape())?;
        let is_cpu = cl.info().kind == DeviceKind::Cpu;
        let chosen = tuning().lookup_shape()?.is_some();
        assert!(busy.is_zero() && (chosen || is_cpu == (shape == LookupShape::Runs)), "{shape}, {busy:?}");
        let (_, busy) = cl.timed(|| cl.lookup_shape())?;
        assert!(busy.is_zero(), "the runs count for nobody's clock: {busy:?}");
        cl.ledger().take();
        for shape in LookupShape::ALL {
            cl.set_lookup_shape(Some(shape));
            assert_eq!(cl.clone().lookup_shape()?, shape);
        }
        assert!(cl.ledger().take().is_empty(), "what is known is not measured");
        Ok(())
    }
}
