//! Running a kernel.
//!
//! ```text
//! device.kernel(&program, "gather")?.buffer(&from).value(from.len() as u64)....over(len)
//! ```
//!
//! Kernels trust their arguments. This is sound because every kernel is in cl/, and all calls of it are in one function
//! of `src/opencl`. The lengths that kernels of schemes rely on are checked by `backend/kernels.rs`, through which all
//! calls go; those of other kernels are checked where they are called. Each kernel checks its index against a length
//! that it receives; the driver checks the number and sizes of the arguments; and this file rejects buffers of other
//! contexts, and two buffers with the same memory.
//!
//! Kernel objects are created for each launch (about a microsecond), because they store their arguments and so cannot
//! be shared by threads.

use ocl::OclPrm;
use ocl::core::{self, ArgVal};
use ocl::prm::Uint16;

use super::buffer::Place;
use super::commands;
use crate::backend::{Decoded, DeviceBuffer as _, Word, bitmap_words};
use crate::error::{Error, Result};
use crate::opencl::{Buffer, OpenCl};
use crate::scheme::hash::MixKeys;

/// A kernel that receives its arguments, in order.
pub(in crate::opencl) struct Launch<'a> {
    device: &'a OpenCl,
    kernel: core::Kernel,
    name: &'static str,
    /// Its name in clocks and ledger.
    stage: &'static str,
    arguments: u32,
    /// The bytes of all buffers so far, which a driver that allocates late may be unable to provide.
    bytes: u64,
    /// The memory of those buffers whose handles may be used elsewhere.
    places: Vec<Place>,
    /// The first error.
    failed: Option<Error>,
}

impl OpenCl {
    pub(in crate::opencl) fn kernel(&self, program: &core::Program, name: &'static str) -> Result<Launch<'_>> {
        let kernel = core::create_kernel(program, name);
        let kernel = kernel.map_err(|error| self.failed(format!("taking kernel {name} from its program"), error))?;
        Ok(Launch { device: self, kernel, name, stage: name, arguments: 0, bytes: 0, places: Vec::new(), failed: None })
    }
}

impl<'a> Launch<'a> {
    /// Records it as part of this stage, rather than under its own name.
    pub(in crate::opencl) fn stage(self, stage: &'static str) -> Self {
        Launch { stage, ..self }
    }

    /// Passes a buffer as the next argument. It is borrowed until the kernel is queued, because memory that is freed
    /// earlier may be reused by another thread.
    pub(in crate::opencl) fn buffer<T: Word>(mut self, buffer: &'a Buffer<T>) -> Self {
        if let Err(error) = self.device.check_owner(buffer) {
            self.failed.get_or_insert(error);
        }
        if let Some(place) = buffer.place() {
            if self.places.iter().any(|other| place.aliases(other)) {
                self.failed.get_or_insert(Error::Aliased);
            }
            self.places.push(place);
        }
        self.bytes += buffer.bytes();
        self.argument(ArgVal::mem(buffer.memory()))
    }

    /// Passes a number, or a vector of numbers, as the next argument.
    pub(in crate::opencl) fn value<T: OclPrm>(self, value: T) -> Self {
        self.argument(ArgVal::primitive(&value))
    }

    /// Passes the constants of at most five mixers as the next two arguments, in the format of cl/functions.clh.
    pub(in crate::opencl) fn mixers(self, mixers: &[MixKeys]) -> Self {
        // `back` has sixteen numbers too, because the crate's `Uint8` has eight bytes.
        let (mut forth, mut back) = ([0; 16], [0; 16]);
        for ((forth, back), keys) in forth.chunks_exact_mut(3).zip(&mut back).zip(mixers) {
            forth.copy_from_slice(&[keys.before, keys.times, keys.between]);
            *back = keys.back;
        }
        self.value(Uint16::from(forth)).value(Uint16::from(back))
    }

    /// Passes the sentinel pair as the next arguments, followed by those of [`answers`](Self::answers).
    pub(in crate::opencl) fn answering(
        self,
        outside: Option<(u32, u32)>,
        queries: &'a Buffer<u32>,
        values: Option<&'a Buffer<u32>>,
        found: &'a Buffer<u32>,
    ) -> Self {
        let launch = self.value(u32::from(outside.is_some())).value(outside.map_or(0, |(_, value)| value));
        launch.answers(queries, values, found)
    }

    /// Passes queries, their number, and the buffers for the results as the next arguments. Without values, the program
    /// must be one that returns only bits.
    pub(in crate::opencl) fn answers<K: Word, V: Word>(
        self,
        queries: &'a Buffer<K>,
        values: Option<&'a Buffer<V>>,
        found: &'a Buffer<u32>,
    ) -> Self {
        let launch = self.buffer(queries).value(queries.len() as u64);
        match values {
            Some(values) => launch.buffer(values),
            None => launch,
        }
        .buffer(found)
    }

    fn argument(mut self, value: ArgVal<'_>) -> Self {
        if let Err(error) = core::set_kernel_arg(&self.kernel, self.arguments, value) {
            let doing = format!("setting argument {} of kernel {}", self.arguments, self.name);
            let error = self.device.failed(doing, error);
            self.failed.get_or_insert(error);
        }
        self.arguments += 1;
        self
    }

    /// Runs it over the cells of an image, with columns for the decoded pairs as its last three arguments, and returns
    /// them.
    pub(in crate::opencl) fn into_columns<K: Word, V: Word>(
        self,
        cells: usize,
    ) -> Result<Decoded<Buffer<K>, Buffer<V>, Buffer<u32>>> {
        let (keys, values) = (Buffer::allocate(self.device, cells)?, Buffer::allocate(self.device, cells)?);
        let taken = Buffer::allocate(self.device, bitmap_words(cells))?;
        self.buffer(&keys).buffer(&values).buffer(&taken).over(cells)?;
        Ok(Decoded { keys, values, taken })
    }

    /// Runs it with one work-item for each of `items`, in groups of the device's usual size.
    pub(in crate::opencl) fn over(self, items: usize) -> Result<()> {
        let group = self.device.0.sizes.group;
        self.over_groups_of(group, items, items)
    }

    /// Runs it with at least `work_items` in groups of `group`; the ledger counts `items`.
    pub(in crate::opencl) fn over_groups_of(self, group: usize, work_items: usize, items: usize) -> Result<()> {
        let Launch { device, kernel, name, stage, bytes, failed, .. } = self;
        if let Some(error) = failed {
            return Err(error);
        }
        if work_items == 0 {
            return Ok(());
        }
        // Not every device supports a last group that is smaller than the others.
        let global = work_items.div_ceil(group) * group;
        let queued = device.with_room(|| {
            device.0.clocks.record(stage, |event| commands::run(&device.0.queue, &kernel, global, group, event))
        });
        queued.map_err(|error| device.failed_using(format!("running kernel {name}"), bytes, error))?;
        device.0.ledger.kernel(stage, items);
        Ok(())
    }
}
