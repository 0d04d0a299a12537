//! Estimates the number of distinct keys of a column (HyperLogLog: Flajolet, Fusy, Gandouet and Meunier 2007).
//!
//! ```text
//! each key      the hash selects a register, and raises it to the number of leading zeros plus 1
//! registers     2^12 bytes per chunk while it is read; their maxima are then merged into one shared set
//! estimate      the harmonic mean of the registers; if it is small, the share of unused registers (linear counting)
//! ```
//!
//! The standard error is 1.6 %. Keys can be chosen so that the estimate is wrong. If a table is too small for this
//! reason, it is discarded and built again (`hashed.rs` describes the size).

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use super::hashed::mixed;
use super::{CHUNK, grain};
use crate::cpu::lanes::at_best;
use crate::parallel::each;
use crate::scheme::Key;

/// Few under Miri, where initializing and summing 4,096 registers takes seconds.
const BITS: u32 = if cfg!(miri) { 6 } else { 12 };
const REGISTERS: usize = 1 << BITS;
const SEED: u64 = 0x6b6f_656c_2065_7374;

/// At most the number of keys.
pub(super) fn distinct<K: Key>(keys: &[K]) -> usize {
    // Merged in place: if halves returned registers, each level of recursion would have several sets on the stack.
    let all = [const { AtomicU8::new(0) }; REGISTERS];
    each(keys, grain(keys.len()).max(16 * CHUNK), |_, keys: &[K]| {
        let mut registers = [0_u8; REGISTERS];
        at_best(
            #[inline(always)]
            || {
                for &key in keys {
                    let hash = mixed(key.into(), SEED);
                    let register = &mut registers[hash as usize % REGISTERS];
                    *register = (*register).max((hash | 1).leading_zeros() as u8 + 1);
                }
            },
        );
        for (all, register) in all.iter().zip(registers) {
            if all.load(Relaxed) < register {
                all.fetch_max(register, Relaxed);
            }
        }
    });
    let registers = all.map(AtomicU8::into_inner);
    of_registers(&registers).min(keys.len())
}

fn of_registers(registers: &[u8; REGISTERS]) -> usize {
    let m = REGISTERS as f64;
    // Builds 2^-register from its exponent bits: 4,096 calls of a function would take as long as thousands of keys.
    let sum: f64 = registers.iter().map(|&register| f64::from_bits((1023 - u64::from(register)) << 52)).sum();
    let estimate = 0.7213 / (1.0 + 1.079 / m) * m * m / sum;
    let unchosen = registers.iter().filter(|&&register| register == 0).count();
    if estimate <= 2.5 * m && unchosen > 0 { (m * (m / unchosen as f64).ln()) as usize } else { estimate as usize }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_are_accurate() {
        for (len, apart) in [(0_u64, 1), (10, 1), (1_000, 1 << 40), (20_000, 7), (300_000, 0x9e37_79b9_7f4a_7c15_u64)] {
            let keys: Vec<u64> = (0..2 * len).map(|i| (i % len.max(1)).wrapping_mul(apart)).collect();
            let found = distinct(&keys) as f64;
            // Loose bounds, because keys at equal distances are not random.
            assert!((found - len as f64).abs() <= 0.2 * len as f64 + 2.0, "{len}: {found}");
        }
    }
}
