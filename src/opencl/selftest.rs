//! The test of 64-bit atomics that a device must pass before a table is trusted to it.
//!
//! The extension strings are a claim; this runs `cl/atomics.cl`, in which many work-items meet on few cells, and checks that
//! what remains is what must remain whatever the order was. A driver that implements a 64-bit atomic by two 32-bit ones, or
//! not at all, loses tokens here and not in somebody's table.

use super::OpenCl;
use super::launch::Arg;
use super::program::Source;
use crate::backend::HashBackend;
use crate::error::Result;
use crate::fault::{Fault, planted};

const ITEMS: usize = 4096;

/// The sentence that says what is wrong, or nothing.
pub(super) fn atomics(device: &OpenCl) -> std::result::Result<(), String> {
    if planted("opencl", Fault::Atomics) {
        return Err("its 64-bit atomics failed their test (KOEL_FAULT=atomics)".into());
    }
    match run(device) {
        Ok(None) => Ok(()),
        Ok(Some(operation)) => Err(format!("its 64-bit atomic {operation} gives wrong results")),
        Err(error) => Err(format!("its 64-bit atomics could not be tested: {error}")),
    }
}

fn run(device: &OpenCl) -> Result<Option<&'static str>> {
    let cells = device.upload(&vec![0u64; 3 + ITEMS / 4])?;
    let exchanged = device.upload(&vec![0u64; ITEMS])?;
    let before = device.upload(&vec![0u64; ITEMS])?;
    let program = device.program(Source::Atomics, &[])?;
    let args = [Arg::Buffer(cells.core()), Arg::Buffer(exchanged.core()), Arg::Buffer(before.core())];
    device.launch(&program, "atomics", ITEMS, &args)?;
    let (cells, mut exchanged, before) =
        (device.download(&cells)?, device.download(&exchanged)?, device.download(&before)?);

    let tokens: Vec<u64> = (1..=ITEMS as u64).map(|item| item << 33 | item).collect();
    if cells[0] != tokens.iter().sum::<u64>() {
        return Ok(Some("add"));
    }
    if cells[1] != tokens[ITEMS - 1] {
        return Ok(Some("max"));
    }
    // Each exchange took out what another put in: with what stayed, every token once, and the zero of the beginning.
    exchanged.push(cells[2]);
    exchanged.sort_unstable();
    if exchanged[0] != 0 || exchanged[1..] != tokens {
        return Ok(Some("exchange"));
    }
    // Of the four work-items of a cell one found it empty, and the others found its token.
    for (cell, &winner) in cells[3..].iter().enumerate() {
        let four = &before[4 * cell..4 * cell + 4];
        let empty = four.iter().filter(|&&found| found == 0).count();
        let won = tokens[4 * cell..4 * cell + 4].iter().position(|&token| token == winner);
        let right = won.is_some_and(|won| four[won] == 0) && four.iter().all(|&found| found == 0 || found == winner);
        if empty != 1 || !right {
            return Ok(Some("compare-and-exchange"));
        }
    }
    Ok(None)
}
