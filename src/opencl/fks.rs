//! The host side of cl/fks.cl and cl/fks_build.cl: programs and arguments.

use ocl::core::Program;

use super::passes::scan::Scan;
use super::passes::tally::Tally;
use super::runtime::launch::Launch;
use super::runtime::program::{FKS, FKS_BUILD};
use super::{Buffer, OpenCl};
use crate::backend::{Decoded, DeviceBuffer, HashBackend, Passes, Placed};
use crate::error::{Error, Result};
use crate::scheme::fks::FksFamily;
use crate::scheme::{Fks, FksPlan, Kind, Plan};

/// The maximum number of pairs of a build, because the starts of buckets are 32-bit numbers.
const MOST_PAIRS: u64 = u32::MAX as u64;

/// The parameters with which cl/fks.clh is compiled.
pub(super) fn parameters(plan: &FksPlan, group: usize) -> Vec<(&'static str, u32)> {
    let functions = plan.functions();
    vec![
        ("CLASSIC", u32::from(plan.kind() == Kind::Classic)),
        ("SAHU", u32::from(plan.family() == FksFamily::Sahu)),
        ("SEEDS", functions.seeds()),
        ("FUNCTIONS", functions.keys.len() as u32),
        ("GROUP", group as u32),
    ]
}

/// The arguments that all kernels of a table take, first or after the image. It must live until they are enqueued,
/// because the arguments of a kernel keep no memory alive.
#[derive(Debug)]
pub(super) struct Table<'a> {
    plan: &'a FksPlan,
    /// Sahu's seeds, on the device.
    list: Option<Buffer<u32>>,
}

impl<'a> Table<'a> {
    pub(super) fn new(device: &OpenCl, plan: &'a FksPlan) -> Result<Table<'a>> {
        let list = match plan.family() {
            FksFamily::Sahu => Some(device.upload(&plan.functions().list)?),
            FksFamily::Mixer => None,
        };
        Ok(Table { plan, list })
    }

    /// Passes `TABLE` as the next arguments.
    pub(super) fn given_to<'d>(&'d self, launch: Launch<'d>) -> Launch<'d> {
        let launch = launch.value(self.plan.buckets()).mixers(&self.plan.functions().keys);
        match &self.list {
            Some(list) => launch.buffer(list),
            None => launch,
        }
    }
}

impl OpenCl {
    /// The program that reads the tables of this plan. Neither program depends on what varies between attempts.
    pub(super) fn fks(&self, plan: &FksPlan) -> Result<Program> {
        self.program(FKS, &parameters(plan, self.0.sizes.group))
    }

    /// The program that builds the tables of this plan.
    pub(super) fn fks_build(&self, plan: &FksPlan) -> Result<Program> {
        self.program(FKS_BUILD, &parameters(plan, self.0.sizes.group))
    }

    /// A kernel with the arguments that those on an image begin with: the image, and `TABLE`.
    ///
    /// The kernels rely on an image that contains all slots of each bucket, followed by a byte for each bucket.
    fn fks_kernel<'a>(
        &'a self,
        table: &'a Table<'_>,
        name: &'static str,
        image: &'a Buffer<u64>,
    ) -> Result<Launch<'a>> {
        Ok(table.given_to(self.kernel(&self.fks(table.plan)?, name)?.buffer(image)))
    }
}

impl Passes<Fks> for OpenCl {
    /// The poster's four stages (the scan is three kernels), two fills, and one read of 48 bytes.
    fn place(
        &self,
        plan: &FksPlan,
        image: &mut Buffer<u64>,
        keys: &Buffer<u32>,
        values: &Buffer<u32>,
    ) -> Result<Placed> {
        let table = Table::new(self, plan)?;
        let pairs = keys.len();
        if pairs as u64 > MOST_PAIRS {
            return Err(Error::TooLarge {
                what: "pairs of a two-level table",
                requested: pairs as u64,
                most: MOST_PAIRS,
            });
        }
        let (program, group) = (self.fks_build(plan)?, self.0.sizes.group);
        let tally = Tally::new(self)?;
        let buckets = plan.buckets() as usize;
        // Counts, then the start of each bucket. A further count is that of pairs that exceed a bucket: after the scan,
        // the last two numbers differ exactly if there are any.
        let starts: Buffer<u32> = self.filled(buckets + 2, 0)?;
        // All of this is written before it is read.
        let (ranks, shuffled) = (Buffer::<u32>::allocate(self, pairs)?, Buffer::<u64>::allocate(self, pairs)?);

        let over_pairs = |name| -> Result<Launch<'_>> {
            Ok(table.given_to(self.kernel(&program, name)?).buffer(keys).buffer(values).value(pairs as u64))
        };
        over_pairs("fks_count")?.buffer(&starts).buffer(&ranks).buffer(tally.status()).over(pairs)?;
        Scan::of(self, starts.len())?.in_stage("fks_scan").run(&starts)?;
        over_pairs("fks_shuffle")?.buffer(&starts).buffer(&ranks).buffer(&shuffled).over(pairs)?;
        let cuckoo = table.given_to(self.kernel(&program, "fks_cuckoo")?.buffer(image)).value(plan.iterations());
        let cuckoo = cuckoo.buffer(&starts).buffer(&shuffled).buffer(tally.status());
        cuckoo.over_groups_of(group, buckets * group, pairs)?;
        tally.placed(self, plan.outside())
    }

    fn lookup(
        &self,
        plan: &FksPlan,
        image: &Buffer<u64>,
        queries: &Buffer<u32>,
        values: &mut Buffer<u32>,
        found: &mut Buffer<u32>,
    ) -> Result<()> {
        let table = Table::new(self, plan)?;
        let launch = self.fks_kernel(&table, "fks_lookup", image)?;
        launch.answering(plan.outside(), queries, Some(values), found).over(queries.len())
    }

    fn assign(&self, plan: &FksPlan, image: &mut Buffer<u64>, keys: &Buffer<u32>, values: &Buffer<u32>) -> Result<()> {
        let table = Table::new(self, plan)?;
        let launch = self.fks_kernel(&table, "fks_assign", image)?.buffer(keys).buffer(values);
        launch.value(keys.len() as u64).over(keys.len())
    }

    fn decode(&self, plan: &FksPlan, image: &Buffer<u64>) -> Result<Decoded<Buffer<u32>>> {
        let (table, words) = (Table::new(self, plan)?, image.len());
        self.fks_kernel(&table, "fks_decode", image)?.value(words as u64).into_columns(words)
    }
}
