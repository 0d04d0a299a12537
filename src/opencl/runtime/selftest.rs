//! Tests a device's 64-bit atomics: the extensions that it reports, and a run with a known result.
//!
//! A device that reports them but implements them wrongly would build tables that lose pairs, without any error.

use super::program::ATOMICS;
use crate::backend::{DeviceInfo, HashBackend};
use crate::error::{Error, Result};
use crate::opencl::{Buffer, OpenCl};

const EXTENSIONS: [&str; 2] = ["cl_khr_int64_base_atomics", "cl_khr_int64_extended_atomics"];

/// Work-items of the run: several groups, so that they compete from different compute units.
const ITEMS: usize = 1024;
/// Cells for exchanges that only succeed on an empty cell, each with four competitors.
const CONTESTS: usize = ITEMS / 4;

/// The extensions missing in `listed`, as a reason to refuse the device.
pub(in crate::opencl) fn missing(listed: &str) -> Option<String> {
    let lacks = |wanted: &&str| !listed.split_whitespace().any(|extension| extension == *wanted);
    let missing: Vec<_> = EXTENSIONS.into_iter().filter(lacks).collect();
    (!missing.is_empty()).then(|| format!("it has no 64-bit atomics (it does not list {})", missing.join(" and ")))
}

pub(in crate::opencl) fn unsupported(info: &DeviceInfo, missing: impl Into<String>) -> Error {
    Error::Unsupported { device: info.to_string(), missing: missing.into() }
}

impl OpenCl {
    /// Runs exchanges, conditional exchanges, maxima, sums and XORs, and checks the results.
    pub(in crate::opencl) fn test_atomics(&self) -> Result<()> {
        #[cfg(feature = "fault-injection")]
        if crate::fault::spoils_atomics() {
            return Err(unsupported(&self.0.info, "its 64-bit atomics failed the self-test (planted fault)"));
        }
        let program = self.program(ATOMICS, &[])?;
        let cells: Buffer<u64> = self.filled(4 + CONTESTS, 0)?;
        let exchanged: Buffer<u64> = self.filled(ITEMS, 0)?;
        let before: Buffer<u64> = self.filled(ITEMS, 0)?;
        let launch = self.kernel(&program, "atomics")?.buffer(&cells).buffer(&exchanged).buffer(&before);
        launch.over_groups_of(64, ITEMS, ITEMS)?;
        let (cells, exchanged, before) = (self.download(&cells)?, self.download(&exchanged)?, self.download(&before)?);
        match wrong(&cells, &exchanged, &before) {
            None => Ok(()),
            Some(which) => {
                let failed = format!("its 64-bit {which} gives wrong results (self-test of {ITEMS} work-items)");
                Err(unsupported(&self.0.info, failed))
            }
        }
    }
}

fn token(item: usize) -> u64 {
    let n = item as u64 + 1;
    (item as u64 % 2) << 63 | n << 33 | n
}

fn sum(tokens: &[u64]) -> u64 {
    tokens.iter().fold(0, |sum: u64, &token| sum.wrapping_add(token))
}

/// The first operation with an impossible result.
fn wrong(cells: &[u64], exchanged: &[u64], before: &[u64]) -> Option<&'static str> {
    let mut tokens: Vec<u64> = (0..ITEMS).map(token).collect();
    if cells[0] != sum(&tokens) {
        return Some("atom_add");
    }
    if cells[1] != token(ITEMS - 1) {
        return Some("atom_max");
    }
    if cells[2] != tokens.iter().fold(0, |xor, token| xor ^ token) {
        return Some("atom_xor");
    }
    tokens.sort_unstable();
    // Each token was returned once or is in the cell, and so is the initial zero.
    let mut seen: Vec<u64> = exchanged.iter().copied().chain([cells[3]]).collect();
    seen.sort_unstable();
    if seen[0] != 0 || seen[1..] != tokens {
        return Some("atom_xchg");
    }
    // In each contest one work-item saw zero, the cell contains its token, and the others saw that.
    let fair = |contest: usize| {
        let (entered, saw) = (contest * 4..contest * 4 + 4, &before[contest * 4..contest * 4 + 4]);
        let left = cells[4 + contest];
        saw.iter().filter(|&&saw| saw == 0).count() == 1
            && entered.zip(saw).all(|(item, &saw)| if saw == 0 { left == token(item) } else { saw == left })
    };
    (!(0..CONTESTS).all(fair)).then_some("atom_cmpxchg")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_that_cannot_be_is_seen() {
        let xor = (0..ITEMS).map(token).fold(0, |xor, token| xor ^ token);
        let tokens: Vec<u64> = (0..ITEMS).map(token).collect();
        let mut cells = vec![sum(&tokens), token(ITEMS - 1), xor, token(ITEMS - 1)];
        cells.extend((0..CONTESTS).map(|c| token(4 * c)));
        let exchanged: Vec<u64> = (0..ITEMS).map(|item| if item == 0 { 0 } else { token(item - 1) }).collect();
        let before: Vec<u64> = (0..ITEMS).map(|item| if item % 4 == 0 { 0 } else { token(item / 4 * 4) }).collect();
        assert_eq!(wrong(&cells, &exchanged, &before), None);
        for (at, name) in [(0, "atom_add"), (1, "atom_max"), (2, "atom_xor"), (3, "atom_xchg"), (4, "atom_cmpxchg")] {
            let mut damaged = cells.clone();
            damaged[at] ^= 1 << 32;
            assert_eq!(wrong(&damaged, &exchanged, &before), Some(name));
        }
        assert_eq!(missing("cl_khr_fp64 cl_khr_int64_base_atomics cl_khr_int64_extended_atomics"), None);
        assert!(missing("cl_khr_int64_base_atomics").is_some_and(|m| m.contains("extended") && !m.contains("base")));
    }
}
