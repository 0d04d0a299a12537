//! TEMPORARY: through the host.
use super::{Buffer, OpenCl};
use crate::backend::{Accumulated, Expanded, HashBackend, Relational, Spans, Wanted, Word};
use crate::cpu::{Cpu, Memory};
use crate::error::Result;

impl OpenCl {
    fn down<T: Word>(&self, b: &Buffer<T>) -> Result<Memory<T>> {
        Cpu::new().upload(&self.download(b)?)
    }
    fn up<T: Word>(&self, m: &Memory<T>) -> Result<Buffer<T>> {
        self.upload(m.words())
    }
}

impl Relational for OpenCl {
    fn mark(&self, places: &Buffer<u32>, len: usize) -> Result<Buffer<u32>> {
        self.up(&Cpu::new().mark(&self.down(places)?, len)?)
    }
    fn heads(&self, column: &Buffer<u32>) -> Result<Buffer<u32>> {
        self.up(&Cpu::new().heads(&self.down(column)?)?)
    }
    fn ranks(&self, bits: &Buffer<u32>, len: usize) -> Result<Buffer<u32>> {
        self.up(&Cpu::new().ranks(&self.down(bits)?, len)?)
    }
    fn scatter(&self, values: &Buffer<u32>, places: &Buffer<u32>, len: usize) -> Result<Buffer<u32>> {
        self.up(&Cpu::new().scatter(&self.down(values)?, &self.down(places)?, len)?)
    }
    fn spans(
        &self,
        starts: &Buffer<u32>,
        ids: &Buffer<u32>,
        found: &Buffer<u32>,
        missing: Option<u32>,
    ) -> Result<Spans<Buffer<u32>>> {
        let s = Cpu::new().spans(&self.down(starts)?, &self.down(ids)?, &self.down(found)?, missing)?;
        Ok(Spans { starts: self.up(&s.starts)?, counts: self.up(&s.counts)? })
    }
    fn offsets(&self, counts: &Buffer<u32>) -> Result<Buffer<u64>> {
        self.up(&Cpu::new().offsets(&self.down(counts)?)?)
    }
    fn expand(
        &self,
        offsets: &Buffer<u64>,
        starts: &Buffer<u32>,
        first: u64,
        len: usize,
    ) -> Result<Expanded<Buffer<u32>>> {
        let e = Cpu::new().expand(&self.down(offsets)?, &self.down(starts)?, first, len)?;
        Ok(Expanded { runs: self.up(&e.runs)?, places: self.up(&e.places)? })
    }
    fn accumulate(
        &self,
        ids: &Buffer<u32>,
        values: &Buffer<u32>,
        groups: usize,
        wanted: Wanted,
    ) -> Result<Accumulated<OpenCl>> {
        let a = Cpu::new().accumulate(&self.down(ids)?, &self.down(values)?, groups, wanted)?;
        Ok(Accumulated {
            counts: self.up(&a.counts)?,
            sums: self.up(&a.sums)?,
            least: self.up(&a.least)?,
            greatest: self.up(&a.greatest)?,
        })
    }
    fn interleave(
        &self,
        cells: &Buffer<u64>,
        lower: &Buffer<u32>,
        bits: &Buffer<u32>,
        empty: u64,
    ) -> Result<Buffer<u64>> {
        self.up(&Cpu::new().interleave(&self.down(cells)?, &self.down(lower)?, &self.down(bits)?, empty)?)
    }
}
