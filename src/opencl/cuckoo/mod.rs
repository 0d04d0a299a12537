//! The host side of cl/cuckoo.cl: programs and arguments. Schemes with images of a cuckoo table, that is quadratic
//! tables and sets, use its kernels too. `wide.rs` has the tables of 64-bit keys or values.

mod wide;

use super::passes::tally::Tally;
use super::runtime::launch::Launch;
use super::runtime::program::CUCKOO;
use super::{Buffer, LookupShape, OpenCl};
use crate::backend::{Decoded, DeviceBuffer, HashBackend as _, Passes, Placed, Removed};
use crate::error::Result;
use crate::scheme::cuckoo::{Cell, CuckooImage};
use crate::scheme::{CuckooPlan, HashFamily, Kind, Plan, Reinsertion};

impl OpenCl {
    /// The program for the tables of this plan, with slots of type `C` and lookups of this shape. It does not depend on
    /// what varies between attempts.
    pub(super) fn cuckoo<C: Cell>(&self, plan: &CuckooPlan, shape: LookupShape) -> Result<ocl::core::Program> {
        let family = plan.family();
        let [run, cpu] = self.run_parameters(shape);
        self.program(
            CUCKOO,
            &[
                run,
                cpu,
                ("CLASSIC", u32::from(plan.kind() == Kind::Classic)),
                ("CELL_BITS", C::BITS),
                ("FUNCTIONS", plan.functions().count),
                ("FAMILY", family as u32),
                ("FAMILY_MIXER", HashFamily::Mixer as u32),
                ("FAMILY_LINEAR", HashFamily::Linear as u32),
                ("REINSERTION", plan.reinsertion() as u32),
                ("AS_PUBLISHED", Reinsertion::AsPublished as u32),
                ("RANDOM_FUNCTION", Reinsertion::RandomFunction as u32),
                ("GROUP", self.0.sizes.group as u32),
            ],
        )
    }

    /// A kernel with the arguments with which all kernels of cl/cuckoo.cl begin: the image, and `TABLE`.
    ///
    /// The kernels rely on an image that contains a slot for each place of a key.
    fn cuckoo_kernel<'a, S: CuckooImage>(
        &'a self,
        plan: &S::Plan,
        name: &'static str,
        image: &'a Buffer<u64>,
    ) -> Result<Launch<'a>> {
        self.cuckoo_kernel_of::<S>(self.slot_lookup_shape()?, plan, name, image)
    }

    fn cuckoo_kernel_of<'a, S: CuckooImage>(
        &'a self,
        shape: LookupShape,
        plan: &S::Plan,
        name: &'static str,
        image: &'a Buffer<u64>,
    ) -> Result<Launch<'a>> {
        let plan = &S::cuckoo_plan(plan);
        let launch = self.kernel(&self.cuckoo::<S::Cell>(plan, shape)?, name)?.buffer(image);
        Ok(launch.value(plan.slot_count()).mixers(&plan.functions().keys))
    }

    /// `Passes::lookup`, alone or by runs.
    pub(super) fn cuckoo_lookup_as<S: CuckooImage>(
        &self,
        shape: LookupShape,
        plan: &S::Plan,
        image: &Buffer<u64>,
        queries: &Buffer<u32>,
        values: &mut Buffer<u32>,
        found: &mut Buffer<u32>,
    ) -> Result<()> {
        let len = queries.len();
        let launch = self.cuckoo_kernel_of::<S>(shape, plan, "cuckoo_lookup", image)?;
        let launch = launch.answering(plan.outside(), queries, Some(values), found);
        launch.over_groups_of(self.lookup_group(shape), self.lookup_items(shape, len), len)
    }
}

/// The number of slots, which is the length of columns of decoded pairs.
fn slots<S: CuckooImage>(plan: &S::Plan) -> usize {
    S::cuckoo_plan(plan).slot_count() as usize
}

#[diagnostic::do_not_recommend]
impl<S: CuckooImage> Passes<S> for OpenCl {
    /// Canonical tables: upper halves are placed like those of a set, because they decide the places; then the
    /// values are assigned. Takes two further kernels, and half of the image's memory.
    fn partial_build(
        &self,
        plan: &S::Plan,
        keys: &Buffer<u32>,
        values: &Buffer<u32>,
    ) -> Result<Option<(Buffer<u64>, Placed)>> {
        if plan.kind() == Kind::Classic {
            return Ok(None);
        }
        let (tally, cuckoo) = (Tally::new(self)?, S::cuckoo_plan(plan));
        let cells: Buffer<u64> = self.filled(slots::<S>(plan).div_ceil(2), 0)?;
        let program = self.cuckoo::<u32>(&cuckoo, self.slot_lookup_shape()?)?;
        let place = self.kernel(&program, "cuckoo_place")?.buffer(&cells).value(cuckoo.slot_count());
        let place = place.mixers(&cuckoo.functions().keys).value(cuckoo.chain()).buffer(keys).buffer(values);
        place.value(keys.len() as u64).buffer(tally.status()).over(keys.len())?;
        let placed = tally.placed(self, plan.outside())?;
        if S::Cell::KEYS_ALONE {
            return Ok(Some((cells, placed)));
        }
        if placed.duplicates > 0 {
            return Ok(None);
        }
        let mut image = self.widened(&cells, plan.word_count()?)?;
        if placed.unplaced == 0 {
            Passes::<S>::assign(self, plan, &mut image, keys, values)?;
        }
        Ok(Some((image, placed)))
    }

    /// One kernel (classic: two), one fill of 48 bytes and one read of them.
    fn place(
        &self,
        plan: &S::Plan,
        image: &mut Buffer<u64>,
        keys: &Buffer<u32>,
        values: &Buffer<u32>,
    ) -> Result<Placed> {
        let pairs = keys.len();
        let tally = Tally::new(self)?;
        let chain = S::cuckoo_plan(plan).chain();
        let place = self.cuckoo_kernel::<S>(plan, "cuckoo_place", image)?.value(chain).buffer(keys).buffer(values);
        place.value(pairs as u64).buffer(tally.status()).over(pairs)?;
        if plan.kind() == Kind::Classic {
            // Classic builds do not detect duplicates while placing, because duplicates may be stored at different
            // places of their key.
            self.cuckoo_kernel::<S>(plan, "cuckoo_copies", image)?.buffer(tally.status()).over(slots::<S>(plan))?;
        }
        tally.placed(self, plan.outside())
    }

    fn lookup(
        &self,
        plan: &S::Plan,
        image: &Buffer<u64>,
        queries: &Buffer<u32>,
        values: &mut Buffer<u32>,
        found: &mut Buffer<u32>,
    ) -> Result<()> {
        self.cuckoo_lookup_as::<S>(self.slot_lookup_shape()?, plan, image, queries, values, found)
    }

    fn assign(&self, plan: &S::Plan, image: &mut Buffer<u64>, keys: &Buffer<u32>, values: &Buffer<u32>) -> Result<()> {
        if S::Cell::KEYS_ALONE {
            // There is nothing to overwrite.
            return Ok(());
        }
        let launch = self.cuckoo_kernel::<S>(plan, "cuckoo_assign", image)?.buffer(keys).buffer(values);
        launch.value(keys.len() as u64).over(keys.len())
    }

    fn decode(&self, plan: &S::Plan, image: &Buffer<u64>) -> Result<Decoded<Buffer<u32>>> {
        self.cuckoo_kernel::<S>(plan, "cuckoo_decode", image)?.into_columns(slots::<S>(plan))
    }

    /// One kernel, one fill and one read of the status.
    fn remove(&self, plan: &S::Plan, image: &mut Buffer<u64>, keys: &Buffer<u32>) -> Result<Removed> {
        let tally = Tally::new(self)?;
        let launch = self.cuckoo_kernel::<S>(plan, "cuckoo_remove", image)?.buffer(keys).value(keys.len() as u64);
        launch.buffer(tally.status()).over(keys.len())?;
        tally.removed(self)
    }

    fn lift(&self, plan: &S::Plan, image: &mut Buffer<u64>) -> Result<Decoded<Buffer<u32>>> {
        self.cuckoo_kernel::<S>(plan, "cuckoo_lift", image)?.into_columns(slots::<S>(plan))
    }
}
