//! Tests a device's atomics by a run with a known result: those of 64 bits, or of 32 in the partial tier.
//!
//! A device that implements them wrongly would build tables that lose pairs, without any error.

use super::program::ATOMICS;
use crate::backend::{DeviceInfo, HashBackend, Word};
use crate::error::{Error, Result};
use crate::opencl::{Buffer, OpenCl};

/// Work-items of the run: several groups, so that they compete from different compute units.
const ITEMS: usize = 1024;
/// Cells for exchanges that only succeed on an empty cell, each with four competitors.
const CONTESTS: usize = ITEMS / 4;

pub(in crate::opencl) fn unsupported(info: &DeviceInfo, missing: impl Into<String>) -> Error {
    Error::Unsupported { device: info.to_string(), missing: missing.into() }
}

impl OpenCl {
    /// Runs exchanges, conditional exchanges, maxima, sums and XORs, and checks the results.
    pub(in crate::opencl) fn test_atomics(&self) -> Result<()> {
        if self.0.builder.is_some() { self.test_atomics_of::<u32>() } else { self.test_atomics_of::<u64>() }
    }

    fn test_atomics_of<T: Token>(&self) -> Result<()> {
        let bits = T::BITS;
        #[cfg(feature = "fault-injection")]
        if crate::fault::spoils_atomics() {
            let failed = format!("its {bits}-bit atomics failed the self-test (planted fault)");
            return Err(unsupported(&self.0.info, failed));
        }
        let program = self.program(ATOMICS, &[])?;
        let cells: Buffer<T> = self.filled(4 + CONTESTS, T::zeroed())?;
        let exchanged: Buffer<T> = self.filled(ITEMS, T::zeroed())?;
        let before: Buffer<T> = self.filled(ITEMS, T::zeroed())?;
        let launch = self.kernel(&program, "atomics")?.buffer(&cells).buffer(&exchanged).buffer(&before);
        launch.over_groups_of(64, ITEMS, ITEMS)?;
        let (cells, exchanged, before) = (self.download(&cells)?, self.download(&exchanged)?, self.download(&before)?);
        match wrong(&cells, &exchanged, &before) {
            None => Ok(()),
            Some(which) => {
                let failed =
                    format!("its {bits}-bit atomic {which} gives wrong results (self-test of {ITEMS} work-items)");
                Err(unsupported(&self.0.info, failed))
            }
        }
    }
}

/// A number that is different for each work-item.
trait Token: Word {
    /// The token of cl/atomics.cl.
    fn token(item: usize) -> Self;
}
impl Token for u32 {
    fn token(item: usize) -> u32 {
        (item as u32 % 2) << 31 | (item as u32 + 1)
    }
}
impl Token for u64 {
    fn token(item: usize) -> u64 {
        let n = item as u64 + 1;
        (item as u64 % 2) << 63 | n << 33 | n
    }
}

/// All tokens, combined by a function whose lowest bits depend only on the lowest bits of its arguments.
fn fold<T: Token>(combine: impl Fn(u64, u64) -> u64) -> T {
    T::low((0..ITEMS).fold(0, |all, item| combine(all, T::token(item).into())))
}

/// The first operation with an impossible result.
fn wrong<T: Token>(cells: &[T], exchanged: &[T], before: &[T]) -> Option<&'static str> {
    if cells[0] != fold(u64::wrapping_add) {
        return Some("add");
    }
    if cells[1] != T::token(ITEMS - 1) {
        return Some("max");
    }
    if cells[2] != fold(|xor, token| xor ^ token) {
        return Some("xor");
    }
    let mut tokens: Vec<T> = (0..ITEMS).map(T::token).collect();
    tokens.sort_unstable();
    // Each token was returned once or is in the cell, and so is the initial zero.
    let mut seen: Vec<T> = exchanged.iter().copied().chain([cells[3]]).collect();
    seen.sort_unstable();
    if seen[0] != T::zeroed() || seen[1..] != tokens {
        return Some("xchg");
    }
    // In each contest one work-item saw zero, the cell contains its token, and the others saw that.
    let fair = |contest: usize| {
        let (entered, saw) = (contest * 4..contest * 4 + 4, &before[contest * 4..contest * 4 + 4]);
        let left = cells[4 + contest];
        saw.iter().filter(|&&saw| saw == T::zeroed()).count() == 1
            && entered
                .zip(saw)
                .all(|(item, &saw)| if saw == T::zeroed() { left == T::token(item) } else { saw == left })
    };
    (!(0..CONTESTS).all(fair)).then_some("cmpxchg")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn damage_is_seen<T: Token>(damage: T) {
        let mut cells: Vec<T> = vec![fold(u64::wrapping_add), T::token(ITEMS - 1), fold(|xor, token| xor ^ token)];
        cells.push(T::token(ITEMS - 1));
        cells.extend((0..CONTESTS).map(|contest| T::token(4 * contest)));
        let previous = |item: usize| if item == 0 { T::zeroed() } else { T::token(item - 1) };
        let exchanged: Vec<T> = (0..ITEMS).map(previous).collect();
        let first = |item: usize| if item.is_multiple_of(4) { T::zeroed() } else { T::token(item / 4 * 4) };
        let before: Vec<T> = (0..ITEMS).map(first).collect();
        assert_eq!(wrong(&cells, &exchanged, &before), None);
        for (at, name) in ["add", "max", "xor", "xchg", "cmpxchg"].into_iter().enumerate() {
            let mut damaged = cells.clone();
            damaged[at] = T::low(damaged[at].into() ^ damage.into());
            assert_eq!(wrong(&damaged, &exchanged, &before), Some(name));
        }
    }

    #[test]
    fn an_impossible_result_is_seen() {
        damage_is_seen(1u64 << 32);
        damage_is_seen(1u32 << 12);
    }
}
