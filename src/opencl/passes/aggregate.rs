//! The host side of cl/accumulate.cl.

use std::sync::atomic::Ordering::Relaxed;

use crate::backend::numbers::bits_of;
use crate::backend::{
    Accumulated, DeviceBuffer, HashBackend, Numbers, Relational, Wanted, WideAccumulated, bitmap_words,
};
use crate::cpu::{Cpu, atomic};
use crate::error::{Error, Result};
use crate::exact::{Window, sums_of_runs};
use crate::memory::zeroed;
use crate::opencl::runtime::program::ACCUMULATE;
use crate::opencl::{Buffer, OpenCl};

/// Rows of a work-item in an aggregation.
pub(in crate::opencl) const ROWS_EACH: usize = 32;
/// Entries of a group's own table.
pub(in crate::opencl) const ENTRIES: usize = 1024;
/// Entries of a group's own table for 64-bit values.
pub(in crate::opencl) const WIDE_ENTRIES: usize = 512;

// An owner, a count, a sum in two halves, a least and a greatest value; every device has this much local memory.
const _: () = assert!(ENTRIES.is_power_of_two() && ENTRIES * 6 * size_of::<u32>() <= 32 << 10);
// The least and the greatest value have 64 bits, and the sum has four quarters.
const _: () = assert!(WIDE_ENTRIES.is_power_of_two() && WIDE_ENTRIES * 10 * size_of::<u32>() <= 32 << 10);

/// The number of sampled doubles from which the window of a column is chosen.
const SAMPLE: usize = 1 << 12;

impl OpenCl {
    pub(in crate::opencl) fn accumulate_program(
        &self,
        wide: Option<Numbers>,
        wanted: Wanted,
    ) -> Result<ocl::core::Program> {
        let Wanted { count, sum, mean, least, greatest } = wanted;
        self.program(
            ACCUMULATE,
            &[
                ("WANT_COUNT", (count || mean).into()),
                ("WANT_SUM", (sum || mean).into()),
                ("WANT_LEAST", least.into()),
                ("WANT_GREATEST", greatest.into()),
                ("VALUE_BITS", if wide.is_some() { u64::BITS } else { u32::BITS }),
                ("NUMBERS", wide.map_or(0, Numbers::code)),
                ("ENTRIES", if wide.is_some() { WIDE_ENTRIES } else { ENTRIES } as u32),
                ("GROUP", self.pass_group() as u32),
                ("EACH", ROWS_EACH as u32),
            ],
        )
    }

    pub(super) fn run_accumulate(
        &self,
        ids: &Buffer<u32>,
        values: &Buffer<u32>,
        groups: usize,
        wanted: Wanted,
    ) -> Result<Accumulated<OpenCl>> {
        let wanted = Wanted { mean: false, ..wanted };
        let len = ids.len();
        Error::check_length("the values", values.len(), if wanted.values() { len } else { 0 })?;
        let cells = |wanted: bool| if wanted { groups } else { 0 };
        let all = Accumulated::<OpenCl> {
            counts: self.filled(cells(wanted.count), 0)?,
            sums: self.filled(cells(wanted.sum), 0)?,
            least: self.filled(cells(wanted.least), u32::MAX)?,
            greatest: self.filled(cells(wanted.greatest), 0)?,
        };
        if wanted == Wanted::default() {
            return Ok(all);
        }
        let launch = self.kernel(&self.accumulate_program(None, wanted)?, "accumulate")?.buffer(ids).buffer(values);
        let launch = launch.value(len as u64).value(groups as u32).buffer(&all.counts).buffer(&all.sums);
        let launch = launch.buffer(&all.least).buffer(&all.greatest);
        launch.over_groups_of(self.pass_group(), len.div_ceil(ROWS_EACH), len)?;
        Ok(all)
    }

    /// Like the aggregation of 32-bit values, followed by a pass over the groups.
    pub(super) fn run_accumulate_wide(
        &self,
        ids: &Buffer<u32>,
        values: &Buffer<u64>,
        of: Numbers,
        groups: usize,
        wanted: Wanted,
    ) -> Result<WideAccumulated<OpenCl>> {
        let len = ids.len();
        Error::check_length("the values", values.len(), if wanted.values() { len } else { 0 })?;
        if let Some(cpu) = self.builder() {
            return self.accumulate_wide_on(cpu, ids, values, of, groups, wanted);
        }
        let cells = |wanted: bool| if wanted { groups } else { 0 };
        let mut all = WideAccumulated::<OpenCl> {
            counts: self.filled(cells(wanted.count || wanted.mean), 0)?,
            sums: self.filled(cells(wanted.is_summed()), 0)?,
            means: self.filled(cells(wanted.mean), 0)?,
            least: self.filled(cells(wanted.least), u64::MAX)?,
            greatest: self.filled(cells(wanted.greatest), 0)?,
            overflow: None,
        };
        if wanted == Wanted::default() {
            return Ok(all);
        }
        let highs: Buffer<u64> = self.filled(cells(wanted.is_summed()), 0)?;
        let program = self.accumulate_program(Some(of), wanted)?;
        let doubles = of == Numbers::Double && wanted.is_summed();
        // `about`: the greatest exponent of a sample, and whether there are leftovers. `left`: a bit for each leftover
        // row.
        let about: Buffer<u32> = self.filled(2, 0)?;
        let left: Buffer<u32> = self.filled(if doubles { bitmap_words(len) } else { 0 }, 0)?;
        if doubles {
            let step = len.div_ceil(SAMPLE).max(1);
            let launch = self.kernel(&program, "sample")?.stage("accumulate").buffer(values).value(len as u64);
            launch.value(step as u64).buffer(&about).over_groups_of(self.pass_group(), len.div_ceil(step), 0)?;
        }
        let launch = self.kernel(&program, "accumulate")?.buffer(ids).buffer(values).value(len as u64);
        let launch = launch.value(groups as u32).buffer(&all.counts).buffer(&all.sums);
        let mut launch = launch.buffer(&all.least).buffer(&all.greatest).buffer(&highs);
        if doubles {
            launch = launch.buffer(&about).buffer(&left);
        }
        launch.over_groups_of(self.pass_group(), len.div_ceil(ROWS_EACH), len)?;
        if !wanted.values() {
            return Ok(all);
        }
        let mut found = [0; 2];
        if doubles {
            self.read(&about, 0, &mut found)?;
        }
        let [exponent, has_left] = found;
        let exact = match has_left {
            0 => None,
            _ => Some(self.leftovers(ids, values, &left, &all, &highs, Window::around(exponent))?),
        };
        // Not the number of a group, until a sum does not fit.
        let overflow = self.filled(1, u32::MAX)?;
        let launch = self.kernel(&program, "settle")?.stage("accumulate").value(groups as u64).buffer(&all.sums);
        let launch = launch.buffer(&highs).buffer(&all.counts).buffer(&all.means);
        let launch = launch.buffer(&all.least).buffer(&all.greatest).buffer(&overflow);
        launch.buffer(&about).value(u32::from(wanted.mean)).over_groups_of(self.pass_group(), groups, 0)?;
        if let Some(Exact { groups, sums, means }) = exact {
            let groups = self.upload(&groups)?;
            for (found, to) in [(sums, &all.sums), (means, &all.means)] {
                if !to.is_empty() {
                    let found = self.upload(&found)?;
                    let launch = self.kernel(&program, "put")?.stage("accumulate").buffer(&found).buffer(&groups);
                    let launch = launch.value(groups.len() as u64).buffer(to);
                    launch.over_groups_of(self.pass_group(), groups.len(), 0)?;
                }
            }
        }
        if wanted.sum && of != Numbers::Double {
            let mut first = [0];
            self.read(&overflow, 0, &mut first)?;
            all.overflow = (first[0] != u32::MAX).then_some(first[0]);
        }
        if !wanted.sum {
            all.sums = self.filled(0, 0)?;
        }
        if !wanted.count {
            all.counts = self.filled(0, 0)?;
        }
        Ok(all)
    }

    /// Aggregates on the CPU, in the partial tier, because 64-bit values need 64-bit atomics.
    fn accumulate_wide_on(
        &self,
        cpu: &Cpu,
        ids: &Buffer<u32>,
        values: &Buffer<u64>,
        of: Numbers,
        groups: usize,
        wanted: Wanted,
    ) -> Result<WideAccumulated<OpenCl>> {
        self.0.ledger.host("accumulate", ids.len());
        let (ids, values) = (cpu.upload(&self.download(ids)?)?, cpu.upload(&self.download(values)?)?);
        let found = cpu.accumulate_wide(&ids, &values, of, groups, wanted)?;
        Ok(WideAccumulated {
            counts: self.upload(found.counts.words())?,
            sums: self.upload(found.sums.words())?,
            means: self.upload(found.means.words())?,
            least: self.upload(found.least.words())?,
            greatest: self.upload(found.greatest.words())?,
            overflow: found.overflow,
        })
    }

    /// Sums and means of the groups that have rows outside of the window, computed on the host.
    fn leftovers(
        &self,
        ids: &Buffer<u32>,
        values: &Buffer<u64>,
        left: &Buffer<u32>,
        all: &WideAccumulated<OpenCl>,
        highs: &Buffer<u64>,
        window: Window,
    ) -> Result<Exact> {
        let rows = self.select(left, true, &self.iota(ids.len())?)?;
        let (ids, values) = self.sort_pairs(&self.gather(ids, &rows)?, &self.gather(values, &rows)?)?;
        let groups = self.select(&self.heads(&ids)?, true, &ids)?;
        let of_groups = |words: &Buffer<u64>| self.download(&self.gather(words, &groups)?);
        let (lows, highs) = (of_groups(&all.sums)?, of_groups(highs)?);
        let counts = match all.counts.len() {
            0 => None,
            _ => Some(self.download(&self.gather(&all.counts, &groups)?)?),
        };
        let (ids, values, groups) = (self.download(&ids)?, self.download(&values)?, self.download(&groups)?);
        self.0.ledger.host("accumulate", ids.len());
        let is_wanted = |wanted: bool| if wanted { groups.len() } else { 0 };
        let (mut sums, mut means) = (zeroed(groups.len())?, zeroed(is_wanted(counts.is_some()))?);
        let (to_sums, to_means) = (atomic(&mut sums), atomic(&mut means));
        sums_of_runs(&ids, &values, |id, rest| {
            let at = groups.partition_point(|&group| group < id);
            let integer = i128::from(highs[at] as i64) << 64 | i128::from(lows[at]);
            let count = counts.as_ref().map_or(0, |counts| counts[at].into());
            let [sum, mean] = rest.results(integer, window.unit(), count);
            to_sums[at].store(bits_of(sum), Relaxed);
            if let Some(to) = to_means.get(at) {
                to.store(bits_of(mean), Relaxed);
            }
        })?;
        Ok(Exact { groups, sums, means })
    }
}

/// Results of some groups.
struct Exact {
    groups: Vec<u32>,
    sums: Vec<u64>,
    means: Vec<u64>,
}
